"""The plots of a report, as inline SVG strips between HTML labels; its timelines are ownership drawings.

A strip stretches to the available width, its labels do not, so that no plot is wider than its page. Each
plot has a table with the same figures. The content of a strip is also listed as JSON for the page's script, which shows
it under the pointer or the arrow keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from kohort.drawing.display_text import TimeAxis, clock, counted, day, display_name, duration, hour
from kohort.drawing.html_page import table
from kohort.drawing.markup import Content, Markup, joined, tag
from kohort.drawing.ownership_drawing import Lane, LaneGroup, OwnedSpan, OwnershipDrawing, inline_svg
from kohort.fleet.report.fleet_report import (
    Columns,
    FleetReport,
    GroupKey,
    HeatRow,
    Readiness,
    Timeline,
    TimelineRow,
)
from kohort.fleet.schema import DAY_MS, HOUR_MS

STEPS = (1, 2, 5, 10, 30)
"""From how many rebalances on a cell of the heat map has the next colour: the same in every report."""

CELLS_OF_A_TABLE = 12
GAPS_OF_A_TABLE = 8

_TALL = 10
_WIDE = 1000

Named = Callable[[GroupKey], Markup]
"""How a page writes a group's name."""


def strip(width: float, *content: Content, kind: str, label: str, **attributes: str | int) -> Markup:
    """Return one SVG that stretches over its line."""
    return tag(
        "svg",
        *content,
        class_=f"strip {kind}",
        viewBox=f"0 0 {_short(width)} {_TALL}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
        **attributes,
    )


def as_table(headings: Sequence[str], rows: Sequence[Sequence[Content]], numeric: Collection[str] = ()) -> Markup:
    """Return a table that opens under its plot."""
    return tag("details", tag("summary", "The same as a table"), table(headings, rows, numeric), class_="as-table")


def time_axis(from_ms: int, until_ms: int, text: Callable[[int], str], marks: int = 5) -> Markup:
    """Return the labels under strips; those in between disappear where it is narrow."""
    step = (until_ms - from_ms) / (marks - 1)
    labels = [tag("span", text(round(from_ms + step * place))) for place in range(marks)]
    return tag("div", tag("span"), tag("div", labels, class_="axis"), class_="lane")


def _lane(who: Content, *drawn: Content, kind: str = "lane") -> Markup:
    return tag("div", tag("span", who, class_="who"), drawn, class_=kind)


def _key(kind: str, *text: Content) -> Markup:
    return tag("span", tag("i", class_=f"key {kind}"), text)


def _reading(plot: str) -> Markup:
    """Return the place for what is under the pointer."""
    return tag("p", class_="reading", aria_live="polite", data_reading=plot)


def columns_axis(columns: Columns) -> Markup:
    """Return the labels of the report's time axis."""
    text = day if columns.step_ms * columns.count > 3 * DAY_MS else hour
    return time_axis(columns.from_ms, columns.until_ms, text)


# -- rebalances


def fleet_bars(report: FleetReport) -> Markup:
    """Return all rebalances of the fleet over time, as columns."""
    counts, columns = report.fleet_rebalances, report.columns
    highest = max(counts, default=0)
    bars = [
        _rect(column, _TALL * (1 - count / highest), 0.86, _TALL * count / highest, "bar")
        for column, count in enumerate(counts)
        if count
    ]
    text = f"Rebalances of the whole fleet over time, at most {highest:,} in {_step(columns)}"
    drawn = strip(columns.count, bars, kind="tall cells", label=text, tabindex=0, data_cells="fleet")
    return _lane(f"all groups, at most {highest:,}", drawn)


def heat_map(report: FleetReport, named: Named) -> Markup:
    """Return the rebalances of each group by column of time."""
    lanes = [_heat_lane(report.columns, place, row, named) for place, row in enumerate(report.heat)]
    legend = tag(
        "p",
        tag("span", f"rebalances in {_step(report.columns)}:", class_="legend-of"),
        [_key(f"q{place}", label) for place, label in enumerate(_step_labels(), 1)],
        class_="legend",
    )
    rows = [
        [named(row.key), f"{sum(row.rebalances):,}", _worst_cells(report.columns, row.rebalances)]
        for row in report.heat
    ]
    return joined(
        [
            tag("div", fleet_bars(report), lanes, columns_axis(report.columns), class_="plot heat", data_plot="heat"),
            legend,
            _reading("heat"),
            as_table(("group", "rebalances", "most of them"), rows, ("rebalances",)),
        ]
    )


def _heat_lane(columns: Columns, place: int, row: HeatRow, named: Named) -> Markup:
    cells = [
        _rect(start, 0, length, _TALL, f"q{_quantum(count)}") for start, length, count in _runs(row.rebalances) if count
    ]
    total = sum(row.rebalances)
    text = f"{display_name(row.key.group)}: {counted(total, 'rebalance')}"
    drawn = strip(columns.count, cells, kind="cells", label=text, tabindex=0, data_cells=place)
    return _lane(named(row.key), drawn)


def _quantum(count: int) -> int:
    return sum(count >= step for step in STEPS)


def _runs(counts: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Yield (first column, columns, count) of neighbours in one colour."""
    start = 0
    for place in range(1, len(counts) + 1):
        if place == len(counts) or _quantum(counts[place]) != _quantum(counts[start]):
            yield start, place - start, counts[start]
            start = place


def _step_labels() -> list[str]:
    labels = []
    for low, high in zip(STEPS, [*STEPS[1:], 0], strict=True):
        labels.append(f"{low} or more" if not high else f"{low}" if high == low + 1 else f"{low}–{high - 1}")
    return labels


def _worst_cells(columns: Columns, counts: Sequence[int]) -> str:
    worst = sorted((place for place, count in enumerate(counts) if count), key=lambda place: -counts[place])
    text = [f"{hour(columns.start_ms(place))}: {counts[place]:,}" for place in sorted(worst[:CELLS_OF_A_TABLE])]
    left = len(worst) - len(text)
    return "; ".join(text) + (f"; and {left:,} more columns" if left > 0 else "")


def _step(columns: Columns) -> str:
    hours = columns.step_ms // HOUR_MS
    return "an hour" if hours == 1 else f"{hours} hours" if hours < 48 else f"{hours // 24} days"


# -- unowned time


def ranking(report: FleetReport, named: Named) -> Markup:
    """Return the groups whose partitions had no owner for longest."""
    highest = max((seconds for _, seconds in report.ranking), default=0) or 1
    lanes = []
    for key, seconds in report.ranking:
        text = f"{display_name(key.group)}: {duration(seconds)} of partition time without an owner"
        bar = strip(_WIDE, _rect(0, 0, max(_WIDE * seconds / highest, 2), _TALL, "bar"), kind="bars", label=text)
        lanes.append(_lane(named(key), bar, tag("span", duration(seconds), class_="value"), kind="lane valued"))
    rows = [[named(key), f"{seconds:,.1f}"] for key, seconds in report.ranking]
    return joined(
        [
            tag("div", lanes, class_="plot ranking", data_plot="ranking"),
            as_table(("group", "unowned partition-seconds"), rows, ("unowned partition-seconds",)),
        ]
    )


# -- ownership


def timeline(place: int, of: Timeline, named: Named) -> Markup:
    """Return the owners of a group's partitions in its worst hour."""
    heading = tag("h3", named(of.key), tag("small", f"{hour(of.from_ms)} to {clock(of.until_ms)[:5]} UTC"))
    return tag(
        "article",
        heading,
        tag("div", inline_svg(_ownership(of)), class_="plot", data_plot=f"timeline-{place}"),
        tag("p", _left_out(of), class_="note") if _left_out(of) else None,
        _reading(f"timeline-{place}"),
        as_table(
            ("partition", "owners one after another", "without an owner"), [_owner_cells(of, row) for row in of.rows]
        ),
        class_="timeline",
        id=f"timeline-{place}",
    )


def _ownership(of: Timeline) -> OwnershipDrawing:
    lanes = [Lane(row.partition, [OwnedSpan(*span) for span in row.spans], gaps(of, row), of.empty) for row in of.rows]
    title = f"Who owned each partition of {display_name(of.key.group)}"
    return OwnershipDrawing(title, TimeAxis(of.from_ms, of.until_ms, True), members_of(of), [LaneGroup("", lanes)])


def members_of(of: Timeline) -> list[str]:
    """Return a timeline's members in the order of their colours: those who owned most come first."""
    owned: dict[str, int] = {}
    for row in of.rows:
        for span in row.spans:
            owned[span.member] = owned.get(span.member, 0) + span.until_ms - span.from_ms
    return sorted(owned, key=lambda name: (-owned[name], name))


def gaps(of: Timeline, row: TimelineRow) -> list[tuple[int, int]]:
    """Return the times in which the group had members and none of them owned a partition."""
    had = sorted([*((span.from_ms, span.until_ms) for span in row.spans), *of.empty])
    found, reached = [], of.from_ms
    for start, end in [*had, (of.until_ms, of.until_ms)]:
        if start > reached:
            found.append((reached, start))
        reached = max(reached, end)
    return found


def _owner_cells(of: Timeline, row: TimelineRow) -> list[Content]:
    owners = [f"{clock(span.from_ms)} {display_name(span.member)}" for span in row.spans[:CELLS_OF_A_TABLE]]
    if len(row.spans) > len(owners):
        owners.append(f"and {len(row.spans) - len(owners):,} more")
    unowned = gaps(of, row)
    without = [f"{clock(start)} for {duration((end - start) / 1000)}" for start, end in unowned[:GAPS_OF_A_TABLE]]
    if len(unowned) > len(without):
        without.append(f"and {len(unowned) - len(without):,} more times")
    return [tag("bdi", display_name(row.partition)), "; ".join(owners) or "–", "; ".join(without) or "–"]


def _left_out(of: Timeline) -> str:
    text = []
    if of.partitions_left_out:
        text.append(f"{counted(of.partitions_left_out, 'partition')} with fewer changes")
    if of.spans_left_out:
        text.append(f"{counted(of.spans_left_out, 'later change')} of owner")
    return f"Not drawn: {' and '.join(text)}." if text else ""


# -- readiness


def readiness_bar(of: Readiness) -> Markup:
    """Return how many groups have left the classic protocol, can, and cannot."""
    parts = [
        ("moved", of.moved, "use a new protocol already"),
        ("ready", of.ready, "classic, ready to move"),
        ("not-ready", of.not_ready, "classic, not ready to move"),
        ("unknown", of.unknown, "classic, unknown without members"),
    ]
    total = sum(count for _, count, _ in parts) or 1
    drawn, reached = [], 0.0
    for kind, count, _ in parts:
        if count:
            width = _WIDE * count / total
            drawn.append(_rect(reached, 0, max(width - 3, 1.5), _TALL, kind))
            reached += width
    text = "; ".join(f"{count:,} {words}" for _, count, words in parts)
    legend = [_key(kind, tag("b", f"{count:,}"), f" {words}") for kind, count, words in parts]
    rows = [[words, f"{count:,}", f"{100 * count / total:.0f} %"] for _, count, words in parts]
    return joined(
        [
            tag("div", strip(_WIDE, drawn, kind="stacked", label=text), class_="plot", data_plot="readiness"),
            tag("p", legend, class_="legend"),
            as_table(("groups that", "groups", "share"), rows, ("groups", "share")),
        ]
    )


def plotted(report: FleetReport) -> dict[str, Any]:
    """Return the figures that the page's script shows for the plots."""
    columns = report.columns
    return {
        "columns": [columns.from_ms, columns.step_ms, columns.count],
        "fleet": list(report.fleet_rebalances),
        "heat": [
            [display_name(row.key.group), {place: count for place, count in enumerate(row.rebalances) if count}]
            for row in report.heat
        ],
    }


def _rect(x: float, y: float, width: float, height: float, kind: str) -> Markup:
    return Markup(
        f'<rect x="{_short(x)}" y="{_short(y)}" width="{_short(width)}" height="{_short(height)}" class="{kind}"/>'
    )


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
