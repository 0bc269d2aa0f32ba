"""The columns of a topic in Spark: those of Spark's own Kafka source, so that a query moves by the format's name."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa

from kohort.client.decode_plain import TIMESTAMP
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


@cache
def spark_schema() -> StructType:
    """Return `SPARK_SCHEMA` as a Spark type; the topic, partition and offset of a row are never null."""
    from pyspark.sql.types import StructType

    return StructType.fromDDL(SPARK_SCHEMA)


def with_place(records: pa.RecordBatch, partition: TopicPartition) -> pa.RecordBatch:
    """Return decoded records (with their timestamp type) as a batch of `ARROW_SCHEMA`."""
    rows = records.num_rows
    topic = pa.repeat(pa.scalar(partition.topic, pa.string()), rows)
    number = pa.repeat(pa.scalar(partition.partition, pa.int32()), rows)
    columns = {
        "key": records["key"],
        "value": records["value"],
        "topic": topic,
        "partition": number,
        "offset": records["offset"],
        "timestamp": records["timestamp"],
        "timestampType": records["timestamp_type"],
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=ARROW_SCHEMA)
