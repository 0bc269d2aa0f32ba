"""What `explain` reports of a group: its rebalances, as values that turn into JSON and into sentences.

Times are milliseconds since the epoch by the coordinator's clock; members are their full ids. The JSON has a stable
shape, documented in docs/guide/rebalances.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from kohort.group.explain.partition_ownership import Gap
from kohort.model.assignment import by_topic
from kohort.model.ids import TopicPartition

EventFields = Mapping[str, Any]
"""One event of a group as JSON."""


class ReportedCause(NamedTuple):
    """A cause as the event reports it: its kind, the member behind it, a detail in words."""

    kind: str
    member_id: str | None = None
    detail: str = ""


UNTOLD = ReportedCause("untold")
"""The cause of what happened while no event could be written."""

CONVERTED = "group_converted"
"""The cause of what is written only because a group continues as one of the other type; and the event that ends it."""


def parsed_event(text: bytes | str | None) -> EventFields | None:
    """Return a group's event written as JSON; None for what is none: any client that may write to the topic can."""
    try:
        fields: Any = json.loads(text or b"")
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict) or not isinstance(fields.get("group"), str):  # as of the gateway itself
        return None
    return fields if isinstance(fields.get("at_ms"), int) else None


def cause_of(event: EventFields) -> ReportedCause:
    """Return the cause of an event."""
    cause: Any = event.get("cause")
    if not isinstance(cause, dict):  # there is none, or another program wrote it
        return UNTOLD
    return ReportedCause(str(cause.get("kind") or UNTOLD.kind), cause.get("member"), str(cause.get("detail") or ""))


def cause_json(cause: ReportedCause) -> dict[str, Any]:
    """Return a cause as JSON."""
    return _documented(cause, "kind member=member_id detail")


def _documented(value: Any, names: str) -> dict[str, Any]:
    """Return fields of a value for JSON; of `name=field`, the first is the name that JSON has."""
    pairs = (name.partition("=") for name in names.split())
    return {name: _json(getattr(value, field or name)) for name, _, field in pairs}


def _json(value: Any) -> Any:
    match value:
        case ReportedCause():
            return cause_json(value)
        case Slowest():
            return _documented(value, "member=member_id ms=took_ms")
        case Wait():
            return _documented(value, "what members=member_ids")
        case Round() | GroupEpoch() | Conversion() | WarmUp():
            return value.to_json()
        case tuple() | list():
            return [_json(each) for each in value]
        case _:
            return value


class EpochStep(NamedTuple):
    """A member moved one step to its target: how much it revoked and got, and for whose partitions it waits yet."""

    at_ms: int
    member_id: str
    gave: int
    got: int
    awaited: int = 0
    """How many partitions of its target others have yet."""
    owners: tuple[str, ...] = ()
    """Those others."""
    asked: int = 0
    """How many partitions it was asked to revoke."""


class WarmUp(NamedTuple):
    """Tasks of a streams group that a member is to take over once its copies have caught up, and who runs them yet."""

    member_id: str
    owner_id: str | None
    tasks: tuple[TopicPartition, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the documented fields."""
        return {"member": self.member_id, "owner": self.owner_id, "tasks": by_topic(self.tasks)}


@dataclass(slots=True)
class GroupEpoch:
    """One group epoch: why it began, when its target was computed, and how long each member took to get there."""

    bumped_ms: int
    cause: ReportedCause
    epoch: int
    computed_ms: int | None = None
    failure: ReportedCause | None = None
    """Why no target could be computed; the one before stays in force."""
    changed: int = 0
    """How many members' targets changed."""
    flows: tuple[tuple[str | None, str | None, int], ...] = ()
    """From whose target to whose, how many partitions."""
    warmups: tuple[WarmUp, ...] = ()
    """What waits for a copy that catches up, in a streams group."""
    steps: list[EpochStep] = field(default_factory=list)
    revoke_ms: dict[str, int] = field(default_factory=dict)
    """How long after the target a member had revoked what it was asked back."""
    reconcile_ms: dict[str, int] = field(default_factory=dict)
    """How long after the target a member had all of its own."""

    def to_json(self) -> dict[str, Any]:
        """Return the documented fields."""
        return _documented(self, "epoch bumped_ms cause computed_ms changed warmups failure revoke_ms reconcile_ms")


@dataclass(slots=True)
class Conversion:
    """The group continued as one of the other type; `taken` partitions were taken from members by that alone."""

    at_ms: int
    to: str
    cause: ReportedCause
    taken: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the documented fields."""
        return _documented(self, "at_ms to cause taken")


class Outcome(StrEnum):
    """How a rebalance ended, or that it did not yet."""

    RUNNING = "running"
    STABLE = "stable"
    """Every member has its assignment and no member must give anything up."""
    EMPTY = "empty"
    """No member is left."""
    DELETED = "deleted"
    """The group was deleted on the way."""
    UNTOLD = "untold"
    """The events of its end are missing."""


class Identity(NamedTuple):
    """How people know a member."""

    client_id: str
    instance_id: str | None


class Departure(NamedTuple):
    """A member that is out; `silent_ms` is how long it had sent no request, -1 where that is not known."""

    member_id: str
    at_ms: int
    cause: ReportedCause
    silent_ms: int = -1


class Replacement(NamedTuple):
    """A static member that came back under a new id; the old one is fenced."""

    old_id: str
    new_id: str
    instance_id: str
    at_ms: int


class Refused(NamedTuple):
    """Joins of one client that were refused for one reason; `in_the_way` are the members for whose sake."""

    first_ms: int
    last_ms: int
    times: int
    error: str
    client_id: str
    host: str
    instance_id: str | None
    is_native: bool
    text: str
    in_the_way: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the documented fields."""
        found = _documented(self, "first_ms last_ms count=times error client=client_id host instance=instance_id")
        protocol = "consumer" if self.is_native else "classic"
        return found | {"protocol": protocol} | _documented(self, "text in_the_way")


class Move(NamedTuple):
    """A partition that changed hands; None stands for no member."""

    partition: TopicPartition
    giver: str | None
    taker: str | None


class Wait(NamedTuple):
    """What a running rebalance waits for, of which members; `member_ids` is empty when it is only time."""

    what: str
    member_ids: tuple[str, ...] = ()


@dataclass(slots=True)
class Round:
    """One round: opened, formed, its assignment stored, as far as it came. `ended_by` is what ended the gathering."""

    opened_ms: int
    cause: ReportedCause
    expected: int = 0
    is_initial: bool = False
    formed_ms: int | None = None
    ended_by: ReportedCause | None = None
    generation: int | None = None
    protocol: str = ""
    leader: str | None = None
    missing: tuple[str, ...] = ()
    stored_ms: int | None = None
    stored_remark: str = ""
    """What a gateway did with the leader's assignment, if it did anything."""
    work: EventFields | None = None
    """What members of Kafka Connect or Kafka Streams run with it."""
    failure: ReportedCause | None = None
    """Why it came to no assignment."""
    setback: ReportedCause | None = None
    """Why its members had to join twice."""
    rejoin_ms: dict[str, int] = field(default_factory=dict)
    """How long after the opening a member of the last generation joined."""
    announced_ms: int = 0
    """How long after the opening the members whose heartbeats waited were answered, all together."""
    missed_ms: dict[str, int] = field(default_factory=dict)
    """How long after the opening a member was out, or an issued id dropped, that had not joined: the wait for it."""
    sync_ms: dict[str, int] = field(default_factory=dict)
    """How long after the generation formed a member asked for its assignment."""

    def to_json(self) -> dict[str, Any]:
        """Return the documented fields."""
        names = "opened_ms cause is_initial formed_ms formed_by=ended_by generation protocol leader missing"
        more = "stored_ms stored_remark work failure setback announced_ms rejoin_ms missed_ms sync_ms"
        return _documented(self, f"{names} {more}") | {"protocol": self.protocol or None}


class Slowest(NamedTuple):
    """The member that a step took longest for."""

    member_id: str
    took_ms: int


@dataclass(slots=True)
class Rebalance:
    """The whole move from one stable assignment to the next. `ended_ms` is None while it runs.

    More than 20 attributes: each is a line or a figure of the report.
    """

    number: int
    started_ms: int
    from_generation: int
    cause: ReportedCause
    ended_ms: int | None = None
    outcome: Outcome = Outcome.RUNNING
    to_generation: int | None = None
    is_partial: bool = False
    """Whether events of it, or of what was before, are missing."""
    is_readable: bool = True
    """Whether the assignments can be read: they cannot in a protocol that is not the consumers'."""
    restarts: int = 0
    """How often the coordinator was loaded anew meanwhile."""
    rounds: list[Round] = field(default_factory=list)
    epochs: list[GroupEpoch] = field(default_factory=list)
    """Those of a consumer group."""
    conversions: list[Conversion] = field(default_factory=list)
    from_type: str = "classic"
    to_type: str = "classic"
    """The type of the group before, and after or now."""
    joined: list[str] = field(default_factory=list)
    joined_ms: dict[str, int] = field(default_factory=dict)
    """When each of them did."""
    departures: list[Departure] = field(default_factory=list)
    replacements: list[Replacement] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    partitions: int = 0
    """How many are assigned after it; before it, see `partitions_before`."""
    partitions_before: int = 0
    members: int = 0
    shares: dict[str, int] = field(default_factory=dict)
    """How many partitions each member is assigned after it."""
    gaps: list[Gap] = field(default_factory=list)
    """Partitions that no member owned."""
    silences: list[Gap] = field(default_factory=list)
    """Partitions whose owner sent nothing before it was evicted."""
    waits_for: Wait | None = None
    events: list[EventFields] = field(default_factory=list)
    avoided_before: int = 0
    """Rebalances that were avoided between the one before and this."""

    def duration_ms(self, now_ms: int | None = None) -> int:
        """How long it took, or has been running at `now_ms`."""
        end_ms = self.ended_ms if self.ended_ms is not None else now_ms
        return max(0, (self.started_ms if end_ms is None else end_ms) - self.started_ms)

    @property
    def unowned_partition_s(self) -> float:
        """The cost: for each partition the seconds that no member owned it, added up."""
        return sum(gap.duration_ms for gap in self.gaps) / 1000

    @property
    def silent_partition_s(self) -> float:
        """For each partition of an evicted member the seconds that the member had sent nothing, added up."""
        return sum(gap.duration_ms for gap in self.silences) / 1000

    @property
    def slowest_rejoin(self) -> Slowest | None:
        """Who of the last generation took longest to join a round, None when no member had to."""
        return _slowest(each.rejoin_ms for each in self.rounds)

    @property
    def longest_missed(self) -> Slowest | None:
        """Which member that did not join a round any more was awaited longest, None when there was none."""
        return _slowest(each.missed_ms for each in self.rounds)

    @property
    def slowest_sync(self) -> Slowest | None:
        """Who took longest to ask for its assignment, None when no member did."""
        return _slowest(each.sync_ms for each in self.rounds)

    @property
    def slowest_revoke(self) -> Slowest | None:
        """Who took longest to revoke what a new target took away, in a consumer group; None when no member had to."""
        return _slowest(each.revoke_ms for each in self.epochs)

    @property
    def slowest_reconcile(self) -> Slowest | None:
        """Who took longest to have all of its target, in a consumer group."""
        return _slowest(each.reconcile_ms for each in self.epochs)

    def moved(self) -> list[Move]:
        """Return the partitions that went from one member to another."""
        return [move for move in self.moves if move.giver is not None and move.taker is not None]

    def stayed(self) -> int:
        """Return how many of the partitions are owned by the member that owned them before."""
        return self.partitions - sum(move.taker is not None for move in self.moves)

    def _flows_json(self) -> list[dict[str, Any]]:
        flows: dict[tuple[str, str], list[Move]] = {}
        for move in self.moves:
            flows.setdefault((move.giver or "", move.taker or ""), []).append(move)
        return [
            {"from": giver or None, "to": taker or None, "partitions": by_topic(move.partition for move in moves)}
            for (giver, taker), moves in sorted(flows.items())
        ]

    def to_json(self, now_ms: int | None = None) -> dict[str, Any]:
        """Return the documented fields."""
        is_known = self.is_readable
        times = "from_type to_type from_generation to_generation started_ms ended_ms"
        slowest = "slowest_rejoin longest_missed slowest_sync slowest_revoke slowest_reconcile"
        return {
            **_documented(self, f"number outcome {times}"),
            "duration_ms": self.duration_ms(now_ms),
            **_documented(self, "cause is_partial restarts avoided_before members shares joined"),
            "left": [_departure_json(each) for each in self.departures if not is_eviction(each)],
            "evicted": [_departure_json(each) for each in self.departures if is_eviction(each)],
            "fenced": [
                _documented(each, "member=old_id instance=instance_id replaced_by=new_id at_ms")
                for each in self.replacements
            ],
            "partitions_before": self.partitions_before if is_known else None,
            "partitions": self.partitions if is_known else None,
            "stayed": self.stayed() if is_known else None,
            "moved": self._flows_json(),
            "unowned_partitions": len({gap.partition for gap in self.gaps}) if is_known else None,
            "unowned_partition_s": round(self.unowned_partition_s, 3) if is_known else None,
            "silent_partition_s": round(self.silent_partition_s, 3) if is_known else None,
            **_documented(self, f"{slowest} waits_for rounds epochs conversions"),
        }


@dataclass(slots=True)
class GroupReport:
    """What is known of a group now."""

    group_id: str
    state: str
    generation: int
    members: int
    partitions: int
    rebalances: list[Rebalance]
    """Those that were stored."""
    running: Rebalance | None
    total: int
    """How many there were, without the one that runs."""
    unowned_partition_s: float
    """What all of them cost."""
    avoided: int
    identities: dict[str, Identity]
    owners: dict[TopicPartition, str]
    """Who owns which partition now."""
    is_seen: bool
    """Whether any event concerned the group."""
    group_type: str = "classic"
    """Its `generation` is its epoch where that is consumer."""
    protocols: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The client-side assignors that each classic member offers, as far as it is known."""
    refused: list[Refused] = field(default_factory=list)
    """The last refused joins, the latest last."""
    warmups: tuple[WarmUp, ...] = ()
    """What is warming up now, in a streams group."""


OWN_WILL = ("member_left", "member_removed")


def is_eviction(departure: Departure) -> bool:
    """Whether a member was evicted by a timeout, rather than having left or been removed by an administrator."""
    return departure.cause.kind not in OWN_WILL


def _departure_json(departure: Departure) -> dict[str, Any]:
    silent_ms = departure.silent_ms if departure.silent_ms >= 0 else None
    return _documented(departure, "member=member_id at_ms cause") | {"silent_ms": silent_ms}


def _slowest(rounds: Any) -> Slowest | None:
    each = [Slowest(member_id, took_ms) for took in rounds for member_id, took_ms in took.items()]
    # The longest; of equals the first by id.
    return min(each, key=lambda slowest: (-slowest.took_ms, slowest.member_id), default=None)


def partitions_of(topics: Any) -> set[TopicPartition]:
    """Return partitions written as numbers by topic; nothing for None."""
    return {TopicPartition(topic, number) for topic, numbers in (topics or {}).items() for number in numbers}


def targets_of(event: EventFields) -> dict[str, frozenset[TopicPartition]]:
    """Return what each member is assigned by an event; nothing where it cannot be read."""
    return {str(member): frozenset(partitions_of(owned)) for member, owned in (event.get("assignments") or {}).items()}


def member_of(event: EventFields) -> str:
    """Return the member that an event is about."""
    return str(event.get("member"))
