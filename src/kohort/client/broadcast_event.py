"""Event that wakes everything that waits for a change; each waiter then checks its own condition."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class BroadcastEvent:
    """A notification wakes those that wait now, and is not remembered."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Wake all waiters."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, until_s: float | None = None) -> None:
        """Wait for the next notification, at most until a time of the running loop's clock."""
        await wait_until(self._event, until_s)


async def wait_until(event: asyncio.Event, until_s: float | None) -> None:
    """Wait for an event, at most until a time of the running loop's clock."""
    with suppress(TimeoutError):
        async with asyncio.timeout_at(until_s):
            await event.wait()
