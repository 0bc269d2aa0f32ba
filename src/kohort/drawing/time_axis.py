"""Labels of a time axis: at most eight round times, in seconds since the beginning or in UTC."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kohort.drawing.display_text import clock, day

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_STEPS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(number * _SECOND for number in (1, 2, 5, 10, 20, 30)),
    *(number * _MINUTE for number in (1, 2, 5, 10, 20, 30)),
    *(number * _HOUR for number in (1, 2, 4, 6, 12)),
    *(number * _DAY for number in (1, 2, 7, 14, 28, 91, 365, 3650)),
)
_MOST = 7
"""Steps from the beginning to the end; a phone has room for the label of every second one."""
_IN_SECONDS_MS = 10 * _MINUTE
"""A longer time since the beginning is written as hours, minutes and seconds."""


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """The time of a drawing, in milliseconds; `is_clock`: since 1970, shown in UTC, else since any beginning."""

    from_ms: float
    until_ms: float
    is_clock: bool

    @property
    def duration_ms(self) -> float:
        """How long it is, at least a millisecond."""
        return max(self.until_ms - self.from_ms, 1)

    def share(self, at_ms: float) -> float:
        """Return where a time is between the beginning, 0, and the end, 1: times outside are moved to an end."""
        return min(max((at_ms - self.from_ms) / self.duration_ms, 0), 1)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield times with their labels."""
        most = _MOST // 2 if self.is_clock and self.duration_ms < _MOST * _SECOND else _MOST  # labels with milliseconds
        step = next((each for each in _STEPS if self.duration_ms / each <= most), self.duration_ms / most)
        begin = 0.0 if self.is_clock else self.from_ms
        place = -((begin - self.from_ms) // step)
        while begin + place * step <= self.from_ms + self.duration_ms:
            at_ms = begin + place * step
            yield at_ms, self._label(at_ms, step)
            place += 1

    def text(self, at_ms: float) -> str:
        """Return a time as it is shown of one event: "1.250 s", "1:02:03", "14:05:09"."""
        if self.is_clock:
            before = f"{day(round(at_ms))} " if self.duration_ms > _DAY else ""
            return before + clock(round(at_ms))
        since_ms = at_ms - self.from_ms
        return f"{since_ms / 1000:.3f} s" if self.duration_ms <= _IN_SECONDS_MS else _hours(since_ms)

    def _label(self, at_ms: float, step_ms: float) -> str:
        if not self.is_clock:
            since_ms = at_ms - self.from_ms
            return f"{round(since_ms / 1000, 3):g} s" if self.duration_ms <= _IN_SECONDS_MS else _hours(since_ms)
        if at_ms % _DAY == 0:
            return day(round(at_ms))
        if step_ms >= _MINUTE:
            return clock(round(at_ms)).rpartition(":")[0]
        milliseconds = f".{round(at_ms) % 1000:03}" if step_ms < _SECOND else ""
        return clock(round(at_ms)) + milliseconds


def _hours(since_ms: float) -> str:
    minutes, seconds = divmod(round(since_ms / 1000), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
