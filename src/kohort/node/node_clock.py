"""The time of one node, which its runtime sets; the node itself reads no clock."""

from __future__ import annotations

from collections.abc import Callable


class NodeClock:
    """Milliseconds since the epoch, which never go back.

    `elapsed_us` counts microseconds, for measuring what a computation takes; without it nothing is measured.
    """

    __slots__ = ("elapsed_us", "now_ms")

    def __init__(self, now_ms: int, elapsed_us: Callable[[], int] | None = None) -> None:
        self.now_ms = now_ms
        self.elapsed_us = elapsed_us

    def advance(self, now_ms: int) -> None:
        """Set the time, unless it is earlier than the time already set."""
        if now_ms > self.now_ms:
            self.now_ms = now_ms
