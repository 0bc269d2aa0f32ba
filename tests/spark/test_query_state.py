"""Real queries with state: what the listener finds in their plans, and what a second job of the group gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout
from tests.spark.cluster import Topic

from kohort.broker.embedded import EmbeddedBroker
from kohort.spark import exactly_once
from kohort.spark.membership.stream_offset import CommitMark
from kohort.spark.tables import DeltaLakeTable
from kohort.sync import Admin
from kohort.wire.record_batches import Record

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]

Shape = Callable[[DataFrame], DataFrame]


def windows(rows: DataFrame) -> DataFrame:
    late = rows.withWatermark("timestamp", "1 minute")
    return late.groupBy(F.window("timestamp", "1 minute"), "key").count()


def joined(rows: DataFrame) -> DataFrame:
    other = (
        rows.sparkSession.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 9)
        .load()
        .withWatermark("timestamp", "1 minute")
        .alias("r")
    )
    return rows.withWatermark("timestamp", "1 minute").alias("k").join(other, F.expr("k.timestamp = r.timestamp"))


def totals(key: tuple[bytes], frames: Iterator[pd.DataFrame], state: object) -> Iterator[pd.DataFrame]:
    del key, state
    yield pd.DataFrame({"n": [sum(map(len, frames))]})


SHAPES: dict[str, tuple[Shape, str, str]] = {
    "windows": (windows, "update", "Aggregate"),
    "sessions": (
        lambda rows: (
            rows.withWatermark("timestamp", "1 minute")
            .groupBy(F.session_window("timestamp", "1 minute"), "key")
            .count()
        ),
        "append",
        "Aggregate",
    ),
    "duplicates": (lambda rows: rows.dropDuplicates(["key"]), "append", "Deduplicate"),
    "distinct": (lambda rows: rows.select("key").distinct(), "append", "Deduplicate"),
    "limit": (lambda rows: rows.limit(1000), "append", "GlobalLimit"),
    "join": (joined, "append", "Join"),
    "state function": (
        lambda rows: rows.groupBy("key").applyInPandasWithState(
            totals, "n long", "n long", "append", GroupStateTimeout.NoTimeout
        ),
        "append",
        "FlatMapGroupsInPandasWithState",
    ),
}


def load(spark: SparkSession, topic: Topic, **options: str) -> DataFrame:
    given = {
        "kafka.bootstrap.servers": topic.bootstrap_servers,
        "subscribe": topic.name,
        "group.id": topic.group_id,
        "startingOffsets": "earliest",
        "kafka.heartbeat.interval.ms": "100",
    }
    return spark.readStream.format("kohort").options(**(given | options)).load()


def run(spark: SparkSession, topic: Topic, folder: Path, shape: Shape, mode: str, **options: str) -> StreamingQuery:
    writer = shape(load(spark, topic, **options)).writeStream.format("noop").outputMode(mode)
    query = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


@pytest.mark.parametrize("name", SHAPES)
def test_a_query_with_state_does_not_join_beside_another_member(
    spark: SparkSession, topic: Topic, tmp_path: Path, name: str
) -> None:
    shape, mode, operator = SHAPES[name]
    topic.fill(30)
    topic.commit({0: 10, 1: 10, 2: 10})
    topic.join()
    with pytest.raises(StreamingQueryException, match=rf"is stateful \({operator}\), and the group"):
        run(spark, topic, tmp_path, shape, mode)


def test_another_checkpoint_does_not_continue_a_query_with_state(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    shape, mode, _ = SHAPES["windows"]
    topic.fill(30)
    run(spark, topic, tmp_path / "a", shape, mode)
    topic.fill(30)
    with pytest.raises(StreamingQueryException, match="belongs to the state in the checkpoint"):
        run(spark, topic, tmp_path / "b", shape, mode, onNewCheckpoint="group")
    assert topic.committed() == {0: 10, 1: 10, 2: 10}
    run(spark, topic, tmp_path / "a", shape, mode)
    assert topic.committed() == {0: 20, 1: 20, 2: 20}


@pytest.mark.parametrize("name", ["plain", "static join"])
def test_queries_without_state_continue_each_others_work(
    spark: SparkSession, topic: Topic, tmp_path: Path, name: str
) -> None:
    numbers = spark.range(3)
    shape: Shape = {
        "plain": lambda rows: rows.selectExpr("upper(cast(value AS string)) AS v"),
        "static join": lambda rows: rows.join(numbers, F.expr("id = partition")),
    }[name]
    topic.fill(30)
    run(spark, topic, tmp_path / "a", shape, "append")
    topic.fill(30)
    run(spark, topic, tmp_path / "b", shape, "append", onNewCheckpoint="group")
    assert topic.committed() == {0: 20, 1: 20, 2: 20}


def test_a_query_beside_one_with_state_of_the_same_frame_is_not_taken_for_that(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.fill(30)
    rows = load(spark, topic)
    plain = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "a")).start()
    counts = rows.groupBy("key").count().writeStream.format("noop").outputMode("update")
    with pytest.raises(StreamingQueryException, match=r"is stateful \(Aggregate\), and the group"):
        counts.option("checkpointLocation", str(tmp_path / "b")).start().awaitTermination()
    plain.processAllAvailable()
    plain.stop()
    with Admin(topic.bootstrap_servers) as admin:
        marks = [CommitMark.parse(each.metadata) for each in admin.group_offsets(topic.group_id).values()]
    assert {mark.state for mark in marks if mark is not None} == {""}
    assert len(marks) == 3


def test_exactly_once_stores_no_batch_of_a_query_with_state_that_no_listener_has_seen(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.fill(30)
    rows = load(spark.newSession(), topic)
    store = exactly_once(DeltaLakeTable(str(tmp_path / "table")))
    query = rows.groupBy("key").count().writeStream.outputMode("update").foreachBatch(store)
    with pytest.raises(StreamingQueryException, match=r"without a listener that reports it.*kohort.spark.register"):
        query.option("checkpointLocation", str(tmp_path / "a")).start().awaitTermination()
    assert not (tmp_path / "table").exists()
    assert set(topic.committed().values()) <= {0}


def test_a_join_of_two_topics_has_two_members_that_are_bound_to_its_part(
    spark: SparkSession, broker: EmbeddedBroker, topic: Topic, tmp_path: Path
) -> None:
    with Topic(broker.bootstrap_servers, f"{topic.name}-2", partitions=3) as other:
        other.group_id = topic.group_id
        values = topic.fill(30)
        for number in range(3):
            other.produce(number, [Record(0, 1_700_000_000_000, b"key", value) for value in values[number::3]])

        def pairs(rows: DataFrame) -> DataFrame:
            right = load(spark, other, boundPartitions="1/2").selectExpr("value AS same", "timestamp AS at")
            on = F.expr("value = same AND timestamp = at")
            return rows.withWatermark("timestamp", "1 minute").join(right.withWatermark("at", "1 minute"), on)

        query = run(spark, topic, tmp_path, pairs, "append", boundPartitions="1/2")
        assert sum(each["numInputRows"] for each in query.recentProgress) == 40
        assert topic.committed() == other.committed() == {0: 10, 2: 10}
