"""The one clock of a process: wall time that never goes back."""

from __future__ import annotations

import time


class Clock:
    """Wall time when the clock was made, plus what the monotonic clock has counted since."""

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return (self._offset_ns + time.monotonic_ns()) // 1_000_000
