"""Rule skewed_assignment: members with equal subscriptions, of which one owns far more partitions than the others.

The range assignor deals out each topic by itself: with many topics of few partitions the first members get everything.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.fleet.findings.facts import Facts, Finding
from kohort.fleet.findings.idle_members import CHANGES, KINDS, unchanged_since_ms
from kohort.fleet.findings.thresholds import Thresholds

NAME = "skewed_assignment"


def find(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find a member with far more partitions than the average."""
    if facts.kind not in KINDS or facts.state != "Stable" or facts.members < 2:
        return
    average = facts.partitions / facts.members
    if facts.partitions < facts.members or facts.largest_share < settings.skew_ratio * average:
        return
    if facts.largest_share - average < settings.skew_least or not wants_the_same(facts):
        return
    since_ms = unchanged_since_ms(facts)
    if facts.now_ms - since_ms < settings.skew_ms:
        return
    ratio = facts.largest_share / average
    by = f", by {facts.strategy}" if facts.strategy else ""
    idle = (
        f"; {facts.idle_members} {'has' if facts.idle_members == 1 else 'have'} nothing" if facts.idle_members else ""
    )
    evidence = [each.evidence() for each in facts.of(*CHANGES)[-3:]]
    yield facts.finding(
        NAME,
        "warning",
        f"one of {facts.members} members has {facts.largest_share} of {facts.partitions} partitions, "
        f"{ratio:.1f} times the average{by}{idle}",
        "a sticky assignor (cooperative-sticky, or uniform in the consumer protocol) deals out all topics together",
        since_ms=since_ms,
        value=ratio,
        evidence=evidence or [facts.state_evidence("the group's last record")],
    )


def wants_the_same(facts: Facts) -> bool:
    """Whether all members subscribe to the same topics."""
    if facts.kind != "classic":
        return len(set(facts.subscriptions)) <= 1
    wanted = {
        tuple(sorted((member.get("subscription") or {}).get("topics") or ()))
        for member in facts.stored.get("members") or ()
    }
    return len(wanted) <= 1
