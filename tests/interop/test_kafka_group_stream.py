"""`GroupStream` in groups of a real Apache Kafka, and of ours: its rows, its commits, its neighbours."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from interop.brokers import Broker
from interop.group import Group, keyed, merged
from interop.producers import CODECS, Written, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kohort.spark import GroupStream

pytestmark = [pytest.mark.timeout(180), pytest.mark.spark]
Rows = Counter[tuple[int, int, str, str]]


def expected(written: Written) -> Rows:
    return Counter((*place, *pair) for place, pair in written.items())


def collect(rows: Rows) -> Any:
    """Return a round function that counts every row it is handed."""

    def count(frame: Any, _: object) -> None:
        for row in frame.select("partition", "offset", "key", "value").collect():
            rows[row.partition, row.offset, bytes(row.key).decode(), bytes(row.value).decode()] += 1

    return count


def stream_of(spark: SparkSession, group: Group, **settings: Any) -> GroupStream:
    from kohort.spark import GroupStream

    return GroupStream(
        spark,
        group.topic,
        bootstrap_servers=group.bootstrap,
        group_id=group.name,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=500,
        session_timeout_ms=6000,
        **settings,
    )


def is_caught_up(stream: GroupStream) -> bool:
    return stream.is_caught_up


@pytest.mark.parametrize("rows_on_driver", [100_000, 0], ids=["driver", "executors"])
@pytest.mark.capability("kohort.spark.GroupStream", "every row once, and the next stream goes on")
def test_stream_reads_every_row_once_and_the_next_goes_on(
    rows_on_driver: int, spark: SparkSession, broker: Broker, group: Group
) -> None:
    written = merged(produce("librdkafka", broker.bootstrap, group.topic, keyed(200, 11), codec=c) for c in CODECS)
    rows: Rows = Counter()
    with stream_of(spark, group, max_rows_per_round=300, rows_on_driver=rows_on_driver) as stream:
        metrics = stream.run(collect(rows), until=is_caught_up, timeout_s=60)
    assert rows == expected(written)
    assert metrics.offsets == 1000
    written = merged([written, produce("kafka_python", broker.bootstrap, group.topic, keyed(100, 11, 1000))])
    with stream_of(spark, group, rows_on_driver=rows_on_driver) as stream:
        stream.run(collect(rows), until=is_caught_up, timeout_s=60)
    assert rows == expected(written)


@pytest.mark.capability("kohort.spark.GroupStream", "commits that every tool sees")
def test_commits_of_a_stream_are_seen_by_others(spark: SparkSession, broker: Broker, group: Group) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions
    from confluent_kafka.admin import AdminClient

    written = produce("librdkafka", broker.bootstrap, group.topic, keyed(300, 30))
    with stream_of(spark, group) as stream:
        stream.run(collect(Counter()), until=is_caught_up, timeout_s=60)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    asked = [ConsumerGroupTopicPartitions(group.name)]
    found = admin.list_consumer_group_offsets(asked)[group.name].result(10)
    ends = {partition: max(o for p, o in written if p == partition) + 1 for partition, _ in written}
    committed = {each.partition: each.offset for each in found.topic_partitions}
    assert {partition: offset for partition, offset in committed.items() if offset} == ends


@pytest.mark.capability("kohort.spark.GroupStream", "one group with a librdkafka consumer")
def test_stream_shares_its_group_with_another_library(spark: SparkSession, broker: Broker, group: Group) -> None:
    neighbour = group.start("librdkafka", assignor="range")
    group.settle()
    rows: Rows = Counter()

    def is_shared(stream: GroupStream) -> bool:
        neighbour.read()
        return len(stream.owned) == 3 and len(neighbour.owned) == 3

    with stream_of(spark, group) as stream:
        stream.run(collect(rows), until=is_shared, timeout_s=40)
        assert is_shared(stream)
        written = produce("librdkafka", broker.bootstrap, group.topic, keyed(600, 30))
        mine = {place: pair for place, pair in written.items() if place[0] not in neighbour.owned}
        stream.run(collect(rows), until=lambda _: rows.total() >= len(mine), timeout_s=40)
        theirs = {place: pair for place, pair in written.items() if place not in mine}
        group.drain(theirs)
    assert rows == expected(mine)
    # The stream has left: its neighbour goes on from its commits.
    group.settle()
    more = produce("librdkafka", broker.bootstrap, group.topic, keyed(120, 30, 600))
    group.drain(more)
    group.check({**theirs, **more})
