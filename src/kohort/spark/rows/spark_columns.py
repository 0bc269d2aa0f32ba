"""The columns of a topic as Spark's own Kafka source names them, and those that its sink takes."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


SPARK_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)


HEADERS_COLUMN = "headers array<struct<key: string, value: binary>>"
"""The column that `includeHeaders` adds; a record without headers has null there."""


def spark_columns(include_headers: bool = False) -> str:
    """Return `SPARK_SCHEMA`, with headers if they are read too."""
    return f"{SPARK_SCHEMA}, {HEADERS_COLUMN}" if include_headers else SPARK_SCHEMA


@cache
def spark_schema(include_headers: bool = False) -> StructType:
    """Return `spark_columns` as a Spark type."""
    from pyspark.sql.types import StructType

    return StructType.fromDDL(spark_columns(include_headers))


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
