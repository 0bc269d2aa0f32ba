"""Classic groups: the coordinator's half of JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

THE MACHINE. A group is Empty; a join makes it PreparingRebalance: it *gathers*. When every member it awaits has joined,
or time is up, those who are here form the next generation and the group is CompletingRebalance: it awaits the
leader's assignment. When the leader's SyncGroup is stored it is Stable. A change of membership or of what members
offer sends it back to gathering; with no member left it is Empty. Dead is a group this coordinator has dropped.

    Empty ──join──▶ PreparingRebalance ──all joined, or time──▶ CompletingRebalance ──leader's sync──▶ Stable
      ▲                │        ▲                                      │                                  │
      └─no member left─┘        └──────────── join, leave, eviction ───┴──────────────────────────────────┘

THE RULES.
 1. What survives is one record: the last generation with its members, and their assignments once it is synced; or
    the empty group. It is written before any member learns of the generation, so no member ever shows one that
    the log does not know, and no number is given out twice. Who gathers, who waits and why is soft state.
 2. A member waits in one place at a time: for the generation (its JoinGroup is parked) or for the assignment (its
    SyncGroup is). A member that waits is alive: its session cannot expire. A member new to the group is the exception,
    since it may be long gone: its wait is bounded by five minutes.
 3. A member that goes while parked is answered, and every departure from a gathering group asks anew whether it is
    complete: a stuck round is the oldest bug of this protocol (KAFKA-12890 and its many cousins).
 4. An id that was issued and not used yet (KIP-394) delays the round, for one session timeout at most.
 5. A static member (KIP-345) outlives a round it misses, because it never leaves by itself; it dies by its session or
    by the sync timer. If it comes back without its id it gets a new one and the old one is fenced.
 6. Order never matters: where Kafka takes a hash map's order we take the order of ids.
 7. In a Stable group a leader that joins again forces a round, because shipped clients show in no other way that
    topics have changed; unless its reason is `blind`, which retains the generation (KIP-423). A follower with nothing
    new retains it whatever its reason. What a member offers outranks every reason.

WHO LEADS. The first member; afterwards the leader stays as long as it rejoins, else the smallest id that did. A leader
that could not assign is passed over until another could. It sets the pace of failing rounds: each waits for it to
join again, which it does with its own backoff, while members of other makes wait in JoinGroup.

THE FIRST ROUND of an empty group waits `group.initial.rebalance.delay.ms`, again and again while members arrive, at
most the longest rebalance timeout (KIP-134); or, where `kohort.group.initial.quiet.ms` is set, until no join has come
for so long and no issued id is outstanding, if that is earlier.

AFTER A FAILOVER (the four cases of the client-side assignment proposal) nothing is lost but who was waiting:
 1. before a generation is stored, its members find the one before it and join again;
 2. after that, before all were answered: the group is CompletingRebalance. A member that repeats its JoinGroup is
    answered with the generation; a changed one, or a new one, makes all join again;
 3. before the assignments are stored, the leader hands them in again and followers wait as before;
 4. after that, every SyncGroup is answered at once.

A COOPERATIVE ROUND that takes partitions away is followed by another, which the revoking members start. The others
are parked in SyncGroup until then (see `sync_group`), so that they need not learn it from a heartbeat.

DOUBTS.
 - KIP-814's SkipAssignment needs JoinGroup v9. A `blind` leader of v8 is shown the members, computes, and what it
   hands in is ignored: if topics changed meanwhile it takes them for assigned. No shipped client sends `blind`.
 - A member that comes back after a failover is compared by the chosen protocol alone, and by its subscription but
   for the generation in it; what else it offers is learnt then, so until then a vote knows one protocol.
 - Kafka does not rebalance when a static member comes back with other topics (KAFKA-12759); we do, since otherwise
   no member ever reads them.
 - Kafka starts a round when an id that never joined leaves a Stable group. It owned nothing, so we do not.
 - A second JoinGroup or SyncGroup of a member that already waits answers the first with REBALANCE_IN_PROGRESS: Kafka
   forgets it, which is the same to a client that abandoned it, and a leak in us.

The decisions are beside this module: `join_group` (new, known and restarted members), `round` (the round itself),
`sync_group` (the assignments), `exit` (leaving, removal, eviction). This one answers heartbeats, routes timers, takes
groups up and drops them.
"""

from __future__ import annotations

from kohort.group.classic.exit import end_waits, expire_session
from kohort.group.classic.group import ClassicGroup, Phase, identity_error
from kohort.group.classic.round import end_gathering, end_initial_delay, expire_syncs
from kohort.group.classic.sync_group import release_syncs
from kohort.group.commands import Heartbeat, Loaded, OpenRound, TimerFired, Unload
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Arm, Disarm, Effects, Note, Reply, Then
from kohort.group.events import GroupLoaded, GroupUnloaded
from kohort.group.group_timers import TimerKind, sync_timer
from kohort.group.results import HeartbeatResult
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode

_ALIVE = HeartbeatResult(ErrorCode.NONE)
_QUIET = HeartbeatResult(ErrorCode.NONE, is_quiet=True)
_REBALANCING = HeartbeatResult(ErrorCode.REBALANCE_IN_PROGRESS)


def decide_heartbeat(group: ClassicGroup, command: Heartbeat, now_ms: int) -> Effects:
    """Renew the member's session, answer whether it must rejoin. Runs more often than all else: it yields tuples."""
    phase = group.phase
    if phase is Phase.DEAD:
        return (Reply(HeartbeatResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)),)
    member = group.members.get(command.member_id)
    if member is None or command.instance_id is not None:
        error = identity_error(group, command.member_id, command.instance_id)
        if error or member is None:
            return (Reply(HeartbeatResult(error)),)
    if command.generation != group.generation:
        if not group.is_behind(command.member_id, command.generation):
            return (Reply(HeartbeatResult(ErrorCode.ILLEGAL_GENERATION)),)
        result = _REBALANCING
    elif phase is Phase.STABLE:
        result = _ALIVE if group.is_withholding else _QUIET
    else:
        result = _REBALANCING if phase is Phase.PREPARING_REBALANCE else _ALIVE
    if command.is_counted:  # the session runs from when it came, however late it is answered
        return (Reply(result),)
    return (Reply(result), Arm(member.session, now_ms + member.session_timeout_ms))


def decide_timer(group: ClassicGroup, command: TimerFired, now_ms: int, settings: GroupSettings) -> Effects:
    """Do what a timer of the group was armed for, unless the group has moved on."""
    timer = command.timer
    match timer.kind:
        case TimerKind.SESSION:
            yield from expire_session(group, timer.member_id, now_ms)
        case TimerKind.JOIN:
            yield from end_gathering(group, now_ms)
        case TimerKind.SYNC:
            yield from expire_syncs(group, timer.generation, now_ms)
        case TimerKind.HOLD:
            yield from release_syncs(group, timer.generation, now_ms, settings)
        case TimerKind.QUIET:
            yield from end_initial_delay(group, now_ms)


def decide_loaded(group: ClassicGroup, _command: Loaded, now_ms: int, settings: GroupSettings) -> Effects:
    """Take up a replayed group: every member has a full session to send a request; one too many starts a round.

    A generation that has no assignments yet still awaits its leader's, as long as it would have had from the start.
    """
    if group.members:
        yield Note(GroupLoaded(group.group_id, Cause(CauseKind.COORDINATOR_LOADED, now_ms)))
    for _, member in sorted(group.members.items()):
        yield Arm(member.session, now_ms + member.session_timeout_ms)
    if group.phase is Phase.COMPLETING_REBALANCE:
        yield Arm(sync_timer(group.group_id, group.generation), now_ms + group.max_rebalance_timeout_ms())
    if len(group.members) > settings.max_size:
        detail = f"{len(group.members)} members loaded, {settings.max_size} allowed"
        yield Then(OpenRound(group.group_id, Cause(CauseKind.GROUP_TOO_LARGE, now_ms, detail=detail)))
    elif group.phase is Phase.STABLE and group.leader is None:
        # It was a consumer group until just now, and the round that makes it a classic one is lost (see conversion).
        yield Then(OpenRound(group.group_id, Cause(CauseKind.GROUP_CONVERTED, now_ms, detail="it has no leader yet")))


def decide_unload(group: ClassicGroup, _command: Unload, now_ms: int, _settings: GroupSettings) -> Effects:
    """Give the group up: every waiting member must look for the coordinator again, and no timer of it may fire."""
    for _, member in sorted(group.members.items()):
        yield Disarm(member.session)
    yield from end_waits(group, ErrorCode.NOT_COORDINATOR)
    yield Note(GroupUnloaded(group.group_id, Cause(CauseKind.COORDINATOR_UNLOADED, now_ms)))
