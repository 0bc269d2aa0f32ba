"""Commits what has finished while `process` runs, so that a kill has little handled twice; and by the interval.

The law: one commit is under way at a time. The next one is made once it is answered and something has finished since,
`PAUSE_S` after it was made, or earlier where enough records have finished: at least `LEAST`, and as many as run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kohort.client.synchronization import BroadcastEvent

PAUSE_S = 0.1
LEAST = 100
"""With few handlers at once, so many records may finish before the pause is over."""
_LONGEST_PAUSE_S = 1.0
"""The longest pause after commits that failed."""


class PromptCommits:
    """The commits of one `process`. `commit` returns whether the group took what has finished until it was called."""

    def __init__(self, commit: Callable[[], Awaitable[bool]], at_once: int) -> None:
        self._commit = commit
        self._enough = max(LEAST, at_once)
        self._finished = 0
        self._changed = BroadcastEvent()
        self._task = asyncio.create_task(self._run(), name="kohort commits of finished records")

    def note(self, count: int) -> None:
        """Note that so many more records have finished, or have failed and wait, or that the interval is over."""
        before = self._finished
        self._finished += count
        if not before or before < self._enough <= self._finished:
            self._changed.notify()

    async def stop(self) -> None:
        """Commit no more."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        next_s, failures = 0.0, 0
        while True:
            while not self._finished:
                await self._changed.wait()
            while loop.time() < next_s and (failures or self._finished < self._enough):
                await self._changed.wait(next_s)
            count, self._finished = self._finished, 0
            next_s = loop.time() + PAUSE_S
            if await self._commit():
                failures = 0
            else:
                self._finished += count
                failures += 1
                next_s = loop.time() + min(_LONGEST_PAUSE_S, PAUSE_S * 2**failures)
