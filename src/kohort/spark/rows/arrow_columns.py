"""The columns of a topic as Arrow types, which executors return to Spark."""

from __future__ import annotations

import pyarrow as pa

from kohort.client.decode.plain_decoder import HEADERS, TIMESTAMP
from kohort.model.ids import TopicPartition

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
"""Exact Arrow types: Spark compares them with its own reading of `spark_columns.SPARK_SCHEMA`."""


def arrow_schema(include_headers: bool = False) -> pa.Schema:
    """Return `ARROW_SCHEMA`, with headers if they are read too."""
    return _SCHEMA_WITH_HEADERS if include_headers else ARROW_SCHEMA


def with_place(records: pa.RecordBatch, partition: TopicPartition) -> pa.RecordBatch:
    """Return decoded records, which have a timestamp type and may have headers, as a batch of `arrow_schema`."""
    rows = records.num_rows
    topic = pa.repeat(pa.scalar(partition.topic, pa.string()), rows)
    number = pa.repeat(pa.scalar(partition.partition, pa.int32()), rows)
    offset, timestamp, key, value, timestamp_type, *headers = records.columns
    columns = [key, value, topic, number, offset, timestamp, timestamp_type, *headers]
    return pa.RecordBatch.from_arrays(columns, schema=arrow_schema(bool(headers)))


_SCHEMA_WITH_HEADERS = ARROW_SCHEMA.append(pa.field("headers", HEADERS))
