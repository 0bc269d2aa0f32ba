"""A group that nobody is in any more, and has not been for longer than is its habit."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.fleet.findings.facts import Facts, Finding, told_ms
from kohort.fleet.findings.stuck_group import longest_silence_ms
from kohort.fleet.findings.thresholds import Thresholds
from kohort.fleet.report.wording import counted

NAME = "abandoned_group"


def find(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find a group without members, or one that only commits and does so no more."""
    if facts.members or facts.state == "Dead" or not facts.committed_partitions:
        return
    since_ms = max(facts.emptied_ms or 0, facts.last_commit_ms or 0)
    if not since_ms:
        return
    away_ms = facts.now_ms - since_ms
    if away_ms < max(settings.abandoned_ms, settings.abandoned_factor * _longest_absence_ms(facts)):
        return
    ended = facts.of("emptied")
    yield facts.finding(
        NAME,
        "info",
        f"nobody has been in it for {told_ms(away_ms)}; "
        f"it has offsets of {counted(facts.committed_partitions, 'partition')}",
        "delete it (kohort groups delete) if it is not needed, or see why it has not come back",
        since_ms=since_ms,
        value=away_ms / 1000,
        evidence=[each.evidence() for each in ended[-1:]] or [facts.standing("the group's last record")],
    )


def _longest_absence_ms(facts: Facts) -> int:
    """Return the longest time that it was away before."""
    if facts.state == "Simple":
        return longest_silence_ms([hour for hour in facts.hours if hour.commits])
    longest, since_ms = 0, None
    for event in facts.of("emptied", "joined"):
        if event.event == "emptied":
            since_ms = event.at_ms
        elif since_ms is not None:
            longest, since_ms = max(longest, event.at_ms - since_ms), None
    return longest
