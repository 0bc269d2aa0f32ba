"""One Spark application that lands topics in Delta tables, exactly once, as a process of its own.

    python -m bench.lake_job kohort|spark BOOTSTRAP MASTER

It reads orders from its input, a line of JSON each, and answers each with one. `kohort` is a `GroupStream` with
`exactly_once`; `spark` is Spark's Kafka source and Delta's sink, with a checkpoint.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from interop.jars import jars
from pyspark.sql import functions

from bench.lakehouse import KEYS
from kohort.spark import GroupStream, build, exactly_once
from kohort.spark.tables import DeltaLakeTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

TEXT = ("cast(value AS string) AS text", "topic", "partition", "offset", "timestamp")
"""Columns of rows that are transformed; else they are stored as they are."""


CHANGES = (
    f"partition * {KEYS} + offset % {KEYS} AS id",
    "cast(value AS string) AS text",
    "topic",
    "partition",
    "offset",
)

MERGE = """MERGE INTO delta.`{table}` t USING changes s ON s.id = t.id
    WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""


class Order(NamedTuple):
    """A topic to land in a table, in rounds of `most` rows; where `owned` is given, from when a job owns so many."""

    topic: str
    table: str
    group: str
    most: int
    is_text: bool = False
    is_merged: bool = False
    owned: int = 0


def by_kohort(spark: SparkSession, bootstrap: str, order: Order, say: Callable[..., None]) -> list[float]:
    """Drain a topic as a member of a group, and return the milliseconds of its rounds."""
    took: list[float] = []
    rows = (lambda frame: frame.selectExpr(*TEXT)) if order.is_text else None
    store = exactly_once(DeltaLakeTable(order.table), rows)
    if order.is_merged:
        store = exactly_once(DeltaLakeTable(order.table), lambda frame: frame.selectExpr(*CHANGES), merge_on="id")
    with GroupStream(
        spark,
        order.topic,
        bootstrap_servers=bootstrap,
        group_id=order.group,
        auto_offset_reset="earliest",
        max_rows_per_round=order.most,
    ) as stream:
        if order.owned:
            while len(stream.owned) != order.owned:
                time.sleep(0.01)
            say(ready=True)
            sys.stdin.readline()
        last = time.perf_counter()

        def is_done(each: GroupStream) -> bool:
            nonlocal last
            if each.metrics.rounds > len(took):
                now = time.perf_counter()
                took.append(1000 * (now - last))
                last = now
            return each.is_caught_up

        stream.run(store, until=is_done)
    return took


def by_spark(spark: SparkSession, bootstrap: str, order: Order, _: Callable[..., None]) -> list[float]:
    """Drain a topic as Spark and Delta do it, and return the milliseconds of its micro-batches."""
    frame = (
        spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", order.topic)
    )
    frame = frame.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", order.most)
    # Its own default is 1 MiB; this is what it is fastest with.
    rows = frame.option("kafka.max.partition.fetch.bytes", 4 << 20).load()
    if order.is_merged:
        spark.sql(
            f"CREATE TABLE delta.`{order.table}` (id BIGINT, text STRING, topic STRING, partition INT, offset BIGINT)"
            " USING delta"
        )
        sink = rows.selectExpr(*CHANGES).writeStream.foreachBatch(partial(merge, table=order.table))
        sink = sink.option("checkpointLocation", f"{order.table}-checkpoint")
        return ended(sink.trigger(availableNow=True).start())
    sink = (
        (rows.selectExpr(*TEXT) if order.is_text else rows)
        .writeStream.format("delta")
        .option("checkpointLocation", f"{order.table}-checkpoint")
    )
    return ended(sink.trigger(availableNow=True).start(order.table))


def merge(frame: DataFrame, _: int, table: str) -> None:
    """Change the rows of a table by key, by the last change of each, as Delta's documentation has it."""
    last = frame.groupBy("id").agg(functions.max_by(functions.struct(*frame.columns), "offset").alias("last"))
    last.select("last.*").createOrReplaceTempView("changes")
    frame.sparkSession.sql(MERGE.format(table=table))


def ended(query: StreamingQuery) -> list[float]:
    """Return the milliseconds of the micro-batches of a query, when it has ended."""
    query.awaitTermination()
    return [float(each["durationMs"]["triggerExecution"]) for each in query.recentProgress if each["numInputRows"]]


def main() -> None:
    """Obey orders until the input ends."""
    kind, bootstrap, master = sys.argv[1:]
    conf: dict[str, str | int | bool] = {
        "spark.jars": ",".join(str(jar) for jar in sorted(jars("spark-delta-pom.xml").glob("*.jar"))),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.memory": "2g",
        "spark.databricks.delta.snapshotPartitions": 2,  # 50 of the default are for tables of millions of files
        "spark.sql.streaming.numRecentProgressUpdates": 1000,
    }
    spark = build("kohort bench", master=master, conf=conf if kind == "spark" else {"spark.driver.memory": "2g"})
    drain = {"kohort": by_kohort, "spark": by_spark}[kind]

    def say(**answer: Any) -> None:
        print(json.dumps(answer), flush=True)

    say(ready=True)
    for line in sys.stdin:
        began = time.perf_counter()
        took = drain(spark, bootstrap, Order(**json.loads(line)), say)
        say(seconds=time.perf_counter() - began, rounds=took)


if __name__ == "__main__":
    main()
