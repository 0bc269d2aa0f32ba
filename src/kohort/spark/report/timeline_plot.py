"""Ownership, lag and rate of a group over one time axis, as SVG.

Three panels under each other, so that a rebalance and its effects stand in one line.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kohort.extras import install_command

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch
except ImportError as cause:
    raise ImportError(f"the plot of a report needs matplotlib: {install_command('plots')}") from cause

ALARM, REBALANCE, INK = "#c0392b", "#7a7a7a", "#2b2b2b"
COLOURS = ("#2f6db3", "#d98324", "#6fa8dc", "#5b8c5a", "#8e6bb0", "#8e8e8e")

_TO_S = Callable[[float], float]


class Tenure(NamedTuple):
    """A time in which `Picture.owners[owner]` owned a partition; `until_ms` is None while it lasts."""

    partition: str
    owner: int
    from_ms: int
    until_ms: int | None


class Gap(NamedTuple):
    """A time in which a partition had no owner."""

    partition: str
    from_ms: int
    until_ms: int


class Mark(NamedTuple):
    """A line through all panels, with its text above them."""

    at_ms: int
    text: str
    is_alarm: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn. `partitions` are the rows of the first panel, `owners` the names in its legend."""

    start_ms: int
    end_ms: int
    partitions: Sequence[str]
    owners: Sequence[str]
    tenures: Sequence[Tenure]
    lags: Sequence[tuple[int, int]]
    """Times, and how many records the group was behind."""
    rates: Mapping[int, Mapping[int, int]]
    """Records by owner and by the column of time in which they were committed."""
    column_ms: int = 1000
    gaps: Sequence[Gap] = ()
    marks: Sequence[Mark] = ()
    ownership_title: str = "Who owned each partition"
    lag_title: str = "Lag"
    rate_title: str = "Records committed"


def svg(picture: Picture) -> str:
    """Return the picture as SVG text that needs nothing from outside."""

    def at_s(moment_ms: float) -> float:
        return (moment_ms - picture.start_ms) / 1000

    height = 5 if len(picture.partitions) <= _ROWS_OF_A_PANEL else 5 * len(picture.partitions) / _ROWS_OF_A_PANEL
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(9.6, 3.4 + height), layout="constrained")
        top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=[height, 2.2, 2.2])
        _draw_ownership(top, picture, at_s)
        _draw_lag(middle, picture, at_s)
        _draw_rate(bottom, picture)
        bottom.set_xlabel("seconds")
        bottom.set_xlim(0, at_s(picture.end_ms) + 0.5)
        _mark(top, (top, middle, bottom), picture.marks, at_s)
        return _svg(figure)


def _draw_ownership(axes: Any, picture: Picture, at_s: _TO_S) -> None:
    rows = {partition: row for row, partition in enumerate(picture.partitions)}
    bars: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for tenure in picture.tenures:
        start = at_s(tenure.from_ms)
        stop = at_s(picture.end_ms if tenure.until_ms is None else tenure.until_ms)
        bars.setdefault((tenure.partition, tenure.owner), []).append((start, stop - start))
    for (partition, owner), spans in bars.items():
        axes.broken_barh(spans, (rows[partition] - 0.4, 0.8), color=_colour(owner), lw=0)
    for gap in picture.gaps:
        start, stop = at_s(gap.from_ms), at_s(gap.until_ms)
        axes.broken_barh([(start, stop - start)], (rows[gap.partition] - 0.4, 0.8), **_UNOWNED)
    axes.set_yticks(range(len(rows)), picture.partitions)
    axes.set_ylim(max(len(rows), 1) - 0.4, -0.6)
    axes.set_ylabel("partition")
    axes.set_title(picture.ownership_title, loc="left", pad=44)
    owners = sorted({tenure.owner for tenure in picture.tenures})
    handles = [Patch(color=_colour(owner), label=picture.owners[owner]) for owner in owners]
    if picture.gaps:
        handles.append(Patch(label="no owner", **_UNOWNED))
    if handles:
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(-0.01, -0.02), ncols=len(handles), frameon=False)


def _draw_lag(axes: Any, picture: Picture, at_s: _TO_S) -> None:
    times, lags = [at_s(at_ms) for at_ms, _ in picture.lags], [lag for _, lag in picture.lags]
    axes.fill_between(times, lags, color="#4c6a57", alpha=0.25, lw=0)
    axes.plot(times, lags, color="#4c6a57", lw=1.6)
    axes.set_ylim(bottom=0)
    axes.set_title(picture.lag_title, loc="left")
    axes.yaxis.set_major_formatter(_grouped)


def _draw_rate(axes: Any, picture: Picture) -> None:
    width_s = picture.column_ms / 1000
    base: dict[int, int] = {}
    for owner, counts in picture.rates.items():
        bottoms = [base.get(column, 0) for column in counts]
        middles = [(column + 0.5) * width_s for column in counts]
        axes.bar(middles, list(counts.values()), 0.9 * width_s, bottoms, color=_colour(owner))
        for column, rows in counts.items():
            base[column] = base.get(column, 0) + rows
    axes.set_title(picture.rate_title, loc="left")
    axes.yaxis.set_major_formatter(_grouped)


def _mark(top: Any, panels: Sequence[Any], marks: Sequence[Mark], at_s: _TO_S) -> None:
    """Draw a line through all panels at every mark, and write its text above the first."""
    for mark in marks:
        style = {"color": ALARM, "lw": 1.4} if mark.is_alarm else {"color": REBALANCE, "lw": 0.9, "ls": (0, (3, 2))}
        for axes in panels:
            axes.axvline(at_s(mark.at_ms), zorder=3 if mark.is_alarm else 0, **style)
    narrow = 0.14 * panels[0].get_xlim()[1]
    free_from = [float("-inf")] * 3
    for mark in sorted(marks):
        moment_s = at_s(mark.at_ms)
        # A label that would run into the one before it goes one line higher.
        level = next((each for each, free in enumerate(free_from) if moment_s >= free), len(free_from) - 1)
        free_from[level] = moment_s + narrow
        top.annotate(
            mark.text,
            (moment_s, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 4 + 12 * level),
            textcoords="offset points",
            fontsize=8.5,
            weight="bold" if mark.is_alarm else "normal",
            color=ALARM if mark.is_alarm else INK,
            annotation_clip=False,
        )


def _colour(owner: int) -> str:
    return COLOURS[min(owner, len(COLOURS) - 1)]


def _grouped(value: float, _: object) -> str:
    return f"{value:,.0f}"


_ROWS_OF_A_PANEL = 24
_UNOWNED: dict[str, Any] = {"facecolor": "#f6dedb", "edgecolor": ALARM, "hatch": "////", "lw": 0}
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
    "hatch.color": ALARM,
    "hatch.linewidth": 0.6,
}


def _svg(figure: Figure) -> str:
    output = io.StringIO()
    figure.savefig(output, format="svg", metadata={"Date": None, "Creator": "kohort"})
    text = output.getvalue()
    # Without the XML prolog, so that it can stand inside a page.
    return text[text.index("<svg") :]
