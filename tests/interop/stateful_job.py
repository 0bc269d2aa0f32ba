"""A query with state whose partitions are bound to its checkpoint, as the guide "Queries with state" has it.

    python -m tests.interop.stateful_job SHAPE BOOTSTRAP TOPIC PART FOLDER

It prints a line before and after each batch that it stores, and is killed by the test that runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from kohort.spark import build, exactly_once
from kohort.spark.tables import DeltaLakeTable

Load = Callable[[str], DataFrame]


def windows(load: Load, topic: str) -> DataFrame:
    """Count the clicks of each page in windows of a minute."""
    clicks = load(topic).withWatermark("timestamp", "1 minute")
    counts = clicks.groupBy(F.window("timestamp", "1 minute"), F.col("key").cast("string").alias("page")).count()
    return counts.selectExpr("window.start AS start", "page", "count AS n")


def join(load: Load, topic: str) -> DataFrame:
    """Pair each click with the view of the same page visit that came up to five minutes before."""
    views = load(f"{topic}-views").selectExpr("cast(value AS string) AS viewed", "timestamp AS at")
    clicks = load(topic).selectExpr("cast(value AS string) AS id", "timestamp AS clicked")
    return (
        views.withWatermark("at", "5 minutes")
        .join(
            clicks.withWatermark("clicked", "5 minutes"),
            F.expr("id = viewed AND clicked BETWEEN at AND at + INTERVAL 5 MINUTES"),
        )
        .select("id")
    )


def unique(load: Load, topic: str) -> DataFrame:
    """Keep the first of clicks that were sent more than once."""
    clicks = load(topic).selectExpr("cast(value AS string) AS id", "timestamp")
    return clicks.withWatermark("timestamp", "5 minutes").dropDuplicatesWithinWatermark(["id"]).select("id")


SHAPES: dict[str, Callable[[Load, str], DataFrame]] = {"windows": windows, "join": join, "unique": unique}


def main(shape: str, bootstrap: str, topic: str, part: str, folder: str) -> None:
    """Run the query until it is killed."""
    spark: SparkSession = build(f"clicks {part}", master="local[1]", conf={"spark.driver.memory": "600m"})
    settings = {"kafka.bootstrap.servers": bootstrap, "group.id": f"clicks of {topic}", "startingOffsets": "earliest"}

    def load(name: str) -> DataFrame:
        stream = spark.readStream.format("kohort").options(**settings).option("subscribe", name)
        return stream.option("boundPartitions", part).option("maxOffsetsPerTrigger", 150).load()

    store = exactly_once(DeltaLakeTable(f"{folder}/table"))

    def add(frame: DataFrame, batch: int) -> None:
        print("begun", flush=True)
        store(frame, batch)
        print("stored", flush=True)

    stream = SHAPES[shape](load, topic).writeStream.foreachBatch(add).outputMode("append")
    checkpoint = f"{folder}/checkpoint-{part.replace('/', '-of-')}"
    stream.option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
