"""The demo's picture: who owned each partition, how far the group was behind, how fast flights came through."""

from __future__ import annotations

from collections.abc import Sequence

from demo.ownership import Gap, Tenure, WorkerRun
from demo.story import Story
from kohort.group.explain.rebalance_report import Rebalance
from kohort.spark.report.timeline_plot import Gap as GapBar
from kohort.spark.report.timeline_plot import Mark, Picture, svg
from kohort.spark.report.timeline_plot import Tenure as Bar

_NAMES = {("a", 1): "worker a", ("b", 1): "worker b", ("a", 2): "worker a, restarted"}


def timeline(story: Story, owned: Sequence[Tenure], unowned: Sequence[Gap], rebalances: Sequence[Rebalance]) -> str:
    """Return the picture as SVG text that needs nothing from outside."""
    start_ms = min([each.from_ms for each in owned] + [each.started_ms for each in rebalances])
    end_ms = max([each.until_ms or 0 for each in owned] + [sample.at_ms for sample in story.samples])
    runs = sorted({(each.worker, each.run) for each in owned}, key=lambda run: (run[1], run[0]))
    marks = [
        Mark(each.ended_ms or each.started_ms, f"{number} {each.because.kind.replace('_', ' ')}")
        for number, each in enumerate(rebalances, 1)
    ]
    marks += [Mark(died_ms, "kill -9", is_alarm=True) for died_ms in story.deaths.values()]
    return svg(
        Picture(
            start_ms,
            end_ms,
            [str(each) for each in sorted({each.partition for each in owned})],
            [_NAMES.get(run, f"worker {run[0]}, run {run[1]}") for run in runs],
            [
                Bar(str(each.partition), runs.index((each.worker, each.run)), each.from_ms, each.until_ms)
                for each in owned
            ],
            [(sample.at_ms, sample.lag) for sample in story.samples],
            {runs.index(run): counts for run, counts in _rates(story, start_ms, runs).items()},
            gaps=[GapBar(str(each.partition), each.from_ms, each.until_ms) for each in unowned],
            marks=marks,
            lag_title="Lag: flights written and not yet committed",
            rate_title="Flights committed per second",
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
