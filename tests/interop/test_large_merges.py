"""A hundred thousand keys in one round, in partitioned tables: the rows are those of a replay."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

import pyarrow as pa
from tests.spark.lake import KINDS, lake_table, rows_in
from tests.unit.spark.tables.changes.test_lake_merges import merge
from tests.unit.spark.tables.changes.test_row_change import rows

from kohort.spark.tables.changes.row_change import Change

pytestmark = [pytest.mark.timeout(300)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_hundred_thousand_keys_move_between_partitions_in_one_round(kind: str, tmp_path: Path) -> None:
    count = 100_000
    table = lake_table(kind, tmp_path, partition_by=["value"])
    change = Change(("id",), ("at",))

    def of(keys: range, at: int, value: str | None) -> pa.Table:
        return rows(*((key, at, value, value is None) for key in keys))

    merge(table, of(range(count), 1, "a"), of(range(count // 2, count), 2, "b"), change=change)
    merge(table, of(range(0, count, 10), 3, None), of(range(0, count, 5), 1, "late"), change=change)
    expected = {key: "a" if key < count // 2 else "b" for key in range(count)}
    expected |= dict.fromkeys(range(0, count // 2, 5), "late")
    for key in range(0, count, 10):
        del expected[key]
    assert {each["id"]: each["value"] for each in rows_in(table)} == expected
