"""Rows a second into Spark beside Spark's own Kafka connector, both reading the same topic of the same broker.

Every column is read and written to Spark's noop sink, or all rows are summed up, on two cores.
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
AIMS = {100: Aim(1.5, of_ratio=True), 1024: Aim(1.2, of_ratio=True)}
CODECS = ("none", "lz4", "zstd")
CONNECTOR = "Spark's Kafka connector"


def session() -> SparkSession:
    """Start Spark with the connector's jars beside our own source."""
    from kohort.spark.spark_session import build

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
    from kohort.spark.rows.read_settings import ReadSettings
    from kohort.spark.rows.rounds import OffsetRange, Round
    from kohort.spark.source.round_frames import frame_on_executors

    ranges = [OffsetRange(TopicPartition(topic, each), starts[each], stops[each]) for each in sorted(stops)]
    return frame_on_executors(spark, ReadSettings(broker.bootstrap), Round(0, 1, tuple(ranges)))


def into_noop(frame: DataFrame) -> None:
    """Write every column to the sink that keeps nothing."""
    frame.write.format("noop").mode("overwrite").save()


def into_sum(frame: DataFrame) -> None:
    """Sum up the rows of each partition, with a look at its columns."""
    from pyspark.sql.functions import expr

    sums = [expr(each) for each in ("max(offset)", "max(timestamp)", "count(key)", "sum(length(value))")]
    frame.groupBy("topic", "partition").agg(*sums).collect()


def rate(frame: DataFrame, rows: int, use: Callable[[DataFrame], None] = into_noop) -> float:
    """Read a frame for a use and return rows a second."""
    start = time.perf_counter()
    use(frame)
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
    uses = {"rows into Spark": into_noop, "rows into an aggregate": into_sum}
    spark = session()
    try:
        with KohortBroker() as broker:
            for size, records in sizes.items():
                for codec in CODECS:
                    topic = f"spark-{size}-{codec}"
                    load(broker, topic, records, size, PARTITIONS, codec)
                    stops = ends(broker, topic)
                    starts = dict.fromkeys(stops, 0)
                    frames = (
                        by_kohort(spark, broker, topic, starts, stops),
                        by_connector(spark, broker, topic, starts, stops),
                    )
                    assert all(frame.count() == records for frame in frames)
                    for what, use in uses.items():
                        ours, theirs = (partial(rate, frame, records, use) for frame in frames)
                        interleave(ours, theirs, 1)
                        samples = interleave(ours, theirs, 3 if quick else 7)
                        name = f"{what}, {size} B" + (f", {codec}" if codec != "none" else "")
                        yield Result(name, "rows/s", *samples, CONNECTOR, AIMS[size])
                    jars.run(
                        "org.apache.kafka.tools.TopicCommand",
                        *("--bootstrap-server", broker.bootstrap, "--topic", topic, "--delete"),
                    )
    finally:
        spark.stop()
