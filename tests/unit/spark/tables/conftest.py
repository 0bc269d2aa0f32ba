"""Storage that fails is tried again without a pause."""

from __future__ import annotations

import pytest

from kohort.spark.tables import table


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    for module in ("lake_table", "postgres"):
        monkeypatch.setattr(f"kohort.spark.tables.{module}.PAUSES_S", (0,) * len(table.PAUSES_S))
