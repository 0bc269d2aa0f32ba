"""The columns of a topic in Spark: those of Spark's own Kafka source, so that a query moves by the format's name."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from kohort.client.decode_plain import HEADERS, TIMESTAMP
from kohort.model.ids import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

ARROW_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
    ]
)
"""Exact Arrow types: Spark compares them with its own reading of `SPARK_SCHEMA`."""

SPARK_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)


HEADERS_COLUMN = "headers array<struct<key: string, value: binary>>"
"""The column that `includeHeaders` adds; a record without headers has null there."""


def arrow_schema(include_headers: bool = False) -> pa.Schema:
    """Return `ARROW_SCHEMA`, with headers if they are read too."""
    return _SCHEMA_WITH_HEADERS if include_headers else ARROW_SCHEMA


def spark_columns(include_headers: bool = False) -> str:
    """Return `SPARK_SCHEMA`, with headers if they are read too."""
    return f"{SPARK_SCHEMA}, {HEADERS_COLUMN}" if include_headers else SPARK_SCHEMA


@cache
def spark_schema(include_headers: bool = False) -> StructType:
    """Return `spark_columns` as a Spark type."""
    from pyspark.sql.types import StructType

    return StructType.fromDDL(spark_columns(include_headers))


def with_place(records: pa.RecordBatch, partition: TopicPartition) -> pa.RecordBatch:
    """Return decoded records (with their timestamp type, maybe headers) as a batch of `arrow_schema`."""
    rows = records.num_rows
    topic = pa.repeat(pa.scalar(partition.topic, pa.string()), rows)
    number = pa.repeat(pa.scalar(partition.partition, pa.int32()), rows)
    offset, timestamp, key, value, timestamp_type, *headers = records.columns
    columns = [key, value, topic, number, offset, timestamp, timestamp_type, *headers]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(bool(headers)))


_SCHEMA_WITH_HEADERS = ARROW_SCHEMA.append(pa.field("headers", HEADERS))
