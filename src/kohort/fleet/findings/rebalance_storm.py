"""Rule rebalance_storm: a group rebalances continually, for longer than a deployment takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kohort.fleet.findings.facts import EventOf, Facts, Finding, HourOf, duration_text
from kohort.fleet.findings.thresholds import Thresholds
from kohort.fleet.schema import HOUR_MS

NAME = "rebalance_storm"
ROUNDS = ("generation_formed", "epoch_bumped")
COMINGS = ("joined", "left", "evicted", "rejoined")


def find(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
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
            NAME,
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
