"""Columns of rows beside those of a table: which fit, which are new, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa

from kohort.spark.tables.arrow_columns import changed_columns, fitted
from kohort.spark.tables.table import SchemaMismatch


def columns(**kinds: Any) -> Any:
    return pa.schema(list(kinds.items()))


@pytest.mark.parametrize(
    ("rows", "table"),
    [
        (pa.int32(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.decimal128(5, 2), pa.decimal128(9, 2)),
        (pa.large_string(), pa.string()),
        (pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.list_(pa.int32()), pa.large_list(pa.int64())),
        (pa.map_(pa.string(), pa.int8()), pa.map_(pa.string(), pa.int32())),
        (pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int64())])),
    ],
)
def test_a_narrower_column_fits_and_a_wider_one_does_not(rows: Any, table: Any) -> None:
    assert changed_columns(columns(x=table), columns(x=rows), "t") == []
    if "int" in str(rows) or "float" in str(rows) or "decimal" in str(rows):
        with pytest.raises(SchemaMismatch, match="t does not take these rows: its column x is"):
            changed_columns(columns(x=rows), columns(x=table), "t", is_merging=True)
        (wider,) = changed_columns(columns(x=rows), columns(x=table), "t", is_widening=True)
        assert fitted(pa.record_batch([pa.nulls(1, rows)], ["x"]), pa.schema([wider])).schema == pa.schema([wider])


def test_fields_of_structs_may_be_missing_and_are_added_where_that_is_wanted() -> None:
    table = columns(n=pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string())])))
    rows = columns(n=pa.list_(pa.struct([("c", pa.date32()), ("a", pa.int32())])))
    with pytest.raises(SchemaMismatch, match="its column n is list<"):
        changed_columns(table, rows, "t")
    (changed,) = changed_columns(table, rows, "t", is_merging=True)
    assert changed.type == pa.list_(pa.struct([("a", pa.int64()), ("b", pa.string()), ("c", pa.date32())]))
    batch = pa.record_batch([pa.array([[{"c": None, "a": 1}]], rows.field("n").type)], ["n"])
    assert fitted(batch, pa.schema([changed])).to_pylist() == [{"n": [{"a": 1, "b": None, "c": None}]}]
    short = columns(n=pa.list_(pa.struct([("a", pa.int64())])))
    assert changed_columns(table, short, "t") == []


def test_every_fault_is_named() -> None:
    table = pa.schema([("a", pa.int32()), pa.field("must", pa.string(), nullable=False)])
    with pytest.raises(SchemaMismatch, match=r"column a is int32, the rows' is string; the rows have no column must"):
        changed_columns(table, columns(a=pa.string(), b=pa.string()), "t", is_merging=True)
    with pytest.raises(SchemaMismatch, match=r"has no column b string: leave it out, or add it with merge_schema"):
        changed_columns(columns(a=pa.int32()), columns(b=pa.string()), "t")


def test_rows_get_the_columns_of_the_table_in_its_order() -> None:
    rows = pa.record_batch({"b": pa.array([1], pa.int32()), "a": ["x"]})
    table = columns(a=pa.string(), new=pa.date32(), b=pa.int64())
    assert fitted(rows, table).to_pylist() == [{"a": "x", "new": None, "b": 1}]
    assert fitted(rows, table).schema == table
