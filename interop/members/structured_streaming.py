"""A member by `readStream.format("kohort")`: a query of Spark's Structured Streaming.

The query's rows are reported here, batch by batch; what it owns and what it has committed are reported by the process
in which Spark keeps the source, because that is the member. Both append to the same file.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from interop.members.group_stream import ROWS_A_ROUND, Tenures, rows, session
from interop.members.report import Options, Report, options
from kohort.spark.options.source_options import SourceOptions
from kohort.spark.rows.rounds import Round
from kohort.spark.source.data_source import KohortSource
from kohort.spark.source.stream_reader import StreamReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FILE = "KOHORT_MEMBER_REPORT"
"""The environment variable with the address to which the source reports."""
_LOOK_S = 0.05


class FileReport(Report):
    """The same lines, from a process whose standard output is not the report; it takes no signals."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def line(self, event: str, **fields: object) -> None:
        """Append one event and when it was."""
        text = json.dumps({"event": event, "at_s": time.monotonic(), **fields})
        os.write(self._file, text.encode() + b"\n")


class WatchedSource(KohortSource):
    """The source, whose member reports what happens to it."""

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: ARG002, N802
        """Return the reader that Spark would get, with an observer."""
        report = FileReport(os.environ[FILE])

        def finished(done: Round, is_committed: bool) -> None:
            if is_committed:
                report.committed({place.partition: offset for place, offset in done.next_offsets.items()})
            else:
                report.refused(f"batch of generation {done.generation}")

        return StreamReader(SourceOptions.parse(self.options, "stream"), self.cores, Tenures(report), finished)


def source_options(chosen: Options) -> dict[str, str]:
    """Return the options of the source."""
    found = {
        "kafka.bootstrap.servers": chosen.bootstrap,
        "subscribe": chosen.topic,
        "group.id": chosen.group,
        "startingOffsets": "earliest",
        "onNewCheckpoint": "group",  # a member that is started again has no checkpoint
        "maxOffsetsPerTrigger": str(ROWS_A_ROUND),
        "kafka.client.id": "structured_streaming",
    }
    if chosen.instance:
        found["instance.id"] = chosen.instance
    if chosen.is_native:
        return found | {"protocol": "consumer"}
    found["kafka.session.timeout.ms"] = str(chosen.session_ms)
    found["kafka.heartbeat.interval.ms"] = str(chosen.heartbeat_ms)
    is_cooperative = "cooperative-sticky" in chosen.assignors
    return found | {"protocol": "cooperative" if is_cooperative else "eager"}


def run(spark: SparkSession, chosen: Options, report: Report) -> None:
    """Let a query run until asked to leave or to turn."""

    def batch(frame: DataFrame, _: int) -> None:
        report.read(rows(frame))

    checkpoint = chosen.more.get("checkpoint") or tempfile.mkdtemp(prefix="kohort-checkpoint.")
    stream = spark.readStream.format("kohort").options(**source_options(chosen)).load()
    query = stream.writeStream.foreachBatch(batch).option("checkpointLocation", checkpoint).start()
    while report.is_reading:
        if query.awaitTermination(_LOOK_S):
            break
    report.closing()
    query.stop()


def main() -> None:
    """Take part until asked to leave."""
    logging.basicConfig(level=logging.INFO)  # on stderr, for the message of a failing test
    chosen, report = options(), Report()
    os.environ[FILE] = os.readlink(f"/proc/self/fd/{sys.stdout.fileno()}")
    spark = session(chosen)
    spark.dataSource.register(WatchedSource)
    for life in report.lives(chosen):
        run(spark, life, report)
    spark.stop()


if __name__ == "__main__":
    main()
