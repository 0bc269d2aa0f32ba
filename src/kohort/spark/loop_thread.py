"""An event loop in a thread of its own, for asyncio code under a blocking interface.

`call` waits for a coroutine; `wake` may be used by signal handlers, because it takes no lock.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class LoopThread:
    """A daemon thread that runs an event loop from construction until `close`."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run a coroutine in the loop and return its result, or raise what it raised.

        When the waiting thread is interrupted, the coroutine is cancelled.
        """
        pending = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return pending.result()
        except BaseException:
            pending.cancel()
            raise

    def wake(self, action: Callable[[], None]) -> None:
        """Run `action` in the loop soon; returns at once, and does nothing after `close`."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action)

    def close(self) -> None:
        """Cancel the tasks of the loop, and end the thread."""
        if self._loop.is_closed():
            return
        self.call(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
