"""Who comes back: a static member that has lost its member id (KIP-345).

Its instance gets a new id and inherits the old one's place: leadership, assignment, protocols' weight. The old id is
fenced. In a Stable group that costs no round, unless what it offers now would change the outcome.
"""

from __future__ import annotations

from dataclasses import replace

from kohort.group.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, Member, Phase, vote
from kohort.group.classic.record import stored_member
from kohort.group.commands import CheckJoin, Join, OpenRound
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Append, Arm, Disarm, Effects, Note, Park, Reply, Then, parked_join, parked_sync
from kohort.group.events import GroupStored, StaticMemberReplaced
from kohort.group.group_timers import session_timer
from kohort.group.results import JoinedMember, JoinResult, SyncResult
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.subscription import topic_difference


def replace_static_member(group: ClassicGroup, command: Join, now_ms: int, settings: GroupSettings) -> Effects:
    """Give the instance its new member id, fence the old one, and start a round only if one is needed."""
    assert command.instance_id is not None, "only an instance can be replaced"
    old = group.members[group.static_members[command.instance_id]]
    yield from _fence(group, old)
    is_parked = old.member_id in group.awaiting_join | group.awaiting_sync
    change = _round_cause(group, command, old, now_ms, settings)
    is_quiet = group.phase is Phase.STABLE and change is None
    yield Note(
        StaticMemberReplaced(
            group_id=group.group_id,
            instance_id=command.instance_id,
            old_member_id=old.member_id,
            member_id=command.new_member_id,
            client_id=command.client_id,
            client_host=command.client_host,
            session_timeout_ms=command.session_timeout_ms,
            rebalance_timeout_ms=command.rebalance_timeout_ms,
            protocols=command.protocols,
            awaits_join=not is_quiet,
            old_session_timeout_ms=-1 if is_parked else old.session_timeout_ms,
            cause=Cause(CauseKind.STATIC_MEMBER_REPLACED, now_ms, command.new_member_id, command.reason),
        )
    )
    yield Disarm(old.session)
    yield Arm(session_timer(group.group_id, command.new_member_id), now_ms + command.session_timeout_ms)
    if is_quiet:
        yield Append(_stored_with(group, command, old, now_ms))
        yield Reply(_current_generation_of(group, command, old))
        return
    yield Park(parked_join(group.group_id, command.new_member_id))
    if change is not None:
        yield Then(OpenRound(group.group_id, change))
    else:
        yield Then(CheckJoin(group.group_id))


def _fence(group: ClassicGroup, old: Member) -> Effects:
    if old.member_id in group.awaiting_join:
        fenced = JoinResult(ErrorCode.FENCED_INSTANCE_ID, old.member_id)
        yield Reply(fenced, parked_join(group.group_id, old.member_id))
    if old.member_id in group.awaiting_sync:
        yield Reply(SyncResult(ErrorCode.FENCED_INSTANCE_ID), parked_sync(group.group_id, old.member_id))


def _round_cause(group: ClassicGroup, command: Join, old: Member, now_ms: int, settings: GroupSettings) -> Cause | None:
    """Return why the replacement needs a round, or None. One that gathers already goes on in any case."""
    member_id = command.new_member_id
    if group.phase is Phase.COMPLETING_REBALANCE:
        # The leader may have been told the old id, so the new one would get no assignment.
        return Cause(CauseKind.STATIC_MEMBER_REPLACED, now_ms, member_id, "its old member id is in the round")
    if group.phase is not Phase.STABLE:
        return None
    if old.member_id in group.revoking:
        # What it had to revoke is free now, and nobody else will ask for the round that gives it away.
        return Cause(CauseKind.PARTITIONS_TO_REVOKE, now_ms, member_id, "came back instead of revoking")
    choice = vote(group, {old.member_id: command.protocols})
    if choice != group.protocol_name:
        detail = f"protocol {group.protocol_name} would become {choice}"
        return Cause(CauseKind.PROTOCOL_CHANGED, now_ms, member_id, detail)
    if change := _other_topics(group, command, old, settings):
        return Cause(CauseKind.SUBSCRIPTION_CHANGED, now_ms, member_id, f"came back with other topics: {change}")
    return None


def _other_topics(group: ClassicGroup, command: Join, old: Member, settings: GroupSettings) -> str:
    """Return how an instance's topics have changed: without a round nobody would read the new ones (KAFKA-12759)."""
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return ""
    before = settings.topics_of(old.metadata(group.protocol_name))
    after = settings.topics_of(dict(command.protocols).get(group.protocol_name or "", b""))
    return "" if before is None or after is None else topic_difference(before, after)


def _stored_with(group: ClassicGroup, command: Join, old: Member, now_ms: int) -> GroupStored:
    """Return the stored generation with the new id in the place of the old one."""
    offered = dict(command.protocols)
    members = []
    for member in group.members.values():
        entry = stored_member(member, group.protocol_name, member.assignment)
        if member is old:
            entry = entry._replace(
                member_id=command.new_member_id,
                client_id=command.client_id,
                client_host=command.client_host,
                rebalance_timeout_ms=command.rebalance_timeout_ms,
                session_timeout_ms=command.session_timeout_ms,
                subscription=offered.get(group.protocol_name or "", b""),
            )
        members.append(entry)
    return GroupStored(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol_name=group.protocol_name,
        leader=command.new_member_id if group.leader == old.member_id else group.leader,
        state_timestamp_ms=group.state_timestamp_ms,
        members=tuple(sorted(members)),
        cause=Cause(CauseKind.STATIC_MEMBER_REPLACED, now_ms, command.new_member_id, f"was {old.member_id}"),
    )


def _current_generation_of(group: ClassicGroup, command: Join, old: Member) -> JoinResult:
    """Return the answer without a round: the leader must not compute, but has to watch its topics again.

    A sender that knows SkipAssignment is told so (KIP-814). Any other is shown the old id as leader, so that it takes
    itself for a follower.
    """
    is_leader = group.leader == old.member_id
    result = JoinResult(
        error=ErrorCode.NONE,
        member_id=command.new_member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
    )
    if not is_leader or not command.can_skip_assignment:
        return result
    return replace(
        result, leader=command.new_member_id, members=_members_with(group, command, old), skip_assignment=True
    )


def _members_with(group: ClassicGroup, command: Join, old: Member) -> tuple[JoinedMember, ...]:
    metadata = dict(command.protocols).get(group.protocol_name or "", b"")
    newcomer = JoinedMember(command.new_member_id, command.instance_id, metadata)
    others = (entry for entry in group.members_for_leader(group.protocol_name) if entry.member_id != old.member_id)
    return tuple(sorted((*others, newcomer)))
