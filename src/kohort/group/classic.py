"""Classic groups: the coordinator's half of JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

THE MACHINE. A group is Empty; a join makes it PreparingRebalance: it *gathers*. When everybody it awaits has joined,
or time is up, those who are here form the next generation and the group is CompletingRebalance: it awaits the
leader's assignment. When the leader's SyncGroup is stored it is Stable. A change of membership or of what members
offer sends it back to gathering; with nobody left it is Empty. Dead is a group this coordinator has given up.

    Empty ──join──▶ PreparingRebalance ──all joined, or time──▶ CompletingRebalance ──leader's sync──▶ Stable
      ▲                │        ▲                                      │                                  │
      └───nobody left──┘        └──────────── join, leave, eviction ───┴──────────────────────────────────┘

THE RULES.
 1. Membership, rounds and generations are soft state. What survives is one record: a synced generation with its
    members and assignments, or the empty group. So after a failover a group is what it was after its last sync; a
    member that was told a younger generation gets ILLEGAL_GENERATION or UNKNOWN_MEMBER_ID and joins again.
 2. A member waits in one place at a time: for the generation (its JoinGroup is parked) or for the assignment (its
    SyncGroup is). Whoever waits is alive: its session cannot expire. A member new to the group is the exception,
    since it may be long gone: its wait is bounded by five minutes.
 3. Whoever goes while parked is answered, and every departure from a gathering group asks anew whether it is
    complete: a stuck round is the oldest bug of this protocol (KAFKA-12890 and its many cousins).
 4. An id that was issued and not used yet (KIP-394) holds the round up, for one session timeout at most.
 5. A static member (KIP-345) outlives a round it misses, because it never leaves by itself; it dies by its session or
    by the sync timer. If it comes back without its id it gets a new one and the old one is fenced.
 6. Order never matters: where Kafka takes a hash map's order we take the order of ids.

WHO LEADS. The first member; afterwards the leader stays as long as it rejoins, else the smallest id that did.

THE FIRST ROUND of an empty group waits `group.initial.rebalance.delay.ms`, again and again while members arrive, at
most the longest rebalance timeout, and does not end early even when everybody known has joined (KIP-134).

DOUBTS.
 - A leader that rejoins a Stable group forces a round even with nothing changed, because shipped clients use that to
   say "the topics changed". KIP-423's reasons, which could tell the two apart, ride in `Join.reason` unread.
 - Kafka does not rebalance when a static member comes back with other topics (KAFKA-12759); we do, since otherwise
   nobody ever reads them.
 - Kafka starts a round when an id that never joined leaves a Stable group. It owned nothing, so we do not.
 - A second JoinGroup or SyncGroup of a member that already waits answers the first with REBALANCE_IN_PROGRESS: Kafka
   forgets it, which is the same to a client that gave up on it, and a leak in us.

The decisions live beside this module: classic_join (who comes), classic_static (who comes back), classic_round (the
round itself), classic_exit (who goes). This one routes, and answers what needs no round.
"""

from __future__ import annotations

from kohort.group.classic_exit import expire_session
from kohort.group.classic_group import ClassicGroup, Member, Phase
from kohort.group.classic_round import end_gathering, expire_syncs
from kohort.group.commands import Heartbeat, OpenRound, Sync
from kohort.group.effects import Append, Arm, Disarm, Effects, Note, Park, Reply, Then, parked_join, parked_sync
from kohort.group.events import GroupStored, GroupUnloaded, StoredMember, SyncReceived
from kohort.group.identity import identity_error
from kohort.group.results import HeartbeatResult, JoinResult, SyncResult
from kohort.group.settings import GroupSettings
from kohort.group.timers import Timer, TimerKind, join_timer, session_timer, sync_timer
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode

_ALIVE = HeartbeatResult(ErrorCode.NONE)
_REBALANCING = HeartbeatResult(ErrorCode.REBALANCE_IN_PROGRESS)


def decide_heartbeat(group: ClassicGroup, command: Heartbeat, now_ms: int) -> Effects:
    """Keep the member alive, and tell it when it must join again. Runs more often than all else: it yields tuples."""
    phase = group.phase
    if phase is Phase.DEAD:
        return (Reply(HeartbeatResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)),)
    member = group.members.get(command.member_id)
    if member is None or command.instance_id is not None:
        error = identity_error(group, command.member_id, command.instance_id)
        if error or member is None:
            return (Reply(HeartbeatResult(error)),)
    if command.generation != group.generation:
        return (Reply(HeartbeatResult(ErrorCode.ILLEGAL_GENERATION)),)
    result = _REBALANCING if phase is Phase.PREPARING_REBALANCE else _ALIVE
    return (Reply(result), Arm(member.session, now_ms + member.session_timeout_ms))


def decide_sync(group: ClassicGroup, command: Sync, now_ms: int) -> Effects:
    """Give the member its assignment, or keep it waiting for the leader, or take the assignments from the leader."""
    error = _sync_error(group, command)
    if error:
        yield Reply(SyncResult(error))
        return
    member = group.members[command.member_id]
    match group.phase:
        case Phase.PREPARING_REBALANCE:
            yield Reply(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        case Phase.COMPLETING_REBALANCE if command.member_id == group.leader:
            yield from _store_assignments(group, command, now_ms)
        case Phase.COMPLETING_REBALANCE:
            place = parked_sync(group.group_id, member.member_id)
            if member.member_id in group.awaiting_sync:
                yield Reply(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS), place)
            yield from _receive_sync(group, member, now_ms, awaits_sync=True)
            yield Park(place)
        case Phase.STABLE:
            yield from _receive_sync(group, member, now_ms, awaits_sync=False)
            yield Reply(SyncResult(ErrorCode.NONE, group.protocol_type, group.protocol_name, member.assignment))
        case _:
            yield Reply(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))


def _sync_error(group: ClassicGroup, command: Sync) -> ErrorCode:
    if group.phase is Phase.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error := identity_error(group, command.member_id, command.instance_id):
        return error
    if command.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if command.protocol_type is not None and command.protocol_type != group.protocol_type:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if command.protocol_name is not None and command.protocol_name != group.protocol_name:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _receive_sync(group: ClassicGroup, member: Member, now_ms: int, *, awaits_sync: bool) -> Effects:
    if awaits_sync or member.member_id in group.pending_sync:
        cause = Cause(CauseKind.MEMBER_SYNCED, now_ms, member.member_id)
        yield Note(SyncReceived(group.group_id, member.member_id, awaits_sync, cause))
    if group.pending_sync == {member.member_id}:
        yield Disarm(sync_timer(group.group_id, group.generation))


def _store_assignments(group: ClassicGroup, command: Sync, now_ms: int) -> Effects:
    """The leader has spoken: store the generation, then answer everybody who waits.

    A member that the leader forgot gets an empty assignment; an assignment to a stranger is ignored.
    """
    assignments = dict(command.assignments)
    leader = group.members[command.member_id]
    yield Append(stored(group, assignments, now_ms, Cause(CauseKind.LEADER_SYNCED, now_ms, command.member_id)))
    yield from _receive_sync(group, leader, now_ms, awaits_sync=False)
    for member_id in sorted(group.awaiting_sync | {command.member_id}):
        member = group.members[member_id]
        assignment = assignments.get(member_id, b"")
        result = SyncResult(ErrorCode.NONE, group.protocol_type, group.protocol_name, assignment)
        if member_id in group.awaiting_sync:
            yield Reply(result, parked_sync(group.group_id, member_id))
        if member is leader:
            yield Reply(result)
        yield Arm(member.session, now_ms + member.session_timeout_ms)


def stored(group: ClassicGroup, assignments: dict[str, bytes], now_ms: int, cause: Cause) -> GroupStored:
    """Return the event that stores the group's generation with these assignments, members by id."""
    return GroupStored(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol_name=group.protocol_name,
        leader=group.leader,
        state_timestamp_ms=now_ms,
        members=tuple(
            StoredMember(
                member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(group.protocol_name),
                assignments.get(member_id, b""),
            )
            for member_id, member in sorted(group.members.items())
        ),
        cause=cause,
    )


def fail_sync(group: ClassicGroup, error: ErrorCode, now_ms: int) -> Effects:
    """The assignments could not be stored: everybody who waits is told so, and a round starts."""
    yield Reply(SyncResult(error))
    cause = Cause(CauseKind.APPEND_FAILED, now_ms, group.leader, f"assignment not stored: {error.name}")
    yield Then(OpenRound(group.group_id, cause, sync_error=error))


def decide_timer(group: ClassicGroup, timer: Timer, now_ms: int) -> Effects:
    """Do what a timer of the group was armed for, unless the group has moved on."""
    match timer.kind:
        case TimerKind.SESSION:
            yield from expire_session(group, timer.member_id, now_ms)
        case TimerKind.JOIN:
            yield from end_gathering(group, now_ms)
        case TimerKind.SYNC:
            yield from expire_syncs(group, timer.generation, now_ms)


def decide_loaded(group: ClassicGroup, now_ms: int, settings: GroupSettings) -> Effects:
    """Take up a replayed group: every member has a full session to be heard of; one too many starts a round."""
    for _, member in sorted(group.members.items()):
        yield Arm(member.session, now_ms + member.session_timeout_ms)
    if len(group.members) > settings.max_size:
        detail = f"{len(group.members)} members loaded, {settings.max_size} allowed"
        yield Then(OpenRound(group.group_id, Cause(CauseKind.GROUP_TOO_LARGE, now_ms, detail=detail)))


def decide_unload(group: ClassicGroup, now_ms: int) -> Effects:
    """Give the group up: whoever waits must look for the coordinator again, and no timer of it may fire."""
    for member_id in sorted(group.awaiting_join):
        yield Reply(JoinResult(ErrorCode.NOT_COORDINATOR, ""), parked_join(group.group_id, member_id))
    for member_id in sorted(group.awaiting_sync):
        yield Reply(SyncResult(ErrorCode.NOT_COORDINATOR), parked_sync(group.group_id, member_id))
    for _, member in sorted(group.members.items()):
        yield Disarm(member.session)
    for member_id in sorted(group.pending):
        yield Disarm(session_timer(group.group_id, member_id))
    yield Disarm(join_timer(group.group_id))
    yield Disarm(sync_timer(group.group_id, group.generation))
    yield Note(GroupUnloaded(group.group_id, Cause(CauseKind.COORDINATOR_UNLOADED, now_ms)))
