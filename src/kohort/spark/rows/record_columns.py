"""The columns that become records of a topic, as in Spark's own sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TYPES = {
    "topic": ("string",),
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
}
COLUMNS = tuple(_TYPES)


def record_columns(schema: StructType) -> tuple[str, ...]:
    """Return those of `COLUMNS` that rows have. Raises ValueError without a value, and for a type that does not fit."""
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in found:
        raise ValueError(f"a sink needs a column value, string or binary; there are {', '.join(found) or 'none'}")
    for name, allowed in _TYPES.items():
        if name in found and found[name] not in allowed:
            raise ValueError(f"the column {name} is {found[name]}: a sink takes {' or '.join(allowed)}")
    return tuple(name for name in COLUMNS if name in found)
