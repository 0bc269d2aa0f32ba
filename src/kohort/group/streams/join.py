"""How members join a streams group, also under an instance id, and what their heartbeats change of their records.

The first member brings the topology. Who joins with one of an older epoch is admitted, and runs no tasks before it has
been restarted with the new one; any other topology is refused while the group has members, as in Kafka. A group
without members takes the topology that the next one brings, which Kafka refuses too: there the group must be deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kohort.group.commands import LEAVE_STATIC_EPOCH, AssignTarget
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Append, Arm, Effects, Note, Reply, Then
from kohort.group.group_timers import session_timer, target_timer
from kohort.group.streams.events import (
    AssignmentDelayed,
    StreamsMemberAssignmentStored,
    StreamsMemberState,
    StreamsMemberStored,
    StreamsMemberTargetStored,
    StreamsTopologyStored,
    TaskOffsetsOffered,
    TaskOffsetsReported,
    TopologyConfigured,
)
from kohort.group.streams.exit import delete_member, next_epoch, request_shutdown
from kohort.group.streams.group import PLACEMENT, StreamsGroup, StreamsMember
from kohort.group.streams.heartbeat import RetargetForLags, StreamsHeartbeat, StreamsReconcile, refused
from kohort.group.streams.target import assignment_settings_of, configured_of, derived, topics_hash, validated_epoch_of
from kohort.group.streams.topology import InvalidTopology, StreamsTopology, configured
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.streams_tasks import NONE_ASSIGNED, AssignedTasks, Task

GROWING_INTERVALS = 2
"""For how many intervals between reports a copy's lag grows until it falls behind."""

UNKNOWN_OFFSET = 2**63 - 1
"""What Kafka Streams reports while it does not know an offset."""


def decide_join(group: StreamsGroup, command: StreamsHeartbeat, now_ms: int, settings: GroupSettings) -> Effects:
    """Let a member in, or in again: to join twice does no harm."""
    member_id, instance_id = command.member_id, command.instance_id
    assert command.topology is not None, "a member that joins sends its topology"
    try:
        configured(command.topology, settings.image)
    except InvalidTopology as error:
        yield Reply(refused(ErrorCode.STREAMS_INVALID_TOPOLOGY, str(error)))
        return
    if group.members and group.topology is not None and not _is_admitted(group.topology, command.topology):
        yield Reply(refused(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet."))
        return
    member = group.members.get(member_id)
    holder = group.members.get(group.static_members.get(instance_id or "", ""))
    if holder is not None and holder is not member:
        if holder.epoch != LEAVE_STATIC_EPOCH or member is not None:
            text = f"instance {instance_id} belongs to {holder.member_id}, which has not left: {member_id} must wait"
            yield Reply(refused(ErrorCode.UNRELEASED_INSTANCE_ID, text))
        else:
            yield from _replace(group, holder, command, now_ms, settings)
        return
    most = settings.streams_max_size
    if member is None and len(group.members) >= most:
        text = f"The streams group has reached its maximum capacity of {most} members."
        yield Reply(refused(ErrorCode.GROUP_MAX_SIZE_REACHED, text))
        return
    kind = CauseKind.MEMBER_JOINED if member is None else CauseKind.MEMBER_REJOINED
    cause = Cause(kind, now_ms, member_id)
    if member is not None and member.epoch == LEAVE_STATIC_EPOCH:
        yield Append(_returned(group, member, command, cause))
    yield from subscribe(group, member or StreamsMember(group.group_id, member_id), command, cause, settings)


def _is_admitted(stored: StreamsTopology, sent: StreamsTopology) -> bool:
    return sent.epoch < stored.epoch or sent == stored


def _replace(
    group: StreamsGroup, old: StreamsMember, command: StreamsHeartbeat, now_ms: int, settings: GroupSettings
) -> Effects:
    """Put a new member in the place of the one whose instance it is (KIP-345): it takes over all that it has."""
    member_id = command.member_id
    detail = f"instance {old.instance_id} was {old.member_id}"
    cause = Cause(CauseKind.STATIC_MEMBER_REPLACED, now_ms, member_id, detail)
    yield from delete_member(group, old, cause)
    yield from subscribe(group, old, command, cause, settings)


def _returned(
    group: StreamsGroup, before: StreamsMember, command: StreamsHeartbeat, cause: Cause
) -> StreamsMemberAssignmentStored:
    """Return the assignment of a static member that comes back: what it had, as far as its process has it once.

    It may come back from another process, of which a thread has joined before it. Then all members are walked.
    """
    assigned = before.assigned
    if command.process_id not in (None, before.process_id):
        beside = {
            task
            for each in group.members.values()
            if each.process_id == command.process_id and each is not before
            for task in each.roles
        }
        active, standby, warmup = assigned
        left = {task: epoch for task, epoch in active.items() if task not in beside}
        assigned = AssignedTasks(left, standby - beside, warmup - beside)
    state, member_id = StreamsMemberState.STABLE, command.member_id
    return StreamsMemberAssignmentStored(group.group_id, member_id, 0, 0, state, assigned, NONE_ASSIGNED, cause)


def subscribe(
    group: StreamsGroup, before: StreamsMember, command: StreamsHeartbeat, cause: Cause, settings: GroupSettings
) -> Effects:
    """Store what the sender sends of itself, raise the epoch if that matters to the group, and reconcile it.

    `before` is the sender as the group knows it; a new one is not in the group yet. It may be the member whose place
    the sender takes.
    """
    group_id, member_id = group.group_id, command.member_id
    config = settings.streams_config_of(group_id)
    record = streams_member_record(group, before, command, cause)
    is_known = before.has_stored(record, PLACEMENT if record.instance_id is not None else ())
    if member_id != before.member_id or not before.has_stored(record):
        yield Append(record)
    if member_id != before.member_id:
        yield Append(StreamsMemberTargetStored(group_id, member_id, before.target, cause))
        yield Append(_returned(group, before, command, cause))
    topology = group.topology
    if command.topology is not None and (topology is None or not group.members):
        topology = command.topology
    assert topology is not None, "a group with members has a topology"
    if topology != group.topology:
        yield Append(StreamsTopologyStored(group_id, topology, cause))
    has_topology = topology == group.topology and group.configured is not None
    now_configured = configured_of(group, settings.image) if has_topology else derived(topology, settings.image)
    assert now_configured is not None, "there is a topology"
    epoch = replace(
        next_epoch(group, cause),
        # Topics that change while the group is empty raise no epoch, which would store their hash.
        metadata_hash=(
            group.metadata_hash if has_topology and group.members else topics_hash(topology, settings.image)
        ),
        validated_epoch=validated_epoch_of(now_configured),
        assignment_settings=assignment_settings_of(group_id, settings),
    )
    is_same = replace(epoch, epoch=group.epoch) == replace(next_epoch(group, cause), epoch=group.epoch)
    if not is_known or not is_same:
        yield Append(epoch)
    if not has_topology:
        yield Note(TopologyConfigured(group_id, now_configured, cause))
    if not group.members and config.initial_rebalance_delay_ms and group.delayed_until_ms <= cause.at_ms:
        until_ms = cause.at_ms + config.initial_rebalance_delay_ms
        yield Note(AssignmentDelayed(group_id, until_ms, cause))
        yield Arm(target_timer(group_id), until_ms)
    has_offsets = command.offsets is not None or command.end_offsets is not None
    if has_offsets:
        bounds = config.acceptable_recovery_lag, config.task_offset_interval_ms
        yield Note(offsets_reported(before, command, cause, *bounds, now_configured.has))
    if command.reports_lags is not before.reports_lags:
        yield Note(TaskOffsetsOffered(group_id, member_id, command.reports_lags, cause))
    if command.shuts_down:
        yield from request_shutdown(group, member_id, cause)
    if not command.is_counted:
        yield Arm(session_timer(group_id, member_id), cause.at_ms + config.session_timeout_ms)
    yield Then(AssignTarget(group_id, cause))
    if has_offsets or command.reports_lags is not before.reports_lags:
        yield Then(RetargetForLags(group_id, member_id))
    yield Then(StreamsReconcile(group_id, member_id, command))


def offsets_reported(
    before: StreamsMember,
    command: StreamsHeartbeat,
    cause: Cause,
    acceptable_lag: int,
    interval_ms: int,
    exists: Callable[[Task], bool],
) -> TaskOffsetsReported:
    """Return what a heartbeat reports of tasks that exist. Each of the two lists is sent where it has changed."""
    reported = ((command.offsets, before.offsets), (command.end_offsets, before.end_offsets))
    offsets, end_offsets = (
        tuple(last.items())
        if sent is None
        else tuple((task, offset) for task, offset in sent if 0 <= offset < UNKNOWN_OFFSET and exists(task))
        for sent, last in reported
    )
    bounds = acceptable_lag, GROWING_INTERVALS * interval_ms
    return TaskOffsetsReported(command.group_id, command.member_id, offsets, end_offsets, *bounds, cause)


def streams_member_record(
    group: StreamsGroup, before: StreamsMember, command: StreamsHeartbeat, cause: Cause
) -> StreamsMemberStored:
    """Return the member's record after a heartbeat: what it leaves out is as it was."""
    return StreamsMemberStored(
        group_id=group.group_id,
        member_id=command.member_id,
        instance_id=before.instance_id if command.instance_id is None else command.instance_id,
        rack_id=before.rack_id if command.rack_id is None else command.rack_id,
        client_id=command.client_id,
        client_host=command.client_host,
        rebalance_timeout_ms=(
            before.rebalance_timeout_ms if command.rebalance_timeout_ms == -1 else command.rebalance_timeout_ms
        ),
        topology_epoch=before.topology_epoch if command.topology is None else command.topology.epoch,
        process_id=before.process_id if command.process_id is None else command.process_id,
        endpoint=before.endpoint if command.endpoint is None else command.endpoint,
        client_tags=before.client_tags if command.client_tags is None else command.client_tags,
        cause=cause,
    )
