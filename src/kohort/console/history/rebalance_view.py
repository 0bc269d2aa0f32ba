"""A rebalance of a group as the page of a group and the screen of `kohort top` show it: cause, steps, waits, cost."""

from __future__ import annotations

from typing import NamedTuple

from kohort.console.history.watched_group import REBALANCES
from kohort.group.explain.explain_text import Names, chain, cost, duration, waits, why
from kohort.group.explain.rebalance_report import GroupReport, Rebalance
from kohort.group.explain.remedy import Remedy, remedies

SLOWEST = 8
"""Members that are named in a rebalance."""


class TookLine(NamedTuple):
    """A member that others waited for: in which step, and how long."""

    step: str
    member: str
    took_ms: int


class RebalanceView(NamedTuple):
    """A rebalance in words. `steps` are its chain of causes, each with the time since it began."""

    number: int
    started_ms: int
    cause: str
    cost: str
    took: str
    unowned_s: float
    awaited: str
    is_running: bool
    is_inferred: bool
    steps: list[tuple[str, str]]
    took_lines: list[TookLine]
    joined: str
    remedies: list[Remedy]


def latest(report: GroupReport) -> list[Rebalance]:
    """Return the running rebalance and the last ones, the newest first."""
    running = [] if report.running is None else [report.running]
    return [*running, *reversed(report.rebalances)][:REBALANCES]


def rebalance_view(rebalance: Rebalance, names: Names, now_ms: int, *, is_inferred: bool = False) -> RebalanceView:
    """Return a rebalance with the words of `explain`."""
    is_running = rebalance.ended_ms is None
    return RebalanceView(
        rebalance.number,
        rebalance.started_ms,
        why(rebalance, names),
        cost(rebalance, names),
        duration(rebalance.duration_ms(now_ms)),
        rebalance.unowned_partition_s,
        waits(rebalance, names).removeprefix(", ") if is_running else "",
        is_running,
        is_inferred,
        [(f"{(link.at_ms - rebalance.started_ms) / 1000:+.3f} s", link.text) for link in chain(rebalance, names)],
        _took(rebalance, names),
        names.listed(rebalance.joined) if rebalance.joined else "",
        remedies(rebalance, names),
    )


def _took(rebalance: Rebalance, names: Names) -> list[TookLine]:
    """Return which members the others waited for, the slowest first."""
    took = [
        TookLine(f"{step}{f' of round {number}' if len(rebalance.rounds) > 1 else ''}", names(member_id), ms)
        for number, each in enumerate(rebalance.rounds, 1)
        for step, by_member in (
            ("to join again", each.rejoin_ms),
            ("awaited, did not join", each.missed_ms),
            ("to ask for its assignment", each.sync_ms),
        )
        for member_id, ms in by_member.items()
    ]
    took += [
        TookLine(step, names(member_id), ms)
        for epoch in rebalance.epochs
        for step, by_member in (("to revoke", epoch.revoke_ms), ("to reach its target", epoch.reconcile_ms))
        for member_id, ms in by_member.items()
    ]
    return sorted(took, key=lambda line: -line.took_ms)[:SLOWEST]
