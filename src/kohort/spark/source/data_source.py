"""`format("kohort")`: what Spark asks for when it reads, writes or streams topics, and the parts that answer.

It parses options and hands them on: `batch_source`, `group_reader` and `writer` do the work. Spark starts a process for
each question to a source written in Python, so that each imports only what it answers with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from weakref import WeakSet

from pyspark.sql.datasource import DataSource

from kohort.spark.spark_session import is_remote, parallelism, use_this_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from kohort.spark.rows.read_settings import ReadSettings
    from kohort.spark.rows.rounds import OffsetRange
    from kohort.spark.source.batch_reader import RangeReader
    from kohort.spark.source.sink import StreamWriter, Writer
    from kohort.spark.source.stream_reader import GroupReader

_registered: WeakSet[SparkSession] = WeakSet()


class KohortSource(DataSource):  # type: ignore[misc]
    """The data source behind `format("kohort")`. `cores` are those of the session that it is registered in."""

    cores = 1

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kohort"

    def schema(self) -> str:
        """Return the columns of Spark's own Kafka source; wrong options are refused here, before anything starts."""
        from kohort.spark.options.option_values import Given
        from kohort.spark.options.source_options import check
        from kohort.spark.rows.spark_columns import spark_columns

        check(self.options)
        return spark_columns(Given(self.options).truth("includeHeaders", default=False))

    def reader(self, schema: StructType) -> RangeReader:  # noqa: ARG002
        """Return the batch reader."""
        from kohort.spark.options.source_options import SourceOptions
        from kohort.spark.source.batch_reader import RangeReader

        return RangeReader(SourceOptions.parse(self.options, "batch"))

    def writer(self, schema: StructType, overwrite: bool) -> Writer:
        """Return the writer of a batch query, which appends."""
        from kohort.spark.source.sink import SinkSettings, Writer

        if overwrite:
            raise ValueError('mode is overwrite: a topic is appended to, so it takes mode("append")')
        return Writer(SinkSettings.parse(self.options, schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: ARG002, N802
        """Return the writer of a streaming query."""
        from kohort.spark.source.sink import SinkSettings, StreamWriter

        return StreamWriter(SinkSettings.parse(self.options, schema))

    def streamReader(self, schema: StructType) -> GroupReader:  # noqa: ARG002, N802
        """Return the stream reader, which becomes a member of the group when Spark asks it for a batch."""
        from kohort.spark.options.source_options import SourceOptions
        from kohort.spark.source.stream_reader import GroupReader

        return GroupReader(SourceOptions.parse(self.options, "stream"), self.cores)


def register(spark: SparkSession) -> None:
    """Make `format("kohort")` known to a session, and report its finished batches to their readers.

    A session of Spark Connect gets no listener: its thread in the client outlives the session, and the application.
    """
    make_known(spark)
    if not is_remote(spark):
        from kohort.spark.membership.query_listener import listen

        listen(spark)


def make_known(spark: SparkSession) -> None:
    """Make `format("kohort")` known to a session; a second time does nothing."""
    if spark in _registered:
        return
    # Spark pickles the class: one that is made here travels with what it knows of the session.
    use_this_python(spark)
    known = type("KohortSource", (KohortSource,), {"cores": parallelism(spark)})
    spark.dataSource.register(known)
    _registered.add(spark)


def read_ranges_as_frame(
    spark: SparkSession, settings: ReadSettings, ranges: Sequence[OffsetRange], least_pieces: int
) -> DataFrame:
    """Return the rows of `ranges` as a DataFrame that executors read in `least_pieces` tasks or more."""
    from kohort.spark.rows.rounds import ranges_to_json

    make_known(spark)
    options: dict[str, str | int | bool] = {
        "kafka.bootstrap.servers": settings.bootstrap_servers,
        "kafka.client.id": settings.client_id,
        "kafka.client.rack": settings.client_rack,
        "ranges": ranges_to_json(ranges),
        "minPartitions": least_pieces,
        "fetchBytes": settings.fetch_bytes,
        "isolationLevel": settings.isolation,
        "includeHeaders": settings.include_headers,
        "failOnDataLoss": settings.fail_on_data_loss,
    }
    secured = {f"kafka.{name}": value for name, value in settings.properties.items()}
    return spark.read.format("kohort").options(**options, **secured).load()
