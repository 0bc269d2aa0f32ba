"""Rules rebalance_storm and stuck_group: rebalances one after another, one that does not end, and no more commits.

A classic group's log has nothing of a rebalance that does not end: it shows as members without commits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kohort.drawing.display_text import counted
from kohort.fleet.findings.facts import EventOf, Facts, Finding, HourOf, duration_text
from kohort.fleet.findings.thresholds import Thresholds
from kohort.fleet.schema import HOUR_MS, Evidence

STORM, STUCK = "rebalance_storm", "stuck_group"
ROUNDS = ("generation_formed", "epoch_bumped")
COMINGS = ("joined", "left", "evicted", "rejoined")
MOVING = ("Assigning", "Reconciling", "CompletingRebalance", "PreparingRebalance")
WAY = ("epoch_bumped", "target", "revoking", "generation_formed", "joined")


def storm(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find consecutive hours with too many rebalances in each."""
    for hours in _stormy(facts.hours, settings.storm_rebalances_per_hour):
        began_ms, ended_ms = hours[0].hour_ms, hours[-1].hour_ms + HOUR_MS
        rounds = [each for each in facts.of(*ROUNDS) if began_ms <= each.at_ms < ended_ms]
        if not rounds or rounds[-1].at_ms - rounds[0].at_ms < settings.storm_ms:
            continue
        moves = [each for each in facts.of(*COMINGS) if began_ms <= each.at_ms < ended_ms]
        worst = max(hours, key=lambda hour: hour.rebalances)
        total = sum(hour.rebalances for hour in hours)
        since_ms, until_ms = rounds[0].at_ms, rounds[-1].at_ms
        is_on = until_ms > facts.now_ms - HOUR_MS
        in_worst = [each for each in (*rounds, *moves) if worst.hour_ms <= each.at_ms < worst.hour_ms + HOUR_MS]
        yield facts.finding(
            STORM,
            "critical" if is_on else "warning",
            f"{total} rebalances in {duration_text(until_ms - since_ms)}, up to {worst.rebalances} in an hour"
            + _restless(moves),
            "find in that member's log why it ends; group.instance.id or a longer session timeout avoids rebalances",
            since_ms=since_ms,
            until_ms=until_ms,
            value=float(worst.rebalances),
            evidence=sorted(each.evidence() for each in in_worst),
        )


def _stormy(hours: Sequence[HourOf], least: int) -> Iterator[list[HourOf]]:
    run: list[HourOf] = []
    for hour in hours:
        if run and (hour.hour_ms != run[-1].hour_ms + HOUR_MS or hour.rebalances < least):
            yield run
            run = []
        if hour.rebalances >= least:
            run.append(hour)
    if run:
        yield run


def _restless(moves: Sequence[EventOf]) -> str:
    """Name the member that caused most changes, if one did."""
    count = Counter(each.instance or each.client_id for each in moves if each.client_id)
    if not count:
        return ""
    (name, most), *_ = count.most_common(1)
    return f"; {name} joined or left in {most} of {len(moves)} changes" if 2 * most > len(moves) else ""


def stuck(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find a rebalance, or a time without commits, that lasts too long."""
    if not facts.members:
        return
    yield from _rebalance(facts, settings)
    yield from _without_commits(facts, settings)


def _rebalance(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    since_ms = facts.running_since_ms
    if since_ms is None or facts.state not in MOVING or facts.now_ms - since_ms < settings.stuck_rebalance_ms:
        return
    way = [each for each in facts.of(*WAY) if each.at_ms >= since_ms]
    revoking = [each for each in way if each.event == "revoking"]
    who = sorted({each.client_id or each.member or "" for each in revoking})
    waits = f": it waits for {', '.join(who[:3])} to revoke partitions" if who else ""
    yield facts.finding(
        STUCK,
        "critical",
        f"a rebalance has been running for {duration_text(facts.now_ms - since_ms)}{waits}",
        "restart the member that delays it; with a shorter max.poll.interval.ms it would have been evicted",
        since_ms=since_ms,
        value=(facts.now_ms - since_ms) / 1000,
        evidence=[each.evidence() for each in way],
    )


def _without_commits(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
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
        STUCK,
        "critical",
        f"{counted(facts.members, 'member')} and no commit for {duration_text(silence_ms)}; "
        f"before, it was never longer than {duration_text(facts.longest_silence_ms)}",
        "check its members: in the classic protocol a rebalance that one of them delays leaves no other trace",
        since_ms=last_ms,
        value=silence_ms / 1000,
        evidence=[last],
    )
