"""Rules eager_group, ready_for_consumer, not_ready_for_consumer: whether a classic group should and can move.

In an eager group all members revoke all partitions in each rebalance. What that costs, and what other protocols would,
is not assumed: the group of the last record is simulated (`what_if`) with one more member. The conditions of a move to
the consumer protocol are those of `kohort migrate plan`. Kafka 6.0 is to drop the classic protocol, so each classic
group with members gets one of the two findings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kohort.assign.server.catalog import server_assignors
from kohort.drawing.display_text import counted
from kohort.fleet.findings.facts import Facts, Finding, Thresholds
from kohort.fleet.schema import DAY_MS
from kohort.group.classic.group import COOPERATIVE
from kohort.group.migration.migration_plan import Goal, Limits, LiveGroup, LiveMember, refusals
from kohort.model.ids import TopicPartition
from kohort.what_if.change import PlannedChange
from kohort.what_if.group_facts import GroupFacts, Times
from kohort.what_if.variants import compare

EAGER, READY, NOT_READY = "eager_group", "ready_for_consumer", "not_ready_for_consumer"
OUR_OWN = frozenset({"range", "roundrobin", "sticky"})
"""The eager assignors that can be simulated and have a cooperative replacement."""
KAFKAS = OUR_OWN | {"cooperative-sticky"}
STREAMS = "stream"
UNIFORM = server_assignors(["uniform"])["uniform"]


def eager(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find an eager group with too many rebalances a day."""
    if facts.kind != "classic" or facts.protocol != "consumer" or facts.members < 2 or facts.partitions < 2:
        return
    if facts.strategy in COOPERATIVE or facts.strategy not in OUR_OWN:
        return
    since_ms = max(facts.first_seen_ms, facts.now_ms - settings.look_back_ms)
    days = max((facts.now_ms - since_ms) / DAY_MS, 1.0)
    per_day = sum(hour.rebalances for hour in facts.hours) / days
    if per_day < settings.eager_rebalances_per_day:
        return
    played = estimate(facts)
    yield facts.finding(
        EAGER,
        "warning",
        f"{per_day:.0f} rebalances a day in which {facts.members} members revoke all {facts.partitions} partitions"
        + _gain(played, per_day),
        "kohort what-if GROUP --compare compares protocols; kohort migrate plan GROUP --to cooperative plans restarts",
        since_ms=since_ms,
        value=None if played is None else round((played.eager_s - played.best_s) * per_day, 3),
        evidence=[each.evidence() for each in facts.of("generation_formed")],
    )


def _gain(played: Estimate | None, per_day: float) -> str:
    if played is None:
        return ""
    eager, cooperative, consumer = (
        each * per_day for each in (played.eager_s, played.cooperative_s, played.consumer_s)
    )
    return (
        f": about {eager:.1f} partition-seconds a day without a reader, by forecast {cooperative:.1f} with "
        f"cooperative-sticky and {consumer:.1f} in the consumer protocol"
    )


# -- readiness for the consumer protocol


def readiness(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find whether a classic group can move."""
    if facts.kind != "classic" or not facts.members or not facts.stored:
        return
    against = list(_against(facts, settings))
    members = counted(facts.members, "member")
    if against:
        name, severity, advice = NOT_READY, "warning", against[0][1]
        sentence = "not ready for the consumer protocol: " + "; ".join(text for text, _ in against)
    else:
        name, severity = READY, "info"
        sentence = f"its {members} can go to the consumer protocol, one restart each"
        advice = (
            "restart them with group.protocol=consumer; kohort migrate plan lists the order and the moved partitions"
        )
    yield facts.finding(
        name,
        severity,
        sentence,
        advice,
        since_ms=facts.last_seen_ms,
        value=float(len(against)) if against else None,
        evidence=[facts.state_evidence(f"generation with {members} by {facts.strategy}")],
    )


def _against(facts: Facts, settings: Thresholds) -> Iterator[tuple[str, str]]:
    """Yield the obstacles, each with advice."""
    if facts.protocol == "connect":
        text = "Connect's workers use a protocol of their own over the classic one"
        yield text, "stay with the classic protocol until Connect supports another; Kafka 6.0 drops the classic one"
        return
    if facts.strategy == STREAMS:
        text = "it is a Kafka Streams application, whose assignor has user data"
        yield text, "Kafka Streams has its own new protocol: group.protocol=streams, which takes an empty group"
        return
    limits = Limits(True, UNIFORM, min_embedded_version=settings.ready_version, is_ours=False)
    for refusal in refusals(live_group(facts), limits, Goal.CONSUMER, "uniform"):
        yield refusal.text, _ADVICE.get(refusal.rule, _ADVICE[""])
    if facts.strategy not in KAFKAS:
        text = f"{facts.strategy} is no assignor that a broker has"
        yield text, "choose a server-side assignor that does as well (group.remote.assignor), or write one as a plugin"


_ADVICE = {
    "embedded_version": "upgrade its clients: the consumer protocol takes Kafka's client 4.0, librdkafka 2.12 or newer",
    "assignor_data": "move it to one of Kafka's own assignors first: bytes of another would be lost",
    "group_type": "stay with the classic protocol as long as its clients support no other",
    "": "kohort migrate plan GROUP --to consumer lists the obstacles",
}


# -- the group of the last record, simulated

LEAST_SESSION_MS = 6_000
"""A broker's default minimum; groups with less are simulated with it."""
MOST_MEMBERS, MOST_PARTITIONS = 60, 600
"""Larger groups are not simulated: their forecasts would take longer than everything else."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Partition-seconds without a reader when one member joins, by protocol."""

    eager_s: float
    cooperative_s: float
    consumer_s: float

    @property
    def best_s(self) -> float:
        """The least of them."""
        return min(self.cooperative_s, self.consumer_s)


def estimate(facts: Facts) -> Estimate | None:
    """Return the forecasts, None for a group that is too large or cannot be simulated."""
    group, times = _renamed(live_group(facts)), _times(facts)
    shape = [
        (sorted(each.topics), sorted(each.owned), each.instance_id, each.rack, each.version) for each in group.members
    ]
    key = repr((shape, sorted(group.topics.items()), group.assignor, times))
    if key not in _forecasts:
        _forecasts[key] = _forecast(group, times)
    return _forecasts[key]


_forecasts: dict[str, Estimate | None] = {}
"""By the shape of a group: many groups of a fleet are alike, and a forecast takes 50 ms."""


def _renamed(group: LiveGroup) -> LiveGroup:
    """Return a group with other names, which are in the same order."""
    every = {topic for each in group.members for topic in each.topics} | set(group.topics)
    topics = {topic: f"t{place:06}" for place, topic in enumerate(sorted(every))}
    members = tuple(
        LiveMember(
            f"m{place:06}",
            f"m{place:06}",
            each.is_native,
            frozenset(topics[topic] for topic in each.topics),
            frozenset(TopicPartition(topics[owned.topic], owned.partition) for owned in each.owned),
            each.instance_id and f"i{place:06}",
            each.rack,
            each.version,
            each.is_readable,
            each.has_assignor_data,
        )
        for place, each in enumerate(sorted(group.members, key=lambda each: each.member_id))
    )
    ids = {topics[topic]: known for topic, known in group.topics.items()}
    return LiveGroup("g", group.group_type, group.state, group.protocol_type, group.assignor, members, ids)


def _forecast(group: LiveGroup, times: Times) -> Estimate | None:
    partitions = sum(count for _, count in group.topics.values())
    if not 0 < len(group.members) <= MOST_MEMBERS or not 0 < partitions <= MOST_PARTITIONS:
        return None
    try:
        played = compare(
            GroupFacts(group, is_ours=False), times, PlannedChange(add=1), UNIFORM, lambda _: None, has_consumer=True
        )
    except (ValueError, KeyError):
        return None
    costs = {each.label: each.unread_partition_s for each in played if each.is_settled and not each.failures}
    if not {"eager", "cooperative", "consumer"} <= set(costs):
        return None
    return Estimate(costs["eager"], costs["cooperative"], costs["consumer"])


def live_group(facts: Facts) -> LiveGroup:
    """Return the group according to its last record."""
    members = [_member(record) for record in facts.stored.get("members") or ()]
    partitions: dict[str, int] = {}
    for member in members:
        for topic, number in member.owned:
            partitions[topic] = max(partitions.get(topic, 0), number + 1)
    topics = {
        topic: (number.to_bytes(16, "big"), count)
        for number, (topic, count) in enumerate(sorted(partitions.items()), 1)
    }
    protocol_type = str(facts.stored.get("protocolType") or "")
    return LiveGroup(
        facts.group, "classic", facts.state, protocol_type, str(facts.strategy or ""), tuple(members), topics
    )


def _member(record: dict[str, Any]) -> LiveMember:
    subscription, assignment = record.get("subscription") or {}, record.get("assignment") or {}
    return LiveMember(
        str(record.get("memberId")),
        str(record.get("groupInstanceId") or record.get("clientId")),
        False,
        frozenset(subscription.get("topics") or ()),
        frozenset(
            TopicPartition(each["topic"], number)
            for each in assignment.get("assignedPartitions") or ()
            for number in each["partitions"]
        ),
        record.get("groupInstanceId"),
        subscription.get("rackId"),
        subscription.get("version"),
        "topics" in subscription,
        bool(assignment.get("userData")),
    )


def _times(facts: Facts) -> Times:
    members: list[dict[str, Any]] = facts.stored.get("members") or [{}]
    first = members[0]
    return Times(
        session_timeout_ms=max(int(first.get("sessionTimeout") or 45_000), LEAST_SESSION_MS),
        rebalance_timeout_ms=int(first.get("rebalanceTimeout") or 300_000),
    )
