"""The picture of `kohort what-if --plot`: how many partitions nobody reads, over the time of the change."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kohort.cli.terminal.failure import FAILED, CommandFailed
from kohort.extras import install_command
from kohort.what_if.forecast import Forecast

COLOURS = ("#c0392b", "#d98324", "#7a5ea8", "#2f6db3", "#4c6a57")
_HEIGHT, _WIDTH = 1.5, 9.6


def steps_of(forecast: Forecast) -> tuple[list[float], list[int]]:
    """Return the moments, in seconds from the beginning, at which the number of unread partitions changes, and it."""
    changes: dict[int, int] = {}
    for each in forecast.unread:
        changes[each.from_us] = changes.get(each.from_us, 0) + 1
        changes[each.until_us] = changes.get(each.until_us, 0) - 1
    moments, counts, count = [0.0], [0], 0
    for at_us in sorted(changes):
        count += changes[at_us]
        moments.append((at_us - forecast.began_us) / 1_000_000)
        counts.append(count)
    moments.append(max(forecast.duration_ms / 1000, moments[-1]))
    counts.append(counts[-1])
    return moments, counts


def write_plot(path: Path, forecasts: Sequence[Forecast], title: str) -> None:
    """Write the picture, a panel for each forecast over one time axis. Raises CommandFailed."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise CommandFailed(f"--plot needs matplotlib: {install_command('plots')}", FAILED) from None
    with mpl.rc_context({"svg.hashsalt": "kohort", "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(_WIDTH, 1.0 + _HEIGHT * len(forecasts)), layout="constrained")
        grid: Any = figure.subplots(len(forecasts), 1, sharex=True, sharey=True, squeeze=False)
        panels: list[Any] = list(grid[:, 0])
        for panel, forecast, colour in zip(panels, forecasts, COLOURS * len(forecasts), strict=False):
            moments, counts = steps_of(forecast)
            panel.fill_between(moments, counts, step="post", color=colour, alpha=0.8, lw=0)
            cost = f"{forecast.unread_partition_s:.1f} partition-s in {forecast.duration_ms / 1000:.1f} s"
            panel.set_title(": ".join(filter(None, (forecast.label, cost))), loc="left", fontsize=10)
            panel.set_ylim(bottom=0)
            panel.set_xlim(left=0)
            panel.yaxis.get_major_locator().set_params(integer=True)
        figure.supylabel("partitions that nobody reads", fontsize=10)
        panels[-1].set_xlabel("seconds")
        figure.suptitle(title, fontsize=11, x=0.01, ha="left")
        try:
            figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
        except OSError as error:
            raise CommandFailed(f"{path} cannot be written: {error.strerror or error}", FAILED) from None
