"""Storage that fails twice: first where a round is stored, then where its files or its outcome are looked after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFileIO
from tests.spark.lake import step
from tests.unit.spark.tables.rows_of_spark import Frame

from kohort.model.ids import TopicPartition
from kohort.spark.tables import Fenced, IcebergTable, TableBroken

P = TopicPartition("flights", 0)


class NoDeletes(PyArrowFileIO):
    """Storage that refuses deletions, with an error of its own library."""

    def delete(self, location: Any) -> None:
        raise RuntimeError(f"AccessDenied: {location}")


class Failing(SqlCatalog):
    """A catalog that takes no commit once `is_full`, and then does not answer."""

    is_full: ClassVar = False
    is_gone: ClassVar = False

    def commit_table(self, *of: Any) -> Any:
        if Failing.is_full:
            Failing.is_gone = True
            raise RuntimeError("the catalog's disk is full")
        return super().commit_table(*of)

    def load_table(self, identifier: Any) -> Any:
        if Failing.is_gone:
            raise ConnectionError("connection refused")
        return super().load_table(identifier)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Failing]:
    Failing.is_full = Failing.is_gone = False
    io = {"py-io-impl": f"{__name__}.NoDeletes"}
    made = Failing("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri(), **io)
    made.create_namespace("air")
    yield made
    made.engine.dispose()


def test_a_refused_round_is_fenced_although_its_files_cannot_be_removed(
    catalog: Failing, caplog: pytest.LogCaptureFixture
) -> None:
    """A GroupStream reads on after it: any other error would end the job."""
    table, other = (IcebergTable("air.flights", catalog=catalog) for _ in range(2))
    late = Frame(read=lambda: other.append(Frame(), "g", {P: step(None, 10)}))  # type: ignore[arg-type]
    with pytest.raises(Fenced):
        table.append(late, "g", {P: step(None, 10)})  # type: ignore[arg-type]
    assert "could not be removed: AccessDenied" in caplog.text


def test_a_commit_that_failed_is_named_although_its_outcome_cannot_be_looked_up(catalog: Failing) -> None:
    table = IcebergTable("air.flights", catalog=catalog)
    table.append(Frame(), "g", {P: step(None, 10)})  # type: ignore[arg-type]
    Failing.is_full = True
    with pytest.raises(TableBroken, match=r"did not confirm the rows of group g.*the catalog's disk is full"):
        table.append(Frame(), "g", {P: step(10, 20)})  # type: ignore[arg-type]
