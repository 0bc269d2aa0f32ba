"""SyncGroup of a classic member of a consumer group: what it is granted, in the version that it writes itself.

There is no leader, so whatever assignments a sender hands in are ignored. A member that must give something back is
told what it may keep: what it was granted and is still to own.
"""

from __future__ import annotations

from kohort.group.classic.group import CONSUMER_PROTOCOL_TYPE
from kohort.group.commands import Sync
from kohort.group.consumer.classic_members import await_join, call, identity_error, in_phase, is_behind, is_due
from kohort.group.consumer.events import ClassicPhase, MemberState
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember
from kohort.group.consumer.reconcile import ids_of
from kohort.group.coordinator_settings import GroupSettings, NamedPartitions
from kohort.group.effects import Append, Arm, Disarm, Effects, Reply
from kohort.group.group_timers import member_sync_timer
from kohort.group.results import SyncResult
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.id_partitions import IdPartitions, each, id_partitions


def decide_sync(group: ConsumerGroup, command: Sync, now_ms: int, settings: GroupSettings) -> Effects:
    """Give the member its assignment, or send it back to join."""
    if error := _sync_error(group, command):
        yield Reply(SyncResult(error))
        return
    member = group.members[command.member_id]
    assert member.classic is not None, "only a classic member syncs"
    phase = member.classic_phase
    if phase is ClassicPhase.PREPARE_REBALANCE or is_behind(group, member):
        yield Reply(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        if is_due(group, member):
            yield from call(group, member, Cause(CauseKind.CLASSIC_MEMBERS_CALLED, now_ms, member.member_id), now_ms)
        return
    protocol_name = command.protocol_name or member.classic.protocols[0][0]
    assignment = assignment_bytes(member, granted(group, member), settings)
    yield Reply(SyncResult(ErrorCode.NONE, CONSUMER_PROTOCOL_TYPE, protocol_name, assignment))
    if phase is ClassicPhase.COMPLETING_REBALANCE:
        yield from _complete(group, member, now_ms)
    yield Arm(member.session, now_ms + member.classic.session_timeout_ms)


def _complete(group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> Effects:
    """End the member's round; one that must give something back, or could have more, has the next before it."""
    cause = Cause(CauseKind.MEMBER_SYNCED, now_ms, member.member_id)
    yield Disarm(member_sync_timer(group.group_id, member.member_id))
    if member.state is MemberState.UNREVOKED_PARTITIONS or is_due(group, member):
        yield Append(in_phase(group, member, ClassicPhase.PREPARE_REBALANCE, cause))
        yield await_join(group, member, now_ms)
    else:
        yield Append(in_phase(group, member, ClassicPhase.STABLE, cause))


def _sync_error(group: ConsumerGroup, command: Sync) -> ErrorCode:
    if group.is_dead:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error := identity_error(group, command.member_id, command.instance_id):
        return error
    member = group.members[command.member_id]
    assert member.classic is not None, "identity_error passes classic members only"
    if command.protocol_type is not None and command.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    # Any that it offers: before a conversion all had agreed on one that need not be its first.
    if command.protocol_name is not None and command.protocol_name not in dict(member.classic.protocols):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if command.generation != member.epoch:
        is_overtaken = command.generation < member.epoch and member.classic_phase is not ClassicPhase.STABLE
        return ErrorCode.REBALANCE_IN_PROGRESS if is_overtaken else ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE


def granted(group: ConsumerGroup, member: ConsumerMember) -> IdPartitions:
    """Return what the member may act upon: what it was granted, without what a newer target takes away."""
    assigned = ids_of(member.assigned)
    if member.epoch >= group.assignment_epoch:
        return assigned
    wanted = set(each(member.target))
    return id_partitions((topic_id, (number,)) for topic_id, number in each(assigned) if (topic_id, number) in wanted)


def assignment_bytes(member: ConsumerMember, partitions: IdPartitions, settings: GroupSettings) -> bytes:
    """Return partitions as a classic member reads them. Topics that no longer exist are left out."""
    assert member.classic is not None, "a native member is told topic ids"
    named: NamedPartitions = tuple(
        sorted(
            (topic.name, numbers)
            for topic_id, numbers in partitions
            if (topic := settings.image.topic_by_id(topic_id)) is not None
        )
    )
    subscription = settings.subscription_of(member.classic.protocols[0][1])
    return settings.encode_assignment_of(named, subscription.version if subscription is not None else 0)
