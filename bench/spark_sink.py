"""Rows a second from Spark into a topic, beside Spark's own Kafka sink: the same rows, from memory, with acks=all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from interop.kohort_broker import KohortBroker

from bench.result import Aim, Outcome, Result
from bench.spark_read import session
from kohort.sync import Admin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITIONS = 4
AT_LEAST = Aim(1.5, of_ratio=True)
SINKS = {"kohort": "kohort", "theirs": "kafka"}


def write_per_s(frame: DataFrame, sink: str, bootstrap: str, topic: str, rows: int) -> float:
    """Write a frame, and return rows a second."""
    start = time.perf_counter()
    writer = frame.write.format(sink).mode("append")
    writer.option("kafka.bootstrap.servers", bootstrap).option("topic", topic).save()
    return rows / (time.perf_counter() - start)


def spark_sink(quick: bool) -> Iterator[Outcome]:
    """Write by both sinks in turn, into fresh topics."""
    sizes = {100: 100_000, 1024: 30_000} if quick else {100: 1_000_000, 1024: 300_000}
    spark = session()
    try:
        with KohortBroker() as broker, Admin(broker.bootstrap) as admin:
            for size, rows in sizes.items():
                frame = spark.range(0, rows, 1, 2).selectExpr(
                    "cast(cast(id AS string) AS binary) AS key", f"cast(repeat('x', {size}) AS binary) AS value"
                )
                frame = frame.persist()
                frame.count()
                found: dict[str, list[float]] = {name: [] for name in SINKS}
                for turn in range(2 if quick else 6):
                    for name, sink in sorted(SINKS.items(), reverse=bool(turn % 2)):
                        topic = f"sink-{size}-{turn}-{name}"
                        admin.create_topic(topic, PARTITIONS)
                        found[name].append(write_per_s(frame, sink, broker.bootstrap, topic, rows))
                        admin.delete_topic(topic)
                frame.unpersist()
                name = f"rows from Spark, {size} B"
                yield Result(name, "rows/s", found["kohort"][1:], found["theirs"][1:], "Spark's Kafka sink", AT_LEAST)
    finally:
        spark.stop()
