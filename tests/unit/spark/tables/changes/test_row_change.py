"""Which change of a key counts, and which records are none."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from kohort.spark.tables.changes.row_change import DELETED, BadChange, Change


def rows(*records: tuple[Any, ...], **columns: Any) -> pa.Table:
    """Return records of (id, at, value, deleted), whose offsets grow."""
    found = {
        "id": pa.array([each[0] for each in records], pa.int64()),
        "at": pa.array([each[1] for each in records], pa.int64()),
        "value": pa.array([each[2] for each in records], pa.string()),
        DELETED: pa.array([each[3] if len(each) > 3 else False for each in records], pa.bool_()),
        "__topic": pa.array(["t"] * len(records), pa.string()),
        "__partition": pa.array([0] * len(records), pa.int32()),
        "__offset": pa.array(range(len(records)), pa.int64()),
    }
    return pa.table(found | columns)


def last(change: Change, table: pa.Table) -> list[tuple[Any, ...]]:
    found = change.last_changes(table)
    assert found.column_names == ["id", "at", "value", DELETED]
    return sorted((each["id"], each["at"], each["value"], each[DELETED]) for each in found.to_pylist())


def test_the_last_record_of_a_key_counts_and_with_an_order_the_newest() -> None:
    table = rows((1, 5, "a"), (2, 1, "b"), (1, 4, "late"), (2, 1, "tie"))
    assert last(Change(("id",)), table) == [(1, 4, "late", False), (2, 1, "tie", False)]
    assert last(Change(("id",), ("at",)), table) == [(1, 5, "a", False), (2, 1, "tie", False)]


def test_the_order_of_rows_in_a_frame_is_nothing_beside_their_offsets() -> None:
    table = rows((1, 5, "a"), (1, 5, "b"), (1, 5, "c"))
    assert last(Change(("id",), ("at",)), table.take([2, 0, 1])) == [(1, 5, "c", False)]


def test_a_history_has_each_order_of_a_key() -> None:
    table = rows((1, 5, "a"), (1, 4, "b"), (1, 5, "c"))
    assert last(Change(("id",), ("at",), is_history=True), table) == [(1, 4, "b", False), (1, 5, "c", False)]


@pytest.mark.parametrize("is_history", [False, True])
def test_a_deletion_without_an_order_follows_the_change_before_it(is_history: bool) -> None:
    change = Change(("id",), ("at",), is_history=is_history)
    table = rows((1, 7, "a"), (1, None, None, True), (2, None, None, True), (2, 3, "new"))
    found = change.last_changes(table).to_pylist()
    if not is_history:
        assert last(change, table) == [(1, 7, None, True), (2, 3, "new", False)]
    else:
        assert [(each["id"], each["at"], each[DELETED]) for each in found] == [
            (2, None, True),
            (2, 3, False),
            (1, 7, True),
        ]


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (rows((1, 1, "a"), (None, 2, "b")), "t-0, offset 1: the column id of the key is null"),
        (rows((1, None, "a")), "t-0, offset 0: at is null"),
        (rows((1, 1, "a"), __error=pa.array(["op t: truncated"])), "t-0, offset 0: op t: truncated"),
    ],
)
def test_a_record_that_is_no_change_is_refused_with_its_place(table: pa.Table, text: str) -> None:
    with pytest.raises(BadChange, match=text):
        Change(("id",), ("at",)).last_changes(table)


def test_a_table_has_no_column_of_the_change_itself_unless_it_orders() -> None:
    schema = rows((1, 1, "a"), __ts_ms=pa.array([1])).schema
    assert Change(("id",)).columns_in(schema).names == ["id", "at", "value"]
    assert Change(("id",), ("__ts_ms",)).columns_in(schema).names == ["id", "at", "value", "__ts_ms"]
    history = Change(("id",), ("at",), is_history=True).columns_in(schema)
    assert history.names == ["id", "at", "value", "valid_from", "valid_to", "is_current"]
    assert history.field("valid_to").type == pa.int64()


def test_rows_without_a_needed_column_are_refused_by_name() -> None:
    schema = rows((1, 1, "a")).schema
    with pytest.raises(ValueError, match="rows have no column nr, topic, partition, offset"):
        Change(("nr",)).columns_in(pa.schema([schema.field("id")]))
    with pytest.raises(ValueError, match="rows have a column valid_to"):
        Change(("id",), ("at",), is_history=True).columns_in(schema.append(pa.field("valid_to", pa.int64())))
    with pytest.raises(ValueError, match="history=True needs order"):
        Change(("id",), is_history=True)
    with pytest.raises(ValueError, match="name each column once"):
        Change(("id", "id"))


def test_rows_with_an_order_need_no_place_of_a_record() -> None:
    counts = pa.table({"id": [1, 2, 1], "at": [1, 1, 2], "n": [5, 6, 7]})
    change = Change(("id",), ("at",))
    assert change.columns_in(counts.schema).names == ["id", "at", "n"]
    assert change.last_changes(counts).sort_by("id")["n"].to_pylist() == [7, 6]
    with pytest.raises(BadChange, match=r"the row of the key \[1\]: at is null"):
        change.last_changes(counts.set_column(1, "at", pa.nulls(3, pa.int64())))


def test_a_deletion_without_an_order_and_without_a_place_is_refused() -> None:
    gone = pa.table({"id": [1, 1], "at": pa.array([1, None], pa.int64()), DELETED: [False, True]})
    with pytest.raises(BadChange, match=r"the row of the key \[1\]: at is null"):
        Change(("id",), ("at",)).last_changes(gone)


def test_a_deletion_with_a_part_of_an_order_follows_the_change_before_it() -> None:
    change = Change(("id",), ("at", "more"))
    table = rows((1, 1, "a"), (1, 1, None, True), more=pa.array([4, None]))
    (found,) = change.last_changes(table).to_pylist()
    assert (found["at"], found["more"], found[DELETED]) == (1, 4, True)


def test_an_order_that_is_not_a_number_is_refused() -> None:
    table = rows((1, 1, "a")).drop(["at"]).append_column("at", pa.array([float("nan")]))
    with pytest.raises(BadChange, match="t-0, offset 0: at is NaN"):
        Change(("id",), ("at",)).last_changes(table)


@pytest.mark.parametrize("kind", [pa.float64(), pa.struct([("x", pa.int64())]), pa.list_(pa.int64())])
def test_a_key_of_a_type_that_engines_compare_otherwise_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(ValueError, match="a key has no nested and no floating columns"):
        Change(("id",)).columns_in(pa.schema([*rows().schema.remove(0), pa.field("id", kind)]))
