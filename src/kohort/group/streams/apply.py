"""Fold one event into a streams group. Nothing else may change a group or a member.

As for consumer groups, a log may have been compacted: what a record has of its own key is taken as it stands, and
nothing is expected of other keys. What a member owns may be known before what it sends about itself, and a tombstone of
what is not known means nothing.
"""

from __future__ import annotations

from kohort.group.events import ConsumerMemberOut, GroupLoaded, GroupUnloaded, SoftEvent, TargetTimed
from kohort.group.streams.description import NOT_DESCRIBED
from kohort.group.streams.events import (
    AssignmentDelayed,
    EndpointsChanged,
    ShutdownRequested,
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
    TaskOffsetsOffered,
    TaskOffsetsReported,
    TopologyConfigured,
    TopologyDescribed,
)
from kohort.group.streams.group import FIRST_EPOCH, StreamsGroup, StreamsMember
from kohort.group.streams.topology import StreamsTopology
from kohort.model.cause import CauseKind
from kohort.model.streams_tasks import NO_TASKS, NONE_ASSIGNED


def apply(group: StreamsGroup, event: StreamsHardEvent | SoftEvent) -> None:
    """Change `group` by what happened. Raises AssertionError when the event cannot follow on the group's state."""
    match event:
        case StreamsMemberAssignmentStored():
            _store_assignment(group, event)
        case StreamsMemberTargetStored(member_id=member_id, target=target):
            _member(group, member_id).target = target
        case StreamsTargetStored(epoch=epoch, timestamp_ms=timestamp_ms):
            _store_target(group, epoch, timestamp_ms)
        case StreamsGroupStored():
            _store_group(group, event)
        case StreamsMemberStored():
            _store_member(group, event)
        case StreamsTopologyStored(topology=topology):
            _store_topology(group, topology)
        case StreamsMemberDeleted(member_id=member_id):
            _delete_member(group, member_id)
        case StreamsMemberAssignmentDeleted(member_id=member_id):
            _delete_assignment(group, member_id)
        case StreamsMemberTargetDeleted(member_id=member_id):
            if member_id in group.members:
                group.members[member_id].target = NO_TASKS
        case StreamsTargetDeleted():
            _store_target(group, -1, 0)
        case StreamsTopologyDeleted():
            _store_topology(group, None)
        case TopologyConfigured(configured=configured):
            group.configured = configured
        case TopologyDescribed(known=known):
            group.description = known
        case AssignmentDelayed(until_ms=until_ms):
            group.delayed_until_ms = until_ms
        case EndpointsChanged():
            group.endpoint_epoch += 1
        case ShutdownRequested(member_id=member_id):
            group.shutdown_by = group.shutdown_by or member_id
        case TaskOffsetsReported():
            _member(group, event.member_id).report_offsets(event)
        case TaskOffsetsOffered(member_id=member_id, reports_lags=reports_lags):
            _member(group, member_id).reports_lags = reports_lags
        case GroupUnloaded():
            group.is_dead = True
        case TargetTimed(cost_us=cost_us):
            group.target_cost_us = cost_us
        case GroupLoaded() | ConsumerMemberOut():
            pass  # for people


def _store_group(group: StreamsGroup, event: StreamsGroupStored) -> None:
    # A log that was read while it was cleaned may have a group of before, and not that it was deleted.
    is_read = event.cause.kind is CauseKind.COORDINATOR_LOADED
    assert is_read or event.epoch >= group.epoch or group.epoch == FIRST_EPOCH, f"{group.group_id}: epochs only grow"
    group.epoch, group.epoch_cause = event.epoch, event.cause
    group.metadata_hash, group.validated_epoch = event.metadata_hash, event.validated_epoch
    group.assignment_settings = event.assignment_settings
    group.stored_description_epoch = event.stored_description_epoch
    group.failed_description_epoch = event.failed_description_epoch


def _member(group: StreamsGroup, member_id: str) -> StreamsMember:
    member = group.members.get(member_id)
    if member is None:
        member = group.members[member_id] = StreamsMember(group.group_id, member_id)
        _update_unsettled(group, member)
    return member


def _is_settled(group: StreamsGroup, member: StreamsMember) -> bool:
    return member.epoch == group.assignment_epoch and member.state is StreamsMemberState.STABLE


def _update_unsettled(group: StreamsGroup, member: StreamsMember) -> None:
    (group.unsettled.discard if _is_settled(group, member) else group.unsettled.add)(member.member_id)


def _store_member(group: StreamsGroup, event: StreamsMemberStored) -> None:
    member = _member(group, event.member_id)
    _forget_instance(group, member)
    member.store(event)
    if member.instance_id is not None:
        group.static_members[member.instance_id] = member.member_id


def _forget_instance(group: StreamsGroup, member: StreamsMember) -> None:
    if member.instance_id is not None and group.static_members.get(member.instance_id) == member.member_id:
        del group.static_members[member.instance_id]


def _store_topology(group: StreamsGroup, topology: StreamsTopology | None) -> None:
    for name in group.topology.topics if group.topology is not None else ():
        following = group.followers[name]
        following.discard(group.group_id)
        if not following:
            del group.followers[name]
    group.topology, group.configured, group.description = topology, None, NOT_DESCRIBED
    for name in topology.topics if topology is not None else ():
        group.followers.setdefault(name, set()).add(group.group_id)


def _delete_member(group: StreamsGroup, member_id: str) -> None:
    member = group.members.get(member_id)
    if member is None:
        return
    _forget_instance(group, member)
    _release(group, member)
    group.unsettled.discard(member_id)
    del group.members[member_id]
    if not group.members:
        group.shutdown_by = None


def _store_assignment(group: StreamsGroup, event: StreamsMemberAssignmentStored) -> None:
    member = _member(group, event.member_id)
    _release(group, member)
    member.assigned, member.pending = event.assigned, event.pending
    for task, role in member.roles.items():
        group.holders.setdefault(task, {})[member.member_id] = role
    member.epoch, member.previous_epoch, member.state = event.epoch, event.previous_epoch, event.state
    _update_unsettled(group, member)


def _delete_assignment(group: StreamsGroup, member_id: str) -> None:
    member = group.members.get(member_id)
    if member is None:
        return
    _release(group, member)
    member.epoch = member.previous_epoch = 0
    member.state = StreamsMemberState.STABLE
    member.assigned = member.pending = NONE_ASSIGNED
    _update_unsettled(group, member)


def _release(group: StreamsGroup, member: StreamsMember) -> None:
    for task in member.roles:
        holders = group.holders.get(task, {})
        holders.pop(member.member_id, None)
        if not holders:
            group.holders.pop(task, None)


def _store_target(group: StreamsGroup, epoch: int, timestamp_ms: int) -> None:
    group.assignment_epoch, group.assignment_timestamp_ms = epoch, timestamp_ms
    group.unsettled = {member_id for member_id, member in group.members.items() if not _is_settled(group, member)}
