"""The page of `kohort explain --html`: what a group's rebalances cost, who owned what, and each with its cause."""

from __future__ import annotations

from collections.abc import Sequence

from kohort.console.history.ownership_strip import ownership_drawing
from kohort.console.history.rebalance_markup import Commands, rebalance_details, rebalances_markup
from kohort.console.history.rebalance_view import rebalance_view
from kohort.drawing.display_text import counted, display_name, display_sentence, moment
from kohort.drawing.html_page import cards, document, navigation, section
from kohort.drawing.markup import Content, tag
from kohort.drawing.ownership_drawing import OwnershipDrawing, inline_svg
from kohort.group.explain.explain_text import Names, duration, partition_seconds, refusal, unit, waits, why
from kohort.group.explain.rebalance_report import GroupReport, Rebalance, Refused
from kohort.group.explain.remedy import COST_S

_MARGIN = 0.03
"""Of the time of all rebalances, before the first and after the last."""


def strip_of(report: GroupReport, rebalances: Sequence[Rebalance], now_ms: int) -> OwnershipDrawing:
    """Return who owned what from the first of some rebalances to the last, or to now where one is running."""
    times = [each.started_ms for each in rebalances] + [each.ended_ms or now_ms for each in rebalances]
    from_ms, until_ms = min(times, default=now_ms), max(times, default=now_ms)
    margin_ms = max(1000, round(_MARGIN * (until_ms - from_ms)))
    until_ms = until_ms if report.running in rebalances else until_ms + margin_ms
    return ownership_drawing(report, Names(report.identities), from_ms - margin_ms, until_ms)


def explanation_page(
    report: GroupReport,
    rebalances: Sequence[Rebalance],
    refused: Sequence[Refused],
    now_ms: int,
    commands: Commands,
) -> str:
    """Return the page of some rebalances of a group, the latest last; one of them may be running."""
    names = Names(report.identities)
    group = tag("bdi", display_name(report.group_id))
    costliest = max(rebalances, key=_cost_s, default=None)
    clock = "generation" if report.group_type == "classic" else "group epoch"
    state = (
        f"{report.group_type} group, {report.state}, {clock} {report.generation}, {counted(report.members, 'member')}, "
        f"{counted(report.partitions, unit(report.group_type))}. Times are UTC."
    )
    unowned_s = sum(each.unowned_partition_s for each in rebalances)
    silent_s = sum(each.silent_partition_s for each in rebalances)
    figures = [
        (f"{len(rebalances):,}", f"of {counted(report.total, 'rebalance')}", ""),
        (f"{unowned_s:,.1f}", "partition-seconds without an owner", "bad" if unowned_s >= COST_S else "good"),
        (f"{silent_s:,.1f}", "partition-seconds with an owner that was gone", "bad" if silent_s >= COST_S else "good"),
        (f"{report.avoided:,}", "rebalances avoided", ""),
    ]
    details = [
        rebalance_details(
            rebalance_view(each, names, now_ms), commands, is_open=each is costliest or each.ended_ms is None
        )
        for each in reversed(rebalances)
    ]
    lines = [f"{moment(each.first_ms)}: {refusal(each, names, moment)}" for each in refused]
    parts = [("ownership", "Who owned what"), ("rebalances", "Rebalances")]
    parts += [("refused", "Joins that were refused")] if lines else []
    body: list[Content] = [
        navigation(parts, "Parts of the page"),
        tag("h1", _answer(group, rebalances, costliest, names, now_ms)),
        tag("p", state, class_="lead"),
        cards(figures),
        section(*parts[0], inline_svg(strip_of(report, rebalances, now_ms))),
        section(*parts[1], rebalances_markup(details, report.total)),
        section(*parts[2], tag("ul", [tag("li", display_sentence(each)) for each in lines])) if lines else None,
        tag("footer", "Written by ", tag("code", "kohort explain"), "."),
    ]
    return document(f"kohort explain {display_name(report.group_id)}", body)


def _cost_s(rebalance: Rebalance) -> float:
    return rebalance.unowned_partition_s + rebalance.silent_partition_s


def _answer(
    group: Content, rebalances: Sequence[Rebalance], costliest: Rebalance | None, names: Names, now_ms: int
) -> list[Content]:
    """Return the sentence that answers why the group stood still."""
    if costliest is None:
        return [group, " has not rebalanced."]
    running = [each for each in rebalances if each.ended_ms is None]
    if running:
        text = f"rebalances for {duration(running[-1].duration_ms(now_ms))} now{waits(running[-1], names)}."
        return [group, " ", display_sentence(text)]
    if not _cost_s(costliest):
        return [group, f" rebalanced {_times(len(rebalances))}, and no partition stood still."]
    total_s = sum(map(_cost_s, rebalances))
    share = "all of it" if _cost_s(costliest) == total_s else f"{_cost_s(costliest):,.1f} of it"
    cost = f"{partition_seconds(total_s)} in {counted(len(rebalances), 'rebalance')}, {share} at "
    reason = display_sentence(why(costliest, names))
    return [group, f" stood still for {cost}", tag("time", moment(costliest.started_ms)), f": {reason}."]


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"
