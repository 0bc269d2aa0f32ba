"""The ways out of a streams group: to leave, for good or for a while, and to be evicted.

A member that goes takes everything of it out of the log, in the order that Kafka replays: what it owns, its target,
itself. Then the group's epoch rises. A static member that will come back (-2) retains what it has.
"""

from __future__ import annotations

from kohort.group.commands import LEAVE_STATIC_EPOCH, AssignTarget
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Append, Disarm, Effects, Note, Reply, Then, WakeMembers
from kohort.group.events import ConsumerMemberOut
from kohort.group.group_timers import revocation_timer, target_timer
from kohort.group.streams.events import (
    ShutdownRequested,
    StreamsGroupDeleted,
    StreamsGroupStored,
    StreamsMemberAssignmentDeleted,
    StreamsMemberAssignmentStored,
    StreamsMemberDeleted,
    StreamsMemberState,
    StreamsMemberTargetDeleted,
    StreamsTargetDeleted,
    StreamsTargetStored,
    StreamsTopologyDeleted,
)
from kohort.group.streams.group import StreamsGroup, StreamsMember
from kohort.group.streams.heartbeat import StreamsHeartbeat, StreamsHeartbeatResult, refused
from kohort.group.streams.reconcile import TaskStep
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.streams_tasks import NONE_ASSIGNED, roles_of


def decide_leave(group: StreamsGroup, command: StreamsHeartbeat, now_ms: int) -> Effects:
    """Let the sender go: for good (-1), or until its instance comes back (-2)."""
    member_id = command.member_id
    member = group.members.get(member_id)
    holder = member_id if command.instance_id is None else group.static_members.get(command.instance_id)
    if holder is not None and holder != member_id:
        text = f"instance {command.instance_id} is {holder} now, not {member_id}: close this member"
        yield Reply(refused(ErrorCode.FENCED_INSTANCE_ID, text))
        return
    if member is None or holder is None:
        yield Reply(
            refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
        )
        return
    yield Reply(StreamsHeartbeatResult(ErrorCode.NONE, member_id=member_id, member_epoch=command.member_epoch))
    if command.member_epoch == LEAVE_STATIC_EPOCH:
        yield from _leave_for_a_while(group, member, now_ms)
    else:
        yield from out_effects(group, member, Cause(CauseKind.MEMBER_LEFT, now_ms, member_id))
    if command.shuts_down and len(group.members) > 1:
        yield from request_shutdown(group, member_id, Cause(CauseKind.MEMBER_LEFT, now_ms, member_id))


def request_shutdown(group: StreamsGroup, member_id: str, cause: Cause) -> Effects:
    """Have all members receive that one of them asks that all end. Walks all members."""
    yield Note(ShutdownRequested(group.group_id, member_id, cause))
    yield WakeMembers(group.group_id, tuple(sorted(group.members)))


def _leave_for_a_while(group: StreamsGroup, member: StreamsMember, now_ms: int) -> Effects:
    if member.epoch == LEAVE_STATIC_EPOCH:
        return
    if member.state is StreamsMemberState.UNREVOKED_TASKS:
        yield Disarm(revocation_timer(group.group_id, member.member_id, member.epoch))
    yield from wake_waiting(group, member, None)
    granted = member.assigned._replace(active=dict.fromkeys(member.assigned.active, 0))
    yield Append(
        StreamsMemberAssignmentStored(
            group.group_id,
            member.member_id,
            LEAVE_STATIC_EPOCH,
            member.epoch,
            StreamsMemberState.STABLE,
            granted,
            NONE_ASSIGNED,
            Cause(CauseKind.STATIC_MEMBER_LEFT, now_ms, member.member_id),
        )
    )


def wake_waiting(group: StreamsGroup, member: StreamsMember, step: TaskStep | None) -> Effects:
    """Wake the members whose targets have tasks that a member has no more in that role after its step, or as it goes.

    Walks the members that have not all they should.
    """
    after = {} if step is None else roles_of(step.assigned, step.pending)
    freed = {task for task, role in member.roles.items() if after.get(task) is not role}
    waiting = [
        each
        for each in group.unsettled
        if each != member.member_id and any(not freed.isdisjoint(tasks) for tasks in group.members[each].target)
    ]
    if waiting:
        yield WakeMembers(group.group_id, tuple(sorted(waiting)))


def expire_session(group: StreamsGroup, member_id: str, now_ms: int, settings: GroupSettings) -> Effects:
    """Evict a member that has sent no heartbeat for its session timeout."""
    member = group.members.get(member_id)
    if member is not None:
        timeout_ms = settings.streams_config_of(group.group_id).session_timeout_ms
        within = f"{timeout_ms / 1000:.1f} s"
        is_paused = member.epoch == LEAVE_STATIC_EPOCH
        detail = (
            f"it left for a while and did not return within {within}" if is_paused else f"no heartbeat for {within}"
        )
        yield from out_effects(group, member, Cause(CauseKind.SESSION_TIMEOUT, now_ms, member_id, detail), timeout_ms)


def expire_revocation(group: StreamsGroup, member_id: str, epoch: int, now_ms: int) -> Effects:
    """Evict a member that did not give back what it was asked for, unless it has gone on since."""
    member = group.members.get(member_id)
    if member is not None and member.epoch == epoch and member.state is StreamsMemberState.UNREVOKED_TASKS:
        detail = f"tasks were not given back within {member.rebalance_timeout_ms / 1000:.1f} s"
        yield from out_effects(group, member, Cause(CauseKind.REVOCATION_TIMEOUT, now_ms, member_id, detail))


def out_effects(group: StreamsGroup, member: StreamsMember, cause: Cause, silent_ms: int = -1) -> Effects:
    """Take a member out, and the group's epoch on. `silent_ms` is how long it may have sent nothing."""
    group_id = group.group_id
    is_expired = cause.kind is CauseKind.SESSION_TIMEOUT and member.epoch != LEAVE_STATIC_EPOCH
    yield from delete_member(group, member, cause)
    silent_ms = silent_ms if is_expired else -1
    yield Note(ConsumerMemberOut(group_id, member.member_id, member.instance_id, cause, silent_ms))
    yield Append(next_epoch(group, cause))
    if len(group.members) == 1:
        # The member that comes next is assigned at once, however short ago the last target was (Kafka 4.4).
        yield Append(StreamsTargetStored(group_id, group.epoch + 1, 0, cause))
        yield Disarm(target_timer(group_id))
        return
    yield Then(AssignTarget(group_id, cause))


def next_epoch(group: StreamsGroup, cause: Cause) -> StreamsGroupStored:
    """Return the event that takes the group's epoch on, with all else as it is."""
    return StreamsGroupStored(
        group.group_id,
        group.epoch + 1,
        group.metadata_hash,
        group.validated_epoch,
        group.assignment_settings,
        cause,
        group.stored_description_epoch,
        group.failed_description_epoch,
    )


def delete_member(group: StreamsGroup, member: StreamsMember, cause: Cause) -> Effects:
    """Take a member out of the log and disarm its timers."""
    for tombstone in (StreamsMemberAssignmentDeleted, StreamsMemberTargetDeleted, StreamsMemberDeleted):
        yield Append(tombstone(group.group_id, member.member_id, cause))
    yield from wake_waiting(group, member, None)
    yield from disarm(group, member)


def disarm(group: StreamsGroup, member: StreamsMember) -> Effects:
    """Let no timer of a member fire any more."""
    yield Disarm(member.session)
    if member.state is StreamsMemberState.UNREVOKED_TASKS:
        yield Disarm(revocation_timer(group.group_id, member.member_id, member.epoch))


def delete_effects(group: StreamsGroup, cause: Cause) -> Effects:
    """Take an empty group out of the log."""
    assert not group.members, "a group with members is not deleted"
    yield Disarm(target_timer(group.group_id))
    for tombstone in (StreamsTargetDeleted, StreamsTopologyDeleted, StreamsGroupDeleted):
        yield Append(tombstone(group.group_id, cause))
