"""Columns of rows beside those of a table, in Arrow: which fit, how the table has to change, and rows made to fit.

Rows may lack columns of the table, and fields of its structs, which are then null; they may be narrower: an int fits
into a bigint.
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


def changed_columns(
    table: pa.Schema, rows: pa.Schema, name: str, *, is_merging: bool = False, is_widening: bool = False
) -> list[pa.Field]:
    """Return the columns that a table called `name` has to add or to change so that it takes these rows.

    There are none unless `is_merging`, by which columns and fields of structs are added, and with `is_widening` become
    as wide as the rows'. Raises SchemaMismatch, naming each column, where rows do not fit all the same.
    """
    here = {each.name: each for each in table}
    there = {each.name: each.type for each in rows}
    changed, faults = [], []
    for column, kind in there.items():
        if column not in here:
            changed.append(pa.field(column, kind))
            if not is_merging:
                faults.append(f"it has no column {column} {kind}: leave it out, or add it with merge_schema=True")
            continue
        held = here[column].type
        union = _union(held, kind, is_merging=is_merging, is_widening=is_widening)
        if union is None:
            faults.append(f"its column {column} is {held}, the rows' is {kind}")
        elif union != held:
            changed.append(pa.field(column, union))
    faults += [
        f"the rows have no column {each.name}, which may not be null"
        for each in table
        if not each.nullable and each.name not in there
    ]
    if faults:
        raise SchemaMismatch(f"{name} does not take these rows: {'; '.join(faults)}")
    return changed


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


def has_null_type(kind: pa.DataType) -> bool:
    """Whether a type, or one within it, is that of nulls alone."""
    fields = [kind.field(at) for at in range(kind.num_fields)]
    return bool(types.is_null(kind)) or any(has_null_type(each.type) for each in fields)


def _union(held: pa.DataType, kind: pa.DataType, *, is_merging: bool, is_widening: bool) -> pa.DataType | None:
    """Return the type of a column that takes values of another type too: `held` where they fit, None for no type."""

    def union(held: pa.DataType, kind: pa.DataType) -> pa.DataType | None:
        return _union(held, kind, is_merging=is_merging, is_widening=is_widening)

    mine, other = _plain(held), _plain(kind)
    if mine == other or _is_wider(mine, other):
        return held
    if _is_wider(other, mine):
        return kind if is_widening else None
    if types.is_list(mine) and types.is_list(other):
        items = union(mine.value_type, other.value_type)
        return held if items == mine.value_type else items and pa.list_(items)
    if types.is_map(mine) and types.is_map(other):
        keys, items = union(mine.key_type, other.key_type), union(mine.item_type, other.item_type)
        if (keys, items) == (mine.key_type, mine.item_type):
            return held
        return pa.map_(keys, items) if keys and items else None
    if types.is_struct(mine) and types.is_struct(other):
        there = {each.name: each.type for each in other}
        names = set(there)
        fields = {each.name: union(each.type, there.pop(each.name, each.type)) for each in mine}
        is_short = any(not each.nullable and each.name not in names for each in mine)
        if is_short or (there and not is_merging) or None in fields.values():
            return None
        return held if fields == {each.name: each.type for each in mine} and not there else pa.struct(fields | there)
    return None


def _is_wider(held: pa.DataType, kind: pa.DataType) -> bool:
    """Whether each value of a type has its place in another, which is larger."""
    if types.is_decimal(held) and types.is_decimal(kind):
        return bool(kind.scale == held.scale and kind.precision <= held.precision)
    for is_of_kind in (types.is_signed_integer, types.is_floating):
        if is_of_kind(held) and is_of_kind(kind):
            return bool(kind.bit_width <= held.bit_width)
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
