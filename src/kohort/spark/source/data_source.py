"""`format("kohort")`: the data source that Spark calls to read, write or stream topics.

It parses options and passes them on to `batch_reader`, `stream_reader` and `sink`. Spark starts a process for
each question to a source written in Python, so that each imports only what it answers with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

from pyspark.sql.datasource import DataSource

from kohort.spark.running_session import is_remote, parallelism, use_this_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from kohort.spark.options.source_options import Kind, SourceOptions
    from kohort.spark.source.batch_reader import BatchReader
    from kohort.spark.source.sink import StreamWriter, Writer
    from kohort.spark.source.stream_reader import StreamReader

_registered: WeakSet[SparkSession] = WeakSet()


class KohortSource(DataSource):  # type: ignore[misc]
    """The data source behind `format("kohort")`. `cores` are those of the session that it is registered in."""

    cores = 1

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kohort"

    def schema(self) -> str | StructType:
        """Return the columns of Spark's own Kafka source, with the decoded value if values are decoded.

        Wrong options are refused here, before anything starts.
        """
        from kohort.spark.options.source_options import check
        from kohort.spark.rows.record_frames import spark_columns

        options = check(self.options)
        return spark_columns(options.read.include_headers) if options.values is None else _columns(options)

    def reader(self, schema: StructType) -> BatchReader:
        """Return the batch reader."""
        from kohort.spark.source.batch_reader import BatchReader

        return BatchReader(self._parsed("batch", schema))

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

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        """Return the stream reader, which becomes a member of the group when Spark asks it for a batch."""
        from kohort.spark.membership.query_listener import options_key
        from kohort.spark.source.stream_reader import StreamReader

        return StreamReader(self._parsed("stream", schema), self.cores, plan_key=options_key(self.options))

    def _parsed(self, kind: Kind, schema: StructType) -> SourceOptions:
        """Return the options. Raises ValueError if `schema`, which `load()` returned, is no longer that of values."""
        from kohort.spark.options.source_options import SourceOptions

        options = SourceOptions.parse(self.options, kind)
        if options.values is None:
            return options
        options = options.with_decoding()
        now, before = _columns(options)["value"], schema["value"]
        if now.dataType.simpleString() != before.dataType.simpleString():
            raise ValueError(
                f"the reader's schema has changed since load(), from {before.dataType.simpleString()} to"
                f" {now.dataType.simpleString()}: load again, or set valueSchemaVersion"
            )
        return options


def _columns(options: SourceOptions) -> StructType:
    """Return the columns with the decoded value."""
    from kohort.spark.direct_rows import columns_of
    from kohort.spark.rows.read_rows import arrow_schema
    from kohort.spark.rows.value_decoding import decoded_schema

    read = options.with_decoding().read if options.read.decoding is None else options.read
    return columns_of(decoded_schema(arrow_schema(read.include_headers), read))


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
