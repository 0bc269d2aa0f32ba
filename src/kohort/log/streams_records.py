"""Records of streams groups (KIP-1071): types 17 and 19 to 23, as Kafka writes them, each in value v0.

Active tasks are written with their assignment epochs (KIP-1251); where those are left out they are the member's own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

from kohort.group.commands import LEAVE_STATIC_EPOCH
from kohort.group.events import StoredEvent
from kohort.group.streams.events import (
    StreamsGroupDeleted,
    StreamsGroupStored,
    StreamsHardEvent,
    StreamsMemberAssignmentDeleted,
    StreamsMemberAssignmentStored,
    StreamsMemberDeleted,
    StreamsMemberState,
    StreamsMemberStored,
    StreamsMemberTargetDeleted,
    StreamsMemberTargetStored,
    StreamsTargetDeleted,
    StreamsTargetStored,
    StreamsTopologyDeleted,
    StreamsTopologyStored,
    UserEndpoint,
)
from kohort.group.streams.topology import CopartitionGroup, InternalTopic, StreamsTopology, Subtopology
from kohort.log.consumer_records import encoded, group_writer, part_writer, reader, tombstone
from kohort.log.group_records import LOADED
from kohort.model.streams_tasks import AssignedTasks, Task, TasksByRole, by_subtopology, tasks_of
from kohort.wire.messages import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyValue,
)

GROUP, MEMBER, TARGET, MEMBER_TARGET, MEMBER_ASSIGNMENT, TOPOLOGY = 17, 19, 20, 21, 22, 23
_group, _member = StreamsGroupMetadataValue, StreamsGroupMemberMetadataValue
_target, _assignment = StreamsGroupTargetAssignmentMemberValue, StreamsGroupCurrentMemberAssignmentValue
_subtopology = StreamsGroupTopologyValue.Subtopology

# -- writing


def group_value(event: StreamsGroupStored) -> bytes:
    """Return the value of type 17."""
    return encoded(
        _group(
            epoch=event.epoch,
            metadata_hash=event.metadata_hash,
            validated_topology_epoch=event.validated_epoch,
            last_assignment_configs=[_group.LastAssignmentConfig(key=k, value=v) for k, v in event.assignment_settings],
            stored_description_topology_epoch=event.stored_description_epoch,
            failed_description_topology_epoch=event.failed_description_epoch,
        )
    )


def member_value(event: StreamsMemberStored) -> bytes:
    """Return the value of type 19."""
    endpoint = event.endpoint
    return encoded(
        _member(
            instance_id=event.instance_id,
            rack_id=event.rack_id,
            client_id=event.client_id,
            client_host=event.client_host,
            rebalance_timeout_ms=event.rebalance_timeout_ms,
            topology_epoch=event.topology_epoch,
            process_id=event.process_id,
            user_endpoint=None if endpoint is None else _member.UserEndpoint(host=endpoint.host, port=endpoint.port),
            client_tags=[_member.ClientTag(key=key, value=value) for key, value in event.client_tags],
        )
    )


def target_value(event: StreamsTargetStored) -> bytes:
    """Return the value of type 20."""
    value = StreamsGroupTargetAssignmentMetadataValue(
        assignment_epoch=event.epoch, assignment_timestamp=event.timestamp_ms
    )
    return encoded(value)


def member_target_value(event: StreamsMemberTargetStored) -> bytes:
    """Return the value of type 21."""
    active, standby, warmup = (by_subtopology(tasks) for tasks in event.target)
    return encoded(
        _target(
            active_tasks=[_target.ActiveTask(subtopology_id=k, partitions=v) for k, v in active.items()],
            standby_tasks=[_target.StandbyTask(subtopology_id=k, partitions=v) for k, v in standby.items()],
            warmup_tasks=[_target.WarmupTask(subtopology_id=k, partitions=v) for k, v in warmup.items()],
        )
    )


def member_assignment_value(event: StreamsMemberAssignmentStored) -> bytes:
    """Return the value of type 22."""
    assigned, pending = event.assigned, event.pending
    return encoded(
        _assignment(
            member_epoch=event.epoch,
            previous_member_epoch=event.previous_epoch,
            state=event.state,
            active_tasks=_stored(_assignment.ActiveTask, assigned.active, assigned.active.get),
            standby_tasks=_stored(_assignment.StandbyTask, assigned.standby),
            warmup_tasks=_stored(_assignment.WarmupTask, assigned.warmup),
            active_tasks_pending_revocation=_stored(
                _assignment.ActiveTaskPendingRevocation, pending.active, pending.active.get
            ),
            standby_tasks_pending_revocation=_stored(_assignment.StandbyTaskPendingRevocation, pending.standby),
            warmup_tasks_pending_revocation=_stored(_assignment.WarmupTaskPendingRevocation, pending.warmup),
        )
    )


def _stored(
    make: Callable[..., Any], tasks: Collection[Task], epoch_of: Callable[[Task], int | None] | None = None
) -> list[Any]:
    return [
        make(
            subtopology_id=subtopology_id,
            partitions=partitions,
            assignment_epochs=None if epoch_of is None else [epoch_of((subtopology_id, each)) for each in partitions],
        )
        for subtopology_id, partitions in by_subtopology(tasks).items()
    ]


def topology_value(event: StreamsTopologyStored) -> bytes:
    """Return the value of type 23."""
    topology = event.topology
    subtopologies = [_written(each) for each in topology.subtopologies]
    return encoded(StreamsGroupTopologyValue(epoch=topology.epoch, subtopologies=subtopologies))


def _written(each: Subtopology) -> StreamsGroupTopologyValue.Subtopology:
    return _subtopology(
        subtopology_id=each.subtopology_id,
        source_topics=list(each.source_topics),
        source_topic_regex=list(each.source_topic_regexes),
        state_changelog_topics=_topics(_subtopology.StateChangelogTopic, each.changelogs),
        repartition_sink_topics=list(each.repartition_sinks),
        repartition_source_topics=_topics(_subtopology.RepartitionSourceTopic, each.repartition_sources),
        copartition_groups=[
            _subtopology.CopartitionGroup(
                source_topics=list(group.source_topics),
                source_topic_regex=list(group.source_topic_regexes),
                repartition_source_topics=list(group.repartition_sources),
            )
            for group in each.copartition_groups
        ],
    )


def _topics(make: Any, topics: Iterable[InternalTopic]) -> list[Any]:
    return [
        make(
            name=topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            topic_configs=[make.TopicConfig(key=key, value=value) for key, value in topic.configs],
        )
        for topic in topics
    ]


WRITERS: dict[type[Any], Callable[[Any], tuple[bytes, bytes | None]]] = {
    StreamsGroupStored: group_writer(GROUP, group_value),
    StreamsGroupDeleted: group_writer(GROUP, tombstone),
    StreamsMemberStored: part_writer(MEMBER, member_value),
    StreamsMemberDeleted: part_writer(MEMBER, tombstone),
    StreamsTargetStored: group_writer(TARGET, target_value),
    StreamsTargetDeleted: group_writer(TARGET, tombstone),
    StreamsMemberTargetStored: part_writer(MEMBER_TARGET, member_target_value),
    StreamsMemberTargetDeleted: part_writer(MEMBER_TARGET, tombstone),
    StreamsMemberAssignmentStored: part_writer(MEMBER_ASSIGNMENT, member_assignment_value),
    StreamsMemberAssignmentDeleted: part_writer(MEMBER_ASSIGNMENT, tombstone),
    StreamsTopologyStored: group_writer(TOPOLOGY, topology_value),
    StreamsTopologyDeleted: group_writer(TOPOLOGY, tombstone),
}
"""By event, what makes the key and the value of its record."""

# -- reading


def _read_group(group_id: str, found: StreamsGroupMetadataValue) -> StreamsHardEvent:
    settings = tuple(sorted((each.key, each.value) for each in found.last_assignment_configs or ()))
    return StreamsGroupStored(
        group_id,
        found.epoch,
        found.metadata_hash,
        found.validated_topology_epoch,
        settings,
        LOADED,
        found.stored_description_topology_epoch,
        found.failed_description_topology_epoch,
    )


def _read_member(group_id: str, member_id: str, found: StreamsGroupMemberMetadataValue) -> StreamsHardEvent:
    endpoint = found.user_endpoint
    return StreamsMemberStored(
        group_id=group_id,
        member_id=member_id,
        instance_id=found.instance_id,
        rack_id=found.rack_id,
        client_id=found.client_id,
        client_host=found.client_host,
        rebalance_timeout_ms=found.rebalance_timeout_ms,
        topology_epoch=found.topology_epoch,
        process_id=found.process_id,
        endpoint=None if endpoint is None else UserEndpoint(endpoint.host, endpoint.port),
        client_tags=tuple(sorted((tag.key, tag.value) for tag in found.client_tags)),
        cause=LOADED,
    )


def _read_target(group_id: str, found: StreamsGroupTargetAssignmentMetadataValue) -> StreamsHardEvent:
    return StreamsTargetStored(group_id, found.assignment_epoch, found.assignment_timestamp, LOADED)


def _read_member_target(
    group_id: str, member_id: str, found: StreamsGroupTargetAssignmentMemberValue
) -> StreamsHardEvent:
    target = TasksByRole(
        _read_tasks(found.active_tasks), _read_tasks(found.standby_tasks), _read_tasks(found.warmup_tasks)
    )
    return StreamsMemberTargetStored(group_id, member_id, target, LOADED)


def _read_member_assignment(
    group_id: str, member_id: str, found: StreamsGroupCurrentMemberAssignmentValue
) -> StreamsHardEvent:
    epoch = found.member_epoch
    # Of one that is away (-2) Kafka stores the state it was in: it owes nothing any more.
    state = StreamsMemberState.STABLE if epoch == LEAVE_STATIC_EPOCH else _STATES.get(found.state)
    return StreamsMemberAssignmentStored(
        group_id=group_id,
        member_id=member_id,
        epoch=epoch,
        previous_epoch=found.previous_member_epoch,
        state=state or StreamsMemberState.UNKNOWN,
        assigned=AssignedTasks(
            _read_epochs(found.active_tasks, epoch), _read_tasks(found.standby_tasks), _read_tasks(found.warmup_tasks)
        ),
        pending=AssignedTasks(
            _read_epochs(found.active_tasks_pending_revocation, epoch),
            _read_tasks(found.standby_tasks_pending_revocation),
            _read_tasks(found.warmup_tasks_pending_revocation),
        ),
        cause=LOADED,
    )


_STATES = {state.value: state for state in StreamsMemberState}


class _StoredTasks(Protocol):
    """Tasks of one subtopology."""

    subtopology_id: str
    partitions: list[int]


class _StoredEpochs(_StoredTasks, Protocol):
    """Tasks of one subtopology with the epochs in which they were assigned."""

    assignment_epochs: list[int] | None


def _read_tasks(several: Iterable[_StoredTasks]) -> frozenset[Task]:
    return tasks_of((each.subtopology_id, each.partitions) for each in several)


def _read_epochs(several: Iterable[_StoredEpochs], member_epoch: int) -> dict[Task, int]:
    found: dict[Task, int] = {}
    for each in several:
        epochs = each.assignment_epochs or []
        if len(epochs) != len(each.partitions):
            epochs = [max(member_epoch, 0)] * len(each.partitions)
        found.update(zip(((each.subtopology_id, number) for number in each.partitions), epochs, strict=True))
    return found


def _read_topology(group_id: str, found: StreamsGroupTopologyValue) -> StreamsHardEvent:
    return StreamsTopologyStored(group_id, topology_of(found), LOADED)


def topology_of(found: Any) -> StreamsTopology:
    """Return the topology of a record, or of a request, which has the same fields."""
    subtopologies = (
        Subtopology(
            each.subtopology_id,
            tuple(each.source_topics),
            tuple(each.source_topic_regex),
            tuple(map(_read_topic, each.state_changelog_topics)),
            tuple(each.repartition_sink_topics),
            tuple(map(_read_topic, each.repartition_source_topics)),
            tuple(
                CopartitionGroup(
                    tuple(group.source_topics), tuple(group.source_topic_regex), tuple(group.repartition_source_topics)
                )
                for group in each.copartition_groups
            ),
        )
        for each in found.subtopologies
    )
    return StreamsTopology(found.epoch, tuple(sorted(subtopologies)))


def _read_topic(topic: Any) -> InternalTopic:
    configs = tuple(sorted((each.key, each.value) for each in topic.topic_configs))
    return InternalTopic(topic.name, topic.partitions, topic.replication_factor, configs)


READERS: dict[int, Callable[[bytes, bytes | None], StoredEvent]] = {
    GROUP: reader(StreamsGroupMetadataValue, _read_group, StreamsGroupDeleted, 1),
    MEMBER: reader(StreamsGroupMemberMetadataValue, _read_member, StreamsMemberDeleted, 2),
    TARGET: reader(StreamsGroupTargetAssignmentMetadataValue, _read_target, StreamsTargetDeleted, 1),
    MEMBER_TARGET: reader(StreamsGroupTargetAssignmentMemberValue, _read_member_target, StreamsMemberTargetDeleted, 2),
    MEMBER_ASSIGNMENT: reader(
        StreamsGroupCurrentMemberAssignmentValue, _read_member_assignment, StreamsMemberAssignmentDeleted, 2
    ),
    TOPOLOGY: reader(StreamsGroupTopologyValue, _read_topology, StreamsTopologyDeleted, 1),
}
"""By record type, what reads the key and the value of a record. Raises MalformedMessage."""
