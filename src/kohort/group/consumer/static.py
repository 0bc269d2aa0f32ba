"""Who comes back to a consumer group under an instance id (KIP-345 in the terms of KIP-848).

An instance that said it would come back (-2) is replaced: the new member takes over what the old one subscribed to,
owns and is to own, so nothing moves and the epoch stays. One that is alive keeps its place, and whoever else claims it
is turned away; but a member that only repeats its own join, since its answer was lost, is let in again (kafka#23542),
and a native member takes the place of the classic member it was before an upgrade.
"""

from __future__ import annotations

from kohort.group.consumer.classic_members import release
from kohort.group.consumer.commands import LEAVE_STATIC_EPOCH, ConsumerHeartbeat
from kohort.group.consumer.events import (
    ConsumerMemberDeleted,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberState,
    MemberTargetDeleted,
    MemberTargetStored,
)
from kohort.group.consumer.exit import disarm, rouse_waiting
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember
from kohort.group.consumer.join import subscribe, too_large
from kohort.group.consumer.request import refused
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Append, Effects, Reply
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode


def decide_static_join(
    group: ConsumerGroup, command: ConsumerHeartbeat, now_ms: int, settings: GroupSettings
) -> Effects:
    """Let a member with an instance id in."""
    member_id = command.member_id or command.new_member_id
    instance_id = command.instance_id
    assert instance_id is not None, "a static member has an instance id"
    holder_id = group.static_members.get(instance_id)
    if holder_id is None:
        member = group.members.get(member_id)
        if member is None and len(group.members) >= settings.consumer_max_size:
            yield Reply(too_large(settings))
            return
        kind = CauseKind.MEMBER_JOINED if member is None else CauseKind.MEMBER_REJOINED
        newcomer = member or ConsumerMember(group.group_id, member_id)
        yield from subscribe(group, newcomer, command, Cause(kind, now_ms, member_id, command.reason), settings)
        return
    holder = group.members[holder_id]
    if holder_id == member_id:
        yield from _come_back(group, holder, command, now_ms, settings)
    elif holder.epoch != LEAVE_STATIC_EPOCH and holder.classic is None:
        text = f"instance {instance_id} is held by {holder_id}, which has not left: {member_id} must wait until it has"
        yield Reply(refused(ErrorCode.UNRELEASED_INSTANCE_ID, text))
    elif member_id in group.members:
        text = f"member {member_id} is in the group already, and instance {instance_id} is {holder_id}'s"
        yield Reply(refused(ErrorCode.UNRELEASED_INSTANCE_ID, text))
    else:
        yield from _replace(group, holder, member_id, command, now_ms, settings)


def static_refusal(group: ConsumerGroup, command: ConsumerHeartbeat) -> ErrorCode:
    """Return why the sender is not the instance it says it is, or NONE."""
    if command.instance_id is None:
        return ErrorCode.NONE
    holder_id = group.static_members.get(command.instance_id)
    if holder_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if holder_id == command.member_id else ErrorCode.FENCED_INSTANCE_ID


def _come_back(
    group: ConsumerGroup, member: ConsumerMember, command: ConsumerHeartbeat, now_ms: int, settings: GroupSettings
) -> Effects:
    """Take a member up again that had left for a while, or that repeats its join."""
    cause = Cause(CauseKind.MEMBER_REJOINED, now_ms, member.member_id, command.reason)
    if member.epoch == LEAVE_STATIC_EPOCH:
        yield Append(
            MemberAssignmentStored(
                group.group_id, member.member_id, 0, 0, MemberState.STABLE, member.assigned, (), cause
            )
        )
    yield from subscribe(group, member, command, cause, settings)


def _replace(
    group: ConsumerGroup,
    old: ConsumerMember,
    member_id: str,
    command: ConsumerHeartbeat,
    now_ms: int,
    settings: GroupSettings,
) -> Effects:
    """Put a new member in the place of an old one: only its name is new."""
    group_id = group.group_id
    detail = f"instance {old.instance_id} was {old.member_id}"
    cause = Cause(CauseKind.STATIC_MEMBER_REPLACED, now_ms, member_id, detail)
    yield Append(MemberAssignmentDeleted(group_id, old.member_id, cause))
    yield Append(MemberTargetDeleted(group_id, old.member_id, cause))
    yield Append(ConsumerMemberDeleted(group_id, old.member_id, cause))
    yield from disarm(group, old)
    if old.classic is not None:
        yield from release(group, old.member_id, ErrorCode.FENCED_INSTANCE_ID)
    newcomer = ConsumerMember(group_id, member_id)
    yield from subscribe(group, newcomer, command, cause, settings, replaces=old)
    yield Append(MemberTargetStored(group_id, member_id, old.target, cause))
    yield Append(MemberAssignmentStored(group_id, member_id, 0, 0, MemberState.STABLE, old.assigned, (), cause))
    yield from rouse_waiting(group, old.pending, {old.member_id}, cause)
