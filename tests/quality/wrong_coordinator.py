"""Rules of the coordinator as they were when they were wrong: each a context in which production code has the bug."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from copy import copy
from dataclasses import replace
from typing import Any

from tests.quality.replacing import replaced, replaced_in

from kohort.group import committed_offsets
from kohort.group.classic import exit as classic_exit
from kohort.group.classic import join_group as classic_causes
from kohort.group.classic import join_group as classic_join
from kohort.group.classic import join_group as classic_static
from kohort.group.classic import machine as classic_machine
from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.commands import CommitOffsets, ConsumerHeartbeat, Heartbeat, Join, OpenRound
from kohort.group.committed_offsets import Group
from kohort.group.consumer import apply as consumer_apply
from kohort.group.consumer import join as consumer_join
from kohort.group.consumer import machine as consumer_machine
from kohort.group.consumer import reconcile as consumer_reconcile
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember
from kohort.group.consumer.join import refused
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Effects, Reply, Then
from kohort.group.events import Assigned
from kohort.group.results import ConsumerHeartbeatResult, HeartbeatResult
from kohort.model.cause import Cause
from kohort.model.errors import ErrorCode
from kohort.parking.classic_heartbeats import ClassicParking
from kohort.parking.heartbeat_interval import HeartbeatInterval

Mutation = AbstractContextManager[None]


# -- who owns what


def kafka_16147() -> Mutation:
    """What a member has and what it is asked back are booked one after the other, each as if the other were not."""

    def hand_over(group: ConsumerGroup, member: ConsumerMember, assigned: Any, pending: Any) -> None:
        if member.assigned != assigned:
            _book(group, member, member.assigned, assigned)
            member.assigned = assigned
        if member.pending != pending:
            _book(group, member, member.pending, pending)
            member.pending = pending

    return replaced(consumer_apply, "_hand_over", hand_over)


def _book(
    group: ConsumerGroup, member: ConsumerMember, before: tuple[Assigned, ...], now: tuple[Assigned, ...]
) -> None:
    for held in before:
        consumer_apply._drop(group.owners, held, member.member_id)
    for held in now:
        group.owners.setdefault(held.topic_id, {}).update(dict.fromkeys(held.partitions, member.member_id))


def kafka_19449() -> Mutation:
    """What a member has just given back counts as another member's."""
    right = consumer_reconcile._step

    def step(group: ConsumerGroup, member: ConsumerMember, *rest: Any) -> Any:
        forgetful = copy(member)
        forgetful.pending = ()
        return right(group, forgetful, *rest)

    return replaced(consumer_reconcile, "_step", step)


def crabka_521() -> Mutation:
    """A member receives its whole target at once, even partitions that others still own."""

    def owner_epoch(_group: ConsumerGroup, _topic_id: bytes, _partition: int) -> int:
        return -1

    return replaced(ConsumerGroup, "owner_epoch", owner_epoch)


# -- who is a member


def kafka_19233() -> Mutation:
    """A member that joins again is fenced unless its last epoch but one was 0, too."""
    right = consumer_join.decide_join

    def decide_join(group: ConsumerGroup, command: ConsumerHeartbeat, now_ms: int, settings: GroupSettings) -> Effects:
        member = group.members.get(command.member_id)
        if member is not None and member.epoch > 0 and member.previous_epoch != 0:
            text = f"member {member.member_id} shows epoch 0 and has {member.epoch}"
            return [Reply(refused(ErrorCode.FENCED_MEMBER_EPOCH, text))]
        return right(group, command, now_ms, settings)

    return replaced(consumer_join, "decide_join", decide_join)


def kafka_12759() -> Mutation:
    """A static member that comes back is asked which protocol it speaks, and not which topics it wants."""

    def other_topics(_group: ClassicGroup, _command: Join, _old: Any, _settings: GroupSettings) -> str:
        return ""

    return replaced(classic_static, "_other_topics", other_topics)


@contextmanager
def crabka_534() -> Iterator[None]:
    """A join under a known member id is that member's whatever instance it names, and the name is written over."""
    right_identity, right_rejoin = classic_join.identity_error, classic_join._rejoin

    def identity_error(group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
        return ErrorCode.NONE if member_id in group.members else right_identity(group, member_id, instance_id)

    def rejoin(group: ClassicGroup, command: Join, now_ms: int, settings: GroupSettings) -> Effects:
        member = group.members[command.member_id]
        if member.instance_id != command.instance_id:
            member.instance_id = command.instance_id
            if command.instance_id is not None:
                group.static_members[command.instance_id] = command.member_id
        return right_rejoin(group, command, now_ms, settings)

    with ExitStack() as mutations:
        mutations.enter_context(replaced_in(classic_join, "identity_error", identity_error))
        mutations.enter_context(replaced(classic_join, "_rejoin", rejoin))
        yield


def redpanda_3300() -> Mutation:
    """A member that leaves during a join round does not complete it: the remaining members are not checked."""

    def follow_departure(group: ClassicGroup, cause: Cause) -> Effects:
        if group.phase in (Phase.STABLE, Phase.COMPLETING_REBALANCE):
            return [Then(OpenRound(group.group_id, cause))]
        return []

    return replaced(classic_exit, "follow_departure", follow_departure)


@contextmanager
def heartbeat_after_eviction() -> Iterator[None]:
    """The heartbeat of an unknown member succeeds."""
    right_classic, right_consumer = classic_machine.decide_heartbeat, consumer_machine._decide_heartbeat

    def decide_classic(group: ClassicGroup, command: Heartbeat, now_ms: int) -> Effects:
        if command.member_id not in group.members and command.instance_id is None and group.phase is not Phase.DEAD:
            return (Reply(HeartbeatResult(ErrorCode.NONE)),)
        return right_classic(group, command, now_ms)

    def decide_consumer(
        group: ConsumerGroup,
        member: ConsumerMember | None,
        command: ConsumerHeartbeat,
        now_ms: int,
        settings: GroupSettings,
    ) -> Effects:
        if member is None and command.member_epoch > 0 and command.instance_id is None:
            interval_ms = settings.config_of(group.group_id).heartbeat_interval_ms
            epoch = command.member_epoch
            return [Reply(ConsumerHeartbeatResult(ErrorCode.NONE, None, command.member_id, epoch, interval_ms))]
        return right_consumer(group, member, command, now_ms, settings)

    with ExitStack() as mutations:
        mutations.enter_context(replaced(classic_machine, "decide_heartbeat", decide_classic))
        mutations.enter_context(replaced(consumer_machine, "_decide_heartbeat", decide_consumer))
        yield


# -- who may commit


def commit_one_epoch_late() -> Mutation:
    """A commit of the epoch or generation before the present one is taken."""
    right = committed_offsets.commit_error

    def commit_error(group: Group | None, command: CommitOffsets, settings: GroupSettings) -> ErrorCode:
        error = right(group, command, settings)
        if error not in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.STALE_MEMBER_EPOCH) or group is None:
            return error
        if isinstance(group, ConsumerGroup):
            return ErrorCode.NONE if command.generation == group.members[command.member_id].previous_epoch else error
        return right(group, replace(command, generation=command.generation + 1), settings)

    return replaced(committed_offsets, "commit_error", commit_error)


# -- rounds and their causes


def round_announced_without_waiting() -> Mutation:
    """Heartbeats that are kept when an eager round begins are answered at once, also of members without one here."""

    def announce(_parking: ClassicParking[Any, Any], *_: object) -> None:
        pass

    return replaced(ClassicParking, "announce", announce)


def parked_before_a_commit() -> Mutation:
    """The heartbeat of a member that commits is parked though its client sends the next one an interval later."""

    def is_cut_short(_interval: HeartbeatInterval, _now_ms: int, _session_timeout_ms: int) -> bool:
        return False

    return replaced(HeartbeatInterval, "is_cut_short", is_cut_short)


def causes_by_bytes() -> Mutation:
    """A member whose metadata has other bytes than before wants something else."""

    def other_wish(_group: ClassicGroup, name: str, ours: bytes, theirs: bytes, _settings: GroupSettings) -> str | None:
        return None if ours == theirs else f"other metadata for {name}"

    return replaced(classic_causes, "_changed_request", other_wish)
