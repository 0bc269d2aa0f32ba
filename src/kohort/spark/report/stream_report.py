"""The report of a `GroupStream`: its figures, and a drawing of ownership, lag and rate since it was made."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from itertools import pairwise

from kohort.drawing.html_page import cards, document, table
from kohort.drawing.ownership_drawing import (
    DrawnEvent,
    Lane,
    LaneGroup,
    OwnedSpan,
    OwnershipDrawing,
    RateColumns,
    ValueLine,
    inline_svg,
)
from kohort.drawing.time_axis import TimeAxis
from kohort.model.ids import TopicPartition
from kohort.spark.membership.group_progress import GroupProgress
from kohort.spark.report.history import StreamHistory

EVENTS = 20
"""Rebalances whose lines are drawn, the last ones; more would hide the rest."""

_MEMBER = "this member"
_NUMERIC = ("generation", "partitions", "lag", "rebalances", "offsets read again")


def stream_report(progress: GroupProgress, history: StreamHistory) -> str:
    """Return the report as HTML."""
    figures = [
        (f"{history.samples[-1].offsets:,}", "offsets committed", ""),
        (f"{progress.lag:,}", "offsets behind at the end", "bad" if progress.lag else "good"),
        (f"{progress.rebalances:,}", "rebalances", ""),
        (f"{progress.read_again:,}", "offsets read again by others", ""),
    ]
    began = datetime.fromtimestamp(history.started_ms / 1000, UTC)
    body = f"""<h1>Group <code>{escape(progress.group)}</code></h1>
<p class="lead">One member since {began:%Y-%m-%d %H:%M:%S} UTC.</p>
{cards(figures)}
{inline_svg(drawing_of(history))}
<h2>The member at the end</h2>
{table(("member", *_NUMERIC), [_row(progress)], _NUMERIC)}
<footer>Lag is that of the member's own partitions, as of its last look-up. A plus is an assignment, a minus a
revocation, with their numbers of partitions.</footer>
"""
    return document(f"kohort: group {progress.group}", body)


def drawing_of(history: StreamHistory) -> OwnershipDrawing:
    """Return ownership, lag and rate of a history."""
    tenures, samples = history.tenures, history.samples
    known = [each.from_ms for each in tenures] + [each.until_ms or 0 for each in tenures]
    end_ms = max([history.started_ms + 1000, *known, *(each.at_ms for each in samples)])
    rates: dict[int, float] = {}
    for before, after in pairwise(samples):
        second = (after.at_ms - history.started_ms) // 1000
        rates[second] = rates.get(second, 0) + after.offsets - before.offsets
    spans: dict[TopicPartition, list[OwnedSpan]] = {}
    for partition, start_ms, until_ms in tenures:
        ended_ms = end_ms if until_ms is None else until_ms
        spans.setdefault(partition, []).append(OwnedSpan(_MEMBER, start_ms, ended_ms))
    changes = history.changes[-EVENTS:]
    return OwnershipDrawing(
        "Which partitions this member owned",
        TimeAxis(history.started_ms, end_ms, is_clock=True),
        [_MEMBER],
        [LaneGroup("Which partitions this member owned", [Lane(_label(each), spans[each]) for each in sorted(spans)])],
        [
            ValueLine("Lag: offsets behind the ends of its partitions", [(each.at_ms, each.lag) for each in samples]),
            RateColumns("Offsets committed per second", 1000, {_MEMBER: rates}),
        ],
        [DrawnEvent(at_ms, text, "alarm" if text.startswith("lost") else "") for at_ms, text in changes],
    )


def _label(partition: TopicPartition) -> str:
    return f"{partition.topic} {partition.partition}"


def _row(progress: GroupProgress) -> tuple[str | int, ...]:
    return (
        progress.member_id,
        progress.generation,
        progress.partitions,
        progress.lag,
        progress.rebalances,
        progress.read_again,
    )
