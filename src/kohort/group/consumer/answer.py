"""The answer of a heartbeat: one step of its sender towards the target, and what it must be sent."""

from __future__ import annotations

from kohort.group.commands import Reconcile
from kohort.group.consumer.exit import wake_waiting
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember, topic_ids_of
from kohort.group.consumer.join import is_full
from kohort.group.consumer.reconcile import ReconcileStep, epochs_of, ids_of, is_unknown, packed, reconcile, stored_step
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Append, Arm, Disarm, Effects, Reply
from kohort.group.events import Assigned, MemberState
from kohort.group.group_timers import revocation_timer
from kohort.group.results import ConsumerHeartbeatResult, refused
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode


def decide_reconcile(group: ConsumerGroup, command: Reconcile, now_ms: int, settings: GroupSettings) -> Effects:
    """Move the sender of a heartbeat one step, if it can go one, and answer it."""
    member = group.members[command.member_id]
    heartbeat = command.heartbeat
    if is_unknown(member, heartbeat.owned):
        text = f"member {member.member_id} is in a state of a later version: it must revoke everything and join again"
        yield Reply(refused(ErrorCode.FENCED_MEMBER_EPOCH, text))
        return
    # A member that shows the epoch before its own has missed an answer: it is sent what it missed before anything
    # changes.
    is_behind = 0 < heartbeat.member_epoch < member.epoch
    step = None
    if not is_behind and (member.member_id in group.unsettled or command.has_subscription_changed):
        subscribed, has_changed = topic_ids_of(group, member, settings.image), command.has_subscription_changed
        step = reconcile(group, member, subscribed, heartbeat.owned, has_subscription_changed=has_changed)
    if step is None:
        assigned = member.assigned if is_behind or is_full(heartbeat) else None
        yield Reply(_answer(group, member, settings, member.epoch, member.state, assigned, is_quiet=not is_behind))
        return
    cause = Cause(CauseKind.MEMBER_RECONCILED, now_ms, member.member_id)
    yield Append(stored_step(group, member, member.classic_phase, cause, step))
    yield from revocation_effects(group, member, step, now_ms)
    yield from freed_effects(group, member, step, now_ms)
    has_changed = ids_of(step.assigned) != ids_of(member.assigned)
    assigned = step.assigned if has_changed or is_full(heartbeat) else None
    yield Reply(_answer(group, member, settings, step.epoch, step.state, assigned, is_quiet=False))


def revocation_effects(group: ConsumerGroup, member: ConsumerMember, step: ReconcileStep, now_ms: int) -> Effects:
    """Bound the time that a member has to give partitions back, from the step that asks for them."""
    if member.state is MemberState.UNREVOKED_PARTITIONS and (
        step.state is not MemberState.UNREVOKED_PARTITIONS or step.epoch != member.epoch
    ):
        yield Disarm(revocation_timer(group.group_id, member.member_id, member.epoch))
    if step.state is MemberState.UNREVOKED_PARTITIONS:
        timer = revocation_timer(group.group_id, member.member_id, step.epoch)
        yield Arm(timer, now_ms + max(member.rebalance_timeout_ms, 0))


def freed_effects(group: ConsumerGroup, member: ConsumerMember, step: ReconcileStep, now_ms: int) -> Effects:
    """Wake the members that wait for what the member has no more after the step."""
    if not member.pending and step.assigned == member.assigned:
        return
    freed = epochs_of(member.assigned) | epochs_of(member.pending)
    for partition in (*epochs_of(step.assigned), *epochs_of(step.pending)):
        freed.pop(partition, None)
    if freed:
        cause = Cause(CauseKind.PARTITIONS_RELEASED, now_ms, member.member_id)
        yield from wake_waiting(group, packed(freed), {member.member_id}, cause)


def _answer(
    group: ConsumerGroup,
    member: ConsumerMember,
    settings: GroupSettings,
    epoch: int,
    state: MemberState,
    assigned: tuple[Assigned, ...] | None,
    *,
    is_quiet: bool,
) -> ConsumerHeartbeatResult:
    is_settling = state is not MemberState.STABLE or epoch != group.assignment_epoch
    return ConsumerHeartbeatResult(
        error=ErrorCode.NONE,
        error_message=group.target_failure,
        member_id=member.member_id,
        member_epoch=epoch,
        heartbeat_interval_ms=settings.config_of(group.group_id).heartbeat_interval_ms,
        assignment=None if assigned is None else ids_of(assigned),
        is_quiet=is_quiet and assigned is None,
        is_settling=is_settling,
        # One that waits for others can do nothing itself: it is woken when that changes.
        can_wait=not is_settling or state is MemberState.UNRELEASED_PARTITIONS,
    )
