"""Rules skewed_assignment and idle_members: members of a stable group have far more partitions than others, or none.

The range assignor deals out each topic by itself: with many topics of few partitions the first members get everything.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.drawing.display_text import counted
from kohort.fleet.findings.facts import Facts, Finding, Thresholds

SKEWED, IDLE = "skewed_assignment", "idle_members"
KINDS = ("classic", "consumer")
"""Members of a share group share partitions; of a streams group they may have standby tasks."""
CHANGES = ("joined", "left", "evicted", "emptied", "settled", "generation_synced", "target")


def find(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find members that have had far more partitions than the average, or none, for long."""
    if facts.kind not in KINDS or facts.state != "Stable" or not facts.partitions:
        return
    changes = facts.of(*CHANGES)
    since_ms = changes[-1].at_ms if changes else facts.first_seen_ms
    evidence = [each.evidence() for each in changes[-3:]]
    verb = "has" if facts.idle_members == 1 else "have"
    average = facts.partitions / facts.members if facts.members else 0
    if facts.now_ms - since_ms >= settings.skew_ms and _is_skewed(facts, settings, average):
        ratio = facts.largest_share / average
        by = f", by {facts.strategy}" if facts.strategy else ""
        idle = f"; {facts.idle_members} {verb} nothing" if facts.idle_members else ""
        yield facts.finding(
            SKEWED,
            "warning",
            f"one of {facts.members} members has {facts.largest_share} of {facts.partitions} partitions, "
            f"{ratio:.1f} times the average{by}{idle}",
            "a sticky assignor (cooperative-sticky, or uniform in the consumer protocol) deals out all topics together",
            since_ms=since_ms,
            value=ratio,
            evidence=evidence,
        )
    if facts.now_ms - since_ms >= settings.idle_ms and facts.idle_members and facts.members > facts.partitions:
        yield facts.finding(
            IDLE,
            "info",
            f"{facts.idle_members} of {facts.members} members {verb} nothing: "
            f"there {'is' if facts.partitions == 1 else 'are'} {counted(facts.partitions, 'partition')}",
            "stop the surplus members, unless they are a standby on purpose, or give the topics more partitions",
            since_ms=since_ms,
            value=float(facts.idle_members),
            evidence=evidence,
        )


def _is_skewed(facts: Facts, settings: Thresholds, average: float) -> bool:
    """Whether a member has far more than the average of at least one partition each."""
    if facts.members < 2 or facts.partitions < facts.members:
        return False
    is_large = facts.largest_share >= settings.skew_ratio * average
    return is_large and facts.largest_share - average >= settings.skew_least and _have_equal_subscriptions(facts)


def _have_equal_subscriptions(facts: Facts) -> bool:
    """Whether all members subscribe to the same topics."""
    if facts.kind != "classic":
        return len(set(facts.subscriptions)) <= 1
    wanted = {
        tuple(sorted((member.get("subscription") or {}).get("topics") or ()))
        for member in facts.stored.get("members") or ()
    }
    return len(wanted) <= 1
