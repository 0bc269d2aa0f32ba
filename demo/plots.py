"""The report's plots, as SVG: who owned each partition, how far the group was behind, how fast rows came through.

One picture of three panels over one time axis, so that a kill and its effects stand under each other.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from demo.ownership import Gap, Tenure, WorkerRun
from demo.story import Story
from kohort.group.explain.rebalance_report import Rebalance

COLOURS = {("a", 1): "#2f6db3", ("b", 1): "#d98324", ("a", 2): "#6fa8dc"}
UNOWNED, KILL, REBALANCE, INK = "#c0392b", "#c0392b", "#7a7a7a", "#2b2b2b"
_NAMES = {("a", 1): "worker a", ("b", 1): "worker b", ("a", 2): "worker a, restarted"}


def colour(owner: WorkerRun) -> str:
    """Return a run's colour."""
    return COLOURS.get(owner, "#8e8e8e")


def timeline(story: Story, owned: Sequence[Tenure], unowned: Sequence[Gap], rebalances: Sequence[Rebalance]) -> str:
    """Return the picture as SVG text that needs nothing from outside."""
    start_ms = min([each.from_ms for each in owned] + [each.started_ms for each in rebalances])
    end_ms = max([each.until_ms or 0 for each in owned] + [sample.at_ms for sample in story.samples])

    def at_s(moment_ms: float) -> float:
        return (moment_ms - start_ms) / 1000

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(9.6, 8.4), layout="constrained")
        top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=[5, 2.2, 2.2])
        _draw_ownership(top, owned, unowned, at_s, at_s(end_ms))
        _draw_lag(middle, story, at_s)
        _draw_rate(bottom, story, at_s)
        bottom.set_xlabel("seconds")
        bottom.set_xlim(0, at_s(end_ms) + 0.5)
        _mark(top, (top, middle, bottom), story, rebalances, at_s)
        return _svg(figure)


def _draw_ownership(axes: Any, owned: Sequence[Tenure], unowned: Sequence[Gap], at_s: Any, last_s: float) -> None:
    for tenure in owned:
        start = at_s(tenure.from_ms)
        stop = last_s if tenure.until_ms is None else at_s(tenure.until_ms)
        owner = tenure.worker, tenure.run
        axes.broken_barh([(start, stop - start)], (tenure.partition - 0.4, 0.8), color=colour(owner), lw=0)
    for gap in unowned:
        start, stop = at_s(gap.from_ms), at_s(gap.until_ms)
        axes.broken_barh(
            [(start, stop - start)],
            (gap.partition - 0.4, 0.8),
            facecolor="#f6dedb",
            edgecolor=UNOWNED,
            hatch="////",
            lw=0,
        )
    partitions = sorted({tenure.partition for tenure in owned})
    axes.set_yticks(partitions)
    axes.set_ylim(max(partitions) + 0.6, -0.6)
    axes.set_ylabel("partition")
    axes.set_title("Who owned each partition", loc="left", pad=44)
    owners = sorted({(tenure.worker, tenure.run) for tenure in owned}, key=lambda owner: (owner[1], owner[0]))
    handles = [
        Patch(color=colour(owner), label=_NAMES.get(owner, f"worker {owner[0]}, run {owner[1]}")) for owner in owners
    ]
    handles.append(Patch(facecolor="#f6dedb", edgecolor=UNOWNED, hatch="////", lw=0, label="no owner"))
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(-0.01, -0.02), ncols=len(handles), frameon=False)


def _draw_lag(axes: Any, story: Story, at_s: Any) -> None:
    times = [at_s(sample.at_ms) for sample in story.samples]
    axes.fill_between(times, [sample.lag for sample in story.samples], color="#4c6a57", alpha=0.25, lw=0)
    axes.plot(times, [sample.lag for sample in story.samples], color="#4c6a57", lw=1.6)
    axes.set_ylim(bottom=0)
    axes.set_title("Lag: flights written and not yet committed", loc="left")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _draw_rate(axes: Any, story: Story, at_s: Any) -> None:
    seconds: dict[WorkerRun, dict[int, int]] = {}
    for entry in story.entries:
        if entry.kind == "committed":
            counts = seconds.setdefault((entry.worker, entry.run), {})
            second = int(at_s(entry.at_ms))
            counts[second] = counts.get(second, 0) + entry.rows
    base: dict[int, int] = {}
    for owner, counts in sorted(seconds.items(), key=lambda each: (each[0][1], each[0][0])):
        bottoms = [base.get(second, 0) for second in counts]
        axes.bar([second + 0.5 for second in counts], list(counts.values()), 0.9, bottoms, color=colour(owner))
        for second, rows in counts.items():
            base[second] = base.get(second, 0) + rows
    axes.set_title("Flights committed per second", loc="left")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _mark(top: Any, panels: Sequence[Any], story: Story, rebalances: Sequence[Rebalance], at_s: Any) -> None:
    """Draw a line through all panels at every rebalance and every kill, and say above the first what it was."""
    moments = [
        (at_s(each.ended_ms or each.started_ms), f"{number} {each.because.kind.replace('_', ' ')}", False)
        for number, each in enumerate(rebalances, 1)
    ]
    moments += [(at_s(died_ms), "kill -9", True) for died_ms in story.deaths.values()]
    for moment_s, _, is_kill in moments:
        style = {"color": KILL, "lw": 1.4} if is_kill else {"color": REBALANCE, "lw": 0.9, "ls": (0, (3, 2))}
        for axes in panels:
            axes.axvline(moment_s, zorder=3 if is_kill else 0, **style)
    narrow = 0.14 * panels[0].get_xlim()[1]
    free_from = [float("-inf")] * 3
    for moment_s, text, is_kill in sorted(moments):
        # A label that would run into the one before it goes one line higher.
        level = next((each for each, free in enumerate(free_from) if moment_s >= free), len(free_from) - 1)
        free_from[level] = moment_s + narrow
        top.annotate(
            text,
            (moment_s, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 4 + 12 * level),
            textcoords="offset points",
            fontsize=8.5,
            weight="bold" if is_kill else "normal",
            color=KILL if is_kill else INK,
            annotation_clip=False,
        )


_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#b5b5b5",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "hatch.color": UNOWNED,
    "hatch.linewidth": 0.6,
}


def _svg(figure: Figure) -> str:
    output = io.StringIO()
    figure.savefig(output, format="svg", metadata={"Date": None, "Creator": "kohort"})
    text = output.getvalue()
    # Without the XML prolog, so that it can stand inside a page.
    return text[text.index("<svg") :]
