"""The three ways out of a classic group: to leave, to be removed by an administrator, to be evicted by its session.

A member that goes is answered if it was waiting, its timer is disarmed, and what follows for the group is decided on
the membership without it: a round in a running group, a look at whether a gathering one is complete now.
"""

from __future__ import annotations

from kohort.group.classic.group import ClassicGroup, Phase, identity_error
from kohort.group.commands import CheckJoin, Leave, Leaving, OpenRound
from kohort.group.effects import Disarm, Effects, Note, Reply, Then, parked_join, parked_sync
from kohort.group.events import MemberRemoved, PendingMemberDropped
from kohort.group.group_timers import hold_timer, join_timer, quiet_timer, session_timer, sync_timer
from kohort.group.results import JoinResult, LeaveResult, LeftMember, SyncResult
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode


def remove(group: ClassicGroup, member_id: str, cause: Cause) -> Effects:
    """Take a member out. If it waits, it learns that it is unknown now, and a live one joins again."""
    member = group.members[member_id]
    # Every sign of life arms the session anew, so where one ran out nothing came for exactly as long.
    silent_ms = member.session_timeout_ms if cause.kind is CauseKind.SESSION_TIMEOUT else -1
    if member_id in group.awaiting_join:
        yield Reply(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, ""), parked_join(group.group_id, member_id))
    if member_id in group.awaiting_sync:
        yield Reply(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID), parked_sync(group.group_id, member_id))
    yield Disarm(member.session)
    timeout_ms = member.session_timeout_ms
    yield Note(MemberRemoved(group.group_id, member_id, member.instance_id, cause, silent_ms, timeout_ms))


def follow_departure(group: ClassicGroup, cause: Cause) -> Effects:
    """Continue without members that are gone: a running group starts a round, a gathering one may be complete."""
    if group.phase in (Phase.STABLE, Phase.COMPLETING_REBALANCE):
        yield Then(OpenRound(group.group_id, cause))
    elif group.phase is Phase.PREPARING_REBALANCE:
        yield Then(CheckJoin(group.group_id))


def decide_leave(group: ClassicGroup, command: Leave, now_ms: int) -> Effects:
    """Let a batch of members go. Each entry gets its own answer; what follows happens once for all of them."""
    if group.phase is Phase.DEAD:
        yield Reply(LeaveResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    answers: list[LeftMember] = []
    causes: list[Cause] = []
    gone: set[str] = set()
    dropped: set[str] = set()
    for leaving in command.members:
        member_id, error = _who_leaves(group, leaving, gone | dropped)
        answers.append(LeftMember(leaving.member_id, leaving.instance_id, error))
        if error:
            continue
        cause = leave_cause(leaving, member_id, now_ms)
        if member_id in group.pending:
            dropped.add(member_id)
            yield Disarm(session_timer(group.group_id, member_id))
            yield Note(PendingMemberDropped(group.group_id, member_id, cause))
        else:
            gone.add(member_id)
            causes.append(cause)
            yield from remove(group, member_id, cause)
    yield Reply(LeaveResult(ErrorCode.NONE, tuple(answers)))
    if causes:
        yield from follow_departure(group, causes[0])
    elif dropped:
        yield Then(CheckJoin(group.group_id))


def _who_leaves(group: ClassicGroup, leaving: Leaving, gone: set[str]) -> tuple[str, ErrorCode]:
    """Return the member that an entry means, and why it cannot leave."""
    member_id = leaving.member_id
    if not member_id:
        holder = group.static_members.get(leaving.instance_id) if leaving.instance_id is not None else None
        if holder is None or holder in gone:
            return "", ErrorCode.UNKNOWN_MEMBER_ID
        return holder, ErrorCode.NONE
    if member_id in gone:
        return member_id, ErrorCode.UNKNOWN_MEMBER_ID
    if member_id in group.pending:
        return member_id, ErrorCode.NONE
    return member_id, identity_error(group, member_id, leaving.instance_id)


def leave_cause(leaving: Leaving, member_id: str, now_ms: int) -> Cause:
    """Return why a member goes that an entry of LeaveGroup names."""
    kind = CauseKind.MEMBER_LEFT if leaving.member_id else CauseKind.MEMBER_REMOVED
    return Cause(kind, now_ms, member_id, leaving.reason)


def expire_session(group: ClassicGroup, member_id: str, now_ms: int) -> Effects:
    """The session timer fired: an absent member is evicted, an unused id is dropped, a waiting member stays."""
    if member_id in group.pending:
        cause = Cause(CauseKind.SESSION_TIMEOUT, now_ms, member_id, "the issued member id was never used")
        yield Note(PendingMemberDropped(group.group_id, member_id, cause))
        yield Then(CheckJoin(group.group_id))
        return
    member = group.members.get(member_id)
    if member is None:
        return
    is_waiting = member_id in group.awaiting_join or member_id in group.awaiting_sync
    if is_waiting and not member.is_new:
        return
    if member.is_new:
        cause = Cause(CauseKind.NEW_MEMBER_TIMEOUT, now_ms, member_id, "its first JoinGroup waited too long")
    else:
        detail = f"no heartbeat for {member.session_timeout_ms / 1000:.1f} s"
        if member.instance_id is not None:
            # Static members do not leave when they close, so this may have been a clean end.
            detail += " and no new start of its instance"
        cause = Cause(CauseKind.SESSION_TIMEOUT, now_ms, member_id, detail)
    yield from remove(group, member_id, cause)
    yield from follow_departure(group, cause)


def end_waits(group: ClassicGroup, error: ErrorCode) -> Effects:
    """Answer every waiting member with an error, and let no timer of the group or of an issued id fire."""
    group_id = group.group_id
    for member_id in sorted(group.awaiting_join):
        told = member_id if error is ErrorCode.REBALANCE_IN_PROGRESS else ""
        yield Reply(JoinResult(error, told), parked_join(group_id, member_id))
    for member_id in sorted(group.awaiting_sync):
        yield Reply(SyncResult(error), parked_sync(group_id, member_id))
    for member_id in sorted(group.pending):
        yield Disarm(session_timer(group_id, member_id))
    yield Disarm(join_timer(group_id))
    yield Disarm(quiet_timer(group_id))
    yield Disarm(sync_timer(group_id, group.generation))
    yield Disarm(hold_timer(group_id, group.generation))
