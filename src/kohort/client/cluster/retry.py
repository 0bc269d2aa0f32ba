"""Retry policy of the client: which errors are retried, how long between attempts, and when the last error is raised.

An attempt that raises a `KafkaError` with a retriable code is made again after a wait that doubles, with jitter, until
the deadline; then the last error is raised. All times are milliseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from kohort.client.errors import ClientStopped
from kohort.model.errors import ErrorCode, KafkaError
from kohort.net.tls import TlsFailed

T = TypeVar("T")


@dataclass(eq=False)
class Waits:
    """Waits that double from `initial_ms` to `limit_ms`, each spread by ±20 % with the `random` handed in."""

    random: Callable[[], float]
    initial_ms: int = 100
    limit_ms: int = 1000
    _failures: int = 0

    def next_s(self) -> float:
        """Return the next wait in seconds."""
        wait_ms = min(self.limit_ms, self.initial_ms << min(self._failures, 16))
        self._failures += 1
        return wait_ms * (0.8 + 0.4 * self.random()) / 1000

    def reset(self) -> None:
        """Begin again with the shortest wait."""
        self._failures = 0


def is_worth_a_retry(error: KafkaError) -> bool:
    """Return whether the same request may succeed later; a broker that is down may come back."""
    if isinstance(error, TlsFailed | ClientStopped):
        return False
    return error.code.is_retriable or error.code is ErrorCode.BROKER_NOT_AVAILABLE


async def retry(attempt: Callable[[], Awaitable[T]], *, waits: Waits, timeout_ms: int) -> T:
    """Await `attempt()` until it returns. Raises its last `KafkaError` when that is final or time is up."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    while True:
        try:
            return await attempt()
        except KafkaError as error:
            wait_s = waits.next_s()
            if not is_worth_a_retry(error) or loop.time() + wait_s >= deadline:
                raise
        await asyncio.sleep(wait_s)


def remaining_ms(deadline_s: float) -> int:
    """Return the milliseconds until a deadline of the running loop's clock, at least 1."""
    return max(1, int((deadline_s - asyncio.get_running_loop().time()) * 1000))
