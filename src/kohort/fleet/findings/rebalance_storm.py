"""A group that rebalances over and over, for longer than a deployment takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kohort.fleet.findings.facts import EventOf, Facts, Finding, HourOf, picked, told_ms
from kohort.fleet.findings.thresholds import HOUR_MS, Thresholds

NAME = "rebalance_storm"
ROUNDS = ("generation_formed", "epoch_bumped")
COMINGS = ("joined", "left", "evicted", "rejoined")


def find(facts: Facts, settings: Thresholds) -> Iterator[Finding]:
    """Find hours in a row with too many rebalances in each."""
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
            f"{total} rebalances in {told_ms(until_ms - since_ms)}, up to {worst.rebalances} in an hour"
            + _restless(moves),
            "see why that member ends: its own log says; group.instance.id or a longer session spares the others",
            since_ms=since_ms,
            until_ms=until_ms,
            value=float(worst.rebalances),
            evidence=picked(sorted(each.evidence() for each in in_worst), settings.evidence_rows),
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
    """Say who came and went, where it was mostly one."""
    count = Counter(each.instance or each.client_id for each in moves if each.client_id)
    if not count:
        return ""
    (name, most), *_ = count.most_common(1)
    return f"; {name} came or went in {most} of {len(moves)} changes" if 2 * most > len(moves) else ""
