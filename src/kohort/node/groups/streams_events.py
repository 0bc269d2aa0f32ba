"""Events of streams groups as those of consumer groups, so that `kohort explain` reads both in one way.

An active task stands for a partition, and its subtopology for a topic. Standby tasks are not written: a task is
processed by one member, whatever copies there are. Of warm-ups the target is: they are why a task does not move yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kohort.group.events import (
    Assigned,
    ConsumerGroupDeleted,
    ConsumerGroupStored,
    ConsumerMemberDeleted,
    ConsumerMemberOut,
    ConsumerMemberStored,
    Event,
    GroupLoaded,
    GroupUnloaded,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberState,
    MemberTargetStored,
    TargetStored,
)
from kohort.group.streams.events import (
    StreamsGroupDeleted,
    StreamsGroupStored,
    StreamsMemberAssignmentDeleted,
    StreamsMemberAssignmentStored,
    StreamsMemberDeleted,
    StreamsMemberState,
    StreamsMemberStored,
    StreamsMemberTargetStored,
    StreamsTargetStored,
)
from kohort.group.streams.group import StreamsGroup
from kohort.model.assignment import IdPartitions, id_partitions
from kohort.model.streams_tasks import Task, by_subtopology

PREFIX = b"subtopology "
"""How the name begins that a subtopology has in the place of a topic."""

_STATES = {
    StreamsMemberState.STABLE: MemberState.STABLE,
    StreamsMemberState.UNREVOKED_TASKS: MemberState.UNREVOKED_PARTITIONS,
    StreamsMemberState.UNRELEASED_TASKS: MemberState.UNRELEASED_PARTITIONS,
    StreamsMemberState.UNKNOWN: MemberState.UNKNOWN,
}


def partition_event(event: Event) -> Event | None:
    """Return the event of a consumer group that reports the same, None for one that is not written."""
    translate = _TRANSLATED.get(type(event))
    return None if translate is None else translate(event)


def partition_fields(group: StreamsGroup) -> dict[str, dict[str, Any]]:
    """Return what the members of a group have and should have, by the names of fields, then by member."""
    members = sorted(group.members.items())
    return {
        "clients": {member_id: [each.client_id, each.instance_id] for member_id, each in members},
        "assignments": {member_id: _by_name(each.assigned.active) for member_id, each in members},
        "pending": {member_id: _by_name(each.pending.active) for member_id, each in members if each.pending.active},
        "targets": {member_id: _by_name(each.target.active) for member_id, each in members},
        "member_states": {member_id: [each.epoch, _STATES[each.state].name] for member_id, each in members},
        "warmups": warmups_of(group),
    }


def warmups_of(group: StreamsGroup) -> dict[str, dict[str, list[int]]]:
    """Return the tasks that members should warm up, by member and subtopology; members without any are left out."""
    members = sorted(group.members.items())
    return {member_id: _by_name(each.target.warmup) for member_id, each in members if each.target.warmup}


def _by_name(tasks: Iterable[Task]) -> dict[str, list[int]]:
    return {PREFIX.decode() + name: numbers for name, numbers in by_subtopology(frozenset(tasks)).items()}


def _partitions(tasks: Iterable[Task]) -> IdPartitions:
    return id_partitions((PREFIX + name.encode(), [number]) for name, number in tasks)


def _assigned(epochs: Mapping[Task, int]) -> tuple[Assigned, ...]:
    return tuple(Assigned(name, numbers, (0,) * len(numbers)) for name, numbers in _partitions(epochs))


def _member_stored(event: StreamsMemberStored) -> Event:
    return ConsumerMemberStored(
        group_id=event.group_id,
        member_id=event.member_id,
        instance_id=event.instance_id,
        rack_id=event.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        subscribed_topic_names=(),
        subscribed_topic_regex="",
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        server_assignor=None,
        classic=None,
        cause=event.cause,
    )


def _assignment_stored(event: StreamsMemberAssignmentStored) -> Event:
    return MemberAssignmentStored(
        event.group_id,
        event.member_id,
        event.epoch,
        event.previous_epoch,
        _STATES[event.state],
        _assigned(event.assigned.active),
        _assigned(event.pending.active),
        event.cause,
    )


def _as_it_is(event: Event) -> Event:
    return event


_TRANSLATED: dict[type, Callable[[Any], Event]] = {
    StreamsGroupStored: lambda e: ConsumerGroupStored(e.group_id, e.epoch, e.metadata_hash, e.cause),
    StreamsGroupDeleted: lambda e: ConsumerGroupDeleted(e.group_id, e.cause),
    StreamsMemberStored: _member_stored,
    StreamsMemberDeleted: lambda e: ConsumerMemberDeleted(e.group_id, e.member_id, e.cause),
    StreamsTargetStored: lambda e: TargetStored(e.group_id, e.epoch, e.timestamp_ms, e.cause),
    StreamsMemberTargetStored: lambda e: MemberTargetStored(
        e.group_id, e.member_id, _partitions(e.target.active), e.cause
    ),
    StreamsMemberAssignmentStored: _assignment_stored,
    StreamsMemberAssignmentDeleted: lambda e: MemberAssignmentDeleted(e.group_id, e.member_id, e.cause),
    ConsumerMemberOut: _as_it_is,
    GroupLoaded: _as_it_is,
    GroupUnloaded: _as_it_is,
}
