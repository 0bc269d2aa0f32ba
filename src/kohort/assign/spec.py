"""What an assignor is given and what it must be: the group's members, the topics they may share, and one function.

An assignor is pure: the same `GroupSpec` always gives the same assignments, to the last partition. It knows nothing
of generations, coordinators or time; who runs it, and when, is the member's or the coordinator's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from kohort.model.assignment import Assignment, Partitions
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription


class RebalanceProtocol(StrEnum):
    """How members revoke partitions around a rebalance (KIP-429)."""

    EAGER = "eager"
    COOPERATIVE = "cooperative"


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One member: what it subscribed to, and its `group.instance.id` if it is static.

    The rest is None or empty but where the coordinator of a consumer group runs the assignor: how far the member's
    standby copies are behind and why they are reported, and what a classic member's assignors sent, by name: (version
    -1, user data).
    """

    subscription: Subscription
    instance_id: str | None = None
    lags: Mapping[TopicPartition, int] | None = None
    reason: str = ""
    metadata: Mapping[str, tuple[int, bytes]] | None = None


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic: its partition count and, where known, the racks of each partition's replicas (KIP-881)."""

    partitions: int
    racks: tuple[frozenset[str], ...] = ()


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The members by id, and every topic with known, non-empty metadata that one of them subscribed to."""

    members: Mapping[str, MemberSpec]
    topics: Mapping[str, TopicSpec] = field(default_factory=dict)


class Assignor(Protocol):
    """A strategy that shares out partitions; Kafka's word for it is `partition.assignment.strategy`."""

    @property
    def name(self) -> str:
        """Return the protocol name that all members must have in common, such as `range`."""

    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]:
        """Return the rebalance protocols that this assignor's assignments are safe under, lowest first."""

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Return one assignment for every member of `spec`."""

    def user_data(self, topics: Iterable[str], owned: Partitions, generation: int) -> bytes | None:
        """Return what the member sends to the leader's assignor besides its subscription, or None."""

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Take notice of the member's new assignment, after it has revoked and before it owns what is new."""


class StatelessAssignor:
    """An assignor that looks at subscriptions only: it sends no user data and remembers nothing."""

    def user_data(self, topics: Iterable[str], owned: Partitions, generation: int) -> bytes | None:
        """Return None."""
        del topics, owned, generation
        return None

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Do nothing."""
        del assignment, generation


def member_order(spec: GroupSpec) -> list[str]:
    """Return the member ids in Java's order: static members first by instance id, then dynamic ones by member id."""
    # An instance id, once a member has one, stands in for the member id (KIP-345): ids change at every restart.
    static = {name: entry.instance_id for name, entry in spec.members.items() if entry.instance_id is not None}
    if not static:
        return sorted(spec.members)
    order = sorted(static, key=lambda name: (static[name], name))
    return order + sorted(name for name in spec.members if name not in static)


def subscribers(spec: GroupSpec) -> dict[str, list[str]]:
    """Return for every topic of `spec`, by name, its subscribed members in `member_order`."""
    by_topic: dict[str, list[str]] = {topic: [] for topic in sorted(spec.topics)}
    for member in member_order(spec):
        for topic in dict.fromkeys(spec.members[member].subscription.topics):
            if topic in by_topic:
                by_topic[topic].append(member)
    return by_topic
