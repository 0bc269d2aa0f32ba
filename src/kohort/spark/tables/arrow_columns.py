"""Columns of rows beside those of a table, in Arrow: which fit, which are new, and rows made to fit.

Rows may lack columns of the table, which are then null, and may be narrower: an int fits into a bigint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types

from kohort.spark.tables.table import SchemaMismatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def schema_of(frame: DataFrame) -> pa.Schema:
    """Return the columns of a frame, each of which may be null."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return pa.schema([pa.field(each.name, each.type) for each in to_arrow_schema(frame.schema, timezone="UTC")])


def missing_columns(table: pa.Schema, rows: pa.Schema, name: str, *, is_widening: bool = False) -> list[pa.Field]:
    """Return the columns of rows that a table called `name` does not have.

    Raises SchemaMismatch, naming each, where the others do not fit; with `is_widening` the table's may become wider.
    """
    here = {each.name: each for each in table}
    there = {each.name: each for each in rows}
    faults = [
        f"its column {each.name} is {here[each.name].type}, the rows' is {each.type}"
        for each in rows
        if each.name in here
        and not _fits(each.type, here[each.name].type)
        and not (is_widening and _fits(here[each.name].type, each.type))
    ]
    faults += [
        f"the rows have no column {each.name}, which may not be null"
        for each in table
        if not each.nullable and each.name not in there
    ]
    if faults:
        raise SchemaMismatch(f"{name} does not take these rows: {'; '.join(faults)}")
    return [each for each in rows if each.name not in here]


def require_no_new(missing: list[pa.Field], name: str) -> None:
    """Raise SchemaMismatch where rows have columns that the table is not to get."""
    if missing:
        columns = ", ".join(f"{each.name} {each.type}" for each in missing)
        raise SchemaMismatch(f"{name} has no column {columns}: leave it out, or add it with merge_schema=True")


def fitted(batch: pa.RecordBatch | pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the columns of a table, in its order."""
    columns = []
    for field in schema:
        if field.name in batch.schema.names:
            column = batch.column(field.name)
            columns.append(column if column.type == field.type else column.cast(field.type))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _fits(kind: pa.DataType, into: pa.DataType) -> bool:
    """Whether each value of a type has its place in another."""
    kind, into = _plain(kind), _plain(into)
    if kind == into:
        return True
    if types.is_signed_integer(kind) and types.is_signed_integer(into):
        return bool(kind.bit_width <= into.bit_width)
    if types.is_floating(kind) and types.is_floating(into):
        return bool(kind.bit_width <= into.bit_width)
    if types.is_decimal(kind) and types.is_decimal(into):
        return bool(kind.scale == into.scale and kind.precision <= into.precision)
    if types.is_list(kind) and types.is_list(into):
        return _fits(kind.value_type, into.value_type)
    if types.is_map(kind) and types.is_map(into):
        return _fits(kind.key_type, into.key_type) and _fits(kind.item_type, into.item_type)
    if types.is_struct(kind) and types.is_struct(into):
        return [each.name for each in kind] == [each.name for each in into] and all(
            _fits(mine.type, theirs.type) for mine, theirs in zip(kind, into, strict=True)
        )
    return False


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a type in the one form of those that hold the same values."""
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_large_list(kind):
        return pa.list_(kind.value_type)
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    return kind
