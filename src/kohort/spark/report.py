"""The report of a `GroupStream`: its history in bounded memory, its figures, and a drawing of ownership and lag."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from html import escape
from itertools import pairwise
from typing import NamedTuple

from kohort.client.membership.user_callbacks import RebalanceListener, finished
from kohort.drawing.display_text import TimeAxis
from kohort.drawing.html_page import cards, document, table
from kohort.drawing.markup import Markup
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
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition
from kohort.spark.membership.group_progress import GroupProgress

SAMPLES = 2000
"""Most samples in memory; when there are more, every second one is dropped, and half as many are taken."""

TENURES = 20_000
REBALANCES = 2000
_INTERVAL_MS = 100


class Sample(NamedTuple):
    """The stream at one time: how many offsets it is behind, and how many it has committed and lost so far."""

    at_ms: int
    lag: int
    offsets: int
    lost_offsets: int


class Owned(NamedTuple):
    """A time in which a partition was owned; `until_ms` is None while it lasts."""

    partition: TopicPartition
    from_ms: int
    until_ms: int | None


class StreamHistory:
    """What happened to a stream since it was made; any thread may ask. `clock` returns milliseconds."""

    def __init__(self, clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self.started_ms = clock()
        self._lock = threading.Lock()
        self._samples = [Sample(self.started_ms, 0, 0, 0)]
        self._changes: deque[tuple[int, str]] = deque(maxlen=REBALANCES)
        self._clock = clock
        self._closed: deque[Owned] = deque(maxlen=TENURES)
        self._since: dict[TopicPartition, int] = {}
        self._interval_ms = _INTERVAL_MS

    @property
    def samples(self) -> list[Sample]:
        """The stream over time; the first sample is of its start."""
        with self._lock:
            return list(self._samples)

    @property
    def changes(self) -> list[tuple[int, str]]:
        """When partitions came and went, and how many."""
        with self._lock:
            return list(self._changes)

    @property
    def tenures(self) -> list[Owned]:
        """When each partition was owned: first what ended, in the order of its end, then what lasts."""
        with self._lock:
            return [*self._closed, *(Owned(each, since, None) for each, since in sorted(self._since.items()))]

    def add(self, partitions: Partitions) -> None:
        """Partitions were assigned."""
        now_ms = self._clock()
        with self._lock:
            self._since |= dict.fromkeys(partitions, now_ms)
            if partitions:
                self._changes.append((now_ms, f"+{len(partitions)}"))

    def remove(self, partitions: Partitions, sign: str = "-") -> None:
        """Partitions were revoked or lost."""
        now_ms = self._clock()
        with self._lock:
            gone = [each for each in sorted(partitions) if each in self._since]
            self._closed += [Owned(each, self._since.pop(each), now_ms) for each in gone]
            if gone:
                self._changes.append((now_ms, f"{sign}{len(gone)}"))

    def sample(self, lag: int, offsets: int, lost_offsets: int) -> None:
        """Record the stream as it is now, in the place of a sample from a moment ago."""
        now_ms, last_ms = self._clock(), self._samples[-1].at_ms
        with self._lock:
            if len(self._samples) > 1 and now_ms - last_ms < self._interval_ms:
                self._samples[-1] = Sample(last_ms, lag, offsets, lost_offsets)
                return
            self._samples.append(Sample(now_ms, lag, offsets, lost_offsets))
            if len(self._samples) > SAMPLES:
                del self._samples[1::2]
                self._interval_ms *= 2


class HistoryListener(RebalanceListener):
    """Records rebalances in a history, and passes them on to the user's listener."""

    def __init__(self, history: StreamHistory, listener: RebalanceListener) -> None:
        self._history = history
        self._listener = listener

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        """Record an assignment."""
        self._history.add(partitions)
        await finished(self._listener.on_partitions_assigned(partitions))

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        """Record a revocation; the running round has been committed by now."""
        self._history.remove(partitions)
        await finished(self._listener.on_partitions_revoked(partitions))

    async def on_partitions_lost(self, partitions: Partitions) -> None:
        """Record a loss."""
        self._history.remove(partitions, "lost ")
        await finished(self._listener.on_partitions_lost(partitions))


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
    return document(f"kohort: group {progress.group}", Markup(body))


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
