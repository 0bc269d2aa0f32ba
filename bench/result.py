"""What a measurement yields: ours, the peer's, the ratio, and whether the aim is met."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Aim:
    """What a figure should be: at most or at least `limit`, of our figure itself or of its ratio to the peer's."""

    limit: float
    of_ratio: bool
    at_most: bool = False

    def is_met(self, ours: float, ratio: float | None) -> bool | None:
        """Whether it is met; None when there is no peer to compare with."""
        value = ratio if self.of_ratio else ours
        if value is None:
            return None
        return value <= self.limit if self.at_most else value >= self.limit

    def text(self, unit: str) -> str:
        """Return it for a table."""
        sign = "≤" if self.at_most else "≥"
        return f"{sign} {self.limit:g}{'×' if self.of_ratio else f' {unit}'}"


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table. `ours` and `theirs` are the medians of the interleaved samples."""

    name: str
    unit: str
    our_samples: Sequence[float]
    their_samples: Sequence[float]
    peer: str
    aim: Aim | None = None
    note: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def ours(self) -> float:
        """The median of our samples."""
        return statistics.median(self.our_samples)

    @property
    def theirs(self) -> float | None:
        """The median of the peer's samples."""
        return statistics.median(self.their_samples) if self.their_samples else None

    @property
    def ratio(self) -> float | None:
        """Ours divided by theirs."""
        return self.ours / self.theirs if self.theirs else None

    @property
    def is_met(self) -> bool | None:
        """Whether the aim is met; None where there is none."""
        return self.aim.is_met(self.ours, self.ratio) if self.aim else None

    def as_json(self) -> dict[str, Any]:
        """Return everything, for the results file."""
        derived = {"ours": self.ours, "theirs": self.theirs, "ratio": self.ratio, "is_met": self.is_met}
        return {**asdict(self), **derived}


@dataclass(frozen=True, slots=True)
class Skipped:
    """A row that could not be measured, and why."""

    name: str
    reason: str


Outcome = Result | Skipped


def interleave(ours: Callable[[], float], theirs: Callable[[], float], rounds: int) -> tuple[list[float], list[float]]:
    """Measure A B A B …, so that what else the machine does falls on both alike."""
    our_samples, their_samples = [], []
    for _ in range(rounds):
        our_samples.append(ours())
        their_samples.append(theirs())
    return our_samples, their_samples


class Load:
    """How busy the machine is, all processes together."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.busy = self._busy_s()

    @staticmethod
    def _busy_s() -> float:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        used = [float(ticks) for position, ticks in enumerate(fields[:8]) if position not in (3, 4)]
        return sum(used) / os.sysconf("SC_CLK_TCK")

    def cores(self) -> float:
        """Return how many cores were in use, on average, since this was made."""
        return (self._busy_s() - self.busy) / max(time.monotonic() - self.started, 1e-9)


def number(value: float | None) -> str:
    """Return a figure with three significant digits."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def line(outcome: Outcome) -> str:
    """Return one line of the table."""
    if isinstance(outcome, Skipped):
        return f"{outcome.name:34} skipped: {outcome.reason}"
    met = {True: "yes", False: "NO", None: ""}[outcome.is_met]
    ratio = f"{outcome.ratio:.2f}×" if outcome.ratio is not None else "–"
    aim = outcome.aim.text(outcome.unit) if outcome.aim else ""
    ours, theirs = f"{number(outcome.ours)} {outcome.unit}", f"{number(outcome.theirs)} {outcome.unit}"
    text = f"{outcome.name:34} {ours:>16} {theirs:>16} {ratio:>8} {aim:>10} {met:>4}  {outcome.peer}"
    return f"{text}\n{'':34} {outcome.note}" if outcome.note else text
