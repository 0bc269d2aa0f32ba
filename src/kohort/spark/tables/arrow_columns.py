"""Columns of rows beside those of a table, in Arrow: which fit, how the table has to change, and rows made to fit.

Rows may lack columns of the table, and fields of its structs, which are then null; they may be narrower: an int fits
into a bigint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

from kohort.spark.direct_rows import columns_of
from kohort.spark.tables.table import SchemaMismatch

_STORED = {
    *("byte", "short", "integer", "long", "float", "double", "decimal", "boolean", "string", "char", "varchar"),
    *("binary", "date", "timestamp", "timestamp_ntz"),
}
"""Types of Spark that tables have, as its JSON names them."""

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def schema_of(frame: DataFrame | pa.Table) -> pa.Schema:
    """Return the columns of a frame, each of which may be null. Raises SchemaMismatch for a type that no table has."""
    from pyspark.sql.pandas.types import to_arrow_schema

    columns = columns_of(frame.schema)
    for each in columns.fields:
        if (unknown := _unstored(each.dataType.jsonValue())) is not None:
            raise SchemaMismatch(
                f"the column {each.name} is {each.dataType.simpleString()}: no table has a type for {unknown}. Cast it,"
                f" such as with CAST({each.name} AS string)"
            )
    return loosened(pa.schema([pa.field(each.name, each.type) for each in to_arrow_schema(columns, timezone="UTC")]))


def _unstored(kind: Any) -> str | None:
    """Return the first type that no table has, of a type of Spark as JSON: intervals, variants, users' own types."""
    if isinstance(kind, str):
        return None if kind.partition("(")[0] in _STORED else kind
    if kind["type"] == "struct":
        inner = [each["type"] for each in kind["fields"]]
    elif kind["type"] in ("array", "map"):
        inner = [kind[name] for name in ("elementType", "keyType", "valueType") if name in kind]
    else:
        return str(kind["type"])
    return next((found for each in inner if (found := _unstored(each)) is not None), None)


def loosened(schema: pa.Schema) -> pa.Schema:
    """Return columns whose nested fields may be null: those of a struct that is null are, required or not."""
    return pa.schema([each.with_type(_loose(each.type)) for each in schema])


def _loose(kind: pa.DataType) -> pa.DataType:
    def loose(field: pa.Field) -> pa.Field:
        return field.with_type(_loose(field.type)).with_nullable(True)

    if types.is_struct(kind):
        return pa.struct([loose(each) for each in kind])
    if types.is_map(kind):
        return pa.map_(kind.key_field.with_type(_loose(kind.key_type)), loose(kind.item_field))
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(loose(kind.value_field))
    plain = _plain(kind)
    return kind if types.is_timestamp(kind) else plain


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
        stored = here[column].type
        union = _union(stored, kind, is_merging=is_merging, is_widening=is_widening)
        if union is None:
            faults.append(f"its column {column} is {stored}, the rows' is {kind}")
        elif union != stored:
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
    """Return rows with the columns of a table, in its order; fields of theirs may be null.

    Raises SchemaMismatch where a required column, or a required field of a struct that is there, is null.
    """
    columns = []
    required, schema = schema, loosened(schema)
    for field in schema:
        if field.name in batch.schema.names:
            column = batch.column(field.name)
            columns.append(column if column.type == field.type else column.cast(field.type))
        else:
            columns.append(pa.nulls(batch.num_rows, field.type))
    for field, column in zip(required, columns, strict=True):
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            _require_values(field, chunk, field.name)
    return pa.Table.from_arrays(columns, schema=schema)


def _require_values(field: pa.Field, values: pa.Array, name: str) -> None:
    """Raise SchemaMismatch where a required field is null, and what it is in is not."""
    if not field.nullable and values.null_count:
        raise SchemaMismatch(f"the column {name} is null in some rows, and the table requires it: fill it, or filter")
    if not types.is_nested(field.type) or field.type.equals(_loose(field.type)):
        return
    if types.is_struct(field.type):
        there = values.filter(values.is_valid())
        for each, inner in zip(field.type, there.flatten(), strict=True):
            _require_values(each, inner, f"{name}.{each.name}")
    elif types.is_map(field.type):
        _require_values(field.type.item_field, values.items, f"{name}.value")
    else:
        _require_values(field.type.value_field, values.flatten(), f"{name}.element")


def _union(stored: pa.DataType, kind: pa.DataType, *, is_merging: bool, is_widening: bool) -> pa.DataType | None:
    """Return the type of a column that takes values of another type too: `stored` where they fit, None for no type."""

    def union(stored: pa.DataType, kind: pa.DataType) -> pa.DataType | None:
        return _union(stored, kind, is_merging=is_merging, is_widening=is_widening)

    mine, other = _plain(stored), _plain(kind)
    if mine == other or _is_wider(mine, other):
        return stored
    if _is_wider(other, mine):
        return kind if is_widening else None
    if types.is_list(mine) and types.is_list(other):
        items = union(mine.value_type, other.value_type)
        return stored if items == mine.value_type else items and pa.list_(items)
    if types.is_map(mine) and types.is_map(other):
        keys, items = union(mine.key_type, other.key_type), union(mine.item_type, other.item_type)
        if (keys, items) == (mine.key_type, mine.item_type):
            return stored
        return pa.map_(keys, items) if keys and items else None
    if types.is_struct(mine) and types.is_struct(other):
        there = {each.name: each.type for each in other}
        names = set(there)
        fields = {each.name: union(each.type, there.pop(each.name, each.type)) for each in mine}
        is_short = any(not each.nullable and each.name not in names for each in mine)
        if is_short or (there and not is_merging) or None in fields.values():
            return None
        return stored if fields == {each.name: each.type for each in mine} and not there else pa.struct(fields | there)
    return None


def _is_wider(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Whether each value of a type has its place in another, which is larger."""
    if types.is_decimal(stored) and types.is_decimal(kind):
        return bool(kind.scale == stored.scale and kind.precision <= stored.precision)
    for is_of_kind in (types.is_signed_integer, types.is_floating):
        if is_of_kind(stored) and is_of_kind(kind):
            return bool(kind.bit_width <= stored.bit_width)
    return False


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a type in the one form of those with the same values."""
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_large_list(kind):
        return pa.list_(kind.value_type)
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    return kind
