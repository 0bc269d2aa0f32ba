"""A group with members that does not get on: a rebalance that does not end, or commits that have ceased."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from kohort.fleet.findings.facts import Evidence, Facts, Finding, HourOf, picked, told_ms
from kohort.fleet.findings.thresholds import HOUR_MS, Thresholds

NAME = "stuck_group"
MOVING = ("Assigning", "Reconciling", "CompletingRebalance", "PreparingRebalance")
WAY = ("epoch_bumped", "target", "revoking", "generation_formed", "joined")


def find(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find a rebalance, or a silence, that lasts too long."""
    if not facts.members:
        return
    yield from _rebalance(facts, settings)
    yield from _silence(facts, settings)


def _rebalance(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    since_ms = facts.running_since_ms
    if since_ms is None or facts.state not in MOVING or facts.now_ms - since_ms < settings.stuck_rebalance_ms:
        return
    way = [each for each in facts.of(*WAY) if each.at_ms >= since_ms]
    asked = [each for each in way if each.event == "revoking"]
    who = sorted({each.client_id or each.member or "" for each in asked})
    waits = f": it waits for {', '.join(who[:3])} to give partitions up" if who else ""
    evidence = picked([each.evidence() for each in way], settings.evidence_rows)
    yield facts.finding(
        NAME,
        "critical",
        f"a rebalance has been running for {told_ms(facts.now_ms - since_ms)}{waits}",
        "restart the member that holds it up; with a shorter max.poll.interval.ms it would have been put out",
        since_ms=since_ms,
        value=(facts.now_ms - since_ms) / 1000,
        evidence=evidence or [facts.standing("the group's last record")],
    )


def _silence(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    last_ms = facts.last_commit_ms
    hours = [hour for hour in facts.hours if hour.commits]
    if last_ms is None or len(hours) < settings.stuck_hours_with_commits or facts.state in MOVING:
        return
    if facts.lag == 0:  # there is nothing to commit
        return
    silence_ms = facts.now_ms - last_ms
    habit_ms = settings.stuck_silence_factor * longest_silence_ms(hours)
    if silence_ms < max(settings.stuck_silence_ms, habit_ms):
        return
    last = Evidence(facts.partition, facts.last_offset, last_ms, "the last commit, or the last record after it")
    yield facts.finding(
        NAME,
        "critical",
        f"{facts.members} member{'' if facts.members == 1 else 's'} and no commit for {told_ms(silence_ms)}; "
        f"before, it was never longer than {told_ms(longest_silence_ms(hours))}",
        "see what its members do: in the classic protocol a rebalance that one of them holds up leaves no other trace",
        since_ms=last_ms,
        value=silence_ms / 1000,
        evidence=[last],
    )


def longest_silence_ms(hours: Sequence[HourOf]) -> int:
    """Return the longest time without commits between hours that have some; an hour more than the log may say."""
    return max((later.hour_ms - first.hour_ms for first, later in pairwise(hours)), default=HOUR_MS)
