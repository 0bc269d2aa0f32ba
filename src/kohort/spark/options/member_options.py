"""The options of a stream as a member of its group: protocol, assignor, instance id, timeouts, `boundPartitions`.

The law: a protocol and an assignor that do not go together are refused here, before the member joins.

With `boundPartitions` partitions belong to a checkpoint with state. A partition belongs to one of `count` queries by
its number alone, so that every restart and every member gives the same answer, and topics with equal partition counts
are divided alike. A partition whose query is away is assigned to no member: it waits for its state.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import MISSING, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from kohort.assign import (
    Assignor,
    CapacityAssignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from kohort.assign.server.catalog import BUILT_IN
from kohort.assign.spec import GroupSpec, RebalanceProtocol, StatelessAssignor, member_order
from kohort.model.assignment import Assignment, Partitions
from kohort.model.ids import TopicPartition
from kohort.model.setting import DOUBLE, LONG, STRING, listed, setting
from kohort.spark.options.option_values import Given

if TYPE_CHECKING:
    from kohort.client.membership.protocol_switch import GroupProtocol


@dataclass(frozen=True, slots=True)
class BoundPartitions:
    """Part `number` of `count`, counted from 1: the partitions whose number modulo `count` is `number` - 1."""

    number: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> BoundPartitions:
        """Return what `str` returned, `all` for the only part. Raises ValueError."""
        found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
        number, count = (int(found[1]), int(found[2])) if found else (1, 1)
        if (found is None and text.strip().lower() != "all") or not 1 <= number <= count:
            raise ValueError(
                f"boundPartitions={text!r}: expected all, or the part of this query such as 1/2, the first of two"
            )
        return cls(number, count)

    def __str__(self) -> str:
        return "all" if self.count == 1 else f"{self.number}/{self.count}"

    def of(self, partitions: Iterable[TopicPartition]) -> Partitions:
        """Return those of some partitions that belong to this part."""
        return frozenset(each for each in partitions if each.partition % self.count == self.number - 1)

    def instance_id(self, group: str, topics: str) -> str:
        """Return the `group.instance.id` of a source with this part, the same after each restart.

        The sources of one query, such as those of a join, differ in their topics. Kafka takes letters, digits, `.`, `_`
        and `-`, at most 249.
        """
        read = hashlib.sha256(json.dumps([group, sorted(map(str.strip, topics.split(",")))]).encode()).hexdigest()[:8]
        return re.sub(r"[^a-zA-Z0-9._-]", "_", f"{group[:200]}-{self.number}-of-{self.count}-{read}")


class BoundAssignor(StatelessAssignor):
    """Assigns every member the partitions of its part, and the partitions of absent members to no member."""

    name = "kohort-bound"
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE)

    def __init__(self, part: BoundPartitions, *, is_eager: bool = False) -> None:
        self.part = part
        if is_eager:
            self.protocols = (RebalanceProtocol.EAGER,)

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Return the partitions of each member; where two claim one, the member that owns it gets it."""
        there = {name: range(topic.partitions) for name, topic in spec.topics.items()}
        claims: dict[TopicPartition, str] = {}
        owners = {each: name for name, member in spec.members.items() for each in member.subscription.owned}
        for name in member_order(spec):
            subscription = spec.members[name].subscription
            try:
                part = BoundPartitions.parse((subscription.user_data or b"").decode())
            except ValueError:
                continue  # written by another program under this name: it gets nothing
            topics = [topic for topic in dict.fromkeys(subscription.topics) if topic in there]
            for each in part.of(TopicPartition(topic, number) for topic in topics for number in there[topic]):
                if each not in claims or owners.get(each) == name:
                    claims[each] = name
        return {
            name: Assignment(frozenset(each for each, owner in claims.items() if owner == name))
            for name in spec.members
        }

    def user_data(self, topics: Iterable[str], owned: Partitions, generation: int) -> bytes:
        """Return the part."""
        del topics, owned, generation
        return str(self.part).encode()


Protocol = Literal["eager", "cooperative", "consumer", "auto"]
Mismatch = Literal["fail", "group", "checkpoint"]
OnNewCheckpoint = Literal["fail", "group", "startingOffsets"]

METADATA_MAX_AGE_MS = 30_000
"""How often new partitions and topics are looked for by default. Kafka's clients do it every five minutes."""

PROTOCOLS: tuple[Protocol, ...] = ("auto", "eager", "cooperative", "consumer")
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
    """The options of a member."""

    # fmt: off
    group_id: str = setting(MISSING, "The group that the stream is a member of.", 1, kind=STRING, name="group.id",
        aliases=("kafka.group.id",))
    protocol: Protocol = setting("auto", "Which protocol the member speaks; auto moves to consumer when the group "
        "does, and is the assignor's where one is named.", choices=PROTOCOLS)
    assignor: str | None = setting(None, "How partitions are assigned; None: the protocol's default.", kind=STRING)
    weight: float | None = setting(None, "The weight of this job for the assignor capacity; None: the cores of its "
        "Spark.", 5e-324, 1e300, kind=DOUBLE, expected="a number above 0, such as the job's cores",
        name="assignor.weight")
    instance_id: str | None = setting(None, "The name of a static member (KIP-345).", kind=STRING, name="instance.id",
        aliases=("kafka.group.instance.id",))
    on_offset_mismatch: Mismatch = setting("fail", "What to do where the group's offsets are not the checkpoint's.",
        choices=get_args(Mismatch), name="onOffsetMismatch")
    on_new_checkpoint: OnNewCheckpoint = setting("fail", "Where a new checkpoint begins in a group that has offsets.",
        choices=get_args(OnNewCheckpoint), name="onNewCheckpoint")
    session_timeout_ms: int = setting(45_000, "Classic protocol: a member that sends no heartbeat for so long is "
        "evicted.", 1, name="kafka.session.timeout.ms")
    heartbeat_interval_ms: int = setting(3_000, "Classic protocol: how often heartbeats are sent.", 1,
        name="kafka.heartbeat.interval.ms")
    rebalance_timeout_ms: int = setting(300_000, "How long a rebalance waits for this member.", 1,
        name="kafka.max.poll.interval.ms")
    metadata_max_age_ms: int = setting(METADATA_MAX_AGE_MS, "How often new partitions and topics are looked for.", 1,
        kind=LONG, name="kafka.metadata.max.age.ms")
    bound: BoundPartitions | None = setting(None, "The partitions that belong to the query's checkpoint: all, or the "
        "part of this query such as 1/2.", kind=STRING, reader=BoundPartitions.parse, name="boundPartitions")
    allow_shared_state: bool = setting(False, "Whether a query with state may share and take over partitions.",
        name="allowSharedState")
    # fmt: on

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
    given.required("the name of the group to be a member of", "group.id", "kafka.group.id")
    found = given.values(MemberOptions)
    assignor: str | None = found.get("assignor")
    found.setdefault("protocol", _protocol_of(assignor))
    if assignor is not None:
        found["assignor"] = _assignor(given, found["protocol"], assignor)
    if "weight" in found and found.get("assignor") != "capacity":
        raise ValueError(f"assignor.weight is {given.text('assignor.weight')!r}: only assignor=capacity uses it")
    bound: BoundPartitions | None = found.get("bound")
    if bound is not None:
        _check_bound(given, found)
        if found["protocol"] == "auto":
            found["protocol"] = "cooperative"
        topics = given.text("subscribe") or given.text("subscribePattern") or ""
        found.setdefault("instance_id", bound.instance_id(found["group_id"], topics))
    member = MemberOptions(**found)
    if member.heartbeat_interval_ms >= member.session_timeout_ms:
        raise ValueError(
            f"kafka.heartbeat.interval.ms={member.heartbeat_interval_ms}: expected less than"
            f" kafka.session.timeout.ms, which is {member.session_timeout_ms}"
        )
    return member


def _check_bound(given: Given, found: dict[str, Any]) -> None:
    """Refuse options that contradict partitions bound to a checkpoint. Raises ValueError."""
    group = "the group's offsets do not decide where reading continues"
    for name, value, why in (
        ("protocol", found["protocol"] == "consumer", "the broker would assign the partitions of a query that is away"),
        ("assignor", "assignor" in found, "a partition belongs to its checkpoint"),
        ("onOffsetMismatch", found.get("on_offset_mismatch") == "group", group),
        ("onNewCheckpoint", found.get("on_new_checkpoint") == "group", group),
        ("allowSharedState", found.get("allow_shared_state"), "the state would be shared"),
    ):
        if value:
            raise ValueError(f"{name} is {given.text(name)!r}: it does not go with boundPartitions, as {why}")


def _assignor(given: Given, protocol: Protocol, assignor: str) -> str:
    """Return the assignor's name as members and brokers know it. Raises ValueError where the protocol has none such."""
    if assignor.lower() in ASSIGNORS[protocol]:
        return assignor.lower()
    clients_own = {*ASSIGNORS["eager"], *ASSIGNORS["cooperative"]}
    if protocol in ("consumer", "auto"):
        if "protocol" in given and assignor.lower() not in clients_own:
            return assignor  # a custom one; a broker without it lists those that it has
        own = "; for a custom one of the broker, set protocol, too" if assignor.lower() not in clients_own else ""
        raise ValueError(f"assignor={assignor!r}: expected {listed(BUILT_IN)} with protocol={protocol}{own}")
    raise ValueError(f"assignor={assignor!r}: expected {listed(ASSIGNORS[protocol])} with protocol={protocol}")


def _protocol_of(assignor: str | None) -> Protocol:
    """Return the default protocol of an assignor."""
    order: tuple[Protocol, ...] = ("auto", "cooperative", "eager")
    return next((each for each in order if (assignor or "").lower() in ASSIGNORS[each]), "auto")


def _words(option: str) -> str:
    return listed(PROTOCOLS if option == "protocol" else dict.fromkeys(sum(ASSIGNORS.values(), ())))


def _made(name: str, protocol: Protocol, weight: float) -> Assignor:
    if name == "capacity":
        return CapacityAssignor(weight, is_eager=protocol == "eager")
    plain: tuple[Assignor, ...] = (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
    return next(each for each in plain if each.name == name)
