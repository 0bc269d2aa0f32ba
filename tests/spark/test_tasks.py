"""What a task of Spark reads: a batch of many small partitions is few tasks, because each costs more than some rows."""

from __future__ import annotations

import pickle

import pytest
from tests.spark.cluster import Topic

from kohort.spark.membership.stream_offset import StreamOffset
from kohort.spark.rows.rounds import OffsetRange
from kohort.spark.source.data_source import KohortSource

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def test_partitions_with_few_rows_share_a_task_that_reads_them_all(topic: Topic) -> None:
    topic.fill(90)
    options = {
        "kafka.bootstrap.servers": topic.bootstrap_servers,
        "subscribe": topic.name,
        "group.id": topic.group_id,
    }
    reader = KohortSource(options).streamReader(None)
    end = StreamOffset(topic.group_id, 0, 1, tuple(OffsetRange(each, 10, 30) for each in topic.partitions))
    (task,) = reader.partitions(StreamOffset(topic.group_id).to_json(), end.to_json())
    reader, task = pickle.loads(pickle.dumps((reader, task)))  # as they travel to an executor
    rows = [row for batch in reader.read(task) for row in batch.select(["partition", "offset"]).to_pylist()]
    assert [(row["partition"], row["offset"]) for row in rows] == [
        (each.partition, offset) for each in topic.partitions for offset in range(10, 30)
    ]


def test_few_rows_are_read_by_as_many_tasks_as_are_asked_for(topic: Topic) -> None:
    """A row may be much work."""
    options = {
        "kafka.bootstrap.servers": topic.bootstrap_servers,
        "subscribe": topic.name,
        "group.id": topic.group_id,
        "minPartitions": "5",
    }
    reader = KohortSource(options).streamReader(None)
    end = StreamOffset(topic.group_id, 0, 1, (OffsetRange(topic.partitions[0], 10, 30),))
    found = reader.partitions(StreamOffset(topic.group_id).to_json(), end.to_json())
    assert [(each.start, each.stop) for task in found for each in task.ranges] == [
        (10, 14), (14, 18), (18, 22), (22, 26), (26, 30)
    ]  # fmt: skip


def test_a_task_of_a_stream_spans_no_more_offsets_than_the_option_says(topic: Topic) -> None:
    options = {
        "kafka.bootstrap.servers": topic.bootstrap_servers,
        "subscribe": topic.name,
        "group.id": topic.group_id,
        "maxRecordsPerPartition": "8",
    }
    reader = KohortSource(options).streamReader(None)
    end = StreamOffset(topic.group_id, 0, 1, (OffsetRange(topic.partitions[0], 10, 30),))
    found = reader.partitions(StreamOffset(topic.group_id).to_json(), end.to_json())
    assert [[(each.start, each.stop) for each in task.ranges] for task in found] == [[(10, 16)], [(16, 23)], [(23, 30)]]
