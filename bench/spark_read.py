"""Rows a second into Spark beside Spark's own Kafka connector, both reading the same topic of the same broker.

Every column is read and written to Spark's noop sink, on two cores.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from interop.brokers import Broker
from interop.kohort_broker import KohortBroker

from bench.result import Aim, Outcome, Result, interleave
from bench.throughput import load
from interop import jars
from kohort.model.ids import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 4
AIMS = {100: Aim(1.5, of_ratio=True), 1024: Aim(1, of_ratio=True)}
CONNECTOR = "Spark's Kafka connector"


def session() -> SparkSession:
    """Start Spark with the connector's jars beside our own source."""
    from kohort.spark.session import build

    connector = ",".join(str(jar) for jar in sorted(jars.jars("spark-pom.xml").glob("*.jar")))
    return build("kohort bench", conf={"spark.jars": connector, "spark.driver.memory": "3g"})


def ends(broker: Broker, topic: str) -> dict[int, int]:
    """Return the end of each partition."""
    text = jars.run(
        "org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", broker.bootstrap, "--topic-partitions", topic
    )
    return {int(line.split(":")[1]): int(line.split(":")[2]) for line in text.split()}


def by_connector(
    spark: SparkSession, broker: Broker, topic: str, starts: dict[int, int], stops: dict[int, int]
) -> DataFrame:
    """Return exact offset ranges through Spark's connector."""
    options = {
        "kafka.bootstrap.servers": broker.bootstrap,
        "assign": json.dumps({topic: sorted(stops)}),
        "startingOffsets": json.dumps({topic: {str(partition): start for partition, start in starts.items()}}),
        "endingOffsets": json.dumps({topic: {str(partition): stop for partition, stop in stops.items()}}),
        # Its own default is 1 MiB; this is what it is fastest with.
        "kafka.max.partition.fetch.bytes": str(4 << 20),
    }
    return spark.read.format("kafka").options(**options).load()


def by_kohort(
    spark: SparkSession, broker: Broker, topic: str, starts: dict[int, int], stops: dict[int, int]
) -> DataFrame:
    """Return exact offset ranges through our source."""
    from kohort.spark.rounds import OffsetRange
    from kohort.spark.source import read_ranges_as_frame

    ranges = [OffsetRange(TopicPartition(topic, each), starts[each], stops[each]) for each in sorted(stops)]
    return read_ranges_as_frame(spark, broker.bootstrap, ranges, PARTITIONS)


def rate(frame: DataFrame, rows: int) -> float:
    """Write a frame to the noop sink and return rows a second."""
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return rows / (time.perf_counter() - start)


def median_ms(run: Callable[[], object], times: int) -> float:
    """Return the median milliseconds of a call."""
    took = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        took.append(1000 * (time.perf_counter() - start))
    return sorted(took)[times // 2]


def spark_read(quick: bool) -> Iterator[Outcome]:
    """Read each topic by both ways in turn, after one unmeasured reading each."""
    sizes = {100: 1_000_000, 1024: 200_000} if quick else {100: 5_000_000, 1024: 1_000_000}
    spark = session()
    try:
        with KohortBroker() as broker:
            for size, records in sizes.items():
                topic = f"spark-{size}"
                load(broker, topic, records, size, PARTITIONS)
                stops = ends(broker, topic)
                starts = dict.fromkeys(stops, 0)
                frames = (
                    by_kohort(spark, broker, topic, starts, stops),
                    by_connector(spark, broker, topic, starts, stops),
                )
                assert all(frame.count() == records for frame in frames)
                ours, theirs = (partial(rate, frame, records) for frame in frames)
                interleave(ours, theirs, 1)
                our_samples, their_samples = interleave(ours, theirs, 3 if quick else 7)
                yield Result(f"rows into Spark, {size} B", "rows/s", our_samples, their_samples, CONNECTOR, AIMS[size])
    finally:
        spark.stop()
