"""DataFrames of records: their columns, as Spark's own Kafka source names them, and the offsets that they have."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from kohort.model.ids import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
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


log = logging.getLogger(__name__)

PLACE = ("topic", "partition", "offset")
"""The columns of a topic that identify a row."""

Spans = Mapping[TopicPartition, tuple[int, int]]
"""The first offset of each partition in a frame, and one past the last."""


def require_places(frame: DataFrame, what: str) -> None:
    """Raise ValueError unless a frame has the columns that identify its rows; `what` needs them."""
    if missing := [name for name in PLACE if name not in frame.columns]:
        raise ValueError(f"{what} needs the columns {', '.join(PLACE)}, and {', '.join(missing)} is missing")


@contextmanager
def computed_once(frame: DataFrame) -> Iterator[DataFrame]:
    """Cache a frame's rows meanwhile: computed again, they might differ. One that is cached is used as it is."""
    level = frame.storageLevel
    if level.useMemory or level.useDisk:
        yield frame
        return
    cached = frame.persist()
    try:
        yield cached
    finally:
        try:
            cached.unpersist()
        except Exception as error:  # the session may have ended, and what failed with it is the error to raise
            log.warning("the rows of a batch stay in memory: %s", error)


def spans_of(frame: DataFrame) -> Spans:
    """Return the span of each partition in a frame."""
    from pyspark.sql import functions

    found = frame.groupBy("topic", "partition").agg(functions.min("offset"), functions.max("offset")).collect()
    return {TopicPartition(topic, partition): (first, last + 1) for topic, partition, first, last in found}


def ends_beyond(spans: Spans, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the ends of the spans that `offsets` have not reached."""
    return {each: end for each, (_, end) in spans.items() if offsets.get(each, 0) < end}


def rows_beyond(frame: DataFrame, spans: Spans, offsets: Mapping[TopicPartition, int]) -> DataFrame:
    """Return the rows of a frame from `offsets` on; a partition without one has all its rows."""
    from pyspark.sql import functions

    for partition, (first, _) in sorted(spans.items()):
        offset = offsets.get(partition)
        if offset is not None and first < offset:
            is_partition = (functions.col("topic") == partition.topic) & (
                functions.col("partition") == partition.partition
            )
            frame = frame.filter(~is_partition | (functions.col("offset") >= offset))
    return frame
