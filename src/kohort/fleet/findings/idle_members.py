"""More members than partitions: some have nothing to do, for good."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.fleet.findings.facts import Facts, Finding
from kohort.fleet.findings.thresholds import Thresholds
from kohort.fleet.report.wording import counted

NAME = "idle_members"
KINDS = ("classic", "consumer")
"""Members of a share group share partitions; of a streams group they may hold standby tasks."""
CHANGES = ("joined", "left", "evicted", "emptied", "settled", "generation_synced", "target")


def find(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find members that can get nothing, since long enough."""
    if facts.kind not in KINDS or facts.state != "Stable" or not facts.idle_members:
        return
    if facts.members <= facts.partitions or not facts.partitions:
        return
    since_ms = stands_since_ms(facts)
    if facts.now_ms - since_ms < settings.idle_ms:
        return
    changes = facts.of(*CHANGES)
    evidence = [each.evidence() for each in changes[-3:]]
    yield facts.finding(
        NAME,
        "info",
        f"{facts.idle_members} of {facts.members} members {'has' if facts.idle_members == 1 else 'have'} nothing: "
        f"there {'is' if facts.partitions == 1 else 'are'} {counted(facts.partitions, 'partition')}",
        "stop the surplus, unless it stands by on purpose, or give the topics more partitions",
        since_ms=since_ms,
        value=float(facts.idle_members),
        evidence=evidence or [facts.standing("the group's last record")],
    )


def stands_since_ms(facts: Facts) -> int:
    """Return since when the group is as it is now."""
    changes = facts.of(*CHANGES)
    return changes[-1].at_ms if changes else facts.first_seen_ms
