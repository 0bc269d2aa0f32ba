"""`TransactionalTopic` in `foreachBatch`: late rows, repeated batches, other queries and other topics of one name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.integration.transaction_scenarios import committed
from tests.spark.cluster import Topic
from tests.spark.queries import rows_of, run, stop_after

from kohort.spark import TransactionalTopic

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def target(topic: Topic) -> Iterator[Topic]:
    """A topic of two partitions that is written to."""
    with Topic(topic.bootstrap_servers, f"{topic.name}-out", partitions=2) as made:
        yield made


def to(target: Topic, rows: Callable[[DataFrame], DataFrame] | None = None, **settings: Any) -> TransactionalTopic:
    settings = {"transactional_id": target.name, "group": target.group_id} | settings
    return TransactionalTopic(target.name, rows, bootstrap_servers=target.bootstrap_servers, **settings)


def written(target: Topic) -> Counter[bytes]:
    """The values that a consumer with read_committed reads."""
    return target.run(committed(target.bootstrap_servers, target.name))


def ends_with(sentence: str) -> Any:
    return pytest.raises(StreamingQueryException, match=sentence)


def test_a_batch_that_was_written_before_its_checkpoint_is_not_written_again(
    spark: SparkSession, topic: Topic, target: Topic, tmp_path: Path
) -> None:
    values = topic.fill(100)
    with to(target) as writer, ends_with("ZeroDivisionError"):
        run(rows_of(spark, topic, 40), tmp_path, stop_after(writer, 1))
    assert written(target).total() == 80
    with to(target) as writer:
        run(rows_of(spark, topic, 40), tmp_path, writer)
    assert written(target) == Counter(values)


def test_a_count_that_has_no_offsets_is_written_once_for_each_batch(
    spark: SparkSession, topic: Topic, target: Topic, tmp_path: Path
) -> None:
    def as_text(counts: DataFrame) -> DataFrame:
        return counts.selectExpr("concat(partition, ': ', count) AS value")

    with to(target, as_text, rows_on_driver=0) as writer:
        for number in range(2):
            topic.fill(30)
            counts = rows_of(spark, topic).groupBy("partition").count()
            if number:
                with ends_with("ZeroDivisionError"):
                    run(counts, tmp_path, stop_after(writer, 1), mode="update")
            run(counts, tmp_path, writer, mode="update")
    assert written(target) == Counter(b"%d: %d" % (partition, count) for partition in range(3) for count in (10, 20))


@pytest.mark.parametrize("has_state", [True, False])
def test_a_query_that_is_changed_after_a_kill_writes_no_batch_a_second_time(
    spark: SparkSession, topic: Topic, target: Topic, tmp_path: Path, has_state: bool
) -> None:
    """It is killed between the commit and its checkpoint, with or without state, and is started the other way."""
    values = topic.fill(30)
    shapes = [rows_of(spark, topic), rows_of(spark, topic).dropDuplicates(["value"])]
    before, after = reversed(shapes) if has_state else shapes
    with to(target) as writer:
        with ends_with("ZeroDivisionError"):
            run(before, tmp_path, stop_after(writer, 0))
        values += topic.fill(30)
        if has_state:
            run(after, tmp_path, writer)
        else:
            with ends_with(r"rows would be stored twice. .* continues as it was"):
                run(after, tmp_path, writer)
            run(before, tmp_path, writer)
    assert written(target) == Counter(values)


def test_a_second_query_under_one_name_ends_in_a_sentence(
    spark: SparkSession, topic: Topic, target: Topic, tmp_path: Path
) -> None:
    topic.fill(60)
    evens, odds = (
        rows_of(spark, topic, **{"group.id": f"{topic.group_id}-{number}"}).where(f"offset % 2 = {number}")
        for number in range(2)
    )
    with to(target) as writer:
        run(evens, tmp_path / "0", writer)
        with ends_with("two queries write under one name, the checkpoint was deleted, or the topic was created again"):
            run(odds, tmp_path / "1", writer)
    with to(target, group="another") as writer:
        run(odds, tmp_path / "1", writer)
    assert written(target).total() == 60


def test_a_second_query_with_state_under_one_name_ends_in_a_sentence(
    spark: SparkSession, topic: Topic, target: Topic, tmp_path: Path
) -> None:
    topic.fill(30)
    distinct = (
        rows_of(spark, topic, **{"group.id": f"{topic.group_id}-{number}"}).dropDuplicates(["value"])
        for number in range(2)
    )
    with to(target) as writer:
        run(next(distinct), tmp_path / "0", writer)
        with ends_with("two queries write under one name, the checkpoint was deleted, or the topic was created again"):
            run(next(distinct), tmp_path / "1", writer)
    assert written(target).total() == 30


def test_two_calls_for_one_batch_end_in_a_sentence(
    spark: SparkSession, topic: Topic, target: Topic, tmp_path: Path
) -> None:
    topic.fill(30)
    with to(target) as writer:

        def halves(frame: DataFrame, batch_id: int) -> None:
            for number in range(2):
                writer(frame.where(f"offset % 2 = {number}"), batch_id)

        with ends_with("by another call: union the rows of one batch"):
            run(rows_of(spark, topic), tmp_path, halves)


def test_a_topic_that_is_created_again_while_its_rows_are_written_is_not_taken_for_written(
    spark: SparkSession, topic: Topic, target: Topic, tmp_path: Path
) -> None:
    """The offsets of the old topic are committed under the name of the new one."""
    values = topic.fill(60)

    def created_again(frame: DataFrame, batch_id: int) -> None:
        frame.persist().count()
        topic.create_again()
        topic.fill(90)
        writer(frame, batch_id)
        raise ZeroDivisionError

    with to(target) as writer:
        with ends_with("ZeroDivisionError"):
            run(rows_of(spark, topic), tmp_path / "old", created_again)
        assert written(target) == Counter(values)
        with ends_with("two queries write under one name, the checkpoint was deleted, or the topic was created again"):
            run(rows_of(spark, topic), tmp_path / "new", writer)
    assert written(target) == Counter(values)


def test_the_group_of_the_source_is_refused_as_the_name_of_what_is_written(
    spark: SparkSession, topic: Topic, target: Topic, tmp_path: Path
) -> None:
    topic.fill(3)
    with to(target, group=topic.group_id) as writer, ends_with("is the group.id of the query's source"):
        run(rows_of(spark, topic), tmp_path, writer)
    assert written(target) == Counter()


def test_offsets_of_a_version_that_wrote_no_batches_are_not_written_again(
    spark: SparkSession, topic: Topic, target: Topic, tmp_path: Path
) -> None:
    """Of a query over two groups it committed offsets of the rows, as a program's call does."""
    values = topic.fill(60)

    def both(most: int = 1000) -> DataFrame:
        halves = [rows_of(spark, topic, most, **{"group.id": f"{topic.group_id}-{number}"}) for number in range(2)]
        return halves[0].where("offset % 2 = 0").union(halves[1].where("offset % 2 = 1"))

    run(both(), tmp_path, lambda _frame, _: None)
    with to(target) as writer:
        batch = spark.read.format("kohort").option("kafka.bootstrap.servers", topic.bootstrap_servers)
        writer(batch.option("subscribe", topic.name).load(), 0)
        values += topic.fill(30)
        run(both(), tmp_path, writer)
    assert written(target) == Counter(values)
