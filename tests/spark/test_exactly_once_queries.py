"""`exactly_once(table)` in `foreachBatch` of streaming queries that are members of a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.cluster import Topic
from tests.spark.lake import lake_table, rows_in
from tests.spark.queries import Bills, rows_of, run, stop_after

from kohort.spark import exactly_once
from kohort.spark.tables import Table

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made: Table = lake_table("delta", tmp_path)
    return made


def read_on(
    spark: SparkSession, topic: Topic, checkpoint: Path, function: Callable[[DataFrame, int], None], most: int = 1000
) -> None:
    run(rows_of(spark, topic, most), checkpoint, function)


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


def test_rows_that_a_join_emits_late_are_stored_although_their_offsets_are_lower(
    spark: SparkSession, topic: Topic, table: Table, tmp_path: Path
) -> None:
    """Bills come before their payments; the payments' batches emit rows with the bills' offsets."""
    store = exactly_once(table, only_values, group=topic.group_id)
    with Topic(topic.bootstrap_servers, f"{topic.name}-paid", partitions=1) as paid:
        bills = Bills(spark, topic, paid)
        bills.run(tmp_path / "checkpoint", store)
    assert values_in(table) == Counter(bills.values)


def test_a_count_that_has_no_offsets_is_stored_once_for_each_batch(
    spark: SparkSession, topic: Topic, table: Table, tmp_path: Path
) -> None:
    store = exactly_once(table)
    for number in range(2):
        topic.fill(30)
        counts = rows_of(spark, topic).groupBy("partition").count()
        if number:
            with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
                run(counts, tmp_path / "checkpoint", stop_after(store, 1), mode="update")
        run(counts, tmp_path / "checkpoint", store, mode="update")
    found = Counter((row["partition"], row["count"]) for row in rows_in(table))
    assert found == Counter((partition, count) for partition in range(3) for count in (10, 20))


def test_a_query_that_lost_its_state_does_not_store_a_batch_that_it_has_stored_with_it(
    spark: SparkSession, topic: Topic, table: Table, tmp_path: Path
) -> None:
    """It is killed between the table's step and its checkpoint, and started again without `dropDuplicates`."""
    values = topic.fill(30)
    store = exactly_once(table, only_values)
    with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
        run(rows_of(spark, topic).dropDuplicates(["value"]), tmp_path / "checkpoint", stop_after(store, 0))
    values += topic.fill(30)
    read_on(spark, topic, tmp_path / "checkpoint", store)
    assert values_in(table) == Counter(values)


def test_a_query_that_keeps_state_now_stores_no_rows_that_it_has_stored_without_it(
    spark: SparkSession, topic: Topic, table: Table, tmp_path: Path
) -> None:
    """Of a query that has finished a batch without state, Spark itself refuses one with it."""
    values = topic.fill(30)
    store = exactly_once(table, only_values)
    with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
        read_on(spark, topic, tmp_path / "checkpoint", stop_after(store, 0))
    values += topic.fill(30)
    distinct = rows_of(spark, topic).dropDuplicates(["value"])
    with pytest.raises(StreamingQueryException, match=r"rows would be stored twice. .* continues as it was"):
        run(distinct, tmp_path / "checkpoint", store)
    read_on(spark, topic, tmp_path / "checkpoint", store)
    assert values_in(table) == Counter(values)


def test_a_second_query_under_one_name_ends_in_a_sentence(
    spark: SparkSession, topic: Topic, table: Table, tmp_path: Path
) -> None:
    topic.fill(100)
    halves: list[DataFrame] = []
    for number in range(2):
        options: dict[str, Any] = {"group.id": f"{topic.group_id}-{number}"}
        frame = rows_of(spark, topic, **options)
        halves.append(frame.where(f"offset % 2 = {number}"))
    run(halves[0], tmp_path / "0", exactly_once(table, only_values, group="both"))
    with pytest.raises(
        StreamingQueryException, match="two queries store under one name, or the checkpoint was deleted"
    ):
        run(halves[1], tmp_path / "1", exactly_once(table, only_values, group="both"))
    run(halves[1], tmp_path / "1", exactly_once(table, only_values))
    assert values_in(table).total() == 100


def test_two_calls_for_one_batch_and_name_end_in_a_sentence(
    spark: SparkSession, topic: Topic, table: Table, tmp_path: Path
) -> None:
    topic.fill(30)
    store = exactly_once(table, only_values)

    def halves(frame: DataFrame, batch_id: int) -> None:
        for number in range(2):
            store(frame.where(f"offset % 2 = {number}"), batch_id)

    with pytest.raises(StreamingQueryException, match="by another call: union the rows of one batch"):
        read_on(spark, topic, tmp_path / "checkpoint", halves)


def test_a_topic_that_was_created_again_is_not_taken_for_stored(
    spark: SparkSession, topic: Topic, table: Table, tmp_path: Path
) -> None:
    topic.fill(50)
    store = exactly_once(table, only_values)
    read_on(spark, topic, tmp_path / "checkpoint", store)
    topic.create_again()
    topic.fill(80)
    with pytest.raises(StreamingQueryException, match="it was created again, or this is another cluster"):
        run(rows_of(spark, topic, failOnDataLoss="false"), tmp_path / "checkpoint", store)
    assert values_in(table).total() == 50


def test_rows_that_a_call_outside_of_the_query_has_stored_are_not_stored_again(
    spark: SparkSession, topic: Topic, table: Table, tmp_path: Path
) -> None:
    """Such a call takes offsets from the rows, whatever the name of the offsets is."""
    values = topic.fill(30)
    read_on(spark, topic, tmp_path / "checkpoint", lambda _frame, _: None)
    values += topic.fill(30)
    batch = spark.read.format("kohort").option("kafka.bootstrap.servers", topic.bootstrap_servers)
    rows = batch.option("subscribe", topic.name).load()
    exactly_once(table, only_values, group="name")(rows, 0)
    values += topic.fill(30)
    read_on(spark, topic, tmp_path / "checkpoint", exactly_once(table, only_values, group="name"))
    assert values_in(table) == Counter(values)


def test_two_tables_of_one_query_have_each_row_once_though_it_is_killed_between_them(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.fill(90)
    bronze, silver = lake_table("delta", tmp_path, "bronze"), lake_table("delta", tmp_path, "silver")
    adds = exactly_once(bronze, only_values)
    merges = exactly_once(
        silver,
        lambda frame: frame.selectExpr("cast(value AS string) AS id", "topic", "partition", "offset"),
        merge_on="id",
    )
    batches: list[int] = []

    def store(frame: DataFrame, batch_id: int) -> None:
        adds(frame, batch_id)
        batches.append(batch_id)
        if len(batches) == 2:
            raise ZeroDivisionError
        merges(frame, batch_id)

    with pytest.raises(StreamingQueryException):
        read_on(spark, topic, tmp_path / "checkpoint", store, most=30)
    assert len(rows_in(bronze)) > len(rows_in(silver)), "a reader sees one ahead of the other by a batch"
    read_on(spark, topic, tmp_path / "checkpoint", store, most=30)
    assert len(rows_in(bronze)) == len(rows_in(silver)) == 90
    assert batches.count(1) == 2
