"""The columns of a topic as Spark's own Kafka source names them."""

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
