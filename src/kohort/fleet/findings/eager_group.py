"""An eager group that rebalances so often that another protocol would spare it much.

In an eager group everybody gives everything up in each rebalance. What that costs, and what it would cost in the other
protocols, is not assumed: the group as it stands is played (`what_if`), with one member that comes.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.fleet.findings.facts import Facts, Finding, picked
from kohort.fleet.findings.rebalance_cost import Estimate, estimate
from kohort.fleet.findings.thresholds import DAY_MS, Thresholds
from kohort.group.member_kinds import COOPERATIVE

NAME = "eager_group"
OUR_OWN = frozenset({"range", "roundrobin", "sticky"})
"""The eager assignors that can be simulated and that have a cooperative one in their place."""


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
    formed = [each.evidence() for each in facts.of("generation_formed")]
    yield facts.finding(
        NAME,
        "warning",
        f"{per_day:.0f} rebalances a day in which {facts.members} members give up all {facts.partitions} partitions"
        + _gain(played, per_day),
        "kohort what-if GROUP --compare shows the ways; kohort migrate plan GROUP --to cooperative says each restart",
        since_ms=since_ms,
        value=None if played is None else round((played.eager_s - played.best_s) * per_day, 3),
        evidence=picked(formed, settings.evidence_rows) or [facts.standing("the group's last record")],
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
