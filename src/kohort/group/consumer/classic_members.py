"""Classic members inside a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup in the terms of KIP-848.

THE MACHINE. A classic group makes all its members join and sync together. Here each has a small round of its own,
which the coordinator starts when it needs one, and there is no leader: the server-side assignor took over at once.

    Stable ──a target, or partitions it waits for are free──▶ PrepareRebalance ──its JoinGroup is answered──┐
      ▲                                                          ▲         │                               ▼
      └──────────── its SyncGroup ───────────────────────────────┼─────────│─────────────── CompletingRebalance
                    a new target, or something left to give back─┘         └─▶ it waits for partitions (JoinGroup)

THE RULES.
 1. The generation that a classic member speaks of is its member epoch. JoinGroup has what it subscribes to and owns,
    as a native heartbeat would; SyncGroup asks what it is granted; Heartbeat renews its session and calls it to join.
 2. JoinGroup moves the member one step (`reconcile`). Who must give something back is answered at once, in its old
    epoch: it learns from SyncGroup what stays, revokes the rest and joins again. Who need not waits until all
    that it will get is free, and is then answered in its new epoch: so it joins once where Kafka, which answers at
    once, has it join again and again. An eager member owns nothing when it joins, so it never delays another: what
    it had is free when it waits. The wait is bounded by the member's rebalance timeout; then it gets what there is.
 3. A member whose JoinGroup waits is alive: its session does not run.
 4. A member that is called must join within its rebalance timeout, and sync within it after that, or is evicted. Both
    bounds are the member's own, and its phase is stored beside what it owns: the coordinator that takes the group over
    arms them again (Kafka forgets them).
 5. A new target calls every classic member, even one that retains what it has: its generation is old then. One that
    waits for partitions is called when all of them are free.
 6. What a member reports to own counts only against what it is granted: an old claim can delay, never give.

DOUBTS.
 - The specification lets JoinGroup fail unless the generation in the subscription is the member's epoch. A lost answer
   leaves a member behind, and Java ends on the error; since an old claim gives nothing, only one from the future is
   refused, as an unknown member's.
 - An id that was issued and not used yet (KIP-394) is not remembered: any unknown id without claims is new. One that
   claims an epoch or partitions was evicted, and is answered so.
 - A member in CompletingRebalance that a new target overtakes is sent back to join by SyncGroup, as in Kafka; the
   specification would give it its assignment, and then call it.

The decisions on JoinGroup are in `classic_join`; those on LeaveGroup and on the two bounds in `exit`. This module
answers heartbeats and SyncGroup, calls members to join, and takes them up and drops them with the group. There is no
leader, so assignments in a SyncGroup are ignored. A member that must give something back is answered with what
stays: what it was granted and is still to own.
"""

from __future__ import annotations

from kohort.group.classic.group import CONSUMER_PROTOCOL_TYPE, Member, instance_error
from kohort.group.commands import DowngradeIfDue, Heartbeat, Join, PrepareClassic, ReconcileJoin, Sync
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember
from kohort.group.consumer.reconcile import ids_of, stored_step
from kohort.group.coordinator_settings import GroupSettings, NamedPartitions
from kohort.group.effects import Append, Arm, Disarm, Effects, Note, Reply, Then, WakeMembers, parked_join
from kohort.group.events import (
    ClassicJoinAnswered,
    ClassicMemberMetadata,
    ClassicPhase,
    ConsumerMemberStored,
    MemberState,
)
from kohort.group.group_timers import member_join_timer, member_sync_timer
from kohort.group.results import HeartbeatResult, JoinResult, SyncResult
from kohort.model.assignment import IdPartitions, each, id_partitions
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription

CALLED_AT_ONCE = 1_000
"""How many members one decision calls at most: their records are one batch."""

_ALIVE = HeartbeatResult(ErrorCode.NONE)
_QUIET = HeartbeatResult(ErrorCode.NONE, is_quiet=True)
_REBALANCING = HeartbeatResult(ErrorCode.REBALANCE_IN_PROGRESS)


def classic_record(
    group_id: str, member_id: str, sender: Join | Member, subscription: Subscription, cause: Cause
) -> ConsumerMemberStored:
    """Return the record of a classic member: of one that joins, or of one whose group is converted."""
    return ConsumerMemberStored(
        group_id=group_id,
        member_id=member_id,
        instance_id=sender.instance_id,
        rack_id=subscription.rack,
        client_id=sender.client_id,
        client_host=sender.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="",
        rebalance_timeout_ms=sender.rebalance_timeout_ms,
        server_assignor=None,
        classic=ClassicMemberMetadata(sender.session_timeout_ms, sender.protocols),
        cause=cause,
    )


def decide_heartbeat(group: ConsumerGroup, command: Heartbeat, now_ms: int) -> Effects:
    """Renew a classic member's session, and answer whether it must join again."""
    if group.is_dead:
        return (Reply(HeartbeatResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)),)
    member = group.members.get(command.member_id)
    if member is None or member.classic is None or command.instance_id is not None:
        error = identity_error(group, command.member_id, command.instance_id)
        if error or member is None or member.classic is None:
            return (Reply(HeartbeatResult(error or ErrorCode.UNKNOWN_MEMBER_ID)),)
    phase = member.classic_phase
    if command.generation != member.epoch:
        if command.generation > member.epoch or phase is ClassicPhase.STABLE:
            return (Reply(HeartbeatResult(ErrorCode.ILLEGAL_GENERATION)),)
        result = _REBALANCING  # its JoinGroup waits, or its answer was lost
    elif phase is ClassicPhase.PREPARE_REBALANCE or is_behind(group, member):
        result = _REBALANCING
    else:
        result = _QUIET if phase is ClassicPhase.STABLE else _ALIVE
    if command.is_counted or command.member_id in group.awaiting_join:
        return (Reply(result),)
    return (Reply(result), Arm(member.session, now_ms + member.classic.session_timeout_ms))


def identity_error(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """Return why the sender is not the classic member it claims to be, or NONE."""
    if error := instance_error(group.static_members, member_id, instance_id):
        return error
    member = group.members.get(member_id)
    return ErrorCode.UNKNOWN_MEMBER_ID if member is None or member.classic is None else ErrorCode.NONE


def is_behind(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether a target has overtaken the member, and nothing else has to happen before it joins again."""
    return member.epoch < group.assignment_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS


def is_due(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether a member that has not been called must join. Costs as much as the member has partitions."""
    if member.classic_phase is ClassicPhase.PREPARE_REBALANCE:
        return False
    if is_behind(group, member):
        return True
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        # It learns from SyncGroup what it must give back.
        return member.classic_phase is ClassicPhase.STABLE
    return member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member)


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    granted = {topic.topic_id: set(topic.partitions) for topic in member.assigned}
    return any(
        partition not in granted.get(topic_id, ()) and group.owner_epoch(topic_id, partition) != -1
        for topic_id, partition in each(member.target)
    )


# -- calling members to join


def decide_prepare(group: ConsumerGroup, command: PrepareClassic, now_ms: int, _settings: GroupSettings) -> Effects:
    """Call those who must join, and look again at the joins that wait."""
    ids = sorted(group.members) if command.member_ids is None else command.member_ids
    called: list[str] = []
    for position, member_id in enumerate(ids):
        member = group.members.get(member_id)
        if member is None or member.classic is None:
            continue
        if member_id in group.awaiting_join:
            yield Then(ReconcileJoin(group.group_id, member_id, command.cause, is_waiting=True))
        elif is_due(group, member):
            if len(called) == CALLED_AT_ONCE:
                yield Then(PrepareClassic(group.group_id, tuple(ids[position:]), command.cause))
                break
            called.append(member_id)
            yield from call(group, member, command.cause, now_ms)
    if called:
        yield WakeMembers(group.group_id, tuple(called))


def call(group: ConsumerGroup, member: ConsumerMember, cause: Cause, now_ms: int) -> Effects:
    """Have a member join within its rebalance timeout; its next heartbeat is answered so."""
    yield Append(stored_step(group, member, ClassicPhase.PREPARE_REBALANCE, cause))
    if member.classic_phase is ClassicPhase.COMPLETING_REBALANCE:
        yield Disarm(member_sync_timer(group.group_id, member.member_id))
    yield await_join(group, member, now_ms)


def await_join(group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> Arm:
    """Bound the time until a member joins, or until its JoinGroup is answered."""
    timer = member_join_timer(group.group_id, member.member_id)
    return Arm(timer, now_ms + max(member.rebalance_timeout_ms, 0))


def await_sync(group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> Arm:
    """Bound the time until a member asks for its assignment."""
    timer = member_sync_timer(group.group_id, member.member_id)
    return Arm(timer, now_ms + max(member.rebalance_timeout_ms, 0))


# -- the ends


def release(group: ConsumerGroup, member_id: str, error: ErrorCode) -> Effects:
    """Answer the waiting JoinGroup of a member that goes, and let neither bound of it run."""
    if member_id in group.awaiting_join:
        reported_id = member_id if error is ErrorCode.FENCED_INSTANCE_ID else ""
        yield Reply(JoinResult(error, reported_id), parked_join(group.group_id, member_id))
    yield Disarm(member_join_timer(group.group_id, member_id))
    yield Disarm(member_sync_timer(group.group_id, member_id))


def send_back(group: ConsumerGroup, member_id: str, cause: Cause) -> Effects:
    """Answer a waiting JoinGroup that its sender must repeat."""
    place = parked_join(group.group_id, member_id)
    yield Reply(JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member_id), place)
    yield Note(ClassicJoinAnswered(group.group_id, member_id, cause))


def decide_loaded(group: ConsumerGroup, now_ms: int) -> Effects:
    """Take the classic members of a replayed group up: each has the whole of what it had to do then before it."""
    if group.natives == len(group.members):
        return
    for _, member in sorted(group.members.items()):
        if member.classic is None:
            continue
        if member.classic_phase is ClassicPhase.PREPARE_REBALANCE:
            yield await_join(group, member, now_ms)
        elif member.classic_phase is ClassicPhase.COMPLETING_REBALANCE:
            yield await_sync(group, member, now_ms)
    # An exit, a target or a release may be in the log without the conversion or the calls that should have followed.
    cause = Cause(CauseKind.COORDINATOR_LOADED, now_ms)
    yield Then(DowngradeIfDue(group.group_id, cause))
    yield Then(PrepareClassic(group.group_id, None, cause))


def decide_unload(group: ConsumerGroup) -> Effects:
    """Give the classic members up: every waiting member must look for the coordinator again."""
    if group.natives == len(group.members):
        return
    for member_id, member in sorted(group.members.items()):
        if member.classic is not None:
            yield from release(group, member_id, ErrorCode.NOT_COORDINATOR)


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
        yield Append(stored_step(group, member, ClassicPhase.PREPARE_REBALANCE, cause))
        yield await_join(group, member, now_ms)
    else:
        yield Append(stored_step(group, member, ClassicPhase.STABLE, cause))


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
    assert member.classic is not None, "a native member receives topic ids"
    named: NamedPartitions = tuple(
        sorted(
            (topic.name, numbers)
            for topic_id, numbers in partitions
            if (topic := settings.image.topic_by_id(topic_id)) is not None
        )
    )
    subscription = settings.subscription_of(member.classic.protocols[0][1])
    return settings.encode_assignment_of(named, subscription.version if subscription is not None else 0)
