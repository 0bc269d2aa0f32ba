"""Rule idle_members: more members than partitions, so that some stay idle."""

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
    """Find members that have had no partitions for long."""
    if facts.kind not in KINDS or facts.state != "Stable" or not facts.idle_members:
        return
    if facts.members <= facts.partitions or not facts.partitions:
        return
    since_ms = unchanged_since_ms(facts)
    if facts.now_ms - since_ms < settings.idle_ms:
        return
    changes = facts.of(*CHANGES)
    evidence = [each.evidence() for each in changes[-3:]]
    yield facts.finding(
        NAME,
        "info",
        f"{facts.idle_members} of {facts.members} members {'has' if facts.idle_members == 1 else 'have'} nothing: "
        f"there {'is' if facts.partitions == 1 else 'are'} {counted(facts.partitions, 'partition')}",
        "stop the surplus members, unless they are a standby on purpose, or give the topics more partitions",
        since_ms=since_ms,
        value=float(facts.idle_members),
        evidence=evidence or [facts.state_evidence("the group's last record")],
    )


def unchanged_since_ms(facts: Facts) -> int:
    """Return the time of the group's last change."""
    changes = facts.of(*CHANGES)
    return changes[-1].at_ms if changes else facts.first_seen_ms
