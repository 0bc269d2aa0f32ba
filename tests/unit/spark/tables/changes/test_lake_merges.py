"""Changes in Delta and Iceberg tables of any types; files are read without the tables' libraries."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

import pyarrow as pa
import pyarrow.parquet as pq
from tests.spark.lake import KINDS, ArrowFrame, lake_table, rows_in, step
from tests.unit.spark.tables.changes.test_row_change import rows

from kohort.model.ids import TopicPartition
from kohort.spark.tables import SchemaMismatch, TableBroken
from kohort.spark.tables.changes.row_change import Change

P = TopicPartition("t", 0)


def merge(table: Any, *rounds: pa.Table, change: Change | None = None) -> None:
    """Store changes, a step each."""
    for each in rounds:
        at = table.offsets("g", [P]).get(P)
        expected = None if at is None else at.offset
        steps = {P: step(expected, (expected or 0) + 1)}
        table.merge(ArrowFrame(each), "g", steps, change or Change(("id",)))


def test_nulls_of_rows_that_share_a_file_with_a_changed_one_stay_null(tmp_path: Path) -> None:
    items = pa.struct([("z", pa.string())])
    kind = pa.struct([("items", pa.list_(items)), ("by", pa.map_(pa.string(), items))])
    values: list[Any] = [
        None,
        {"items": None, "by": None},
        {"items": [], "by": []},
        {"items": [None], "by": [("k", None)]},
    ]
    table = lake_table("iceberg", tmp_path, merge_schema=True)
    given = [(number, 0, None) for number in range(4)]
    merge(table, rows(*given, deep=pa.array(values, kind), flat=pa.array([None, [], [None], None], pa.list_(items))))
    merge(table, rows((3, 1, "new"), more=pa.array([1])))
    found: dict[int, Any] = {}
    for task in table.catalog.load_table(table.name).scan().plan_files():
        for row in pq.read_table(task.file.file_path.removeprefix("file://")).to_pylist():
            found[row["id"]] = row["deep"], row["flat"]
    assert found == dict(enumerate(zip(values, [None, [], [None], None], strict=True)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_deletion_needs_no_value_of_required_columns_and_other_changes_do(kind: str, tmp_path: Path) -> None:
    table = lake_table(kind, tmp_path)
    required = pa.field("value", pa.string(), nullable=False)
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("at", pa.int64()), required])
    if kind == "delta":
        from deltalake import DeltaTable, Schema

        DeltaTable.create(table.uri, Schema.from_arrow(schema))
    else:
        table.catalog.create_table(table.name, schema)
    merge(table, rows((1, 0, "a"), (2, 0, "b")), rows((1, 1, None, True)))
    with pytest.raises(SchemaMismatch, match="value is null in some rows"):
        merge(table, rows((3, 1, None)))
    assert [each["id"] for each in rows_in(table)] == [2]


def test_a_key_may_become_wider_after_deletions_of_it_were_stored(tmp_path: Path) -> None:
    table = lake_table("iceberg", tmp_path, merge_schema=True)
    change = Change(("id",), ("at",))
    first = rows((2, 1, None, True))
    narrow = first.set_column(0, "id", first["id"].cast(pa.int32()))
    merge(table, narrow, rows((1 << 40, 9, None, True)), rows((1 << 40, 8, "late"), (1, 1, "a")), change=change)
    assert [each["id"] for each in rows_in(table)] == [1]


@pytest.mark.parametrize("kind", KINDS)
def test_each_row_of_a_key_that_is_there_twice_takes_the_change(kind: str, tmp_path: Path) -> None:
    table = lake_table(kind, tmp_path)
    twice = rows((1, 0, "a"), (1, 0, "b"), (2, 0, "c")).select(["id", "at", "value"])
    table.append(ArrowFrame(twice), "other", {P: step(None, 3)})
    merge(table, rows((1, 1, "new")))
    assert sorted(each["value"] for each in rows_in(table)) == ["c", "new", "new"]
    merge(table, rows((1, 2, None, True), (9, 2, None, True)))
    assert [each["value"] for each in rows_in(table)] == ["c"]


@pytest.mark.parametrize("is_history", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_deletion_without_an_order_ends_late_changes_in_whichever_round_it_comes(
    kind: str, is_history: bool, tmp_path: Path
) -> None:
    table = lake_table(kind, tmp_path)
    change = Change(("id",), ("at",), is_history=is_history)
    merge(table, rows((1, 9, "a")), rows((1, None, None, True)), rows((1, 5, "late")), change=change)
    found = [(each["value"], each.get("valid_to")) for each in rows_in(table)]
    assert found == ([("late", 9)] if is_history else [])


def test_a_round_that_took_longer_than_conflicts_may_take_is_compared_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.spark.tables.lake_table.CONFLICT_SECONDS", 0.0)
    table, other = (lake_table("iceberg", tmp_path) for _ in range(2))
    plain = rows((1, 0, "a")).select(["id", "at", "value"])
    table.append(ArrowFrame(plain), "g", {P: step(None, 1)})

    class Raced(ArrowFrame):
        """Rows while which are read another writer commits."""

        def toArrow(self) -> pa.Table:  # noqa: N802
            other.append(ArrowFrame(plain), "other", {P: step(None, 1)})
            return super().toArrow()

    table.append(Raced(plain), "g", {P: step(1, 2)})
    assert len(rows_in(table)) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_history_of_a_key_of_text(kind: str, tmp_path: Path) -> None:
    table = lake_table(kind, tmp_path)
    change = Change(("name",), ("at",), is_history=True)
    first, second = (rows((0, at, f"{at}")).append_column("name", pa.array(["a"])) for at in (1, 2))
    merge(table, first, second, change=change)
    assert sorted((each["valid_from"], each["valid_to"]) for each in rows_in(table)) == [(1, 2), (2, None)]


def test_a_delta_table_that_is_partitioned_by_decimals_is_neither_merged_nor_compacted(tmp_path: Path) -> None:
    """delta-rs 1.6 writes -1.50 as -1.-50, and no reader can open the table any more."""
    table = lake_table("delta", tmp_path, partition_by=["price"])
    changed = rows((1, 0, "a"), price=pa.array([Decimal("-1.50")], pa.decimal128(6, 2)))
    for number in range(2):
        table.append(ArrowFrame(changed), "g", {P: step(number or None, number + 1)})
    with pytest.raises(TableBroken, match=r"partitioned by price, decimal128\(6, 2\), .*OPTIMIZE"):
        table.compact()
    with pytest.raises(TableBroken, match=r"partitioned by price, .*another type"):
        merge(table, changed)
    assert [row["price"] for row in rows_in(table)] == [Decimal("-1.50")] * 2
