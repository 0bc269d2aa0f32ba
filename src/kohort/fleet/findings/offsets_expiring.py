"""Rule offsets_expiring: committed offsets of a group without members are about to expire.

They expire by the retention, or at the time in the commit itself. Offsets of subscribed topics do not expire while the
group has members (KIP-211). Offsets of topics to which such a group no longer subscribes do, and are not checked here.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.fleet.findings.facts import Facts, Finding, duration_text
from kohort.fleet.findings.thresholds import Thresholds
from kohort.fleet.report.wording import counted

NAME = "offsets_expiring"


def find(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find a group whose offsets are about to expire."""
    if not facts.committed_partitions:
        return
    expiry_ms = _expiry_ms(facts, settings)
    if expiry_ms is None or expiry_ms - facts.now_ms > settings.expiry_warning_ms:
        return
    left_ms = max(expiry_ms - facts.now_ms, 0)
    since = f"; it has had no members for {duration_text(facts.now_ms - facts.emptied_ms)}" if facts.emptied_ms else ""
    yield facts.finding(
        NAME,
        "critical",
        f"the offsets of {counted(facts.committed_partitions, 'partition')} expire in {duration_text(left_ms)}{since}",
        "start a member, or commit them again; else its next start begins by auto.offset.reset",
        since_ms=facts.emptied_ms or facts.last_commit_ms or facts.last_seen_ms,
        until_ms=expiry_ms,
        value=left_ms / 1000,
        evidence=[facts.state_evidence("the last record of the group, from which the retention counts")],
    )


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
