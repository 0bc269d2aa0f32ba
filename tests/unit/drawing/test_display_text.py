"""The times under a drawing: few, round, and with their unit."""

from __future__ import annotations

import pytest

from kohort.drawing.display_text import TimeAxis

START_MS = 1_793_664_000_000
"""3 November 2026 00:00 UTC."""

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("duration_ms", "labels"),
    [
        (0, ["0 s", "0.001 s"]),
        (40, ["0 s", "0.01 s", "0.02 s", "0.03 s", "0.04 s"]),
        (9_000, ["0 s", "2 s", "4 s", "6 s", "8 s"]),
        (65_000, ["0 s", "10 s", "20 s", "30 s", "40 s", "50 s", "60 s"]),
        (3_600_000, ["0:00:00", "0:10:00", "0:20:00", "0:30:00", "0:40:00", "0:50:00", "1:00:00"]),
    ],
)
def test_times_since_the_beginning(duration_ms: int, labels: list[str]) -> None:
    axis = TimeAxis(700, 700 + duration_ms, is_clock=False)
    assert [text for _, text in axis.ticks()] == labels


@pytest.mark.parametrize(
    ("from_ms", "duration_ms", "labels"),
    [
        (START_MS + 1_500, 400, ["00:00:01.600", "00:00:01.800"]),
        (START_MS + 1_500, 6_000, ["00:00:02", "00:00:04", "00:00:06"]),
        (START_MS - 600_000, 3_600_000, ["23:50", "3 Nov", "00:10", "00:20", "00:30", "00:40", "00:50"]),
        (START_MS - DAY_MS // 2, 2 * DAY_MS, ["12:00", "3 Nov", "12:00", "4 Nov", "12:00"]),
        (START_MS, 40 * DAY_MS, ["5 Nov", "12 Nov", "19 Nov", "26 Nov", "3 Dec", "10 Dec"]),
    ],
)
def test_times_of_the_clock_in_utc(from_ms: int, duration_ms: int, labels: list[str]) -> None:
    axis = TimeAxis(from_ms, from_ms + duration_ms, is_clock=True)
    assert [text for _, text in axis.ticks()] == labels


@pytest.mark.parametrize("power", range(14))
@pytest.mark.parametrize("is_clock", [False, True])
def test_there_are_few_times_and_all_of_them_lie_on_the_axis(power: int, is_clock: bool) -> None:
    axis = TimeAxis(START_MS + 123, START_MS + 123 + 7 * 10**power, is_clock=is_clock)
    shares = [axis.share(at_ms) for at_ms, _ in axis.ticks()]
    assert len(shares) <= 8
    assert shares == sorted(set(shares))


def test_the_time_of_an_event_is_exact() -> None:
    assert TimeAxis(1000, 5000, is_clock=False).text(2250) == "1.250 s"
    assert TimeAxis(0, 10**7, is_clock=False).text(3_723_000) == "1:02:03"
    assert TimeAxis(START_MS, START_MS + 1000, is_clock=True).text(START_MS + 61_000) == "00:01:01"
    assert TimeAxis(START_MS, START_MS + 3 * DAY_MS, is_clock=True).text(START_MS + 61_000) == "3 Nov 00:01:01"
