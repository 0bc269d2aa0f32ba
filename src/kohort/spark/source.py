"""`spark.read.format("kohort")`: offset ranges of topics, read by the executors in parallel, in Arrow.

A range is read exactly: the same ranges give the same rows. It knows nothing of groups: who owns a
range, and who commits it, is the caller's matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kohort.model.ids import TopicPartition
from kohort.spark.columns import SPARK_SCHEMA, with_place
from kohort.spark.rounds import OffsetRange, pieces, ranges_from_json, ranges_to_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FETCH_BYTES = 1 << 20
"""Bytes per fetch: the decoder is fastest on chunks that fit the processor's cache."""


class IncompleteRange(RuntimeError):
    """The log ended, or began, inside a range that was to be read: its rows cannot be had any more."""


class RangePiece(InputPartition):  # type: ignore[misc]
    """One Spark task: one range of one partition."""

    def __init__(self, offsets: OffsetRange) -> None:
        super().__init__(offsets)
        self.offsets = offsets


class RangeReader(DataSourceReader):  # type: ignore[misc]
    """Plans one task per piece of a range, and reads a piece in its task."""

    def __init__(self, options: dict[str, str]) -> None:
        self.bootstrap_servers = _required(options, "kafka.bootstrap.servers")
        self.ranges = ranges_from_json(_required(options, "ranges"))
        self.least_pieces = int(options.get("minPartitions", "1"))
        self.fetch_bytes = int(options.get("fetchBytes", str(FETCH_BYTES)))

    def partitions(self) -> Sequence[InputPartition]:
        """Return the pieces, `minPartitions` or more."""
        return [RangePiece(each) for each in pieces(self.ranges, self.least_pieces) if each.size]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one piece's rows. Raises IncompleteRange when the log does not hold all of it any more."""
        if isinstance(partition, RangePiece):  # Spark plans one nameless partition where there is nothing to read
            yield from read_rows(self.bootstrap_servers, [partition.offsets], self.fetch_bytes)


class KohortSource(DataSource):  # type: ignore[misc]
    """The data source behind `format("kohort")`."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kohort"

    def schema(self) -> str:
        """Return the columns of Spark's own Kafka source."""
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the batch reader."""
        return RangeReader(self.options)


def read_ranges_as_frame(
    spark: SparkSession, bootstrap_servers: str, ranges: Sequence[OffsetRange], least_pieces: int
) -> DataFrame:
    """Return the rows of `ranges` as a DataFrame that executors read in `least_pieces` tasks or more."""
    spark.dataSource.register(KohortSource)
    reader = spark.read.format("kohort").option("kafka.bootstrap.servers", bootstrap_servers)
    return reader.option("ranges", ranges_to_json(ranges)).option("minPartitions", least_pieces).load()


def read_rows(
    bootstrap_servers: str, ranges: Sequence[OffsetRange], fetch_bytes: int = FETCH_BYTES
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `ranges` in Arrow, batch by batch. Raises IncompleteRange, CorruptBatch, KafkaError."""
    from kohort.client.decode_arrow import iter_arrow
    from kohort.client.range_reader import read_ranges

    wanted: dict[TopicPartition, list[OffsetRange]] = {}
    for each in ranges:
        wanted.setdefault(each.partition, []).append(each)
    for partition, buffer, _ in read_ranges(bootstrap_servers, [tuple(each) for each in ranges], fetch_bytes):
        offsets: Any = {"timestamp_type": True}
        for each in wanted[partition]:
            for records in iter_arrow(
                buffer, partition.topic, partition.partition, first_offset=each.start, stop_offset=each.stop, **offsets
            ):
                if records.num_rows:
                    yield with_place(records, partition)


def _required(options: dict[str, str], name: str) -> str:
    if name not in options:
        raise ValueError(f'format("kohort") needs the option {name}')
    return options[name]
