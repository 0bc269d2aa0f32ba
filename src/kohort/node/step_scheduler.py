"""Work in steps, so that a long request never blocks the event loop.

The handler of a list is a generator: it yields how much it did since the last time, 1 for an entry of a list, and
returns what a plain handler would. The scheduler runs a slice of it in each turn of the loop and other requests in
between. A handler that yields may therefore find other state afterwards: it decides each entry by the state of that
moment.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, TypeVar

log = logging.getLogger("kohort.node")

ResultT = TypeVar("ResultT")

Steps = Generator[int, None, ResultT]
"""Work that yields its steps and returns a result."""

TURN_STEPS = 256
"""Maximum number of steps in one turn of the event loop; a step takes some ten microseconds."""

TURN_US = 5_000
"""How long one turn may last where time is measured: with names of 32 KiB a step takes some ten milliseconds."""

SHORT_FRAME = 4096
"""A request of at most so many bytes has no more entries than that, and is decoded at once."""


class Unfinished:
    """The result of work that continues in a later turn."""


UNFINISHED = Unfinished()


class StepScheduler:
    """Shares the turns of the event loop among all work of one node that takes more than one turn.

    `elapsed_us` is a clock of microseconds; without one a turn ends after `TURN_STEPS` only.
    """

    __slots__ = ("_ends_us", "elapsed_us", "left", "waiting")

    def __init__(self, elapsed_us: Callable[[], int] | None = None) -> None:
        self.elapsed_us = elapsed_us
        self._ends_us: int | None = None
        """When this turn is over; None before it has looked at the clock."""
        self.left = TURN_STEPS
        """Steps that may still be done in this turn."""
        self.waiting: deque[Callable[[], None]] = deque()
        """Continuations of unfinished work, each run once in a later turn."""

    def begin_turn(self) -> None:
        """A turn of the event loop begins."""
        self.left = TURN_STEPS
        self._ends_us = None

    def look_at_clock(self) -> None:
        """End the turn if it lasts too long."""
        if self.elapsed_us is not None:
            now_us = self.elapsed_us()
            if self._ends_us is None:
                self._ends_us = now_us + TURN_US
            elif now_us >= self._ends_us:
                self.left = 0

    def do(self, work: Steps[Any]) -> Any:
        """Run `work` until the turn's steps are used up; return its result, or UNFINISHED."""
        try:
            while self.left > 0:
                self.left -= next(work)
                self.look_at_clock()
        except StopIteration as done:
            return done.value
        return UNFINISHED

    def in_slices(self, work: Steps[None]) -> None:
        """Run background work, a slice in each turn of the event loop. An exception ends it and is logged."""
        self.waiting.append(partial(self._continue, work))

    def run_slice(self) -> None:
        """Spend one turn's steps on the work that waits."""
        self.begin_turn()
        for _ in range(len(self.waiting)):
            if self.left <= 0:
                break
            self.waiting.popleft()()

    def _continue(self, work: Steps[None]) -> None:
        try:
            if self.do(work) is UNFINISHED:
                self.in_slices(work)
        except Exception:
            log.exception("%s failed", getattr(work, "__qualname__", work))


WAIT_STEPS = 8
"""What a work counts in each turn in which it waits at a gate."""


class Gate:
    """Lets `most` works run at a time, because each needs much memory until it ends."""

    __slots__ = ("_free",)

    def __init__(self, most: int) -> None:
        self._free = most

    def run(self, work: Steps[ResultT]) -> Steps[ResultT]:
        """Do `work` once there is room for it."""
        while self._free <= 0:
            yield WAIT_STEPS
        self._free -= 1
        try:
            return (yield from work)
        finally:  # also when its client is gone, so that it is never ended
            self._free += 1


def result_of(work: Steps[ResultT]) -> ResultT:
    """Run a short work to its end at once."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: ResultT = done.value
            return result
