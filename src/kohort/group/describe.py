"""What an operator sees of a group, of whatever type. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kohort.assign.server.spec import StandbyLags
from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember, GroupState
from kohort.group.consumer.reconcile import ids_of
from kohort.group.consumer.target import assignor_of
from kohort.group.events import ClassicPhase
from kohort.group.shard import Group, Shard
from kohort.group.streams.group import StreamsGroup, StreamsGroupState
from kohort.model.assignment import IdPartitions


class DescribedMember(NamedTuple):
    """One member as DescribeGroups shows it: outside a Stable group without metadata, and with its last assignment."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """One classic group as DescribeGroups shows it."""

    group_id: str
    state: Phase
    protocol_type: str
    protocol_name: str
    members: tuple[DescribedMember, ...]
    rebalances_avoided: int = 0
    """How many rounds were spared because a member reported that nothing had changed; since the group was loaded."""


class DescribedConsumerMember(NamedTuple):
    """One member as ConsumerGroupDescribe shows it.

    `assignment` is what it was granted, `pending` what it was asked to give back. A classic member has a phase of its
    own; it is None for a native one.
    """

    member_id: str
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str
    assignment: IdPartitions
    target: IdPartitions
    pending: IdPartitions
    classic_phase: ClassicPhase | None
    lags: StandbyLags = ()
    acceptable_recovery_lag: int | None = None


class DescribedConsumerGroup(NamedTuple):
    """One consumer group as ConsumerGroupDescribe shows it. `target_failure` is why its last target failed, or None."""

    group_id: str
    state: GroupState
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[DescribedConsumerMember, ...]
    target_failure: str | None = None


class ListedGroup(NamedTuple):
    """One group as ListGroups shows it."""

    group_id: str
    protocol_type: str
    state: Phase | GroupState | StreamsGroupState
    group_type: str


CLASSIC_TYPE = "classic"
CONSUMER_TYPE = "consumer"
STREAMS_TYPE = "streams"


def describe(shard: Shard, group_id: str) -> DescribedGroup | None:
    """Return a classic group with its members by id, or None when there is no such group."""
    group = shard.groups.get(group_id)
    if not isinstance(group, ClassicGroup) or group.phase is Phase.DEAD:
        return None
    is_settled = group.phase is Phase.STABLE
    return DescribedGroup(
        group_id=group_id,
        state=group.phase,
        protocol_type=group.protocol_type or "",
        protocol_name=(group.protocol_name or "") if is_settled else "",
        members=tuple(_described(group, member_id, is_settled) for member_id in sorted(group.members)),
        rebalances_avoided=group.rebalances_avoided,
    )


def _described(group: ClassicGroup, member_id: str, is_settled: bool) -> DescribedMember:
    member = group.members[member_id]
    return DescribedMember(
        member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.metadata(group.protocol_name) if is_settled else b"",
        member.assignment,
    )


def describe_consumer(shard: Shard, group_id: str) -> DescribedConsumerGroup | None:
    """Return a consumer group with its members by id, or None when there is no such group."""
    group = shard.groups.get(group_id)
    if not isinstance(group, ConsumerGroup) or group.is_dead:
        return None
    return DescribedConsumerGroup(
        group_id=group_id,
        state=group.state,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=assignor_of(group, shard.settings),
        members=tuple(_described_consumer(member) for _, member in sorted(group.members.items())),
        target_failure=group.target_failure,
    )


def _described_consumer(member: ConsumerMember) -> DescribedConsumerMember:
    return DescribedConsumerMember(
        member.member_id,
        member.instance_id,
        member.rack_id,
        member.epoch,
        member.client_id,
        member.client_host,
        member.subscribed_topic_names,
        member.subscribed_topic_regex,
        ids_of(member.assigned),
        member.target,
        ids_of(member.pending),
        None if member.classic is None else member.classic_phase,
        member.lags,
        member.acceptable_recovery_lag,
    )


def streams_group(shard: Shard, group_id: str) -> StreamsGroup | None:
    """Return a streams group, to be read only, or None when there is no such group."""
    group = shard.groups.get(group_id)
    return group if isinstance(group, StreamsGroup) and not group.is_dead else None


def list_groups(shard: Shard, states: frozenset[str], types: frozenset[str]) -> Iterator[ListedGroup]:
    """Yield the groups in one of `states` and of one of `types`, both in lower case; an empty filter takes all."""
    for group_id, group in sorted(shard.groups.items()):
        listed = _listed(group_id, group)
        names = {listed.state.lower(), listed.state.name.lower()}
        if (not types or listed.group_type in types) and (not states or not names.isdisjoint(states)):
            yield listed


def _listed(group_id: str, group: Group) -> ListedGroup:
    if isinstance(group, StreamsGroup):
        return ListedGroup(group_id, STREAMS_TYPE, group.state, STREAMS_TYPE)
    if isinstance(group, ConsumerGroup):
        return ListedGroup(group_id, "consumer", group.state, CONSUMER_TYPE)
    return ListedGroup(group_id, group.protocol_type or "", group.phase, CLASSIC_TYPE)
