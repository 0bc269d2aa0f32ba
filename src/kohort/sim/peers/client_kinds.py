"""Kinds of simulated clients: versions, assignors, connections and pace of each client library. A table to draw from.

`ClientKind` is a client, `PeerConfig` what its user configures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypedDict

from kohort.assign import (
    Assignor,
    CooperativeStickyAssignor,
    GroupSpec,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
)
from kohort.member.member_state import MemberConfig
from kohort.member.rebalance_strategy import protocol_for
from kohort.model.assignment import Assignment, Partitions
from kohort.parking.client_software import KOHORT
from kohort.wire.apis import Api

Protocol = Literal["classic", "consumer", "streams"]
Commit = Literal["auto", "sync", "async", "revoked"]
Layout = Literal["apart", "one", "joins apart"]
"""Which requests to the coordinator share a connection: one behind a JoinGroup that waits, waits too; a commit behind a
parked heartbeat has it answered. `apart`: group requests on one, commits and committed offsets on another (ours).
`one`: all on one (Java, librdkafka, kafka-python, aiokafka). `joins apart`: JoinGroup and SyncGroup on one, the others
on another (kgo)."""
Pace = Literal["waits", "overlaps", "skips", "from answer"]
"""When a classic member sends its next heartbeat; only a broker that parks heartbeats sees the difference. `waits`: an
interval after the send, once it is answered (aiokafka, kafka-python, ours). `overlaps`: an interval after the send,
answered or not (Java). `skips`: one that falls due while another is unanswered is left out (librdkafka). `from answer`:
an interval after the answer (kgo)."""

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
class ClientKind:
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
    failures: int = 0
    """How often its assignor fails, in each process, before it assigns."""
    connections: Layout = "apart"
    """Which requests share a connection to the coordinator."""
    pace: Pace = "waits"
    """When it sends its next heartbeat (classic)."""

    @property
    def is_ours(self) -> bool:
        """Whether it uses what only our brokers offer: reported failures of leaders, released heartbeats."""
        return self.software == KOHORT

    @property
    def label(self) -> str:
        """What the trace calls it: eager, cooperative or consumer."""
        if self.protocol != "classic":
            return self.protocol
        return str(protocol_for(self.made_assignors()))

    @property
    def may_be_static(self) -> bool:
        """Whether it can send an instance id."""
        return self.versions.get(Api.JOIN_GROUP, FIRST_STATIC_JOIN) >= FIRST_STATIC_JOIN

    @property
    def is_assigned_nothing(self) -> bool:
        """Whether a cooperative group has no partition for it: it cannot list what it owns (docs/decisions/0013)."""
        return self.embedded_version == 0 and any(_is_cooperative(ASSIGNORS[name]()) for name in self.assignors)

    def made_assignors(self) -> tuple[Assignor, ...]:
        """Return the assignors of one process: the sticky ones have a memory."""
        made: tuple[Assignor, ...] = tuple(ASSIGNORS[name]() for name in self.assignors)
        if self.embedded_version == 0:
            made = tuple(_OwnershipBlind(assignor.name) if _is_cooperative(assignor) else assignor for assignor in made)
        return tuple(_Hesitant(assignor, self.failures) for assignor in made) if self.failures else made


def _is_cooperative(assignor: Assignor) -> bool:
    return RebalanceProtocol.COOPERATIVE in assignor.protocols


class _OwnershipBlind:
    """What a program of before KIP-429 does under the name of a cooperative assignor (docs/decisions/0013).

    Its member revokes everything before it joins, and as the leader it reads no owned partitions, so that it assigns to
    one member what another one still owns.
    """

    protocols = (RebalanceProtocol.EAGER,)

    def __init__(self, name: str) -> None:
        self.name = name

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Return one assignment for every member of `spec`."""
        return RangeAssignor().assign(spec)

    def user_data(self, topics: Iterable[str], owned: Partitions, generation: int) -> bytes | None:
        """Return nothing."""
        return None

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Take no notice."""


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
    All of them, and `revoked` only there, commit what is finished before partitions are revoked."""
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
    threads: int = 1
    """How many threads the process has, each of them a member (streams)."""
    restores_per_s: int = 10_000
    """How fast it restores copies of state, in records (streams)."""
    is_state_kept: bool = True
    """Whether its state survives a restart, with the id of the process (streams)."""

    def member_config(self, kind: ClientKind) -> MemberConfig:
        """Return what the member's state machine is made with."""
        votes = kind.protocol == "consumer" and kind.assignors
        return MemberConfig(
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms or self.max_poll_interval_ms,
            heartbeat_interval_ms=self.heartbeat_interval_ms,
            is_first_heartbeat_at_once=kind.is_ours,
            max_poll_interval_ms=self.max_poll_interval_ms,
            instance_id=self.instance_id,
            rack=self.rack,
            server_assignor=kind.assignors[0] if votes else None,
        )


class _Client(TypedDict, total=False):
    """What kinds of one client library have in common."""

    software: str
    connections: Layout
    pace: Pace


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
}
"""What clients speak that write an embedded version: before KIP-345, Kafka 2.4 to 2.6, before KIP-792."""

_OLDEST = {**_spoken(0, 0, 0, 0, 2, 1, 0), Api.FETCH: 4, Api.LIST_OFFSETS: 1}
"""A client of before KIP-62: its session is its rebalance timeout too."""
_PLAIN = _spoken(4, 2, 2, 2, 6, 4, 6)
"""A client that asks for its member id first (KIP-394), and knows no static members yet."""
_KAFKA_4_0 = {Api.CONSUMER_GROUP_HEARTBEAT: 0, Api.OFFSET_COMMIT: 9, Api.OFFSET_FETCH: 9, Api.FETCH: 17}
"""Java's client of Kafka 4.0: expressions are its own matter, offsets go by name."""

_OURS: _Client = {"software": KOHORT}
_JAVA: _Client = {"software": "apache-kafka-java", "connections": "one", "pace": "overlaps"}
_OLD_JAVA: _Client = {"connections": "one", "pace": "overlaps"}
_LIBRDKAFKA: _Client = {"software": "librdkafka", "connections": "one", "pace": "skips"}
_KGO: _Client = {"software": "kgo", "connections": "joins apart", "pace": "from answer"}
_PYTHON: _Client = {"connections": "one"}
"""How a client library speaks, whatever version of the protocol it is at: aiokafka and kafka-python are alike here."""

_KINDS = (
    ClientKind("eager-range", **_OURS),
    ClientKind("eager-roundrobin", assignors=("roundrobin",), **_KGO),
    ClientKind("eager-sticky", assignors=("sticky",), **_KGO),
    ClientKind("eager-kgo", **_KGO),
    ClientKind("eager-java", **_JAVA),
    ClientKind("eager-librdkafka", assignors=("range", "roundrobin"), versions=_AGE[1], **_LIBRDKAFKA),
    ClientKind("eager-aiokafka", assignors=("roundrobin",), embedded_version=0, versions=_AGE[0], **_PYTHON),
    ClientKind("eager-v1", assignors=("sticky",), embedded_version=1, versions=_AGE[1], **_OLD_JAVA),
    ClientKind("eager-v2", embedded_version=2, versions=_AGE[2], **_OLD_JAVA),
    ClientKind("eager-oldest", embedded_version=0, versions=_OLDEST),
    ClientKind("eager-kafka-python", assignors=("range", "roundrobin"), embedded_version=1, versions=_PLAIN, **_PYTHON),
    ClientKind("eager-hesitant", failures=2, **_OURS),
    ClientKind("cooperative", assignors=("cooperative-sticky",), **_OURS),
    ClientKind("cooperative-java", assignors=("cooperative-sticky",), **_JAVA),
    ClientKind("cooperative-v0", assignors=("cooperative-sticky",), embedded_version=0, versions=_AGE[1], **_PYTHON),
    ClientKind(
        "cooperative-v1", assignors=("cooperative-sticky",), embedded_version=1, versions=_AGE[1], **_LIBRDKAFKA
    ),
    ClientKind("cooperative-v2", assignors=("cooperative-sticky",), embedded_version=2, versions=_AGE[2], **_KGO),
    ClientKind("rolling", assignors=("cooperative-sticky", "range"), **_OURS),
    ClientKind("rolling-java", assignors=("range", "cooperative-sticky"), **_JAVA),
    ClientKind("consumer", "consumer", (), **_OURS),
    ClientKind("consumer-uniform", "consumer", ("uniform",), **_OURS),
    ClientKind("consumer-range", "consumer", ("range",)),
    ClientKind("consumer-java", "consumer", (), **_JAVA),
    ClientKind("consumer-4.0", "consumer", (), versions=_KAFKA_4_0, **_JAVA),
    ClientKind("consumer-librdkafka", "consumer", (), versions={Api.FETCH: 16}, **_LIBRDKAFKA),
    ClientKind("streams", "streams", (), **_JAVA),
    ClientKind("streams-4.3", "streams", (), versions={Api.STREAMS_GROUP_HEARTBEAT: 0}, **_JAVA),
)

KINDS: Mapping[str, ClientKind] = {kind.name: kind for kind in _KINDS}
"""By name."""
