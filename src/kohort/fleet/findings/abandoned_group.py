"""Rule abandoned_group: a group has had no members for longer than ever before."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.fleet.findings.facts import Facts, Finding, duration_text
from kohort.fleet.findings.stuck_group import longest_silence_ms
from kohort.fleet.findings.thresholds import Thresholds
from kohort.fleet.report.wording import counted

NAME = "abandoned_group"


def find(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find a group without members, or a group of commits alone that has stopped committing."""
    if facts.members or facts.state == "Dead" or not facts.committed_partitions:
        return
    since_ms = max(facts.emptied_ms or 0, facts.last_commit_ms or 0)
    if not since_ms:
        return
    away_ms = facts.now_ms - since_ms
    if away_ms < max(settings.abandoned_ms, settings.abandoned_factor * _longest_absence_ms(facts)):
        return
    yield facts.finding(
        NAME,
        "info",
        f"it has had no members for {duration_text(away_ms)}; "
        f"it has offsets of {counted(facts.committed_partitions, 'partition')}",
        "delete it (kohort groups delete) if it is not needed, or find out why its members have not returned",
        since_ms=since_ms,
        value=away_ms / 1000,
        evidence=[each.evidence() for each in facts.of("emptied")[-1:]],
    )


def _longest_absence_ms(facts: Facts) -> int:
    """Return the longest earlier time without members."""
    if facts.state == "Simple":
        return longest_silence_ms([hour for hour in facts.hours if hour.commits])
    longest, since_ms = 0, None
    for event in facts.of("emptied", "joined"):
        if event.event == "emptied":
            since_ms = event.at_ms
        elif since_ms is not None:
            longest, since_ms = max(longest, event.at_ms - since_ms), None
    return longest
