"""Rule stuck_group: a group with members has a rebalance that does not end, or stopped committing."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.fleet.findings.facts import Facts, Finding, duration_text
from kohort.fleet.findings.thresholds import Thresholds
from kohort.fleet.report.wording import counted
from kohort.fleet.schema import Evidence

NAME = "stuck_group"
MOVING = ("Assigning", "Reconciling", "CompletingRebalance", "PreparingRebalance")
WAY = ("epoch_bumped", "target", "revoking", "generation_formed", "joined")


def find(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find a rebalance, or a time without commits, that lasts too long."""
    if not facts.members:
        return
    yield from _rebalance(facts, settings)
    yield from _silence(facts, settings)


def _rebalance(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    since_ms = facts.running_since_ms
    if since_ms is None or facts.state not in MOVING or facts.now_ms - since_ms < settings.stuck_rebalance_ms:
        return
    way = [each for each in facts.of(*WAY) if each.at_ms >= since_ms]
    revoking = [each for each in way if each.event == "revoking"]
    who = sorted({each.client_id or each.member or "" for each in revoking})
    waits = f": it waits for {', '.join(who[:3])} to revoke partitions" if who else ""
    yield facts.finding(
        NAME,
        "critical",
        f"a rebalance has been running for {duration_text(facts.now_ms - since_ms)}{waits}",
        "restart the member that delays it; with a shorter max.poll.interval.ms it would have been evicted",
        since_ms=since_ms,
        value=(facts.now_ms - since_ms) / 1000,
        evidence=[each.evidence() for each in way],
    )


def _silence(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    last_ms = facts.last_commit_ms
    if last_ms is None or len(facts.hours_with_commits) < settings.stuck_hours_with_commits or facts.state in MOVING:
        return
    if facts.lag == 0:  # nothing to commit
        return
    silence_ms = facts.now_ms - last_ms
    if silence_ms < max(settings.stuck_silence_ms, settings.stuck_silence_factor * facts.longest_silence_ms):
        return
    last = Evidence(facts.partition, facts.last_offset, last_ms, "the last commit, or the last record after it")
    yield facts.finding(
        NAME,
        "critical",
        f"{counted(facts.members, 'member')} and no commit for {duration_text(silence_ms)}; "
        f"before, it was never longer than {duration_text(facts.longest_silence_ms)}",
        "check its members: in the classic protocol a rebalance that one of them delays leaves no other trace",
        since_ms=last_ms,
        value=silence_ms / 1000,
        evidence=[last],
    )
