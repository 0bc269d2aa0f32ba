"""Which member answers interactive queries about which partitions (KIP-1071)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kohort.group.coordinator_settings import TopicImage
from kohort.group.streams.group import StreamsGroup
from kohort.group.streams.heartbeat import EndpointPartitions, TopicPartitions
from kohort.group.streams.topology import ConfiguredTopology
from kohort.model.streams_tasks import AssignedTasks, Task


def endpoints_of(
    group: StreamsGroup, image: TopicImage, assigned: Mapping[str, AssignedTasks]
) -> tuple[EndpointPartitions, ...]:
    """Return what each member with an endpoint has, by member id; `assigned` goes before what the group knows.

    Walks all members.
    """
    if group.configured is None:
        return ()
    found = []
    for member_id, member in sorted(group.members.items()):
        if member.endpoint is not None:
            tasks = assigned.get(member_id, member.assigned)
            active = _partitions(group.configured, image, tasks.active)
            standby = _partitions(group.configured, image, tasks.standby)
            found.append(EndpointPartitions(member.endpoint, active, standby))
    return tuple(found)


def _partitions(configured: ConfiguredTopology, image: TopicImage, tasks: Collection[Task]) -> TopicPartitions:
    """Return the partitions that tasks read; a topic may have fewer than its subtopology has tasks."""
    found: dict[str, list[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        each = configured.subtopologies.get(subtopology_id)
        for name in () if each is None else each.subtopology.inputs:
            topic = image.topic(name)
            if topic is not None and partition < topic.partitions:
                found.setdefault(name, []).append(partition)
    return tuple((name, tuple(found[name])) for name in sorted(found))
