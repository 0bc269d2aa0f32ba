"""Wakes everybody who waits for something to change; each looks for itself whether it is what they wait for."""

from __future__ import annotations

import asyncio


class Pulse:
    """An event that is over as soon as it happened."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def beat(self) -> None:
        """Wake all who wait now."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, until_s: float | None = None) -> None:
        """Wait for the next beat, at most until a time of the running loop's clock."""
        event = self._event
        try:
            async with asyncio.timeout_at(until_s):
                await event.wait()
        except TimeoutError:
            pass
