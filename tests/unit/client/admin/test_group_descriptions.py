"""Descriptions of groups, from the responses of their types."""

from __future__ import annotations

from kohort.client.admin.group_descriptions import EPOCH_GROUPS
from kohort.client.cluster.metadata import PartitionView, TopicView
from kohort.model.ids import TopicPartition
from kohort.wire.messages import StreamsGroupDescribeResponse

Group = StreamsGroupDescribeResponse.Group
Assignment, TargetAssignment = Group.Member.Assignment, Group.Member.TargetAssignment
Subtopology = Group.Topology.Subtopology


def test_tasks_of_a_streams_group_are_the_partitions_that_they_read() -> None:
    """A repartition topic is read like a source; a topic that has fewer partitions than a task's number is not."""
    topology = Group.Topology(
        epoch=1,
        subtopologies=[
            Subtopology(
                subtopology_id="0",
                source_topics=["orders", "rates"],
                repartition_source_topics=[Subtopology.RepartitionTopic(name="by-key", partitions=2)],
            )
        ],
    )
    tasks = [Assignment.ActiveTask(subtopology_id="0", partitions=[0, 1])]
    target = [TargetAssignment.ActiveTask(subtopology_id="0", partitions=[1])]
    member = Group.Member(
        member_id="a",
        member_epoch=3,
        process_id="p",
        task_offsets=[Group.Member.TaskOffset(subtopology_id="1", partition=4, offset=7)],
        task_end_offsets=[Group.Member.TaskEndOffset(subtopology_id="1", partition=4, offset=10)],
        user_endpoint=Group.Member.Endpoint(host="h", port=80),
        assignment=Assignment(
            active_tasks=tasks, warmup_tasks=[Assignment.WarmupTask(subtopology_id="1", partitions=[4])]
        ),
        target_assignment=TargetAssignment(active_tasks=target),
    )
    group = Group(
        group_id="app",
        group_state="Reconciling",
        group_epoch=4,
        assignment_epoch=4,
        topology=topology,
        members=[member],
    )
    one = {0: PartitionView(0, 1, 0, (1,), (1,))}
    described = EPOCH_GROUPS["streams"].read(group, {"rates": TopicView("rates", partitions=one)})
    [found] = described.members
    read = {("orders", 0), ("orders", 1), ("rates", 0), ("by-key", 0), ("by-key", 1)}
    assert found.assignment == {TopicPartition(*each) for each in read}
    assert found.target == {TopicPartition("orders", 1), TopicPartition("by-key", 1)}
    assert (found.phase, found.topics) == ("Reconciling", ("by-key", "orders", "rates"))
    assert found.streams is not None
    sent, given = found.streams
    assert sent is not None
    assert given is not None
    assert (sent.process_id, sent.endpoint) == ("p", "h:80")
    assert (list(map(str, given.active)), list(map(str, given.standby))) == (["0_0", "0_1"], [])
    assert {str(task): lag for task, lag in found.task_lags.items()} == {"1_4": 3}
    assert list(map(str, found.warmups)) == ["1_4"]
    assert (described.group_type, described.epoch, described.is_rebalancing) == ("streams", 4, True)
