"""`exactly_once(table)` with a Delta and an Iceberg table: each row once, with members killed, late, or in between."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow.compute as pc
import pytest
from tests.spark.cluster import Topic
from tests.spark.lake import KINDS, lake_table, offsets_of, rows_in, step

from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition
from kohort.spark import GroupStream, exactly_once, for_each_batch
from kohort.spark.tables import Table, TableBroken

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def stream_of(spark, topic: Topic, **settings) -> GroupStream:
    settings = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 100} | settings
    return GroupStream(
        spark, topic.name, bootstrap_servers=topic.bootstrap_servers, group_id=topic.group_id, **settings
    )


def is_caught_up(stream: GroupStream) -> bool:
    return stream.is_caught_up


def run(spark, topic: Topic, table: Table, **settings) -> None:
    with stream_of(spark, topic, **settings) as stream:
        stream.run(exactly_once(table, only_values), until=is_caught_up, timeout_s=60)


def only_values(frame):
    return frame.select("partition", "offset", "value")


def values_in(table: Table) -> Counter:
    return Counter(bytes(row["value"]) for row in rows_in(table))


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return lake_table(request.param, tmp_path)


def test_rows_and_offsets_are_in_the_table_and_the_group_follows(spark, topic, table):
    values = topic.fill(100)
    run(spark, topic, table, max_rows_per_round=40)
    assert values_in(table) == Counter(values)
    assert offsets_of(table, topic) == topic.committed() == {0: 34, 1: 33, 2: 33}


def test_small_rounds_that_are_stored_as_they_are_need_no_frame_of_spark(spark, topic, table, monkeypatch):
    values = topic.fill(100)
    with monkeypatch.context() as patched:
        patched.setattr(type(spark), "createDataFrame", None)
        with stream_of(spark, topic, max_rows_per_round=40) as stream:
            stream.run(exactly_once(table), until=is_caught_up, timeout_s=60)
    assert values_in(table) == Counter(values)
    more = topic.fill(100)
    with stream_of(spark, topic, rows_on_driver=10) as stream:  # by Spark's tasks, into the same columns
        stream.run(exactly_once(table), until=is_caught_up, timeout_s=60)
    assert values_in(table) == Counter(values + more)
    assert offsets_of(table, topic) == topic.committed()


@pytest.mark.parametrize("rows_on_driver", [10, 1000])
def test_a_function_of_arrow_makes_what_is_stored(spark, topic, table, rows_on_driver):
    values = topic.fill(100)

    def only_the_value(rows):
        return rows.select(["value"]).append_column("size", pc.binary_length(rows["value"]))

    with stream_of(spark, topic, rows_on_driver=rows_on_driver) as stream:
        stream.run(exactly_once(table, only_the_value), rows="arrow", until=is_caught_up, timeout_s=60)
    assert Counter((row["value"], row["size"]) for row in rows_in(table)) == Counter(
        (each, len(each)) for each in values
    )
    assert offsets_of(table, topic) == topic.committed() == {0: 34, 1: 33, 2: 33}


def test_a_table_gets_the_rows_that_were_there_before_it(spark, topic, table):
    values = topic.fill(100)
    run(spark, topic, table, auto_offset_reset=None)
    assert values_in(table) == Counter(values)


def test_rows_that_retention_deleted_unread_end_the_job_unless_a_loss_is_accepted(spark, topic, table, caplog):
    first = topic.fill(30)
    run(spark, topic, table)
    values = topic.fill(90)
    topic.delete_records(15)
    with pytest.raises(KafkaError, match=r"the log has 15 to 40, and fail_on_data_loss is true: rows are lost"):
        run(spark, topic, table)
    assert values_in(table) == Counter(first)
    run(spark, topic, table, fail_on_data_loss=False)
    assert values_in(table) == Counter(first) + Counter(values[number] for number in range(15, 90))
    assert "5 offsets are lost, 10 to 14: the log begins at 15" in caplog.text


def test_a_stream_goes_on_from_the_table_and_not_from_the_group(spark, topic, table):
    """As after a kill between the table's step and the group's commit: the group is behind, and follows."""
    first = topic.fill(30)
    run(spark, topic, table)
    topic.commit({0: 2, 1: 0, 2: 10})
    run(spark, topic, table)
    assert topic.committed() == {0: 10, 1: 10, 2: 10}
    more = topic.fill(30)
    run(spark, topic, table)
    assert values_in(table) == Counter(first + more)


def test_a_group_that_was_deleted_goes_on_from_the_table(spark, topic, table):
    values = topic.fill(30)
    run(spark, topic, table)
    topic.delete_group()
    values += topic.fill(30)
    run(spark, topic, table)
    assert values_in(table) == Counter(values)


def test_a_round_whose_rows_another_member_stored_is_lost_and_read_on_from_there(spark, topic, table):
    """The other one stores a part of what the round holds: the rest of it comes in the next round."""
    values = topic.fill(30)
    outcomes: list[bool] = []

    def rows(frame):
        if not outcomes:
            taken = frame.filter("partition = 0 and offset < 4").select("partition", "offset", "value")
            table.append(taken, topic.group_id, {TopicPartition(topic.name, 0): step(None, 4)})
        return only_values(frame)

    stream = stream_of(spark, topic, finished=lambda _, is_done: outcomes.append(is_done))
    with stream:
        metrics = stream.run(exactly_once(table, rows), until=is_caught_up, timeout_s=60)
    assert outcomes == [False, True]
    assert (metrics.lost_rounds, metrics.offsets) == (1, 26)
    assert values_in(table) == Counter(values)


def test_a_table_ahead_of_its_topic_ends_the_run_in_a_sentence(spark, topic, table):
    topic.fill(30)
    run(spark, topic, table)
    table.set_offsets(topic.group_id, {TopicPartition(topic.name, 1): 11})
    with pytest.raises(TableBroken, match=rf"has offset 11 of {topic.name}-1 for group .*, and the topic ends at 10"):
        run(spark, topic, table)


def test_rows_of_a_topic_that_was_created_again_end_the_run_although_it_is_longer(spark, topic, table):
    """Its first 50 rows are others: they are not taken for stored."""
    values = topic.fill(60)
    run(spark, topic, table)
    topic.create_again()
    topic.fill(90)
    with pytest.raises(TableBroken, match=rf"has offset 20 of {topic.name}-0 .*: it was created again.*set_offsets"):
        run(spark, topic, table)
    assert values_in(table) == Counter(values)
    table.set_offsets(topic.group_id, dict.fromkeys(topic.partitions, 0))
    run(spark, topic, table)
    assert values_in(table).total() == 150


def test_offsets_of_a_version_without_ids_are_read_on_from_and_get_their_topic(spark, topic, table):
    values = topic.fill(30)
    run(spark, topic, table)
    table.set_offsets(topic.group_id, dict.fromkeys(topic.partitions, 10))
    assert {each.topic_id for each in table.offsets(topic.group_id, topic.partitions).values()} == {None}
    values += topic.fill(30)
    run(spark, topic, table)
    assert values_in(table) == Counter(values)
    topic.create_again()
    topic.fill(90)
    with pytest.raises(TableBroken, match="it was created again"):
        run(spark, topic, table)


def test_a_round_that_the_table_took_is_done_although_the_group_refuses_its_commit(spark, topic, table):
    values = topic.fill(30)
    outcomes: list[bool] = []

    def removed(frame):
        if not outcomes:
            topic.remove_member(stream.member_id)
        return only_values(frame)

    stream = stream_of(spark, topic, finished=lambda _, is_done: outcomes.append(is_done))
    with stream:
        metrics = stream.run(exactly_once(table, removed), until=is_caught_up, timeout_s=60)
    assert outcomes == [True]
    assert (metrics.offsets, metrics.lost_offsets) == (30, 0)
    assert values_in(table) == Counter(values)
    assert topic.committed() == {0: 10, 1: 10, 2: 10}


def test_the_function_of_a_foreach_batch_stores_each_row_once_however_often_a_batch_comes(spark, topic, table):
    rows = [(topic.name, partition, offset, b"%d" % offset) for partition in range(2) for offset in range(10)]
    frame = spark.createDataFrame(rows, "topic string, partition int, offset bigint, value binary")
    store = exactly_once(table, only_values, group="g")
    store(frame.filter("offset < 4"), 0)
    store(frame.filter("offset < 7"), 1)
    store(frame.filter("offset < 7"), 1)
    store(frame, 0)
    assert sorted((row["partition"], row["offset"]) for row in rows_in(table)) == sorted(
        (partition, offset) for _, partition, offset, _ in rows
    )


def test_a_batch_that_is_cached_stays_cached(spark, table):
    frame = spark.range(3).selectExpr("'t' topic", "0 partition", "id offset")
    store = exactly_once(table, group="g")
    store(frame, 0)
    assert not frame.storageLevel.useMemory
    more = spark.range(3, 6).selectExpr("'t' topic", "0 partition", "id offset").persist()
    store(more, 1)
    assert more.storageLevel.useMemory
    more.unpersist()


def test_a_batch_is_cut_to_what_another_query_has_not_stored_meanwhile(spark, table):
    frame = spark.range(10).selectExpr("'t' topic", "0 partition", "id offset")
    asked: list[int] = []

    def late(rows):
        asked.append(rows.count())
        if len(asked) == 1:
            exactly_once(table, group="g")(frame.filter("offset < 6"), 0)
        return rows

    exactly_once(table, late, group="g")(frame, 0)
    assert asked == [10, 4]
    assert sorted(row["offset"] for row in rows_in(table)) == list(range(10))


def test_a_foreach_batch_without_a_group_or_without_offsets_is_refused_in_a_sentence(spark, table):
    frame = spark.range(1).selectExpr("'t' topic", "0 partition", "id offset")
    with pytest.raises(ValueError, match='give it group="…"'):
        exactly_once(table)(frame, 0)
    with pytest.raises(ValueError, match="offset is missing"):
        exactly_once(table, group="g")(frame.drop("offset"), 0)


def test_a_function_written_for_foreach_batch_gets_ids_that_never_come_again(spark, topic):
    topic.fill(60)
    seen: list[tuple[int, int]] = []
    for most in (20, 40):
        with stream_of(spark, topic, max_rows_per_round=most) as stream:
            function = for_each_batch(lambda frame, batch_id: seen.append((batch_id, frame.count())))
            stream.run(function, until=is_caught_up, timeout_s=60)
        topic.fill(30)
    ids = [batch_id for batch_id, _ in seen]
    assert [rows for _, rows in seen] == [20, 20, 20, 30]
    assert ids == sorted(set(ids))
