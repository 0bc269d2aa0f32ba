"""What a forecast starts from: a group as it is, its coordinator's settings, the times it takes, and its members.

Plain values, read from a cluster or a data directory by the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kohort.assign import (
    Assignor,
    CapacityAssignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from kohort.assign.spec import MemberSpec
from kohort.group.classic.group import COOPERATIVE
from kohort.group.migration.migration_plan import LiveGroup, LiveMember, MemberKind
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription

CLIENT_SIDE: dict[str, type[Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
    "capacity": CapacityAssignor,
}
"""The client-side assignors that can be simulated."""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group and its cluster. `settings` are its coordinator's, by Kafka's names, as far as they could be read."""

    group: LiveGroup
    settings: Mapping[str, str] = field(default_factory=dict)
    is_ours: bool = True
    """Whether the coordinator is one of ours, which parks heartbeats."""
    lag: Mapping[TopicPartition, int] = field(default_factory=dict)
    rates: Mapping[TopicPartition, float] | None = None
    """Records that are written per second, None where that is not known."""


@dataclass(frozen=True, slots=True)
class Times:
    """How long things take, in milliseconds: measured, given, or assumed."""

    network_ms: float = 1.0
    """From a member to its coordinator, or back."""
    revoked_ms: float = 0.0
    """How long `on_partitions_revoked` and `on_partitions_lost` run."""
    assigned_ms: float = 0.0
    poll_ms: float = 0.0
    """How long an application is away between two polls, where callbacks wait for the next one (Java's do)."""
    away_ms: float = 10_000.0
    """From the end of a process to the start of the one that takes its place."""
    pause_ms: float = 0.0
    """From a stable group to the next restart."""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 300_000
    metadata_ms: float = 300_000.0
    """How often classic members refresh their topics (`metadata.max.age.ms`)."""


@dataclass(frozen=True, slots=True)
class MemberProfile:
    """One member as it is started: `offers` are its client-side assignors, `server_assignor` its vote."""

    name: str
    kind: MemberKind
    topics: frozenset[str]
    instance_id: str | None = None
    rack: str | None = None
    offers: tuple[str, ...] = ()
    server_assignor: str | None = None
    lags: Mapping[TopicPartition, int] = field(default_factory=dict)
    acceptable_recovery_lag: int | None = None


def profile_of(member: LiveMember, group: LiveGroup) -> MemberProfile:
    """Return how a live member was started, as far as that can be known."""
    rack = member.rack or None  # of librdkafka's members it is empty, which the consumer protocol refuses
    if member.is_native:
        return MemberProfile(
            member.name,
            MemberKind.CONSUMER,
            member.topics,
            member.instance_id,
            rack,
            lags=member.lags,
            acceptable_recovery_lag=member.acceptable_recovery_lag,
        )
    in_force = group.assignor if group.group_type == "classic" else "range"
    offers = tuple(name for name in member.offers or (in_force,) if name in CLIENT_SIDE) or (in_force,)
    return MemberProfile(member.name, kind_of(offers), member.topics, member.instance_id, rack, offers)


def kind_of(offers: tuple[str, ...]) -> MemberKind:
    """Return how a classic member with these assignors takes part: one that also offers an eager one is eager."""
    return MemberKind.COOPERATIVE if set(offers) <= COOPERATIVE else MemberKind.EAGER


@dataclass(frozen=True, slots=True)
class Roster:
    """The members of a group at the beginning, by member id, and what each of them owns."""

    profiles: Mapping[str, MemberProfile]
    owned: Mapping[str, Partitions]
    assignor: str

    @property
    def kinds(self) -> set[MemberKind]:
        """How its members take part."""
        return {profile.kind for profile in self.profiles.values()}

    @property
    def is_consumer(self) -> bool:
        """Whether it is a consumer group."""
        return MemberKind.CONSUMER in self.kinds

    @property
    def static_members(self) -> int:
        """How many have an instance id."""
        return sum(profile.instance_id is not None for profile in self.profiles.values())

    def subscriptions(self) -> dict[str, MemberSpec]:
        """Return what JoinGroup gives a leader of each member."""
        return {
            each: MemberSpec(Subscription(tuple(sorted(profile.topics)), rack=profile.rack), profile.instance_id)
            for each, profile in sorted(self.profiles.items())
        }


def roster_of(group: LiveGroup) -> Roster:
    """Return a live group's members as they are."""
    profiles = {each.member_id: profile_of(each, group) for each in group.members}
    return Roster(profiles, {each.member_id: each.owned for each in group.members}, group.assignor)
