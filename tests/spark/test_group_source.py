"""`spark.readStream.format("kohort")` in real Spark: rows, offsets and membership of queries that are group members."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from tests.spark.cluster import Topic

from kohort.client import Admin
from kohort.spark import progress, read_lag
from kohort.spark.source.data_source import register

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


class Query:
    """A streaming query over a topic, in its group, with its checkpoint; it keeps the values that it has read."""

    def __init__(self, spark, topic: Topic, checkpoint: Path, **options: str) -> None:
        register(spark)
        given = {
            "kafka.bootstrap.servers": topic.bootstrap_servers,
            "subscribe": topic.name,
            "group.id": topic.group_id,
            "startingOffsets": "earliest",
            "protocol": "cooperative",
            "kafka.heartbeat.interval.ms": "100",
        }
        self.frame = spark.readStream.format("kohort").options(**(given | options)).load()
        self.checkpoint = str(checkpoint)
        self.batches: list[list[bytes]] = []
        self.fails = False

    def start(self, **trigger: object):
        written = self.frame.writeStream.foreachBatch(self._keep).option("checkpointLocation", self.checkpoint)
        return (written.trigger(**trigger) if trigger else written).start()

    def run(self):
        query = self.start(availableNow=True)
        query.awaitTermination()
        return query

    @property
    def values(self) -> Counter:
        return Counter(value for batch in self.batches for value in batch)

    def _keep(self, frame, _: int) -> None:
        found = [bytes(row.value) for row in frame.select("value").collect()]
        self.batches.append(found)
        if self.fails:
            raise RuntimeError("this batch fails")


def test_available_now_reads_all_and_ends_with_everything_committed_and_the_member_gone(spark, topic, tmp_path):
    values = topic.fill(30)
    first = Query(spark, topic, tmp_path, maxOffsetsPerTrigger="20")
    assert first.frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    ended = first.run()
    assert [len(batch) for batch in first.batches] == [20, 10]
    assert first.values == Counter(values)
    assert (topic.committed(), topic.members()) == ({0: 10, 1: 10, 2: 10}, 0)
    progress = ended.recentProgress[0]["sources"][0]
    latest = json.loads(progress["latestOffset"])
    assert latest["topics"] == {topic.name: {"0": 10, "1": 10, "2": 10}}
    assert (latest["group"], latest["generation"]) == (topic.group_id, 1)
    assert latest["maxOffsetsBehindLatest"] in (3, 4), "20 rows of 30 are in the first batch"
    more = topic.fill(5)
    second = Query(spark, topic, tmp_path)
    second.run()
    assert second.values == Counter(more)


def test_a_failed_batch_is_not_committed_its_member_leaves_and_its_replay_is_the_same_batch(spark, topic, tmp_path):
    values = topic.fill(30)
    failing = Query(spark, topic, tmp_path)
    failing.fails = True
    with pytest.raises(Exception, match="this batch fails"):
        failing.run()
    topic.wait_until_empty()
    assert topic.committed() == {0: 0, 1: 0, 2: 0}
    more = topic.fill(6)
    again = Query(spark, topic, tmp_path)
    ended = again.run()
    assert [sorted(batch) for batch in again.batches] == [sorted(values), sorted(more)]
    (reached,) = progress(ended)
    assert (reached.group, reached.partitions, reached.lag, reached.read_again) == (topic.group_id, 3, 0, 30)
    assert topic.committed() == {0: 12, 1: 12, 2: 12}


def test_two_queries_share_a_group_each_row_is_read_once_and_stop_leaves_it(spark, topic, tmp_path):
    values = topic.fill(3)
    first = Query(spark, topic, tmp_path / "first")
    running = [first.start(processingTime="100 milliseconds")]
    running[0].processAllAvailable()
    assert first.values == Counter(values)
    lags = read_lag(running[0])
    assert (len(lags), {lag.reason for lag in lags.values()}) == (3, {None})
    assert all(lag.records is not None and lag.records <= 1 and lag.seconds is not None for lag in lags.values())
    second = Query(spark, topic, tmp_path / "second")
    running.append(second.start(processingTime="100 milliseconds"))
    while not second.values:
        values += topic.fill(3)
        for query in running:
            query.processAllAvailable()
    for query in running:
        query.processAllAvailable()
    assert first.values + second.values == Counter(values)
    for query in running:
        query.stop()
        assert read_lag(query) == {}
    topic.wait_until_empty()
    assert sum(topic.committed().values()) <= len(values)


def test_a_query_that_loads_a_topic_twice_as_one_group_is_refused(spark, topic, tmp_path):
    """Each of its sources would be a member, and get a part of the rows."""
    topic.fill(6)
    query = Query(spark, topic, tmp_path)
    query.frame = query.frame.union(Query(spark, topic, tmp_path).frame)
    with pytest.raises(Exception, match=rf"loads {topic.name} more than once as the group '{topic.group_id}'"):
        query.run()
    topic.wait_until_empty()
    assert query.values == Counter()


def test_a_query_that_uses_one_frame_twice_has_one_source_and_each_row_twice(spark, topic, tmp_path):
    values = topic.fill(6)
    query = Query(spark, topic, tmp_path)
    query.frame = query.frame.union(query.frame)
    query.run()
    assert query.values == Counter(values + values)


def test_a_group_that_was_reset_ends_the_query_with_both_offsets_and_the_option(spark, topic, tmp_path):
    topic.fill(30)
    Query(spark, topic, tmp_path).run()

    async def reset() -> None:
        async with Admin(topic.bootstrap_servers) as admin:
            await admin.reset_offsets(topic.group_id, dict.fromkeys(topic.partitions, 2))

    topic.run(reset())
    with pytest.raises(
        Exception, match=r"is at offset 2, .*last batch of this checkpoint is 0 to 10.*onOffsetMismatch"
    ):
        Query(spark, topic, tmp_path).run()
    topic.wait_until_empty()
    obedient = Query(spark, topic, tmp_path, onOffsetMismatch="group")
    obedient.run()
    assert obedient.values.total() == 24


def test_a_wrong_option_is_refused_where_the_query_is_written(spark, topic, tmp_path):
    with pytest.raises(Exception, match=r"protocol='sticky': expected auto, eager, cooperative or consumer"):
        Query(spark, topic, tmp_path, protocol="sticky")
