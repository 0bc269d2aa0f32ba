"""One Spark task of a batch or a micro-batch: the ranges that it reads, and the ids of their topics.

Planned ranges are of topics, not of their names: a topic that is created again before they are read is another one.
Apart from the readers, for a task needs no cluster to begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

from kohort.spark.rows.read_settings import ReadSettings
from kohort.spark.rows.rounds import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa


class RangePiece(InputPartition):  # type: ignore[misc]
    """Ranges of partitions, of each at most one. `topic_ids` are those of their topics, where the cluster has ids."""

    def __init__(self, ranges: tuple[OffsetRange, ...], topic_ids: Mapping[str, str]) -> None:
        super().__init__(ranges)
        self.ranges = ranges
        self.topic_ids = topic_ids


def read_piece(settings: ReadSettings, piece: InputPartition) -> Iterator[pa.RecordBatch]:
    """Yield one piece's rows. Raises KafkaError where records were deleted, or their topic."""
    from kohort.spark.rows.read_rows import read_rows

    if isinstance(piece, RangePiece):  # Spark plans one of its own class where there is nothing to read
        yield from read_rows(settings, piece.ranges, piece.topic_ids)
