"""Waiting for what another process will show sooner or later."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T], expected: T, timeout_s: float = 10) -> None:
    """Look again and again until what is seen is what is expected."""
    deadline = time.monotonic() + timeout_s
    while (seen := look()) != expected:
        assert time.monotonic() < deadline, f"after {timeout_s} s still {seen!r}, not {expected!r}"
        time.sleep(0.05)
