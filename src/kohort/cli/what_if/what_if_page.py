"""The page that `kohort what-if --html` writes: what a change costs, and who reads which partition meanwhile."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kohort.cli.what_if.what_if_report import compared, costs_of, description, headline
from kohort.drawing.display_text import TimeAxis, display_name, display_sentence, duration
from kohort.drawing.html_page import cards, document, navigation, section, table
from kohort.drawing.markup import Content, Markup, tag
from kohort.drawing.ownership_drawing import (
    DrawnEvent,
    Lane,
    LaneGroup,
    OwnedSpan,
    OwnershipDrawing,
    ValueLine,
    inline_svg,
)
from kohort.model.ids import TopicPartition
from kohort.what_if.change import PlannedChange
from kohort.what_if.forecast import Forecast
from kohort.what_if.variants import name_of_now

if TYPE_CHECKING:
    from kohort.cli.what_if.what_if_inputs import GroupInputs


def forecast_page(
    args: argparse.Namespace, found: GroupInputs, change: PlannedChange, forecasts: list[Forecast]
) -> str:
    """Return the page of one forecast, or of several beside each other."""
    group_id = display_name(found.facts.group.group_id)
    what = tag("bdi", display_sentence(description(args, change)))
    parts = [("cost", "What it costs"), ("readers", "Who reads what"), ("basis", "Measured and assumed")]
    body: list[Content] = [
        navigation(parts, "Parts of the page"),
        tag("h1", tag("bdi", group_id), _answer(found, forecasts), " if ", what, "."),
        tag("p", tag("bdi", display_sentence(headline(found.facts.group, found))), class_="lead"),
        section(*parts[0], _costs(found, forecasts), list(_failures(forecasts))),
        section(*parts[1], [_readers(each) for each in forecasts]),
        section(*parts[2], [_sentences(*each) for each in (("Measured", found.measured), ("Assumed", found.assumed))]),
        tag("footer", "Written by ", tag("code", "kohort what-if"), ", on a copy of the group in virtual time."),
    ]
    return document(f"kohort what-if {group_id}", body)


def _answer(found: GroupInputs, forecasts: list[Forecast]) -> str:
    best = min(forecasts, key=lambda each: (each.unread_partition_s, each.duration_ms))
    cost = f"{best.unread_partition_s:,.1f} partition-seconds"
    if len(forecasts) == 1:
        longest = f", one partition for {duration(best.longest_unread_s)}," if best.unread else ""
        return f" would not be read for {cost}{longest}"
    now = next((each for each in forecasts if each.label == name_of_now(found.facts)), None)
    today = "" if now is None else f" (as it is now: {now.unread_partition_s:,.1f})"
    return f" would lose least as {best.label}, {cost} unread{today},"


def _costs(found: GroupInputs, forecasts: list[Forecast]) -> list[Content]:
    if len(forecasts) > 1:
        rows = compared(found, forecasts)
        cells = [[tag("bdi", "–" if cell is None else str(cell)) for cell in row.values()] for row in rows]
        return [table(list(rows[0]), cells, list(rows[0])[1:], "Forecasts")]
    (forecast,) = forecasts
    before, after = forecast.before, forecast.after
    figures = [
        (f"{forecast.unread_partition_s:,.1f}", "partition-seconds unread", "bad" if forecast.unread else "good"),
        (duration(forecast.duration_ms / 1000), "until the group is stable again", ""),
        (f"{forecast.moves:,}", "partitions move", ""),
        (f"{before.members:,} → {after.members:,}", "members", ""),
        (f"{before.least}–{before.most} → {after.least}–{after.most}", "partitions each", ""),
    ]
    return [cards(figures), table(("", "cost"), costs_of(forecast), (), "Cost")]


def _failures(forecasts: list[Forecast]) -> Iterator[Markup]:
    for each in forecasts:
        name = f"{each.label}: " if each.label else ""
        for text in dict.fromkeys(each.failures):
            yield tag("p", display_sentence(f"{name}a member would fail: {text}"), class_="alarm")
        if not each.is_settled and not each.failures:
            yield tag("p", f"{name}the group would not be stable within half an hour.", class_="alarm")


def _readers(forecast: Forecast) -> Markup:
    """Return who reads each partition before, during and after a change, and how many are not read."""
    lead_ms = (forecast.began_us - min((each.from_us for each in forecast.read), default=forecast.began_us)) / 1000
    end_ms = lead_ms + forecast.duration_ms
    axis = TimeAxis(0, max(end_ms + lead_ms, 1), is_clock=False)

    def at(moment_us: int) -> float:
        at_ms = lead_ms + (moment_us - forecast.began_us) / 1000
        return axis.until_ms if at_ms >= end_ms else at_ms  # who reads at the end continues

    lanes: dict[TopicPartition, tuple[list[OwnedSpan], list[tuple[float, float]]]] = {}
    for span in forecast.read:
        read = OwnedSpan(display_name(span.reader), at(span.from_us), at(span.until_us))
        lanes.setdefault(span.partition, ([], []))[0].append(read)
    for gap in forecast.unread:
        lanes.setdefault(gap.partition, ([], []))[1].append((at(gap.from_us), at(gap.until_us)))
    owners = sorted({span.owner for spans, _ in lanes.values() for span in spans}, key=lambda name: (len(name), name))
    steps = [(lead_ms + at_ms, count) for at_ms, count in _unread_steps(forecast)]
    drawing = OwnershipDrawing(
        f"Who reads each partition {forecast.label}".strip(),
        axis,
        owners,
        [LaneGroup(forecast.label, [Lane(str(each), *lanes[each]) for each in sorted(lanes)])],
        [ValueLine("Unread partitions", [(0.0, 0.0), *steps], is_stepped=True)],
        [DrawnEvent(lead_ms, "the change begins"), DrawnEvent(end_ms, "the group is stable again", "good")],
    )
    return inline_svg(drawing)


def _unread_steps(forecast: Forecast) -> list[tuple[float, float]]:
    """Return the milliseconds from the beginning at which the number of unread partitions changes, and the number."""
    changes: dict[int, int] = {}
    for each in forecast.unread:
        changes[each.from_us] = changes.get(each.from_us, 0) + 1
        changes[each.until_us] = changes.get(each.until_us, 0) - 1
    steps, count = [(0.0, 0.0)], 0
    for at_us in sorted(changes):
        count += changes[at_us]
        steps.append(((at_us - forecast.began_us) / 1000, count))
    return [*steps, (max(forecast.duration_ms, steps[-1][0]), count)]


def _sentences(title: str, sentences: list[str]) -> list[Content]:
    return [tag("h3", title), tag("ul", [tag("li", display_sentence(each)) for each in sentences])] if sentences else []
