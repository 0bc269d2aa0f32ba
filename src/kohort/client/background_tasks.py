"""Set of asyncio tasks that one object has started, and ends together."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator


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
