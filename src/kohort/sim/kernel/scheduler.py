"""Virtual time: a heap of scheduled actions, in microseconds since the world began.

The law: an action runs at its time or never, two of the same time in the order in which they were scheduled, and time
passes only between actions. So a run is a function of what was scheduled, and an hour costs what happens in it.

A coroutine (`run`) is continued from such actions, without an event loop, a task or a switch: each await names what to
begin, and continues with its outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from heapq import heapify, heappop, heappush
from types import coroutine
from typing import Any, TypeVar

Action = Callable[..., object]

_GARBAGE = 1_000
"""How many cancelled entries may lie in the heap before it is swept, where they are most of it."""


class Due(list[Any]):
    """A scheduled action: `[when_us, number, action, arguments]`, which a heap can compare."""

    __slots__ = ("_scheduler",)

    def __init__(self, scheduler: Scheduler, when_us: int, number: int, action: Action, arguments: tuple[Any, ...]):
        super().__init__((when_us, number, action, arguments))
        self._scheduler = scheduler

    @property
    def when_us(self) -> int:
        """When it happens."""
        return self[0]  # type: ignore[no-any-return]

    @property
    def is_pending(self) -> bool:
        """Whether it has neither happened nor been cancelled."""
        return self[2] is not None

    def cancel(self) -> None:
        """Have it not happen; no harm if it already has."""
        if self[2] is not None:
            self[2], self[3] = None, ()
            self._scheduler._cancelled()


class Scheduler:
    """The time of one world."""

    def __init__(self) -> None:
        self.now_us = 0
        self.events = 0
        """How many actions have run."""
        self._heap: list[Due] = []
        self._number = 0
        self._garbage = 0

    def at(self, when_us: int, action: Action, *arguments: Any) -> Due:
        """Run `action(*arguments)` at a time; at once, but after what is due already, where that has passed."""
        number = self._number = self._number + 1
        due = Due(self, when_us if when_us > self.now_us else self.now_us, number, action, arguments)
        heappush(self._heap, due)
        return due

    def after(self, delay_us: int, action: Action, *arguments: Any) -> Due:
        """Run `action(*arguments)` so much later."""
        return self.at(self.now_us + delay_us, action, *arguments)

    def next_us(self) -> int | None:
        """Return when the next action is due, or None."""
        heap = self._heap
        while heap and heap[0][2] is None:
            heappop(heap)
            self._garbage -= 1
        return heap[0][0] if heap else None

    def step(self) -> bool:
        """Run the next action; return False where there is none."""
        heap = self._heap
        while heap:
            when_us, _, action, arguments = due = heappop(heap)
            if action is None:
                self._garbage -= 1
                continue
            due[2], due[3] = None, ()
            self.now_us = when_us
            self.events += 1
            action(*arguments)
            return True
        return False

    def run_until(self, when_us: int) -> None:
        """Run everything that is due up to a time, and let that time come."""
        while (next_us := self.next_us()) is not None and next_us <= when_us:
            self.step()
        self.now_us = max(self.now_us, when_us)

    def _cancelled(self) -> None:
        self._garbage += 1
        if self._garbage > _GARBAGE and self._garbage * 2 > len(self._heap):
            self._heap = [due for due in self._heap if due[2] is not None]
            heapify(self._heap)
            self._garbage = 0


T = TypeVar("T")
Resume = Callable[..., None]
"""Continues a coroutine: its arguments are what the await returns, as a tuple. To be called once."""
Begin = Callable[[Resume], object]


@coroutine
def outcome_of(begin: Begin) -> Generator[Begin, tuple[Any, ...], tuple[Any, ...]]:
    """Call `begin` with a function, and wait until that is called; return the arguments of its call."""
    return (yield begin)


def run(work: Coroutine[Any, Any, T], done: Callable[[T], object]) -> None:
    """Run a coroutine that awaits nothing but `outcome_of`; call `done` with its result, perhaps at once."""

    def proceed(outcome: tuple[Any, ...] | None) -> None:
        try:
            begin = work.send(outcome)
        except StopIteration as end:
            done(end.value)
        else:
            begin(lambda *outcome: proceed(outcome))

    proceed(None)
