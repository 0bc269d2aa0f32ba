"""Metrics of clients: series of values over time, and tables that name what is read of them."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from math import nan
from typing import Generic, NamedTuple, TypeVar

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

    def rate(self, now_ms: int, per_ms: int = 1000, *, of_sum: bool = False) -> float:
        """Return how many values came in `per_ms` lately, or with `of_sum` how much they add up to.

        A window that has just begun counts as a whole one, so that the first value does not look like a burst.
        """
        recent = self._recent(now_ms)
        if not recent:
            return 0.0
        elapsed_ms = now_ms - recent[0].start_ms
        elapsed_ms += max(0, WINDOWS - 1 - elapsed_ms // WINDOW_MS) * WINDOW_MS
        return sum(window.total if of_sum else window.values for window in recent) * per_ms / elapsed_ms

    def _recent(self, now_ms: int) -> tuple[_Window, ...]:
        return tuple(window for window in self._windows if now_ms - window.start_ms < WINDOWS * WINDOW_MS)


class MetricKind(StrEnum):
    """How a metric comes from what was recorded."""

    AVERAGE = "average"
    MAXIMUM = "maximum"
    RATE = "rate"
    TOTAL = "total"
    GAUGE = "gauge"


class Metric(NamedTuple):
    """One metric. `origin` is who named it: KIP-429, Kafka (the name that ships), or kohort."""

    name: str
    kind: MetricKind
    unit: str
    origin: str
    text: str


MeasuringT = TypeVar("MeasuringT")
Read = Callable[[MeasuringT, int], float]
Series = Callable[[MeasuringT], Sampled]


class MetricTable(Generic[MeasuringT]):
    """Metrics in an order, and how each is read from an object that measures."""

    def __init__(self) -> None:
        self._rows: list[tuple[Metric, Read[MeasuringT]]] = []

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All metrics."""
        return tuple(metric for metric, _ in self._rows)

    def values(self, measuring: MeasuringT, now_ms: int) -> dict[str, float]:
        """Return every metric by its name, as it is now."""
        return {metric.name: read(measuring, now_ms) for metric, read in self._rows}

    def add(self, metric: Metric, read: Read[MeasuringT]) -> None:
        """Add a metric."""
        self._rows.append((metric, read))

    def averages(
        self, name: str, of: Series[MeasuringT], text: str, origin: str = "Kafka", *, unit: str = "ms", all_of: str = ""
    ) -> None:
        """Add average and maximum of a series, and, with `all_of`, how long all of these took together."""
        average = Metric(f"{name}-avg", MetricKind.AVERAGE, unit, origin, f"{text} on average.")
        self.add(average, lambda m, now_ms: of(m).average(now_ms))
        greatest = Metric(f"{name}-max", MetricKind.MAXIMUM, unit, origin, f"{text} at most.")
        self.add(greatest, lambda m, now_ms: of(m).greatest(now_ms))
        if all_of:
            text = f"How long all {all_of} together took."
            self.add(Metric(f"{name}-total", MetricKind.TOTAL, unit, origin, text), lambda m, _: of(m).total)

    def frequency(
        self,
        name: str,
        of: Series[MeasuringT],
        what: str,
        *,
        is_hourly: bool = False,
        of_sum: bool = False,
        unit: str = "",
    ) -> None:
        """Add how often something happens: KIP-429 counts by the hour, Kafka by the second.

        With `of_sum` each value of the series is how many things happened.
        """
        per, per_ms, origin = ("hour", 3_600_000, "KIP-429") if is_hourly else ("second", 1000, "Kafka")
        suffix = "-rate-per-hour" if is_hourly else "-rate"
        rate = Metric(name + suffix, MetricKind.RATE, f"per {per}", origin, f"{what}, per {per}.")
        self.add(rate, lambda m, now_ms: of(m).rate(now_ms, per_ms, of_sum=of_sum))
        total = Metric(f"{name}-total", MetricKind.TOTAL, unit or "count", origin, f"{what}.")
        self.add(total, lambda m, _: of(m).total if of_sum else of(m).count)

    def gauge(self, name: str, read: Read[MeasuringT], text: str, unit: str = "count", origin: str = "Kafka") -> None:
        """Add a value that is read as it is now."""
        self.add(Metric(name, MetricKind.GAUGE, unit, origin, text), read)


def seconds_since(moment_ms: int | None, now_ms: int) -> float:
    """Return whole seconds since a moment, −1 where there was none."""
    return -1 if moment_ms is None else (now_ms - moment_ms) // 1000
