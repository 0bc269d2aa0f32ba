"""What asyncio lacks for clients: an event that wakes all who wait, and a set of tasks that end together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
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


class BackgroundTasks:
    """Tasks in the order of their start; each is dropped when it is done. `name` is what debuggers show."""

    __slots__ = ("_name", "_tasks")

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: dict[asyncio.Task[None], None] = {}

    def __iter__(self) -> Iterator[asyncio.Task[None]]:
        return iter(tuple(self._tasks))

    def spawn(self, work: Coroutine[object, object, None], name: str = "") -> asyncio.Task[None]:
        """Start a coroutine as a task."""
        task = asyncio.create_task(work, name=f"{self._name} {name}".rstrip())
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def cancel(self) -> None:
        """Cancel every task."""
        for task in self._tasks:
            task.cancel()

    async def wait(self) -> None:
        """Wait until every task has ended, however it does."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def stop(self) -> None:
        """Cancel every task and wait until it has ended."""
        self.cancel()
        await self.wait()
