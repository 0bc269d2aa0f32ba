"""The columns of a table, and whether a frame has them. It knows no file and no database."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kohort.spark.tables.table import SchemaMismatch

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def schema_to_json(schema: StructType) -> Any:
    """Return a schema as plain values; every column may be null, as Parquet reads it."""
    from pyspark.sql.types import StructType

    plain: Any = json.loads(StructType(schema.fields).json())
    return _nullable(plain)


def schema_from_json(plain: Any) -> StructType:
    """Return the schema of `schema_to_json`."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(plain)


def require_same_columns(table: Any, schema: StructType, name: str) -> None:
    """Raise SchemaMismatch, naming what differs, unless a frame has the table's columns in their order.

    A table without columns takes any.
    """
    if table is None:
        return
    here, there = schema_from_json(table), schema_from_json(schema_to_json(schema))
    if here == there:
        return
    ours = {field.name: field.dataType.simpleString() for field in here.fields}
    theirs = {field.name: field.dataType.simpleString() for field in there.fields}
    faults = [f"it has no column {name} {kind}" for name, kind in theirs.items() if name not in ours]
    faults += [f"the rows have no column {name} {kind}" for name, kind in ours.items() if name not in theirs]
    faults += [
        f"its column {name} is {kind}, the rows' is {theirs[name]}"
        for name, kind in ours.items()
        if theirs.get(name, kind) != kind
    ]
    if not faults:
        faults = [f"its columns are in the order {', '.join(ours)}, the rows' in the order {', '.join(theirs)}"]
    raise SchemaMismatch(f"{name} does not take these rows: {'; '.join(faults)}")


def _nullable(plain: Any) -> Any:
    """Return the schema's plain values with everything nullable, and without metadata."""
    if isinstance(plain, list):
        return [_nullable(each) for each in plain]
    if not isinstance(plain, dict):
        return plain
    changed = {name: _nullable(value) for name, value in plain.items()}
    for name in ("nullable", "containsNull", "valueContainsNull"):
        if name in changed:
            changed[name] = True
    if "metadata" in changed:
        changed["metadata"] = {}
    return changed
