from __future__ import annotations

import time

import pytest

from kohort.net.server import Clock
from kohort.testing.clock import ManualClock


def test_the_clock_is_wall_time_that_does_not_follow_a_step_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    before_ms = clock.now_ms()
    assert abs(before_ms - time.time() * 1000) < 5_000
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert clock.now_ms() >= before_ms


def test_a_manual_clock_moves_only_forward_and_only_by_advance() -> None:
    clock = ManualClock(5)
    assert clock.now_ms() == clock.now_ms() == 5
    assert clock.advance(10) == 15
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)
