"""A clock that a test moves by hand: what `net.server.Clock` is for a running broker."""

from __future__ import annotations


class ManualClock:
    """Time in milliseconds since the epoch that passes only when `advance` is called."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Return the time."""
        return self._now_ms

    def advance(self, by_ms: int) -> int:
        """Let time pass and return the new time. Raises ValueError for a step back."""
        if by_ms < 0:
            raise ValueError(f"time does not go back: {by_ms} ms")
        self._now_ms += by_ms
        return self._now_ms
