"""What a program gets from its environment beside time that passes: random numbers, wall-clock time, threads.

The operating system gives all three. A loop may have an `environment` of its own: a simulated one does, so that one
seed is one run and nothing real gets in. Clients ask for it anew each time, since a program may have many loops.
"""

from __future__ import annotations

import asyncio
import os
import random as system_random
import time
from collections.abc import Callable
from typing import Protocol


class Environment(Protocol):
    """The environment of one loop. `observer` is the observer of its clients (`client.observer`), or None."""

    @property
    def observer(self) -> object: ...

    def random(self) -> float:
        """Return a number of [0, 1)."""

    def randbytes(self, count: int, /) -> bytes:
        """Return so many random bytes."""

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""

    def refuse(self, what: str) -> None:
        """Raise where this environment has no such thing (`threads`)."""


def _of_loop() -> Environment | None:
    return getattr(asyncio._get_running_loop(), "environment", None)


def random() -> float:
    """Return a number of [0, 1)."""
    environment = _of_loop()
    return system_random.random() if environment is None else environment.random()


def randbytes(count: int) -> bytes:
    """Return so many random bytes."""
    environment = _of_loop()
    return os.urandom(count) if environment is None else environment.randbytes(count)


def wall_clock() -> Callable[[], int]:
    """Return the function that returns milliseconds since the epoch, for as long as this loop runs."""
    environment = _of_loop()
    return _wall_ms if environment is None else environment.wall_ms


def observer() -> object:
    """Return the observer of clients on the running loop, or None."""
    environment = _of_loop()
    return None if environment is None else environment.observer


def require(what: str) -> None:
    """Announce the use of something real. Raises where the running loop's environment has no such thing."""
    environment = _of_loop()
    if environment is not None:
        environment.refuse(what)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
