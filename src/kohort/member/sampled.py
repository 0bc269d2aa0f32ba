"""Numbers over the recent past, kept as Kafka's clients keep them: in two windows of 30 seconds.

An average, a maximum or a rate speaks of the last 30 to 60 seconds; a total of everything since the start. Times come
in as arguments. What is kept is replaced whole, never changed, so another thread may read while one records.
"""

from __future__ import annotations

from math import nan
from typing import NamedTuple

WINDOW_MS = 30_000
WINDOWS = 2


class _Window(NamedTuple):
    start_ms: int
    values: int
    total: float
    greatest: float


class Sampled:
    """One series of values. `count` and `total` are of all values ever recorded."""

    __slots__ = ("_windows", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._windows: tuple[_Window, ...] = ()

    def record(self, value: float, now_ms: int) -> None:
        """Add a value."""
        self.count += 1
        self.total += value
        last = self._windows[-1] if self._windows else None
        if last is None or now_ms - last.start_ms >= WINDOW_MS:
            self._windows = (*self._windows, _Window(now_ms, 1, value, value))[-WINDOWS:]
        else:
            grown = _Window(last.start_ms, last.values + 1, last.total + value, max(last.greatest, value))
            self._windows = (*self._windows[:-1], grown)

    def average(self, now_ms: int) -> float:
        """Return the average of the recent values, NaN where there are none."""
        recent = self._recent(now_ms)
        return sum(window.total for window in recent) / sum(window.values for window in recent) if recent else nan

    def greatest(self, now_ms: int) -> float:
        """Return the greatest of the recent values, NaN where there are none."""
        return max((window.greatest for window in self._recent(now_ms)), default=nan)

    def rate(self, now_ms: int, per_ms: int = 1000) -> float:
        """Return how many values came in `per_ms` lately.

        A window that has just begun counts as a whole one, so that the first value does not look like a burst.
        """
        recent = self._recent(now_ms)
        if not recent:
            return 0.0
        elapsed_ms = now_ms - recent[0].start_ms
        elapsed_ms += max(0, WINDOWS - 1 - elapsed_ms // WINDOW_MS) * WINDOW_MS
        return sum(window.values for window in recent) * per_ms / elapsed_ms

    def _recent(self, now_ms: int) -> tuple[_Window, ...]:
        return tuple(window for window in self._windows if now_ms - window.start_ms < WINDOWS * WINDOW_MS)
