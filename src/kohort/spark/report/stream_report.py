"""The report of a `GroupStream`: its figures, and a plot of ownership, lag and rate since it was made."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from itertools import pairwise

from kohort.model.ids import TopicPartition
from kohort.spark.membership.group_progress import GroupProgress
from kohort.spark.report.history import StreamHistory
from kohort.spark.report.html_page import cards, document, table, wide
from kohort.spark.report.timeline_plot import Mark, Picture, Tenure, svg

ROWS = 60
"""Partitions that the plot shows; all of them are in the figures."""

BARS = 2000
"""Times of ownership that are drawn, the last ones."""

MARKS = 12
"""Rebalances whose lines are drawn; more would hide the rest."""

_COLUMNS = 120
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
    shown = len(_shown(history))
    total = len({each.partition for each in history.tenures})
    limit = f" The plot shows {shown:,} of its {total:,} partitions." if shown < total else ""
    body = f"""<h1>Group <code>{escape(progress.group)}</code></h1>
<p class="lead">One member since {began:%Y-%m-%d %H:%M:%S} UTC.{limit}</p>
{cards(figures)}
{wide(svg(picture_of(history)))}
<h2>The member at the end</h2>
{wide(table(("member", *_NUMERIC), [_row(progress)], _NUMERIC))}
<footer>Lag is that of the member's own partitions, as of its last look-up. A plus is an assignment, a minus a
revocation, with their numbers of partitions.</footer>
"""
    return document(f"kohort: group {progress.group}", body)


def picture_of(history: StreamHistory) -> Picture:
    """Return the plot of a history."""
    tenures, samples = history.tenures, history.samples
    shown = set(_shown(history))
    known = [each.from_ms for each in tenures] + [each.until_ms or 0 for each in tenures]
    end_ms = max([history.started_ms + 1000, *known, *(each.at_ms for each in samples)])
    column_ms = max(1000, -(-(end_ms - history.started_ms) // _COLUMNS))
    counts: dict[int, int] = {}
    for before, after in pairwise(samples):
        column = (after.at_ms - history.started_ms) // column_ms
        counts[column] = counts.get(column, 0) + after.offsets - before.offsets
    return Picture(
        history.started_ms,
        end_ms,
        [_label(each) for each in sorted(shown)],
        ["this member"],
        [Tenure(_label(each), 0, start, until) for each, start, until in tenures if each in shown][-BARS:],
        [(each.at_ms, each.lag) for each in samples],
        {0: counts},
        column_ms,
        marks=[Mark(at_ms, text, text.startswith("lost")) for at_ms, text in history.changes[-MARKS:]],
        ownership_title="Which partitions this member owned",
        lag_title="Lag: offsets behind the ends of its partitions",
        rate_title="Offsets committed per second" if column_ms == 1000 else f"Offsets committed per {column_ms:,} ms",
    )


def _shown(history: StreamHistory) -> list[TopicPartition]:
    return sorted({each.partition for each in history.tenures})[:ROWS]


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
