"""One worker of the demo: a PySpark application that shares the topic with others by being a member of their group.

Run as `python -m demo.worker` with the fields of `Task` as one JSON argument. It adds up the
delays of each round's flights and writes them to Parquet before the round is committed.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from demo.flights import Totals, encode, read_flights
from demo.journal import Journal, Notes
from demo.query import run_query
from demo.result import GROUP_COLUMNS, Part, write_part
from demo.task import Task
from kohort.assign import RangeAssignor
from kohort.spark.group_stream import GroupStream
from kohort.spark.rows.read_rows import ARROW_SCHEMA
from kohort.spark.rows.rounds import Round
from kohort.spark.rows.spark_columns import spark_schema
from kohort.spark.spark_session import build

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java options for an application of a minute: no time goes into optimizing what ends before it pays."""

_FIELDS = "origin string, carrier string, month int, dep_time int, dep_delay int, arr_delay int"


def delays(frame: DataFrame) -> pa.Table:
    """Return the totals of a round's flights per partition, origin, carrier and month."""
    from pyspark.sql import functions as F  # noqa: N812

    flight = F.from_json(F.col("value").cast("string"), _FIELDS).alias("flight")
    flights = frame.select("partition", flight).select("partition", "flight.*")
    totals = flights.groupBy("partition", *GROUP_COLUMNS).agg(
        F.count("*").alias("flights"),
        F.sum(F.col("dep_time").isNull().cast("long")).alias("cancelled"),
        F.count("dep_delay").alias("departed"),
        F.coalesce(F.sum("dep_delay"), F.lit(0)).alias("departure_delay_min"),
        F.count("arr_delay").alias("arrived"),
        F.coalesce(F.sum("arr_delay"), F.lit(0)).alias("arrival_delay_min"),
    )
    return totals.toArrow()


def write_round(directory: Path, each: Round, totals: pa.Table) -> None:
    """Write one file per range of the round."""
    import pyarrow.compute as pc

    for (_, number), start, stop in each.ranges:
        mine = totals.filter(pc.equal(totals["partition"], number)).select([*GROUP_COLUMNS, *Totals._fields])
        write_part(directory, Part(number, start, stop, each.generation, each.number), mine)


def _sample() -> pa.Table:
    """Return one flight as a round would hold it."""
    import pyarrow as pa

    key, value = encode(next(read_flights(1)))
    row = {"key": key, "value": value, "topic": "", "partition": 0, "offset": 0, "timestampType": 0}
    return pa.Table.from_pylist([row], schema=ARROW_SCHEMA)


def work(task: Task) -> None:
    """Be a worker until SIGTERM."""
    journal = Journal(Path(task.journal), task.worker, task.run)
    result = Path(task.result)
    # A small job is faster as one plan than re-planned stage by stage.
    spark = build(
        f"flights-{task.worker}",
        master="local[1]",
        # A small job is faster as one plan than re-planned stage by stage.
        conf={"spark.sql.adaptive.enabled": False, "spark.driver.memory": "768m"},
        java_options=_SHORT_LIVED,
    )
    # The first job of a session is slow: better before the group waits for its round.
    delays(spark.createDataFrame(_sample(), schema=spark_schema()))
    journal.note("started")

    def add_up(frame: DataFrame, each: Round) -> None:
        journal.note_round("began", each)
        write_round(result, each, delays(frame))
        journal.note_round("written", each)

    if task.is_query:
        run_query(spark, task, add_up)
    else:
        run_rounds(spark, task, add_up, Notes(journal))
    journal.note("stopped")
    spark.stop()


def run_rounds(spark: SparkSession, task: Task, each_round: Callable[[DataFrame, Round], object], notes: Notes) -> None:
    """Hand each round to a function, until SIGTERM or SIGINT."""
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
