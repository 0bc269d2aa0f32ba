"""The options of a stream as a member of its group: protocol, assignor, instance id and timeouts.

The law: a protocol and an assignor that do not go together are refused here, before the member joins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kohort.assign import (
    Assignor,
    CapacityAssignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from kohort.assign.server.catalog import BUILT_IN
from kohort.model.setting import listed
from kohort.spark.options.bound_partitions import BoundAssignor, BoundPartitions
from kohort.spark.options.option_values import Given

if TYPE_CHECKING:
    from kohort.client.membership.protocol_switch import GroupProtocol

Protocol = Literal["eager", "cooperative", "consumer", "auto"]
Mismatch = Literal["fail", "group", "checkpoint"]
OnNewCheckpoint = Literal["fail", "group", "startingOffsets"]

METADATA_MAX_AGE_MS = 30_000
"""How often new partitions and topics are looked for by default. Kafka's clients do it every five minutes."""

PROTOCOLS: tuple[Protocol, ...] = ("auto", "eager", "cooperative", "consumer")
MISMATCHES: tuple[Mismatch, ...] = ("fail", "group", "checkpoint")
ON_NEW_CHECKPOINT: tuple[OnNewCheckpoint, ...] = ("fail", "group", "startingOffsets")
ASSIGNORS: dict[Protocol, tuple[str, ...]] = {
    "eager": ("range", "roundrobin", "sticky", "capacity"),
    "cooperative": ("cooperative-sticky", "capacity"),
    "consumer": tuple(BUILT_IN),
    "auto": tuple(BUILT_IN),
}
"""The assignors of each protocol; the first is the default. Those of `consumer` run in the broker.

A broker may have others: with an explicit protocol `consumer` or `auto`, any other name is sent to the broker."""

_ELSEWHERE = {
    "group.protocol": "protocol",
    "partition.assignment.strategy": "assignor",
    "group.remote.assignor": "assignor",
}


@dataclass(frozen=True, slots=True)
class MemberOptions:
    """The options of a member. `assignor` None stands for the protocol's default.

    `bound` are the partitions that belong to the query's checkpoint; `allow_shared_state` lets a query with state share
    and take over partitions.

    `weight` is the weight of this job for the assignor `capacity`; None stands for the cores of its Spark.
    """

    group_id: str
    protocol: Protocol = "auto"
    assignor: str | None = None
    weight: float | None = None
    instance_id: str | None = None
    on_offset_mismatch: Mismatch = "fail"
    on_new_checkpoint: OnNewCheckpoint = "fail"
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 300_000
    metadata_max_age_ms: int = METADATA_MAX_AGE_MS
    bound: BoundPartitions | None = None
    allow_shared_state: bool = False

    @property
    def group_protocol(self) -> GroupProtocol:
        """The protocol as `Membership` names it: eager and cooperative are both classic."""
        if self.protocol == "eager" or self.protocol == "cooperative":
            return "classic"
        return self.protocol

    @property
    def remote_assignor(self) -> str | None:
        """The assignor to request from the broker, or None."""
        return None if self.group_protocol == "classic" else self.assignor

    def assignors(self, cores: float) -> tuple[Assignor, ...]:
        """Return the member's own assignors for the classic protocol; the job has `cores` cores."""
        if self.bound is not None:
            return (BoundAssignor(self.bound, is_eager=self.protocol == "eager"),)
        if self.protocol == "consumer":
            return ()
        if self.protocol == "auto":
            return (CooperativeStickyAssignor(),)
        return (_made(self.assignor or ASSIGNORS[self.protocol][0], self.protocol, self.weight or cores),)


def member_options(given: Given) -> MemberOptions:
    """Parse the options of a member. Raises ValueError."""
    for name, meant in _ELSEWHERE.items():
        if f"kafka.{name}" in given:
            raise ValueError(f"kafka.{name} cannot be set: use the option {meant}, which takes {_words(meant)}")
    group_id = given.required("group.id", "the name of the group to be a member of", "kafka.group.id")
    protocol, assignor = _protocol_and_assignor(given)
    bound = _bound(given, protocol, assignor)
    defaults = MemberOptions(group_id)
    session_timeout_ms = given.number("kafka.session.timeout.ms", least=1)
    heartbeat_interval_ms = given.number("kafka.heartbeat.interval.ms", least=1)
    found = MemberOptions(
        group_id,
        "cooperative" if bound is not None and protocol == "auto" else protocol,
        assignor,
        _weight(given, assignor),
        given.text("instance.id", "kafka.group.instance.id") or _own_instance_id(given, group_id, bound),
        given.choice("onOffsetMismatch", MISMATCHES, defaults.on_offset_mismatch),
        given.choice("onNewCheckpoint", ON_NEW_CHECKPOINT, defaults.on_new_checkpoint),
        session_timeout_ms or defaults.session_timeout_ms,
        heartbeat_interval_ms or defaults.heartbeat_interval_ms,
        given.number("kafka.max.poll.interval.ms", least=1) or defaults.rebalance_timeout_ms,
        given.number("kafka.metadata.max.age.ms", least=1) or defaults.metadata_max_age_ms,
        bound,
        given.truth("allowSharedState", default=False),
    )
    if found.heartbeat_interval_ms >= found.session_timeout_ms:
        raise ValueError(
            f"kafka.heartbeat.interval.ms={found.heartbeat_interval_ms}: expected less than"
            f" kafka.session.timeout.ms, which is {found.session_timeout_ms}"
        )
    return found


def _own_instance_id(given: Given, group_id: str, bound: BoundPartitions | None) -> str | None:
    return bound.instance_id(group_id, given.text("subscribe", "subscribePattern") or "") if bound is not None else None


def _bound(given: Given, protocol: Protocol, assignor: str | None) -> BoundPartitions | None:
    """Return the partitions that are bound to the checkpoint. Raises ValueError for options that contradict them."""
    if (text := given.text("boundPartitions")) is None:
        return None
    group = "the group's offsets do not decide where reading continues"
    for name, value, why in (
        ("protocol", protocol == "consumer", "the broker would assign the partitions of a query that is away"),
        ("assignor", assignor is not None, "a partition belongs to its checkpoint"),
        ("onOffsetMismatch", (given.text("onOffsetMismatch") or "").lower() == "group", group),
        ("onNewCheckpoint", (given.text("onNewCheckpoint") or "").lower() == "group", group),
        ("allowSharedState", given.truth("allowSharedState", default=False), "the state would be shared"),
    ):
        if value:
            raise ValueError(f"{name} is {given.text(name)!r}: it does not go with boundPartitions, as {why}")
    return BoundPartitions.parse(text)


def _protocol_and_assignor(given: Given) -> tuple[Protocol, str | None]:
    assignor = given.text("assignor")
    protocol = given.choice("protocol", PROTOCOLS, _protocol_of(assignor))
    if assignor is None:
        return protocol, None
    if assignor.lower() in ASSIGNORS[protocol]:
        return protocol, assignor.lower()
    clients_own = {*ASSIGNORS["eager"], *ASSIGNORS["cooperative"]}
    if protocol in ("consumer", "auto"):
        if given.text("protocol") is not None and assignor.lower() not in clients_own:
            return protocol, assignor  # a custom one; a broker without it lists those that it has
        own = "; for a custom one of the broker, set protocol, too" if assignor.lower() not in clients_own else ""
        raise ValueError(f"assignor={assignor!r}: expected {listed(BUILT_IN)} with protocol={protocol}{own}")
    raise ValueError(f"assignor={assignor!r}: expected {listed(ASSIGNORS[protocol])} with protocol={protocol}")


def _protocol_of(assignor: str | None) -> Protocol:
    """Return the default protocol of an assignor."""
    order: tuple[Protocol, ...] = ("auto", "cooperative", "eager")
    return next((each for each in order if (assignor or "").lower() in ASSIGNORS[each]), "auto")


def _weight(given: Given, assignor: str | None) -> float | None:
    text = given.text("assignor.weight")
    if text is None:
        return None
    if assignor != "capacity":
        raise ValueError(f"assignor.weight is {text!r}: only assignor=capacity uses it")
    try:
        return CapacityAssignor(float(text)).weight
    except ValueError:
        raise ValueError(f"assignor.weight={text!r}: expected a number above 0, such as the job's cores") from None


def _words(option: str) -> str:
    return listed(PROTOCOLS if option == "protocol" else dict.fromkeys(sum(ASSIGNORS.values(), ())))


def _made(name: str, protocol: Protocol, weight: float) -> Assignor:
    if name == "capacity":
        return CapacityAssignor(weight, is_eager=protocol == "eager")
    plain: tuple[Assignor, ...] = (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
    return next(each for each in plain if each.name == name)
