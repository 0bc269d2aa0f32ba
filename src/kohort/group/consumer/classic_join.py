"""JoinGroup of a classic member in a consumer group: who comes, and when it is answered.

What a join reports of its sender is stored as a heartbeat's would be; the group's epoch rises if that matters to the
group. Then the member takes one step towards its target, and is answered, or waits for what others still have.
"""

from __future__ import annotations

from dataclasses import replace

from kohort.group.classic.group import CONSUMER_PROTOCOL_TYPE
from kohort.group.commands import AssignTarget, DowngradeIfDue, Join, ReconcileJoin
from kohort.group.consumer.answer import freed_effects
from kohort.group.consumer.classic_members import (
    await_join,
    await_sync,
    classic_record,
    identity_error,
    send_back,
)
from kohort.group.consumer.exit import delete_member, disarm, transfer_target
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember, topic_ids_of
from kohort.group.consumer.join import late_resolution, store_member
from kohort.group.consumer.reconcile import ReconcileStep, reconcile, stored_step
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Append, Arm, Disarm, Effects, Note, Park, Reply, Then, parked_join
from kohort.group.events import (
    ClassicJoinAnswered,
    ClassicJoinParked,
    ClassicPhase,
    MemberState,
)
from kohort.group.group_timers import member_join_timer, member_sync_timer, session_timer
from kohort.group.results import JoinResult
from kohort.model.assignment import IdPartitions, id_partitions
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription

DISABLED = "disabled"
"""The migration policy under which no classic member joins a consumer group, be it a member already (as in Kafka)."""


def decide_join(group: ConsumerGroup, command: Join, now_ms: int, settings: GroupSettings) -> Effects:
    """Decide one JoinGroup in a group with members: policy, room, what is offered, and who the sender is."""
    member_id = command.member_id
    subscription = settings.subscription_of(command.protocols[0][1]) if command.protocols else None
    if group.is_dead:
        yield Reply(JoinResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id))
    elif settings.migration_policy.lower() == DISABLED:
        yield Reply(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""))
    elif _is_full(group, command, settings):
        yield Reply(JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
    elif not _is_acceptable(group, command, subscription, settings):
        yield Reply(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""))
    elif not member_id and command.instance_id is None and command.is_two_step:
        # KIP-394. The id is not remembered: it comes back as that of a member without a past.
        yield Reply(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, command.new_member_id))
    elif subscription is None:
        yield Reply(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""))
    elif not member_id:
        yield from _join_unknown(group, command, subscription, now_ms, settings)
    elif error := _identity_error(group, command, subscription):
        yield Reply(JoinResult(error, member_id))
    else:
        yield from _enter(group, command, subscription, member_id, now_ms, settings)


def _is_full(group: ConsumerGroup, command: Join, settings: GroupSettings) -> bool:
    is_known = command.member_id in group.members or command.instance_id in group.static_members
    return not is_known and len(group.members) >= settings.consumer_max_size


def _is_acceptable(
    group: ConsumerGroup, command: Join, subscription: Subscription | None, settings: GroupSettings
) -> bool:
    """Whether the sender may be a classic member of this group, and offers a protocol that all other ones offer."""
    version = settings.min_embedded_version if subscription is None else subscription.version
    if command.protocol_type != CONSUMER_PROTOCOL_TYPE or version < settings.min_embedded_version:
        return False
    known = group.members.get(command.member_id or group.static_members.get(command.instance_id or "", ""))
    classic = known.classic if known is not None else None
    own = {name for name, _ in classic.protocols} if classic is not None else set()
    others = len(group.members) - group.natives - (classic is not None)
    return any(group.classic_protocols[name] - (name in own) == others for name, _ in command.protocols)


def _identity_error(group: ConsumerGroup, command: Join, subscription: Subscription) -> ErrorCode:
    """Return why the sender, who shows a member id, is not who it claims to be, or NONE."""
    member = group.members.get(command.member_id)
    if command.instance_id is not None:
        error = identity_error(group, command.member_id, command.instance_id)
        is_native = member is not None and member.instance_id == command.instance_id
        return ErrorCode.NONE if is_native else error
    if member is None:
        # A member that was in the group and is no more must revoke what it owned; a fresh id has no past (KIP-394).
        return ErrorCode.UNKNOWN_MEMBER_ID if subscription.owned or subscription.generation >= 0 else ErrorCode.NONE
    return ErrorCode.UNKNOWN_MEMBER_ID if subscription.generation > member.epoch else ErrorCode.NONE


def _join_unknown(
    group: ConsumerGroup, command: Join, subscription: Subscription, now_ms: int, settings: GroupSettings
) -> Effects:
    if command.instance_id is not None and command.instance_id in group.static_members:
        old = group.members[group.static_members[command.instance_id]]
        yield from _replace(group, old, command, subscription, now_ms, settings)
    else:
        yield from _enter(group, command, subscription, command.new_member_id, now_ms, settings)


def _enter(
    group: ConsumerGroup,
    command: Join,
    subscription: Subscription,
    member_id: str,
    now_ms: int,
    settings: GroupSettings,
) -> Effects:
    """Store what a member reports of itself, a new one or one that joins again, and reconcile it."""
    member = group.members.get(member_id) or ConsumerMember(group.group_id, member_id)
    kind = CauseKind.MEMBER_REJOINED if member.is_stored else CauseKind.MEMBER_JOINED
    cause = Cause(kind, now_ms, member_id, command.reason)
    if member_id in group.awaiting_join:
        yield from send_back(group, member_id, cause)
    was_native = member.is_stored and member.classic is None
    if was_native:
        yield from disarm(group, member)
    record = classic_record(group.group_id, member_id, command, subscription, cause)
    change = yield from store_member(group, member, record, cause, settings)
    yield from _follow(group, replace(command, member_id=member_id), cause, change, was_native=was_native)
    yield from late_resolution(group, member, "", now_ms, settings)


def _follow(group: ConsumerGroup, command: Join, cause: Cause, change: Cause | None, *, was_native: bool) -> Effects:
    """Continue with a sender whose record is stored: the group may be classic again without its last native member."""
    yield Arm(session_timer(group.group_id, command.member_id), cause.at_ms + command.session_timeout_ms)
    if was_native and group.natives == 1:
        has_changed = change is not None and change.kind is CauseKind.SUBSCRIPTION_CHANGED
        yield Then(DowngradeIfDue(group.group_id, cause, command, has_changed))
        return
    yield Then(AssignTarget(group.group_id, cause))
    yield Then(ReconcileJoin(group.group_id, command.member_id, cause))


def _replace(
    group: ConsumerGroup,
    old: ConsumerMember,
    command: Join,
    subscription: Subscription,
    now_ms: int,
    settings: GroupSettings,
) -> Effects:
    """Give an instance its new member id and all that the old one had, which is fenced (KIP-345).

    A native one that still lives is fenced as well: a classic client has no way to leave for a while.
    """
    member_id = command.new_member_id
    cause = Cause(
        CauseKind.STATIC_MEMBER_REPLACED, now_ms, member_id, f"instance {old.instance_id} was {old.member_id}"
    )
    yield from delete_member(group, old, cause, ErrorCode.FENCED_INSTANCE_ID)
    record = classic_record(group.group_id, member_id, command, subscription, cause)
    change = yield from store_member(group, old, record, cause, settings)
    yield from transfer_target(group, old, member_id, cause)
    yield from _follow(group, replace(command, member_id=member_id), cause, change, was_native=old.classic is None)
    yield from late_resolution(group, old, "", now_ms, settings)


# -- the answer


def decide_reconcile(group: ConsumerGroup, command: ReconcileJoin, now_ms: int, settings: GroupSettings) -> Effects:
    """Move a classic member one step, and answer its JoinGroup, or park it."""
    member_id = command.member_id
    member = group.members.get(member_id)
    if member is None or member.classic is None or (command.is_waiting and member_id not in group.awaiting_join):
        if not command.is_waiting:
            yield Reply(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, ""))
        return
    is_without_target = command.may_wait and _is_without_target(group, member)
    step = None
    if not is_without_target:
        subscribed = topic_ids_of(group, member, settings.image)
        step = reconcile(group, member, subscribed, _owned(member, settings), has_subscription_changed=True)
    if command.may_wait and (is_without_target or _state_after(member, step) is MemberState.UNRELEASED_PARTITIONS):
        yield from _park(group, member, step, command, now_ms)
    else:
        yield from _answer(group, member, step, command, now_ms)
    if step is not None:
        yield from freed_effects(group, member, step, now_ms)


def fail_reconcile(group: ConsumerGroup, command: ReconcileJoin, error: ErrorCode, now_ms: int) -> Effects:
    """The step could not be stored: the sender learns it, and must send heartbeats again."""
    member = group.members.get(command.member_id)
    place = parked_join(group.group_id, command.member_id) if command.is_waiting else None
    yield Reply(JoinResult(error, command.member_id), place)
    if command.is_waiting:
        cause = Cause(CauseKind.APPEND_FAILED, now_ms, command.member_id, f"epoch not stored: {error.name}")
        yield Note(ClassicJoinAnswered(group.group_id, command.member_id, cause))
    if member is not None and member.classic is not None:
        yield Arm(member.session, now_ms + member.classic.session_timeout_ms)
        if member.classic_phase is ClassicPhase.PREPARE_REBALANCE:
            yield await_join(group, member, now_ms)


def _is_without_target(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether a target with the member, who is new, is still to come: what there is now would be worth nothing."""
    return member.epoch == 0 and not member.target and _is_target_coming(group)


def _is_target_coming(group: ConsumerGroup) -> bool:
    return group.epoch > group.assignment_epoch and group.target_failure is None


def _state_after(member: ConsumerMember, step: ReconcileStep | None) -> MemberState:
    return member.state if step is None else step.state


def _owned(member: ConsumerMember, settings: GroupSettings) -> IdPartitions:
    """Return what the member reports to own. Below version 1 it cannot, and is an eager one that owns nothing."""
    assert member.classic is not None, "a native member reports it in its heartbeat"
    subscription = settings.subscription_of(member.classic.protocols[0][1])
    owned = () if subscription is None else subscription.owned
    topics = {name: settings.image.topic(name) for name in sorted({name for name, _ in owned})}
    return id_partitions(
        (topic.topic_id, (partition,)) for name, partition in owned if (topic := topics[name]) is not None
    )


def _park(
    group: ConsumerGroup, member: ConsumerMember, step: ReconcileStep | None, command: ReconcileJoin, now_ms: int
) -> Effects:
    group_id, member_id = group.group_id, member.member_id
    if step is not None or member.classic_phase is not ClassicPhase.PREPARE_REBALANCE:
        yield Append(stored_step(group, member, ClassicPhase.PREPARE_REBALANCE, command.cause, step))
    if command.is_waiting:
        return
    yield Note(ClassicJoinParked(group_id, member_id, command.cause))
    yield Park(parked_join(group_id, member_id))
    yield Disarm(member.session)
    yield Disarm(member_sync_timer(group_id, member_id))
    yield await_join(group, member, now_ms)


def _answer(
    group: ConsumerGroup, member: ConsumerMember, step: ReconcileStep | None, command: ReconcileJoin, now_ms: int
) -> Effects:
    group_id, member_id = group.group_id, member.member_id
    assert member.classic is not None, "only a classic member is answered here"
    yield Append(stored_step(group, member, ClassicPhase.COMPLETING_REBALANCE, command.cause, step))
    if command.is_waiting:
        yield Note(ClassicJoinAnswered(group_id, member_id, command.cause))
    result = JoinResult(
        error=ErrorCode.NONE,
        member_id=member_id,
        generation=member.epoch if step is None else step.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=member.classic.protocols[0][0],
    )
    yield Reply(result, parked_join(group_id, member_id) if command.is_waiting else None)
    yield Disarm(member_join_timer(group_id, member_id))
    yield await_sync(group, member, now_ms)
    yield Arm(member.session, now_ms + member.classic.session_timeout_ms)
