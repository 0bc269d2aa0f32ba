"""How classic members leave a consumer group: LeaveGroup, which may name native members too, and the two bounds."""

from __future__ import annotations

from kohort.group.commands import Leave, Leaving
from kohort.group.consumer.commands import ReconcileJoin
from kohort.group.consumer.events import ClassicPhase
from kohort.group.consumer.exit import out_effects
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Effects, Reply, Then
from kohort.group.group_timers import Timer, TimerKind
from kohort.group.results import LeaveResult, LeftMember
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode


def decide_leave(group: ConsumerGroup, command: Leave, now_ms: int, settings: GroupSettings) -> Effects:
    """Let a batch of members go, native ones too. Each entry gets its own answer; the epoch goes on once."""
    if group.is_dead:
        yield Reply(LeaveResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return
    answers: list[LeftMember] = []
    going: dict[str, Cause] = {}
    for leaving in command.members:
        member_id, error = _who_leaves(group, leaving, going)
        answers.append(LeftMember(leaving.member_id, leaving.instance_id, error))
        if not error:
            kind = CauseKind.MEMBER_LEFT if leaving.member_id else CauseKind.MEMBER_REMOVED
            going[member_id] = Cause(kind, now_ms, member_id, leaving.reason)
    yield Reply(LeaveResult(ErrorCode.NONE, tuple(answers)))
    if going:
        yield from out_effects(group, going, next(iter(going.values())), now_ms, settings)


def _who_leaves(group: ConsumerGroup, leaving: Leaving, gone: dict[str, Cause]) -> tuple[str, ErrorCode]:
    """Return the member that an entry means, and why it cannot leave."""
    holder = group.static_members.get(leaving.instance_id) if leaving.instance_id is not None else None
    member_id = leaving.member_id or holder or ""
    if leaving.instance_id is not None and holder is None:
        return member_id, ErrorCode.UNKNOWN_MEMBER_ID
    if holder is not None and holder != member_id:
        return member_id, ErrorCode.FENCED_INSTANCE_ID
    is_here = member_id in group.members and member_id not in gone
    return member_id, ErrorCode.NONE if is_here else ErrorCode.UNKNOWN_MEMBER_ID


def decide_timer(group: ConsumerGroup, timer: Timer, now_ms: int, settings: GroupSettings) -> Effects:
    """End a wait that has lasted a rebalance timeout: a join that waits gets what there is, a silent member goes."""
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
