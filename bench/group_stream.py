"""What one round of `GroupStream` costs at 100 rows, beside one micro-batch by Spark's Kafka connector.

Both read the next 100 rows of the same topic and write them to the noop sink; ours also commits them in its group.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from interop.kohort_broker import KohortBroker

from bench.result import Aim, Outcome, Result
from bench.spark_read import CONNECTOR, by_connector, session
from bench.throughput import load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 100
TOPIC = "rounds"
WARM_UP = 3


def noop(frame: DataFrame) -> None:
    """Run a frame to the noop sink."""
    frame.write.format("noop").mode("overwrite").save()


def group_stream(quick: bool) -> Iterator[Outcome]:
    """Take one round and one batch in turn; the round is timed from asking for it to its commit."""
    from kohort.spark.group_stream import GroupStream

    rounds = WARM_UP + (10 if quick else 40)
    spark = session()
    try:
        with KohortBroker() as broker:
            load(broker, TOPIC, ROWS * (rounds + 2), 100, 1)
            our_samples, their_samples = [], []
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
                for number in range(rounds):
                    start = time.perf_counter()
                    noop(frame)
                    frame, _ = next(each)  # commits this round, and reads the next
                    our_samples.append(1000 * (time.perf_counter() - start))
                    start = time.perf_counter()
                    noop(by_connector(spark, broker, TOPIC, {0: number * ROWS}, {0: (number + 1) * ROWS}))
                    their_samples.append(1000 * (time.perf_counter() - start))
                each.close()
            yield Result(
                f"one round of {ROWS} rows",
                "ms",
                our_samples[WARM_UP:],
                their_samples[WARM_UP:],
                CONNECTOR,
                Aim(0.5, of_ratio=True, at_most=True),
                "ours includes the commit; the connector commits nothing",
            )
    finally:
        spark.stop()
