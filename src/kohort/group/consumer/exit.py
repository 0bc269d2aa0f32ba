"""The ways out of a consumer group: to leave, to be removed, to be evicted: no heartbeat came, or no revocation.

Native members leave with a heartbeat, classic ones with LeaveGroup, which may name native members too.
A member that goes takes everything of it out of the log, in the order that Kafka replays: what it owns, its target,
itself. The group's epoch rises once for all that go together, and what follows is decided on the group without them:
a new target, or the way back to a classic group. A static member that will come back (-2) does not go: it retains
what it has and its session runs on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from kohort.group.classic.group import instance_error
from kohort.group.commands import (
    LEAVE_STATIC_EPOCH,
    AssignTarget,
    ConsumerHeartbeat,
    DowngradeIfDue,
    Leave,
    Leaving,
    PrepareClassic,
    ReconcileJoin,
)
from kohort.group.consumer.classic_members import release
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember, metadata_hash, regex_topics
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Append, Disarm, Effect, Effects, Note, Reply, Then, WakeMembers
from kohort.group.events import (
    Assigned,
    ClassicPhase,
    ConsumerGroupDeleted,
    ConsumerGroupStored,
    ConsumerMemberDeleted,
    ConsumerMemberOut,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberState,
    MemberTargetDeleted,
    MemberTargetStored,
    PartitionMetadataDeleted,
    RegexDeleted,
    TargetDeleted,
    TargetStored,
)
from kohort.group.group_timers import Timer, TimerKind, revocation_timer, target_timer
from kohort.group.results import ConsumerHeartbeatResult, LeaveResult, LeftMember, refused
from kohort.model.assignment import each
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode


def decide_leave(group: ConsumerGroup, command: ConsumerHeartbeat, now_ms: int, settings: GroupSettings) -> Effects:
    """Let the sender go: for good (-1), or until its instance comes back (-2). To send it again does no harm."""
    member_id, epoch = command.member_id, command.member_epoch
    left = Reply(ConsumerHeartbeatResult(ErrorCode.NONE, None, member_id, epoch))
    if command.instance_id is not None:
        holder = group.static_members.get(command.instance_id)
        if holder is None and (epoch == LEAVE_STATIC_EPOCH or member_id in group.members):
            yield Reply(refused(ErrorCode.UNKNOWN_MEMBER_ID, f"instance {command.instance_id} is not in the group"))
            return
        if holder is not None and holder != member_id:
            text = f"instance {command.instance_id} is {holder} now, not {member_id}: close this member"
            yield Reply(refused(ErrorCode.FENCED_INSTANCE_ID, text))
            return
    member = group.members.get(member_id)
    yield left
    if member is None:
        return
    if epoch == LEAVE_STATIC_EPOCH:
        yield from _leave_for_a_while(group, member, now_ms)
    else:
        cause = Cause(CauseKind.MEMBER_LEFT, now_ms, member_id, command.reason)
        yield from out_effects(group, (member_id,), cause, now_ms, settings)


def _leave_for_a_while(group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> Effects:
    if member.epoch == LEAVE_STATIC_EPOCH:
        return
    cause = Cause(CauseKind.STATIC_MEMBER_LEFT, now_ms, member.member_id)
    granted = tuple(Assigned(topic_id, numbers, (0,) * len(numbers)) for topic_id, numbers, _ in member.assigned)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        yield Disarm(revocation_timer(group.group_id, member.member_id, member.epoch))
    yield Append(
        MemberAssignmentStored(
            group.group_id, member.member_id, LEAVE_STATIC_EPOCH, member.epoch, MemberState.STABLE, granted, (), cause
        )
    )
    yield from wake_waiting(group, member.pending, {member.member_id}, cause)


def expire_session(group: ConsumerGroup, member_id: str, now_ms: int, settings: GroupSettings) -> Effects:
    """Evict a member that has sent no request for its session timeout."""
    member = group.members.get(member_id)
    if member is None:
        return
    timeout_ms = session_timeout_ms(member, settings, group.group_id)
    within = f"{timeout_ms / 1000:.1f} s"
    is_paused = member.epoch == LEAVE_STATIC_EPOCH
    detail = f"it left for a while and did not return within {within}" if is_paused else f"no heartbeat for {within}"
    if member.classic is not None and member.instance_id is not None:
        # Static members of the classic protocol do not leave when they close, so this may have been a clean end.
        detail += " and no new start of its instance"
    cause = Cause(CauseKind.SESSION_TIMEOUT, now_ms, member_id, detail)
    yield from out_effects(group, (member_id,), cause, now_ms, settings)


def expire_revocation(
    group: ConsumerGroup, member_id: str, epoch: int, now_ms: int, settings: GroupSettings
) -> Effects:
    """Evict a member that did not give back what it was asked for, unless it has gone on since."""
    member = group.members.get(member_id)
    if member is None or member.epoch != epoch or member.state is not MemberState.UNREVOKED_PARTITIONS:
        return
    detail = f"partitions were not given back within {member.rebalance_timeout_ms / 1000:.1f} s"
    cause = Cause(CauseKind.REVOCATION_TIMEOUT, now_ms, member_id, detail)
    yield from out_effects(group, (member_id,), cause, now_ms, settings)


def session_timeout_ms(member: ConsumerMember, settings: GroupSettings, group_id: str) -> int:
    """Return how long a member may be absent: as it asked itself if it is a classic one, else as its group has it."""
    if member.classic is not None:
        return member.classic.session_timeout_ms
    return settings.config_of(group_id).session_timeout_ms


def out_effects(
    group: ConsumerGroup, member_ids: Iterable[str], cause: Cause, _now_ms: int, settings: GroupSettings
) -> Iterator[Effect]:
    """Take members out: what is to be stored, answered and disarmed, and what follows. It answers no request."""
    going = [group.members[member_id] for member_id in sorted(set(member_ids))]
    if not going:
        return
    for member in going:
        yield from _out(group, member, cause, settings)
    regexes = Counter(member.subscribed_topic_regex for member in going if member.subscribed_topic_regex)
    unused = {regex for regex, count in regexes.items() if group.regex_subscribers[regex] == count}
    for regex in sorted(unused & group.regexes.keys()):
        yield Append(RegexDeleted(group.group_id, regex, cause))
    names = Counter(name for member in going for name in member.subscribed_topic_names)
    dropped = {name for name, count in names.items() if group.subscribers[name] == count}
    stored_hash = group.metadata_hash
    if unused or dropped:
        remaining = {name for name in group.subscribers if name not in dropped}
        left = (regex_topics(group, regex) for regex in group.regex_subscribers if regex not in unused)
        stored_hash = metadata_hash(remaining.union(*left), settings.image)
    yield Append(ConsumerGroupStored(group.group_id, group.epoch + 1, stored_hash, cause))
    if len(going) == len(group.members):
        # The member that comes next is assigned at once, however short ago the last target was (Kafka 4.4).
        yield Append(TargetStored(group.group_id, group.epoch + 1, 0, cause))
        yield Disarm(target_timer(group.group_id))
        return
    gone = {member.member_id for member in going}
    freed = tuple(topic for member in going for topic in (*member.assigned, *member.pending))
    yield from wake_waiting(group, freed, gone, cause)
    if group.natives == sum(member.classic is None for member in going):
        yield Then(DowngradeIfDue(group.group_id, cause))
    yield Then(AssignTarget(group.group_id, cause))


def _out(group: ConsumerGroup, member: ConsumerMember, cause: Cause, settings: GroupSettings) -> Effects:
    group_id, member_id = group.group_id, member.member_id
    is_expired = cause.kind is CauseKind.SESSION_TIMEOUT and member.epoch != LEAVE_STATIC_EPOCH
    silent_ms = session_timeout_ms(member, settings, group_id) if is_expired else -1
    yield from delete_member(group, member, cause, ErrorCode.UNKNOWN_MEMBER_ID)
    yield Note(ConsumerMemberOut(group_id, member_id, member.instance_id, cause, silent_ms))


def delete_member(group: ConsumerGroup, member: ConsumerMember, cause: Cause, error: ErrorCode) -> Effects:
    """Take a member out of the log and disarm its timers; a waiting JoinGroup is answered with the error."""
    for tombstone in (MemberAssignmentDeleted, MemberTargetDeleted, ConsumerMemberDeleted):
        yield Append(tombstone(group.group_id, member.member_id, cause))
    yield from disarm(group, member)
    if member.classic is not None:
        yield from release(group, member.member_id, error)


def transfer_target(group: ConsumerGroup, old: ConsumerMember, member_id: str, cause: Cause) -> Effects:
    """Give a member the target of the one whose place it takes, and what that one was granted (KIP-345)."""
    yield Append(MemberTargetStored(group.group_id, member_id, old.target, cause))
    yield Append(MemberAssignmentStored(group.group_id, member_id, 0, 0, MemberState.STABLE, old.assigned, (), cause))
    yield from wake_waiting(group, old.pending, {old.member_id}, cause)


def disarm(group: ConsumerGroup, member: ConsumerMember) -> Effects:
    """Let no timer of a member fire any more."""
    yield Disarm(member.session)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        yield Disarm(revocation_timer(group.group_id, member.member_id, member.epoch))


def wake_waiting(group: ConsumerGroup, freed: Iterable[Assigned], gone: set[str], cause: Cause) -> Effects:
    """Wake the members whose targets have partitions that have just become free."""
    waiting: set[str] = set()
    for topic_id, partition in each(tuple((topic.topic_id, topic.partitions) for topic in freed)):
        heir = group.claims.get(topic_id, {}).get(partition)
        if heir is not None and heir not in gone and heir in group.unsettled:
            waiting.add(heir)
    if waiting:
        yield WakeMembers(group.group_id, tuple(sorted(waiting)))
        if any(group.members[member_id].classic is not None for member_id in waiting):
            yield Then(PrepareClassic(group.group_id, tuple(sorted(waiting)), cause))


def delete_effects(group: ConsumerGroup, cause: Cause) -> Iterator[Effect]:
    """Take an empty group out of the log, in the order that Kafka replays."""
    assert not group.members, "a group with members is not deleted"
    yield Disarm(target_timer(group.group_id))
    yield Append(TargetDeleted(group.group_id, cause))
    for regex in sorted(group.regexes):
        yield Append(RegexDeleted(group.group_id, regex, cause))
    if group.has_partition_metadata:
        yield Append(PartitionMetadataDeleted(group.group_id, cause))
    yield Append(ConsumerGroupDeleted(group.group_id, cause))


def decide_classic_leave(group: ConsumerGroup, command: Leave, now_ms: int, settings: GroupSettings) -> Effects:
    """Let a batch of members go, native ones too. Each entry gets its own answer; the epoch rises once."""
    if group.is_dead:
        yield Reply(LeaveResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    answers: list[LeftMember] = []
    going: dict[str, Cause] = {}
    for leaving in command.members:
        member_id, error = _classic_leaver(group, leaving, going)
        answers.append(LeftMember(leaving.member_id, leaving.instance_id, error))
        if not error:
            kind = CauseKind.MEMBER_LEFT if leaving.member_id else CauseKind.MEMBER_REMOVED
            going[member_id] = Cause(kind, now_ms, member_id, leaving.reason)
    yield Reply(LeaveResult(ErrorCode.NONE, tuple(answers)))
    if going:
        yield from out_effects(group, going, next(iter(going.values())), now_ms, settings)


def _classic_leaver(group: ConsumerGroup, leaving: Leaving, gone: dict[str, Cause]) -> tuple[str, ErrorCode]:
    """Return the member that an entry means, and why it cannot leave."""
    member_id = leaving.member_id or group.static_members.get(leaving.instance_id or "", "")
    if error := instance_error(group.static_members, member_id, leaving.instance_id):
        return member_id, error
    is_member = member_id in group.members and member_id not in gone
    return member_id, ErrorCode.NONE if is_member else ErrorCode.UNKNOWN_MEMBER_ID


def expire_classic_member(group: ConsumerGroup, timer: Timer, now_ms: int, settings: GroupSettings) -> Effects:
    """End a wait that has lasted a rebalance timeout: a join that waits gets what there is, any other member goes."""
    member = group.members.get(timer.member_id)
    if member is None or member.classic is None:
        return
    within = f"within {member.rebalance_timeout_ms / 1000:.1f} s"
    if timer.member_id in group.awaiting_join:
        cause = Cause(CauseKind.REBALANCE_TIMEOUT, now_ms, timer.member_id, f"partitions were not released {within}")
        yield Then(ReconcileJoin(group.group_id, timer.member_id, cause, is_waiting=True, may_wait=False))
        return
    match timer.kind, member.classic_phase:
        case TimerKind.JOIN, ClassicPhase.PREPARE_REBALANCE:
            cause = Cause(CauseKind.REBALANCE_TIMEOUT, now_ms, timer.member_id, f"did not rejoin {within}")
        case TimerKind.SYNC, ClassicPhase.COMPLETING_REBALANCE:
            detail = f"no SyncGroup in epoch {member.epoch} {within}"
            cause = Cause(CauseKind.SYNC_TIMEOUT, now_ms, timer.member_id, detail)
        case _:
            return
    yield from out_effects(group, (timer.member_id,), cause, now_ms, settings)
