"""The kinds of members there are: how one speaks and behaves, whatever its user configures. A table to draw from.

`Kind` is what a program is, `PeerConfig` what its user says. `kind_for` makes one that the table does not name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from kohort.assign import (
    Assignor,
    CooperativeStickyAssignor,
    GroupSpec,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from kohort.member.state import MemberConfig
from kohort.member.strategy import strategy_for
from kohort.model.assignment import Assignment
from kohort.wire.apis import Api

Protocol = Literal["classic", "consumer"]
Commit = Literal["auto", "sync", "async", "revoked"]

ASSIGNORS: Mapping[str, Callable[[], Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
"""The assignors that classic members may offer, by the name that travels."""

FIRST_STATIC_JOIN = 5
"""The first version of JoinGroup with an instance id (KIP-345)."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of member. `versions` are the newest that it speaks, of APIs where that is not the newest of all."""

    name: str
    protocol: Protocol = "classic"
    assignors: tuple[str, ...] = ("range",)
    """Classic: what it offers, in order of preference. Consumer: the broker's assignor that it votes for, or none."""
    embedded_version: int = 3
    """The version of the embedded protocol that it writes (classic)."""
    versions: Mapping[Api, int] = field(default_factory=dict)
    software: str | None = None
    """What it calls itself in ApiVersions; brokers treat some clients with care. None sends no ApiVersions."""
    is_ours: bool = False
    """Whether it uses what only our brokers offer: told failures of leaders, heartbeats that are asked back."""
    failures: int = 0
    """How often its assignor fails, in each process, before it assigns."""
    commits_with_group: bool = False
    """Whether commits go on the connection of the group's requests, behind a JoinGroup that is held back."""

    @property
    def label(self) -> str:
        """What the trace calls it: eager, cooperative or consumer."""
        if self.protocol == "consumer":
            return "consumer"
        return str(strategy_for(self.made_assignors()).protocol)

    @property
    def may_be_static(self) -> bool:
        """Whether it can say an instance id."""
        return self.versions.get(Api.JOIN_GROUP, FIRST_STATIC_JOIN) >= FIRST_STATIC_JOIN

    def made_assignors(self) -> tuple[Assignor, ...]:
        """Return the assignors of one process: the sticky ones have a memory."""
        made = tuple(ASSIGNORS[name]() for name in self.assignors)
        return tuple(_Hesitant(assignor, self.failures) for assignor in made) if self.failures else made


class _Hesitant:
    """An assignor with a defect that passes: it fails some times before it does what another one does."""

    def __init__(self, assignor: Assignor, failures: int) -> None:
        self.name = assignor.name
        self.protocols = assignor.protocols
        self.user_data = assignor.user_data
        self.on_assignment = assignor.on_assignment
        self._assignor = assignor
        self._left = failures

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Return one assignment for every member of `spec`, or raise."""
        if self._left:
            self._left -= 1
            raise ValueError("the assignor is not ready yet")
        return self._assignor.assign(spec)


@dataclass(frozen=True, slots=True)
class PeerConfig:
    """What the user of one member configures, and how its application behaves. Chances are between 0 and 1."""

    group_id: str
    topics: tuple[str, ...]
    pattern: str | None = None
    """An expression instead of topics: the broker resolves it in the consumer protocol, the client in the classic."""
    instance_id: str | None = None
    rack: str | None = None
    session_timeout_ms: int = 6_000
    heartbeat_interval_ms: int = 2_000
    max_poll_interval_ms: int = 10_000
    rebalance_timeout_ms: int | None = None
    """The longest that a round waits for it; like Java's, the poll interval where it is None."""
    request_timeout_ms: int = 10_000
    metadata_ms: int = 5_000
    """How often the cluster is looked at when nothing calls for it."""
    fetch_wait_ms: int = 1_000
    max_poll_records: int = 500
    reset: Literal["earliest", "latest"] = "earliest"
    commit: Commit = "auto"
    """`auto`: with the polls, each `auto_commit_ms`; `sync`: after each batch, and waits; `async`: does not wait.
    All of them, and `revoked` only there, commit what is finished before partitions are given up."""
    auto_commit_ms: int = 1_000
    work_us: int = 50_000
    """How long the application works on what one poll gave it, at most; half of that on average."""
    callback_us: int = 1_000
    """How long a rebalance callback takes at most."""
    overrun: float = 0.0
    """How likely it works on a batch for longer than the poll interval."""
    raising: float = 0.0
    """How likely a callback raises."""
    rejoins: float = 0.0
    """How likely the user asks for a rebalance after a batch (classic)."""

    def member_config(self, kind: Kind) -> MemberConfig:
        """Return what the member's state machine is made with."""
        votes = kind.protocol == "consumer" and kind.assignors
        return MemberConfig(
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms or self.max_poll_interval_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            max_poll_interval_ms=self.max_poll_interval_ms,
            instance_id=self.instance_id,
            rack=self.rack,
            server_assignor=kind.assignors[0] if votes else None,
        )


def _spoken(join: int, sync: int, beat: int, leave: int, commit: int, read: int, look: int) -> Mapping[Api, int]:
    """Return the versions of an older client: its group requests, its offsets, Metadata."""
    return {
        Api.JOIN_GROUP: join,
        Api.SYNC_GROUP: sync,
        Api.HEARTBEAT: beat,
        Api.LEAVE_GROUP: leave,
        Api.OFFSET_COMMIT: commit,
        Api.OFFSET_FETCH: read,
        # Without topic ids a topic made anew passes for the old one as it was, on its old leader (KAFKA-12257).
        Api.METADATA: max(look, 10),
        Api.FIND_COORDINATOR: min(look, 2),
        Api.FETCH: 11,
    }


_AGE = {
    0: _spoken(2, 1, 1, 1, 3, 3, 5),
    1: _spoken(5, 3, 3, 3, 7, 5, 8),
    2: _spoken(7, 5, 4, 4, 8, 7, 9),
    3: {},
}
"""What clients speak that write an embedded version: before KIP-345, Kafka 2.4 to 2.6, before KIP-792, newest."""

_OLDEST = {**_spoken(0, 0, 0, 0, 2, 1, 0), Api.FETCH: 4, Api.LIST_OFFSETS: 1}
"""A client of before KIP-62: its session is its rebalance timeout too."""
_PLAIN = _spoken(4, 2, 2, 2, 6, 4, 6)
"""A client that asks for its member id first (KIP-394), and knows no static members yet."""
_KAFKA_4_0 = {Api.CONSUMER_GROUP_HEARTBEAT: 0, Api.OFFSET_COMMIT: 9, Api.OFFSET_FETCH: 9, Api.FETCH: 17}
"""Java's client of Kafka 4.0: expressions are its own matter, offsets go by name."""

_KINDS = (
    Kind("eager-range", is_ours=True),
    Kind("eager-roundrobin", assignors=("roundrobin",)),
    Kind("eager-sticky", assignors=("sticky",)),
    Kind("eager-java", software="apache-kafka-java", commits_with_group=True),
    Kind("eager-librdkafka", assignors=("range", "roundrobin"), versions=_AGE[1], software="librdkafka"),
    Kind("eager-aiokafka", assignors=("roundrobin",), embedded_version=0, versions=_AGE[0]),
    Kind("eager-v1", assignors=("sticky",), embedded_version=1, versions=_AGE[1], commits_with_group=True),
    Kind("eager-v2", embedded_version=2, versions=_AGE[2], commits_with_group=True),
    Kind("eager-oldest", embedded_version=0, versions=_OLDEST),
    Kind("eager-kafka-python", assignors=("range", "roundrobin"), embedded_version=1, versions=_PLAIN),
    Kind("eager-hesitant", failures=2, is_ours=True),
    Kind("cooperative", assignors=("cooperative-sticky",), is_ours=True),
    Kind("cooperative-java", assignors=("cooperative-sticky",), software="apache-kafka-java", commits_with_group=True),
    Kind("cooperative-v1", assignors=("cooperative-sticky",), embedded_version=1, versions=_AGE[1]),
    Kind("cooperative-v2", assignors=("cooperative-sticky",), embedded_version=2, versions=_AGE[2]),
    Kind("rolling", assignors=("cooperative-sticky", "range"), is_ours=True),
    Kind("rolling-java", assignors=("range", "cooperative-sticky"), software="apache-kafka-java"),
    Kind("consumer", "consumer", (), is_ours=True),
    Kind("consumer-uniform", "consumer", ("uniform",), is_ours=True),
    Kind("consumer-range", "consumer", ("range",)),
    Kind("consumer-java", "consumer", (), software="apache-kafka-java", commits_with_group=True),
    Kind("consumer-4.0", "consumer", (), versions=_KAFKA_4_0, software="apache-kafka-java", commits_with_group=True),
    Kind("consumer-librdkafka", "consumer", (), versions={Api.FETCH: 16}, software="librdkafka"),
)

KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _KINDS}
"""By name."""


def kind_for(
    protocol: Protocol, assignors: tuple[str, ...], embedded_version: int = 3, *, is_ours: bool = True
) -> Kind:
    """Return the kind of member that these make: with an older embedded version also the requests of its time."""
    label = "consumer" if protocol == "consumer" else "/".join(assignors)
    name = label if embedded_version == 3 else f"{label}-v{embedded_version}"
    return Kind(name, protocol, assignors, embedded_version, _AGE[embedded_version], is_ours=is_ours)


__all__ = ["ASSIGNORS", "KINDS", "Kind", "PeerConfig", "kind_for"]
