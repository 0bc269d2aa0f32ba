"""`spark.read.format("kohort")`: offset ranges of topics, read by the executors in parallel, in Arrow.

A range is read exactly: the same ranges give the same rows. It knows nothing of groups: who owns a
range, and who commits it, is the caller's matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kohort.spark.columns import SPARK_SCHEMA
from kohort.spark.group_reader import GroupReader
from kohort.spark.options import SourceOptions
from kohort.spark.read_rows import FETCH_BYTES, ReadSettings, read_rows
from kohort.spark.rounds import OffsetRange, pieces, ranges_from_json, ranges_to_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_registered: WeakSet[SparkSession] = WeakSet()


class RangePiece(InputPartition):  # type: ignore[misc]
    """One Spark task: one range of one partition."""

    def __init__(self, offsets: OffsetRange) -> None:
        super().__init__(offsets)
        self.offsets = offsets


class RangeReader(DataSourceReader):  # type: ignore[misc]
    """Plans one task per piece of a range, and reads a piece in its task."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.bootstrap_servers = _required(options, "kafka.bootstrap.servers")
        self.ranges = ranges_from_json(_required(options, "ranges"))
        self.least_pieces = int(options.get("minPartitions", "1"))
        self.fetch_bytes = int(options.get("fetchBytes", str(FETCH_BYTES)))

    def partitions(self) -> Sequence[InputPartition]:
        """Return the pieces, `minPartitions` or more."""
        return [RangePiece(each) for each in pieces(self.ranges, self.least_pieces) if each.size]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one piece's rows. Raises KafkaError where they are no longer there to be read."""
        if isinstance(partition, RangePiece):  # Spark plans one nameless partition where there is nothing to read
            yield from read_rows(ReadSettings(self.bootstrap_servers, self.fetch_bytes), [partition.offsets])


class KohortSource(DataSource):  # type: ignore[misc]
    """The data source behind `format("kohort")`. `cores` are those of the session that it is registered in."""

    cores = 1

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kohort"

    def schema(self) -> str:
        """Return the columns of Spark's own Kafka source."""
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        """Return the batch reader."""
        return RangeReader(self.options)

    def streamReader(self, schema: StructType) -> GroupReader:  # noqa: ARG002, N802
        """Return the stream reader, which becomes a member of the group when Spark asks it for a batch."""
        return GroupReader(SourceOptions.parse(self.options, "stream"), self.cores)


def register(spark: SparkSession) -> None:
    """Make `format("kohort")` known to a session; a second time does nothing."""
    if spark in _registered:
        return
    # Spark pickles the class: one that is made here travels with what it knows of the session.
    known = type("KohortSource", (KohortSource,), {"cores": spark.sparkContext.defaultParallelism})
    spark.dataSource.register(known)
    _registered.add(spark)


def read_ranges_as_frame(
    spark: SparkSession, bootstrap_servers: str, ranges: Sequence[OffsetRange], least_pieces: int
) -> DataFrame:
    """Return the rows of `ranges` as a DataFrame that executors read in `least_pieces` tasks or more."""
    register(spark)
    reader = spark.read.format("kohort").option("kafka.bootstrap.servers", bootstrap_servers)
    return reader.option("ranges", ranges_to_json(ranges)).option("minPartitions", least_pieces).load()


def _required(options: Mapping[str, str], name: str) -> str:
    if name not in options:
        raise ValueError(f'format("kohort") needs the option {name}')
    return options[name]
