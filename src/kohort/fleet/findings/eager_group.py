"""Rule eager_group: an eager group rebalances so often that another protocol would save much.

In an eager group all members revoke all partitions in each rebalance. The cost of that, and of the other protocols, is
not assumed: the current group is simulated (`what_if`) with one more member.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.fleet.findings.facts import Facts, Finding
from kohort.fleet.findings.rebalance_cost import Estimate, estimate
from kohort.fleet.findings.thresholds import DAY_MS, Thresholds
from kohort.group.classic.group import COOPERATIVE

NAME = "eager_group"
OUR_OWN = frozenset({"range", "roundrobin", "sticky"})
"""The eager assignors that can be simulated and have a cooperative replacement."""


def find(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
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
        NAME,
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
