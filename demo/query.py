"""The second kind of worker: a query of Structured Streaming on `readStream.format("kohort")`.

The member runs in the Python process of Spark's source; that process writes assignments, revocations and commits to
the journal. The driver writes the batches; the ranges of a batch are in the checkpoint before it runs.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from demo.journal import Journal, Notes
from demo.task import Task
from kohort.spark.membership.control_socket import wait_until_left
from kohort.spark.membership.stream_offset import StreamOffset
from kohort.spark.options.source_options import SourceOptions
from kohort.spark.rows.rounds import Round
from kohort.spark.source.data_source import KohortSource
from kohort.spark.source.stream_reader import StreamReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LOOK_S = 0.1

_TOO_BUSY = "Python worker failed to connect back"
"""How Spark ends a query on a machine that takes more than ten seconds to start a Python process."""


class JournaledSource(KohortSource):
    """The source, whose member writes into the journal of a worker's run."""

    journal: tuple[str, str, int]

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: ARG002, N802
        """Return the reader of `KohortSource`, with a listener that writes to the journal."""
        directory, worker, run = self.journal
        notes = Notes(Journal(Path(directory), worker, run))
        return StreamReader(SourceOptions.parse(self.options, "stream"), self.cores, notes, notes.finished)


def run_query(spark: SparkSession, task: Task, store: Callable[[DataFrame, int], object], journal: Journal) -> None:
    """Store each batch, until SIGTERM or SIGINT."""
    is_over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_over.set())
    place = (task.journal, task.worker, task.run)
    spark.dataSource.register(type("JournaledSource", (JournaledSource,), {"journal": place}))
    checkpoint = Path(task.checkpoint)
    readers: set[str] = set()

    def batch(frame: DataFrame, number: int) -> None:
        end = logged_end(checkpoint / "offsets" / str(number))
        readers.add(end.reader)
        if end.ranges:
            journal.note_round("began", done := Round(end.batch, end.generation, end.ranges))
            store(frame, number)
            journal.note_round("written", done)

    stream = spark.readStream.format("kohort").options(
        **{
            "kafka.bootstrap.servers": task.bootstrap_servers,
            "kafka.client.id": f"worker-{task.worker}",
            "kafka.session.timeout.ms": str(task.session_timeout_ms),
            "kafka.heartbeat.interval.ms": str(task.heartbeat_interval_ms),
            "subscribe": task.topic,
            "group.id": task.group_id,
            "protocol": "eager",
            "startingOffsets": "earliest",
            "onNewCheckpoint": "group",  # a worker that takes over has no checkpoint
            "maxOffsetsPerTrigger": str(task.max_rows_per_round),
        }
    )
    sink = stream.load().writeStream.foreachBatch(batch).option("checkpointLocation", str(checkpoint))
    query = sink.start()
    while not is_over.is_set():
        try:
            query.awaitTermination(_LOOK_S)  # raises what ended the query
        except Exception as error:
            if _TOO_BUSY not in str(error):
                raise
            query = sink.start()  # goes on where it was
    query.stop()
    for reader in readers:  # the member is a process of its own, and what is left of a worker is killed when it ends
        wait_until_left(reader)


def logged_end(entry: Path) -> StreamOffset:
    """Return what an entry of the query's log of offsets says of its batch."""
    # A version, Spark's own settings, then one line for each source.
    return StreamOffset.from_json(json.loads(entry.read_text().splitlines()[2]))
