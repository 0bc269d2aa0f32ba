"""Which offsets of which partitions a DataFrame has, and the part of it that lies beyond offsets already stored."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kohort.model.ids import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
