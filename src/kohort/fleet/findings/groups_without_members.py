"""Rules abandoned_group and offsets_expiring: groups that have had no members for long.

Committed offsets expire by the retention, or at the time in the commit itself. Offsets of subscribed topics do not
expire while the group has members (KIP-211). Offsets of topics to which such a group no longer subscribes do, and are
not checked here.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.drawing.display_text import counted
from kohort.fleet.findings.facts import Facts, Finding, Thresholds, duration_text

ABANDONED, EXPIRING = "abandoned_group", "offsets_expiring"


def abandoned(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
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
        ABANDONED,
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
        return facts.longest_silence_ms
    longest, since_ms = 0, None
    for event in facts.of("emptied", "joined"):
        if event.event == "emptied":
            since_ms = event.at_ms
        elif since_ms is not None:
            longest, since_ms = max(longest, event.at_ms - since_ms), None
    return longest


def expiring(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find a group whose offsets are about to expire."""
    if not facts.committed_partitions:
        return
    expiry_ms = _expiry_ms(facts, settings)
    if expiry_ms is None or expiry_ms - facts.now_ms > settings.expiry_warning_ms:
        return
    left_ms = max(expiry_ms - facts.now_ms, 0)
    since = f"; it has had no members for {duration_text(facts.now_ms - facts.emptied_ms)}" if facts.emptied_ms else ""
    yield facts.finding(
        EXPIRING,
        "critical",
        f"the offsets of {counted(facts.committed_partitions, 'partition')} expire in {duration_text(left_ms)}{since}",
        "start a member, or commit them again; else its next start begins by auto.offset.reset",
        since_ms=facts.emptied_ms or facts.last_commit_ms or facts.last_seen_ms,
        value=left_ms / 1000,
        evidence=[facts.state_evidence("the last record of the group, from which the retention counts")],
    )._replace(until_ms=expiry_ms)


def _expiry_ms(facts: Facts, settings: Thresholds) -> int | None:
    """Return when the first offsets expire, None where none do (KIP-211)."""
    if facts.members:
        return None
    if facts.next_expiry_ms is not None:
        return facts.next_expiry_ms
    if facts.last_commit_ms is None:
        return None
    # The retention of an empty classic group begins when it became empty, of all others at the commit.
    base_ms = facts.emptied_ms if facts.kind == "classic" and facts.emptied_ms else facts.last_commit_ms
    return base_ms + settings.retention_ms
