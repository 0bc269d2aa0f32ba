"""`TransactionalTopic`: each row once in a topic, with jobs fenced, members late, and batches that Spark repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from tests.integration.transaction_scenarios import committed
from tests.spark.cluster import Topic

from kohort.client import ProducerFenced
from kohort.client.errors import UnknownTopic
from kohort.spark import GroupStream, TransactionalTopic, register

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def target(topic: Topic) -> Iterator[Topic]:
    """A topic of four partitions that is written to."""
    with Topic(topic.bootstrap_servers, f"{topic.name}-out", partitions=4) as made:
        yield made


def to(target: Topic, rows=None, **settings) -> TransactionalTopic:
    settings = {"transactional_id": target.name} | settings
    return TransactionalTopic(target.name, rows, bootstrap_servers=target.bootstrap_servers, **settings)


def stream_of(spark, topic: Topic, **settings) -> GroupStream:
    settings = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 100} | settings
    return GroupStream(
        spark, topic.name, bootstrap_servers=topic.bootstrap_servers, group_id=topic.group_id, **settings
    )


def is_caught_up(stream: GroupStream) -> bool:
    return stream.is_caught_up


def run(spark, topic: Topic, writer: TransactionalTopic, **settings):
    with stream_of(spark, topic, **settings) as stream:
        return stream.run(writer, until=is_caught_up, timeout_s=60)


def written(target: Topic) -> Counter[bytes]:
    """The values that a consumer with read_committed reads."""
    return target.run(committed(target.bootstrap_servers, target.name))


@pytest.mark.parametrize("rows_on_driver", [0, 1000])
def test_rounds_are_in_the_topic_once_and_the_group_has_their_offsets(spark, topic, target, rows_on_driver):
    values = topic.fill(100)
    with to(target, rows_on_driver=rows_on_driver) as writer:
        metrics = run(spark, topic, writer, max_rows_per_round=40)
        values += topic.fill(20)
        run(spark, topic, writer)
    assert written(target) == Counter(values)
    assert metrics.rounds >= 3
    assert topic.committed() == {0: 41, 1: 40, 2: 39}


def test_an_error_in_a_round_leaves_nothing_of_it(spark, topic, target):
    topic.fill(30)

    def half(frame):
        return frame.selectExpr("if(offset < 5, value, raise_error('broken')) AS value")

    with to(target, half) as writer, pytest.raises(Exception, match="broken"):
        run(spark, topic, writer)
    assert written(target) == Counter()
    assert topic.committed() == {}
    with to(target) as writer:
        assert run(spark, topic, writer).offsets == 30
    assert written(target).total() == 30


def test_the_later_of_two_jobs_with_one_id_fences_the_other(spark, topic, target):
    values = topic.fill(30)
    later = to(target)

    def fenced(frame):
        later.start()
        return frame

    with to(target, lambda frame: fenced(frame).select("value")) as first, pytest.raises(ProducerFenced, match="stop"):
        run(spark, topic, first)
    assert written(target) == Counter()
    with later:
        run(spark, topic, later)
    assert written(target) == Counter(values)


def test_a_round_of_a_member_that_lost_its_partitions_is_aborted(spark, topic, target):
    values = topic.fill(30)
    outcomes: list[bool] = []

    def removed(frame):
        if not outcomes:
            topic.remove_member(stream.member_id)
        return frame.select("key", "value")

    stream = stream_of(spark, topic, finished=lambda _, is_done: outcomes.append(is_done))
    with stream, to(target, removed) as writer:
        metrics = stream.run(writer, until=is_caught_up, timeout_s=60)
    assert outcomes[0] is False
    assert outcomes[-1] is True
    assert metrics.lost_offsets == metrics.offsets == 30
    assert written(target) == Counter(values)


def test_a_batch_that_spark_repeats_writes_only_what_was_not_written(spark, topic, target):
    rows = [
        (topic.name, partition, offset, b"%d/%d" % (partition, offset))
        for partition in range(2)
        for offset in range(10)
    ]
    frame = spark.createDataFrame(rows, "topic string, partition int, offset bigint, value binary")
    with to(target, group=target.group_id) as writer:
        writer(frame.filter("offset < 4"), 0)
        writer(frame.filter("offset < 4"), 0)
    with to(target, group=target.group_id) as again:
        again(frame.filter("offset < 7"), 0)
        again(frame, 1)
    assert written(target) == Counter(value for *_, value in rows)


def test_a_streaming_query_writes_through_foreach_batch(spark, topic, target):
    register(spark)
    values = topic.fill(30)
    frames = (
        spark.readStream.format("kohort")
        .option("kafka.bootstrap.servers", topic.bootstrap_servers)
        .option("subscribe", topic.name)
        .option("group.id", topic.group_id)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 20)
        .load()
    )
    with to(target, group=target.group_id) as writer:
        query = frames.writeStream.foreachBatch(writer).trigger(availableNow=True).start()
        query.awaitTermination()
    assert written(target) == Counter(values)


def test_rows_go_to_the_partition_of_their_key_or_their_own(spark, topic, target):
    rows = spark.createDataFrame(
        [(topic.name, 0, offset, f"k{offset % 3}".encode(), b"%d" % offset) for offset in range(12)],
        "topic string, partition int, offset bigint, key binary, value binary",
    )
    with to(target, lambda frame: frame.selectExpr("key", "value"), group="a") as writer:
        writer(rows, 0)
    with to(target, lambda frame: frame.selectExpr("value", "3 AS partition"), group="b") as writer:
        writer(rows, 0)
    with (
        to(target, lambda frame: frame.selectExpr("value", "7 AS partition"), group="c") as writer,
        pytest.raises(Exception, match="the topic has partitions 0 to 3"),
    ):
        writer(rows, 0)
    assert written(target) == Counter({b"%d" % offset: 2 for offset in range(12)})


def test_what_cannot_be_meant_is_refused_in_a_sentence(spark, topic, target):
    rows = spark.createDataFrame([(topic.name, 0, 0, b"x")], "topic string, partition int, offset bigint, value binary")
    with pytest.raises(TypeError, match="has no setting 'compresion_type': of a producer's it takes batch_size"):
        to(target, compresion_type="lz4")
    with pytest.raises(ValueError, match='give it group="…"'):
        to(target)(rows, 0)
    with pytest.raises(ValueError, match="needs the columns topic, partition, offset, and offset is missing"):
        to(target, group="g")(rows.drop("offset"), 0)
    with pytest.raises(ValueError, match="the rows have a column topic"):
        to(target, lambda frame: frame, group="g")(rows, 0)
    with to(target, group="g") as writer, pytest.raises(UnknownTopic, match="elsewhere"):
        writer(rows.selectExpr("'elsewhere' AS topic", "partition", "offset", "value"), 0)
    with pytest.raises(UnknownTopic, match="nowhere"):
        TransactionalTopic("nowhere", bootstrap_servers=target.bootstrap_servers, transactional_id="x").start()
