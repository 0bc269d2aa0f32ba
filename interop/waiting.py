"""Waiting for what another process will show sooner or later."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T], expected: T, timeout_s: float = 10, *, every_s: float = 0.05) -> None:
    """Look again and again until what is seen is what is expected."""
    deadline = time.monotonic() + timeout_s
    while (seen := look()) != expected:
        assert time.monotonic() < deadline, f"after {timeout_s} s still {seen!r}, not {expected!r}"
        time.sleep(every_s)


async def eventually_async(look: Callable[[], Awaitable[T]], expected: T, timeout_s: float = 10) -> None:
    """Do as `eventually`, with a look that is awaited."""
    deadline = time.monotonic() + timeout_s
    while (seen := await look()) != expected:
        assert time.monotonic() < deadline, f"after {timeout_s} s still {seen!r}, not {expected!r}"
        await asyncio.sleep(0.05)
