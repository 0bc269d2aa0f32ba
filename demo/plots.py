"""The demo's picture: who owned each partition, how far the group was behind, how fast flights came through."""

from __future__ import annotations

from collections.abc import Sequence

from demo.ownership import Gap, Tenure, WorkerRun
from demo.story import Story
from kohort.drawing.display_text import TimeAxis
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
from kohort.group.explain.rebalance_report import Rebalance

_NAMES = {("a", 1): "worker a", ("b", 1): "worker b", ("a", 2): "worker a, restarted"}


def timeline(story: Story, owned: Sequence[Tenure], unowned: Sequence[Gap], rebalances: Sequence[Rebalance]) -> str:
    """Return the picture as SVG text that needs nothing from outside."""
    start_ms = min([each.from_ms for each in owned] + [each.started_ms for each in rebalances])
    end_ms = max([each.until_ms or 0 for each in owned] + [sample.at_ms for sample in story.samples])
    runs = sorted({(each.worker, each.run) for each in owned}, key=lambda run: (run[1], run[0]))
    names = {run: _NAMES.get(run, f"worker {run[0]}, run {run[1]}") for run in runs}
    events = [DrawnEvent(each.ended_ms or each.started_ms, each.cause.kind.replace("_", " ")) for each in rebalances]
    events += [DrawnEvent(died_ms, "kill -9", "alarm") for died_ms in story.deaths.values()]
    lanes = []
    for number in sorted({each.partition for each in owned}):
        spans = [
            OwnedSpan(names[each.worker, each.run], each.from_ms, end_ms if each.until_ms is None else each.until_ms)
            for each in owned
            if each.partition == number
        ]
        gaps = [(each.from_ms, each.until_ms) for each in unowned if each.partition == number]
        lanes.append(Lane(f"partition {number}", spans, gaps))
    rates = {names[run]: counts for run, counts in _rates(story, start_ms, runs).items()}
    return inline_svg(
        OwnershipDrawing(
            "Who owned each partition",
            TimeAxis(start_ms, end_ms, is_clock=False),
            list(names.values()),
            [LaneGroup("Who owned each partition", lanes)],
            [
                ValueLine(
                    "Lag: flights written and not yet committed",
                    [(sample.at_ms, sample.lag) for sample in story.samples],
                ),
                RateColumns("Flights committed per second", 1000, rates),
            ],
            events,
        )
    )


def _rates(story: Story, start_ms: int, runs: Sequence[WorkerRun]) -> dict[WorkerRun, dict[int, int]]:
    """Return the flights that each run committed, by second."""
    seconds: dict[WorkerRun, dict[int, int]] = {run: {} for run in runs}
    for entry in story.entries:
        if entry.kind == "committed":
            counts, second = seconds[entry.worker, entry.run], (entry.at_ms - start_ms) // 1000
            counts[second] = counts.get(second, 0) + entry.rows
    return seconds
