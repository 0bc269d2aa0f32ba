"""Cost of one more rebalance of a classic group in each protocol: its last record, simulated by `what_if`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kohort.assign.server.catalog import UnknownAssignor, server_assignors
from kohort.fleet.findings.facts import Facts
from kohort.group.migration.migration_plan import LiveGroup, LiveMember
from kohort.model.ids import TopicPartition
from kohort.what_if.change import Change
from kohort.what_if.group_facts import Facts as Played
from kohort.what_if.group_facts import Times
from kohort.what_if.variants import compare

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
    group = live_group(facts)
    if group is None or not group.members:
        return None
    partitions = sum(count for _, count in group.topics.values())
    if len(group.members) > MOST_MEMBERS or not 0 < partitions <= MOST_PARTITIONS:
        return None
    try:
        server = server_assignors(["uniform"])["uniform"]
        played = compare(
            Played(group, is_ours=False), _times(facts), Change(add=1), server, lambda _: None, has_consumer=True
        )
    except (UnknownAssignor, ValueError, KeyError):
        return None
    costs = {each.label: each.unread_partition_s for each in played if each.is_settled and not each.failures}
    if not {"eager", "cooperative", "consumer"} <= set(costs):
        return None
    return Estimate(costs["eager"], costs["cooperative"], costs["consumer"])


def live_group(facts: Facts) -> LiveGroup | None:
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
    is_readable = "topics" in subscription
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
        is_readable,
        bool(assignment.get("userData")),
    )


def _times(facts: Facts) -> Times:
    members: list[dict[str, Any]] = facts.stored.get("members") or [{}]
    first = members[0]
    return Times(
        session_timeout_ms=max(int(first.get("sessionTimeout") or 45_000), LEAST_SESSION_MS),
        rebalance_timeout_ms=int(first.get("rebalanceTimeout") or 300_000),
    )
