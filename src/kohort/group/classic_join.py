"""Who comes: JoinGroup of new members, of members with a fresh id, and of members that are in the group already.

A join is parked until its generation forms, unless the sender learns something at once: its new id, an error, or the
current generation because nothing has changed since it got it.
"""

from __future__ import annotations

from kohort.group.classic_exit import follow_departure, remove
from kohort.group.classic_group import ClassicGroup, Phase
from kohort.group.classic_static import replace_static_member
from kohort.group.commands import CheckJoin, Join, OpenRound
from kohort.group.effects import Append, Arm, Disarm, Effects, Note, Park, Reply, Then, parked_join
from kohort.group.events import GroupStored, MemberAdded, MemberIdIssued, MemberRejoined, PendingMemberDropped
from kohort.group.identity import identity_error
from kohort.group.results import JoinResult
from kohort.group.settings import NEW_MEMBER_JOIN_TIMEOUT_MS, GroupSettings
from kohort.group.timers import session_timer
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode


def decide_first_join(group: ClassicGroup, command: Join, now_ms: int, settings: GroupSettings) -> Effects:
    """Let the first member into a group that does not exist yet; `group` is how it will be, empty.

    That the group exists is stored at once, even when its first member only got an id (KIP-394).
    """
    if command.member_id:
        yield Reply(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, command.member_id))
        return
    effects = tuple(decide_join(group, command, now_ms, settings))
    if any(isinstance(effect, Note) for effect in effects):
        cause = Cause(CauseKind.GROUP_CREATED, now_ms, command.new_member_id)
        yield Append(GroupStored(group.group_id, None, 0, None, None, now_ms, (), cause))
    yield from effects


def decide_join(group: ClassicGroup, command: Join, now_ms: int, settings: GroupSettings) -> Effects:
    """Decide one JoinGroup: capacity first, then protocols, then who the sender is."""
    member_id = command.member_id
    if not group.is_accepting(member_id, settings.max_size):
        yield Reply(JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
        yield from _shed(group, member_id, now_ms, settings)
    elif group.phase is Phase.DEAD:
        yield Reply(JoinResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id))
    elif not group.is_supporting(command.protocol_type, command.protocols):
        yield Reply(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
    elif not member_id:
        yield from _join_unknown(group, command, now_ms, settings)
    elif member_id in group.pending:
        yield from _join_pending(group, command, now_ms)
    elif error := identity_error(group, member_id, command.instance_id):
        yield Reply(JoinResult(error, member_id))
    else:
        yield from _rejoin(group, command, now_ms)


def _shed(group: ClassicGroup, member_id: str, now_ms: int, settings: GroupSettings) -> Effects:
    """Forget a sender that finds the group full: it comes back, if at all, as somebody new."""
    cause = Cause(CauseKind.GROUP_TOO_LARGE, now_ms, member_id, f"{settings.max_size} members are in already")
    if member_id in group.members:
        yield from remove(group, member_id, cause)
        yield from follow_departure(group, cause)
    elif member_id in group.pending:
        yield Disarm(session_timer(group.group_id, member_id))
        yield Note(PendingMemberDropped(group.group_id, member_id, cause))
        yield Then(CheckJoin(group.group_id))


def _join_unknown(group: ClassicGroup, command: Join, now_ms: int, settings: GroupSettings) -> Effects:
    new_member_id = command.new_member_id
    if command.instance_id is not None and command.instance_id in group.static_members:
        yield from replace_static_member(group, command, now_ms, settings)
    elif command.instance_id is None and command.is_two_step:
        # KIP-394: a client that times out and retries must not leave a member behind each time.
        cause = Cause(CauseKind.MEMBER_ID_ISSUED, now_ms, new_member_id, command.reason)
        yield Note(MemberIdIssued(group.group_id, new_member_id, cause))
        yield Reply(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, new_member_id))
        yield Arm(session_timer(group.group_id, new_member_id), now_ms + command.session_timeout_ms)
    else:
        yield from _admit(group, command, new_member_id, now_ms)


def _join_pending(group: ClassicGroup, command: Join, now_ms: int) -> Effects:
    if command.instance_id is not None:
        # A static member is never given an id to come back with, so this is nobody we know.
        yield Reply(JoinResult(ErrorCode.UNKNOWN_SERVER_ERROR, command.member_id))
    else:
        yield from _admit(group, command, command.member_id, now_ms)


def _admit(group: ClassicGroup, command: Join, member_id: str, now_ms: int) -> Effects:
    cause = Cause(CauseKind.MEMBER_JOINED, now_ms, member_id, command.reason)
    yield Note(
        MemberAdded(
            group_id=group.group_id,
            member_id=member_id,
            instance_id=command.instance_id,
            client_id=command.client_id,
            client_host=command.client_host,
            session_timeout_ms=command.session_timeout_ms,
            rebalance_timeout_ms=command.rebalance_timeout_ms,
            protocol_type=command.protocol_type,
            protocols=command.protocols,
            cause=cause,
        )
    )
    yield Park(parked_join(group.group_id, member_id))
    yield Arm(session_timer(group.group_id, member_id), now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
    yield _gather(group, cause)


def _gather(group: ClassicGroup, cause: Cause) -> Then:
    if group.is_gathering:
        return Then(CheckJoin(group.group_id))
    return Then(OpenRound(group.group_id, cause))


def _rejoin(group: ClassicGroup, command: Join, now_ms: int) -> Effects:
    member = group.members[command.member_id]
    is_changed = member.protocols != command.protocols
    is_leader = group.leader == member.member_id
    match group.phase:
        case Phase.PREPARING_REBALANCE:
            yield from _park_rejoin(
                group, command, Cause(_change(group, command), now_ms, member.member_id, command.reason)
            )
        case Phase.COMPLETING_REBALANCE | Phase.STABLE if is_changed:
            yield from _park_rejoin(
                group, command, Cause(_change(group, command), now_ms, member.member_id, command.reason)
            )
        case Phase.STABLE if is_leader:
            # Shipped leaders say in no other way that topics have changed.
            yield from _park_rejoin(
                group, command, Cause(CauseKind.LEADER_REJOINED, now_ms, member.member_id, command.reason)
            )
        case Phase.COMPLETING_REBALANCE | Phase.STABLE:
            # It did not get the answer to its last join, or asks without need: its generation is still the current.
            yield Reply(current_generation(group, member.member_id, with_members=is_leader))
        case _:
            yield Reply(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id))


def _park_rejoin(group: ClassicGroup, command: Join, cause: Cause) -> Effects:
    place = parked_join(group.group_id, command.member_id)
    if command.member_id in group.awaiting_join:
        yield Reply(JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, command.member_id), place)
    yield Note(
        MemberRejoined(
            group_id=group.group_id,
            member_id=command.member_id,
            session_timeout_ms=command.session_timeout_ms,
            rebalance_timeout_ms=command.rebalance_timeout_ms,
            protocols=command.protocols,
            cause=cause,
        )
    )
    yield Park(place)
    yield _gather(group, cause)


def _change(group: ClassicGroup, command: Join) -> CauseKind:
    """Return what is different about a known member that joins again."""
    known = group.members[command.member_id].protocols
    if known == command.protocols:
        return CauseKind.MEMBER_REJOINED
    if [name for name, _ in known] != [name for name, _ in command.protocols]:
        return CauseKind.PROTOCOL_CHANGED
    return CauseKind.SUBSCRIPTION_CHANGED


def current_generation(group: ClassicGroup, member_id: str, *, with_members: bool) -> JoinResult:
    """Return the answer of a join that changes nothing."""
    return JoinResult(
        error=ErrorCode.NONE,
        member_id=member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        members=group.members_for_leader(group.protocol_name) if with_members else (),
    )
