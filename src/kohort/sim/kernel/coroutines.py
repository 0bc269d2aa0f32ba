"""Coroutines in virtual time without an event loop: each await names what to begin, and continues with its outcome.

They run inside the events of the world's scheduler, with no task and no switch, in the order of what they wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

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
