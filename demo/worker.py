"""One worker of the demo: a PySpark application that shares the topic with others by being a member of their group.

Run as `python -m demo.worker` with the fields of `Task` as one JSON argument. It stores the flights of each round in a
Delta table, in one commit with the round's offsets, before the round is committed in the group.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from demo.flights import encode, read_flights
from demo.journal import Journal, Notes
from demo.query import run_query
from demo.task import Task
from kohort.assign import RangeAssignor
from kohort.spark.group_stream import GroupStream
from kohort.spark.into_table import ExactlyOnce, exactly_once
from kohort.spark.rows.read_rows import ARROW_SCHEMA
from kohort.spark.rows.record_frames import spark_schema
from kohort.spark.rows.rounds import Round
from kohort.spark.spark_session import build
from kohort.spark.tables import DeltaLakeTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java options for an application of a minute: no time goes into optimizing what ends before it pays."""

_FIELDS = "id long, origin string, carrier string, month int, dest string, dep_time int, dep_delay int, arr_delay int"


def flights(frame: DataFrame) -> DataFrame:
    """Return a round's flights, each with the place of its record."""
    from pyspark.sql import functions as F  # noqa: N812

    flight = F.from_json(F.col("value").cast("string"), _FIELDS).alias("flight")
    return frame.select("partition", "offset", flight).select("flight.*", "partition", "offset")


class JournaledRounds(ExactlyOnce):
    """Stores rounds, and writes when into the journal of a worker's run."""

    def __init__(self, task: Task, journal: Journal) -> None:
        super().__init__(DeltaLakeTable(task.table), flights, task.group_id)
        self._journal = journal

    def __call__(self, frame: DataFrame, batch: Round | int) -> None:
        """Store a round of a GroupStream."""
        assert isinstance(batch, Round)
        self._journal.note_round("began", batch)
        super().__call__(frame, batch)
        self._journal.note_round("written", batch)


def _sample() -> pa.Table:
    """Return one flight as a round would hold it."""
    import pyarrow as pa

    key, value = encode(next(read_flights(1)))
    row = {"key": key, "value": value, "topic": "", "partition": 0, "offset": 0, "timestampType": 0}
    return pa.Table.from_pylist([row], schema=ARROW_SCHEMA)


def work(task: Task) -> None:
    """Be a worker until SIGTERM."""
    journal = Journal(Path(task.journal), task.worker, task.run)
    spark = build(
        f"flights-{task.worker}",
        master="local[1]",
        # A small job is faster as one plan than re-planned stage by stage.
        conf={"spark.sql.adaptive.enabled": False, "spark.driver.memory": "768m"},
        java_options=_SHORT_LIVED,
    )
    # The first job of a session is slow: better before the group waits for its round.
    with tempfile.TemporaryDirectory() as folder:
        sample = spark.createDataFrame(_sample(), schema=spark_schema())
        exactly_once(DeltaLakeTable(folder), flights, group="warm")(sample, 0)
    journal.note("started")
    if task.is_query:
        run_query(spark, task, exactly_once(DeltaLakeTable(task.table), flights, group=task.group_id), journal)
    else:
        run_rounds(spark, task, JournaledRounds(task, journal), Notes(journal))
    journal.note("stopped")
    spark.stop()


def run_rounds(spark: SparkSession, task: Task, each_round: ExactlyOnce, notes: Notes) -> None:
    """Store each round, until SIGTERM or SIGINT."""
    stream = GroupStream(
        spark,
        task.topic,
        bootstrap_servers=task.bootstrap_servers,
        group_id=task.group_id,
        client_id=f"worker-{task.worker}",
        auto_offset_reset="earliest",
        max_rows_per_round=task.max_rows_per_round,
        session_timeout_ms=task.session_timeout_ms,
        heartbeat_interval_ms=task.heartbeat_interval_ms,
        assignors=(RangeAssignor(),),
        listener=notes,
        finished=notes.finished,
    )
    with stream.stop_on(signal.SIGTERM, signal.SIGINT):
        stream.run(each_round)


def main() -> None:
    """Run the task in the first argument."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    work(Task(**json.loads(sys.argv[1])))


if __name__ == "__main__":
    main()
