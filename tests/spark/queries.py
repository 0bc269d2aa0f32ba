"""Streaming queries of the tests, with a function in `foreachBatch` that may be killed after a batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions
from tests.spark.cluster import Topic

from kohort.spark.source.data_source import register
from kohort.wire.record_batches import Record

ForEachBatch = Callable[[DataFrame, int], object]


def rows_of(spark: SparkSession, topic: Topic, most: int = 1000, **options: Any) -> DataFrame:
    register(spark)
    return (
        spark.readStream.format("kohort")
        .option("kafka.bootstrap.servers", topic.bootstrap_servers)
        .option("subscribe", topic.name)
        .option("group.id", topic.group_id)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", most)
        .option("kafka.heartbeat.interval.ms", 100)  # the members of a join wait for each other's
        .options(**options)
        .load()
    )


def run(frame: DataFrame, checkpoint: Path, function: ForEachBatch, mode: str = "append") -> None:
    """Run a query until everything that is there has been read."""
    writer = frame.writeStream.foreachBatch(function).option("checkpointLocation", str(checkpoint)).outputMode(mode)
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def stop_after(store: ForEachBatch, batch: int) -> ForEachBatch:
    """Return a function that is killed after it has stored a batch, before Spark has noted that."""

    def killed(frame: DataFrame, batch_id: int) -> None:
        store(frame, batch_id)
        if batch_id == batch:
            raise ZeroDivisionError

    return killed


class Bills:
    """Bills in a topic, and their payments in another one: a payment comes later, and emits a lower offset."""

    def __init__(self, spark: SparkSession, bills: Topic, paid: Topic) -> None:
        paid.group_id = bills.group_id
        self._spark = spark
        self._bills, self._paid = bills, paid
        self.values = bills.fill(60)

    def pay(self, values: list[bytes]) -> None:
        self._paid.produce(0, [Record(0, 1_700_000_000_000, b"", value) for value in values])

    def joined(self) -> DataFrame:
        """Return the bills that were paid, 30 payments in a batch."""
        payments = rows_of(self._spark, self._paid, 30).selectExpr("decode(value, 'UTF-8') AS paid")
        return rows_of(self._spark, self._bills).join(payments, on=functions.expr("decode(value, 'UTF-8') = paid"))

    def run(self, checkpoint: Path, function: ForEachBatch) -> None:
        """Pay the last bills before the first ones, with a kill between the first batch and its checkpoint."""
        for number, values in enumerate((self.values[40:], self.values[:40])):
            self.pay(values)
            if not number:
                with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
                    run(self.joined(), checkpoint, stop_after(function, 0))
            run(self.joined(), checkpoint, function)
