"""SyncGroup: the leader hands the assignments in, or reports why it cannot; every member takes its own.

A SyncGroup waits for the leader while the group is CompletingRebalance. In a Stable group it may wait once more: when
a cooperative assignment took partitions away that no member has yet (KIP-429), their members will revoke them and join
again, and each other member that must join then learns it at once instead of by its next heartbeat. That wait is short,
ends with the next round, and is lost with the process: then members find the Stable group that the log has.

librdkafka joins no more than once a second, unless it has revoked partitions meanwhile. What is revoked has no owner
until the last one has joined: so those that must revoke wait as well, until the others would join at once.
"""

from __future__ import annotations

from kohort.group.classic.group import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    Member,
    Phase,
    identity_error,
    stored,
    stored_member,
)
from kohort.group.commands import OpenRound, Sync
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Append, Arm, Disarm, Effects, Note, Park, Reply, Then, parked_sync
from kohort.group.events import AssignmentFailed, RevocationsAwaited, SyncReceived, SyncsReleased
from kohort.group.group_timers import hold_timer, sync_timer
from kohort.group.results import SyncResult
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode

LONGEST_FAILURE = 1_000
"""How many characters of a leader's failure are passed on."""


def decide_sync(group: ClassicGroup, command: Sync, now_ms: int, settings: GroupSettings) -> Effects:
    """Give the member its assignment, or park its request for the leader, or take the assignments from the leader."""
    error = _sync_error(group, command)
    if error:
        yield Reply(SyncResult(error))
        return
    member = group.members[command.member_id]
    is_leader = command.member_id == group.leader
    match group.phase:
        case Phase.PREPARING_REBALANCE if group.sync_failure is not None:
            # It comes for the assignment that its leader could not make.
            yield Reply(SyncResult(ErrorCode.UNKNOWN_SERVER_ERROR, error_message=group.sync_failure))
        case Phase.PREPARING_REBALANCE:
            yield Reply(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        case Phase.COMPLETING_REBALANCE if is_leader and command.failure is not None:
            yield from _fail_assignment(group, member, command.failure, now_ms)
        case Phase.COMPLETING_REBALANCE if is_leader:
            yield from _store_assignments(group, command, now_ms, settings)
        case Phase.COMPLETING_REBALANCE:
            yield from _wait(group, member, now_ms)
        case Phase.STABLE if group.is_withheld(command.member_id):
            yield from _wait(group, member, now_ms)
        case Phase.STABLE:
            yield from _receive(group, member, now_ms, is_waiting=False)
            yield Reply(_assigned(group, member.assignment))
        case _:
            yield Reply(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))


def _sync_error(group: ClassicGroup, command: Sync) -> ErrorCode:
    if group.phase is Phase.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error := identity_error(group, command.member_id, command.instance_id):
        return error
    if command.generation != group.generation:
        is_behind = group.is_behind(command.member_id, command.generation)
        return ErrorCode.REBALANCE_IN_PROGRESS if is_behind else ErrorCode.ILLEGAL_GENERATION
    if command.protocol_type is not None and command.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    # Before its first generation, or after its last, a group has no protocol that a sender could miss.
    if None not in (command.protocol_name, group.protocol_name) and command.protocol_name != group.protocol_name:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _assigned(group: ClassicGroup, assignment: bytes) -> SyncResult:
    return SyncResult(ErrorCode.NONE, group.protocol_type, group.protocol_name, assignment)


def _wait(group: ClassicGroup, member: Member, now_ms: int) -> Effects:
    place = parked_sync(group.group_id, member.member_id)
    if member.member_id in group.awaiting_sync:
        yield Reply(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS), place)
    yield from _receive(group, member, now_ms, is_waiting=True)
    yield Park(place)


def _receive(group: ClassicGroup, member: Member, now_ms: int, *, is_waiting: bool) -> Effects:
    if is_waiting or member.member_id in group.pending_sync:
        cause = Cause(CauseKind.MEMBER_SYNCED, now_ms, member.member_id)
        yield Note(SyncReceived(group.group_id, member.member_id, is_waiting, cause))
    if group.pending_sync == {member.member_id}:
        yield Disarm(sync_timer(group.group_id, group.generation))


# -- the leader


def _store_assignments(group: ClassicGroup, command: Sync, now_ms: int, settings: GroupSettings) -> Effects:
    """Store the generation with the leader's assignments, then answer every waiting member that is not to wait.

    A member that the leader forgot gets an empty assignment; an assignment to an unknown member is ignored.
    """
    assignments = dict(command.assignments)
    leader = group.members[command.member_id]
    protocol_name = group.protocol_name
    members = [
        stored_member(member, protocol_name, assignments.get(member_id, b""))
        for member_id, member in group.members.items()
    ]
    yield Append(stored(group, members, now_ms, Cause(CauseKind.LEADER_SYNCED, now_ms, command.member_id)))
    waiting = sorted(group.awaiting_sync | {command.member_id})
    revoking = _revoking(group, assignments, settings)
    is_withholding = bool(revoking) and settings.sync_hold_ms > 0
    others = group.members.keys() - set(revoking)
    revoke_ms = max((group.members[each].joins_again_ms for each in others), default=0) if is_withholding else 0
    is_delayed = revoke_ms > now_ms
    withheld = tuple(each for each in waiting if is_withholding and (is_delayed or each not in revoking))
    if revoking:
        yield _await_revocations(
            group, revoking, withheld, now_ms, is_withholding=is_withholding, is_delayed=is_delayed
        )
    yield from _receive(group, leader, now_ms, is_waiting=False)
    if is_withholding:
        until_ms = revoke_ms if is_delayed else now_ms + settings.sync_hold_ms
        yield Arm(hold_timer(group.group_id, group.generation), until_ms)
    for member_id in waiting:
        place = parked_sync(group.group_id, member_id)
        is_sender = member_id == command.member_id
        if member_id in withheld:
            if is_sender:
                yield Park(place)
            continue
        member = group.members[member_id]
        yield Reply(_assigned(group, assignments.get(member_id, b"")), None if is_sender else place)
        yield Arm(member.session, now_ms + member.session_timeout_ms)


def _revoking(group: ClassicGroup, assignments: dict[str, bytes], settings: GroupSettings) -> list[str]:
    """Return who owns partitions that this assignment gives to no member: the signature of a cooperative round.

    An eager member reports that it owns nothing, or the assignment gives what it owned to a member. Walks all members.
    """
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return []
    owned = {
        member_id: partitions
        for member_id, member in group.members.items()
        if (partitions := settings.owned_of(member.metadata(group.protocol_name)))
    }
    if not owned:
        return []
    given = {member_id: settings.assigned_of(assignments.get(member_id, b"")) for member_id in group.members}
    everything: set[tuple[str, int]] = set()
    for partitions in given.values():
        if partitions is None:
            return []
        everything |= partitions
    lost = {member_id: partitions - (given[member_id] or frozenset()) for member_id, partitions in owned.items()}
    return sorted(member_id for member_id, gone in lost.items() if gone and everything.isdisjoint(gone))


def _await_revocations(
    group: ClassicGroup,
    revoking: list[str],
    withheld: tuple[str, ...],
    now_ms: int,
    *,
    is_withholding: bool,
    is_delayed: bool,
) -> Note:
    why = Cause(CauseKind.PARTITIONS_TO_REVOKE, now_ms, revoking[0], f"{len(revoking)} members must revoke")
    who = tuple(revoking)
    return Note(RevocationsAwaited(group.group_id, group.generation, who, is_withholding, is_delayed, withheld, why))


def _fail_assignment(group: ClassicGroup, leader: Member, failure: str, now_ms: int) -> Effects:
    """The leader could not assign: answer every member of this generation, and let another member lead the next."""
    text = failure[:LONGEST_FAILURE]
    message = f"assignment by leader {leader.member_id} (client id {leader.client_id}) failed: {text}"
    cause = Cause(CauseKind.ASSIGNMENT_FAILED, now_ms, leader.member_id, text)
    yield Note(AssignmentFailed(group.group_id, group.generation, leader.member_id, message, cause))
    yield Reply(SyncResult(ErrorCode.UNKNOWN_SERVER_ERROR, error_message=message))
    yield Arm(leader.session, now_ms + leader.session_timeout_ms)
    yield Then(OpenRound(group.group_id, cause, ErrorCode.UNKNOWN_SERVER_ERROR, message))


def fail_sync(group: ClassicGroup, error: ErrorCode, now_ms: int) -> Effects:
    """The assignments could not be stored: every waiting member is answered so, and a round starts."""
    yield Reply(SyncResult(error))
    cause = Cause(CauseKind.APPEND_FAILED, now_ms, group.leader, f"assignment not stored: {error.name}")
    yield Then(OpenRound(group.group_id, cause, sync_error=error))


# -- the end of a wait


def answer_syncs(group: ClassicGroup, error: ErrorCode, now_ms: int, message: str | None = None) -> Effects:
    """Send every waiting SyncGroup back with an error; its member must send heartbeats again from now on."""
    for member_id in sorted(group.awaiting_sync):
        member = group.members[member_id]
        yield Reply(SyncResult(error, error_message=message), parked_sync(group.group_id, member_id))
        yield Arm(member.session, now_ms + member.session_timeout_ms)


def release_syncs(group: ClassicGroup, generation: int, now_ms: int, settings: GroupSettings) -> Effects:
    """Have members revoke that waited to do so; or none of them has joined again in time: the others get theirs."""
    if not group.is_withholding or generation != group.generation:
        return
    is_time_to_revoke = group.is_revoking_later
    kind = CauseKind.PARTITIONS_TO_REVOKE if is_time_to_revoke else CauseKind.SYNC_HOLD_OVER
    due = tuple(sorted(group.awaiting_sync & group.revoking if is_time_to_revoke else group.awaiting_sync))
    cause = Cause(kind, now_ms, min(group.revoking, default=None))
    yield Note(SyncsReleased(group.group_id, generation, due, is_time_to_revoke, cause))
    if is_time_to_revoke:
        yield Arm(hold_timer(group.group_id, generation), now_ms + settings.sync_hold_ms)
    for member_id in due:
        member = group.members[member_id]
        yield Reply(_assigned(group, member.assignment), parked_sync(group.group_id, member_id))
        yield Arm(member.session, now_ms + member.session_timeout_ms)
