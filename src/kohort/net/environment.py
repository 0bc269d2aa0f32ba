"""What a program gets from around it beside time that passes: luck, wall time, threads.

The system gives all three. A loop may bring `surroundings` of its own: a simulated one does, so that one seed is one
run and nothing real gets in. Whoever asks is the client; it asks anew each time, since a program may have many loops.
"""

from __future__ import annotations

import asyncio
import os
import random as system_random
import time
from collections.abc import Callable
from typing import Protocol


class Surroundings(Protocol):
    """What a loop brings along."""

    def random(self) -> float:
        """Return a number of [0, 1)."""
        ...

    def randbytes(self, count: int, /) -> bytes:
        """Return so many random bytes."""
        ...

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""
        ...

    @property
    def observer(self) -> object:
        """The observer of clients (`client.observer`), or None."""
        ...

    def refuse(self, what: str) -> None:
        """Raise where the loop's world has no such thing (`threads`)."""
        ...


def _own() -> Surroundings | None:
    return getattr(asyncio._get_running_loop(), "surroundings", None)


def random() -> float:
    """Return a number of [0, 1)."""
    own = _own()
    return system_random.random() if own is None else own.random()


def randbytes(count: int) -> bytes:
    """Return so many random bytes."""
    own = _own()
    return os.urandom(count) if own is None else own.randbytes(count)


def wall_clock() -> Callable[[], int]:
    """Return the function that tells milliseconds since the epoch, for as long as this loop runs."""
    own = _own()
    return _wall_ms if own is None else own.wall_ms


def observer() -> object:
    """Return the observer of clients on the running loop, or None."""
    own = _own()
    return None if own is None else own.observer


def need(what: str) -> None:
    """Say that something real is about to be used. Raises where the running loop's world has no such thing."""
    own = _own()
    if own is not None:
        own.refuse(what)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
