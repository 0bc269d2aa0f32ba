"""A frame whose rows are kept while they are stored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame

from kohort.spark.rows.record_frames import computed_once


class EndedSession:
    """A frame of a session that has ended: Java does not answer any more."""

    storageLevel = SimpleNamespace(useMemory=False, useDisk=False)  # noqa: N815

    def persist(self) -> EndedSession:
        return self

    def unpersist(self) -> Any:
        raise ConnectionRefusedError("Java is gone")


def test_what_made_a_batch_fail_is_raised_although_its_rows_cannot_be_released() -> None:
    with pytest.raises(ZeroDivisionError), computed_once(cast(DataFrame, EndedSession())):
        raise ZeroDivisionError


def test_a_batch_that_is_stored_does_not_fail_because_its_rows_cannot_be_released(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with computed_once(cast(DataFrame, EndedSession())):
        pass
    assert "stay in memory: Java is gone" in caplog.text
