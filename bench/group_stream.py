"""What one round of `GroupStream` costs at 100 rows, beside one batch by Spark's connector, and beside Spark alone.

All read 100 rows of the same topic and write them to the noop sink; ours also commits them in its group. Spark alone
is handed the same rows from memory: what a round takes beyond that is ours.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from interop.kohort_broker import KohortBroker

from bench.result import Aim, Outcome, Result
from bench.spark_read import CONNECTOR, by_connector, session
from bench.throughput import load

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

ROWS = 100
TOPIC = "rounds"
WARM_UP = 60
"""Rounds before the first that counts: Java goes on compiling what a round runs for about so many."""


def noop(frame: DataFrame) -> None:
    """Run a frame to the noop sink."""
    frame.write.format("noop").mode("overwrite").save()


def milliseconds(run: Callable[[], object]) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    run()
    return 1000 * (time.perf_counter() - start)


def from_memory(spark: SparkSession, table: pa.Table) -> None:
    """Run rows that are in memory to the noop sink."""
    from kohort.spark.rows.record_frames import spark_schema

    noop(spark.createDataFrame(table, schema=spark_schema()))


def rounds_in_arrow(spark: SparkSession, bootstrap: str, rounds: int) -> list[float]:
    """Return the milliseconds from one call of the user's function to the next one, which is with the commit."""
    from kohort.spark.group_stream import GroupStream

    calls: list[float] = []
    stream = GroupStream(
        spark,
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id="bench-arrow",
        auto_offset_reset="earliest",
        max_rows_per_round=ROWS,
    )
    with stream:
        stream.run(lambda *_: calls.append(time.perf_counter()), rows="arrow", until=lambda _: len(calls) > rounds)
    return [1000 * (after - before) for before, after in itertools.pairwise(calls)]


def group_stream(quick: bool) -> Iterator[Outcome]:
    """Take one round, one batch and one frame in turn; the round is timed from its rows to those of the next."""
    from kohort.spark.group_stream import GroupStream

    rounds = 10 + 10 if quick else WARM_UP + 60
    spark = session()
    try:
        with KohortBroker() as broker:
            load(broker, TOPIC, ROWS * (rounds + 2), 100, 1)
            ours, connector, bare = [], [], []

            def read_by_connector(first: dict[int, int], end: dict[int, int]) -> None:
                noop(by_connector(spark, broker, TOPIC, first, end))

            stream = GroupStream(
                spark,
                TOPIC,
                bootstrap_servers=broker.bootstrap,
                group_id="bench",
                auto_offset_reset="earliest",
                max_rows_per_round=ROWS,
            )
            with stream:
                each = stream.rounds()
                frame, _ = next(each)
                table = frame.toArrow()
                for number in range(rounds):
                    start = time.perf_counter()
                    noop(frame)
                    frame, _ = next(each)  # commits this round, and reads the next
                    ours.append(1000 * (time.perf_counter() - start))
                    span = {0: number * ROWS}, {0: (number + 1) * ROWS}
                    connector.append(milliseconds(partial(read_by_connector, *span)))
                    bare.append(milliseconds(lambda: from_memory(spark, table)))
                each.close()
            counted = slice(10 if quick else WARM_UP, None)
            in_arrow = rounds_in_arrow(spark, broker.bootstrap, rounds)
            yield Result(
                f"one round of {ROWS} rows",
                "ms",
                ours[counted],
                connector[counted],
                CONNECTOR,
                Aim(50, of_ratio=False, at_most=True),
                "ours includes the commit; the connector commits nothing",
            )
            yield Result(
                f"one round of {ROWS} rows, beside Spark alone",
                "ms",
                ours[counted],
                bare[counted],
                "Spark, rows from memory",
                Aim(2, of_ratio=True, at_most=True),
                "what is beyond 1× is the group's and the topic's: to look, to read, to commit",
            )
            yield Result(
                f"one round of {ROWS} rows in Arrow, beside Spark alone",
                "ms",
                in_arrow[counted],
                bare[counted],
                "Spark, rows from memory",
                Aim(10, of_ratio=False, at_most=True),
                'run(function, rows="arrow"), with the commit: no job of Spark',
            )
    finally:
        spark.stop()
