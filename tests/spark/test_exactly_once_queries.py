"""`exactly_once(table)` in `foreachBatch` of streaming queries that are members of a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.cluster import Topic
from tests.spark.lake import lake_table, rows_in

from kohort.spark import exactly_once
from kohort.spark.source.data_source import register
from kohort.spark.tables import Table

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return lake_table("delta", tmp_path)


def read_on(
    spark: SparkSession, topic: Topic, checkpoint: Path, function: Callable[[DataFrame, int], None], most: int = 1000
) -> None:
    """Run a query until everything that is there has been read."""
    register(spark)
    rows = (
        spark.readStream.format("kohort")
        .option("kafka.bootstrap.servers", topic.bootstrap_servers)
        .option("subscribe", topic.name)
        .option("group.id", topic.group_id)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", most)
        .load()
    )
    writer = rows.writeStream.foreachBatch(function).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def only_values(frame: DataFrame) -> DataFrame:
    return frame.select("partition", "offset", "value")


def values_in(table: Table) -> Counter[bytes]:
    return Counter(bytes(row["value"]) for row in rows_in(table))


def test_a_query_stores_each_row_once_also_when_its_batch_comes_again(
    spark: SparkSession, topic: Topic, table: Table, tmp_path: Path
) -> None:
    """It is killed between the table's step and its checkpoint: the same batch comes again, and is there already."""
    values = topic.fill(100)
    store = exactly_once(table, only_values, group=topic.group_id)
    batches: list[int] = []

    def killed(frame: DataFrame, batch_id: int) -> None:
        store(frame, batch_id)
        batches.append(batch_id)
        if len(batches) == 2:
            raise ZeroDivisionError

    with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
        read_on(spark, topic, tmp_path / "checkpoint", killed, most=40)
    read_on(spark, topic, tmp_path / "checkpoint", killed, most=40)
    assert batches[:3] == [0, 1, 1]
    assert values_in(table) == Counter(values)


def test_a_query_and_a_stream_of_the_group_store_into_one_table(
    spark: SparkSession, topic: Topic, table: Table, tmp_path: Path
) -> None:
    from kohort.spark import GroupStream

    values = topic.fill(60)
    read_on(spark, topic, tmp_path / "checkpoint", exactly_once(table, only_values, group=topic.group_id))
    values += topic.fill(60)
    stream = GroupStream(
        spark,
        topic.name,
        bootstrap_servers=topic.bootstrap_servers,
        group_id=topic.group_id,
        auto_offset_reset="earliest",
    )
    with stream:
        stream.run(exactly_once(table, only_values), until=lambda each: each.is_caught_up, timeout_s=60)
    values += topic.fill(60)
    # Its checkpoint is of before: where the group has gone on since, the group counts.
    store = exactly_once(table, only_values, group=topic.group_id)
    read_on(spark, topic, tmp_path / "another checkpoint", store)
    assert values_in(table) == Counter(values)
