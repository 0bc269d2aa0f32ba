"""Work in steps, so that a long request never holds up the event loop: the handler of a list is a generator.

It yields how much it did since the last time, 1 for an entry of a list, and returns what a plain handler would. The
node runs a slice of it in each turn of the loop and serves others in between, so a handler that yields may find the
world changed: it decides about each entry by what there is then.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

ResultT = TypeVar("ResultT")

Steps = Generator[int, None, ResultT]
"""Work that yields its steps and returns a result."""

TURN_STEPS = 256
"""How many steps are done in one turn of the event loop at most; a step takes some ten microseconds."""

SHORT_FRAME = 4096
"""A request of so many bytes has no more entries than that, and is decoded at once."""


class Unfinished:
    """The result of work that goes on in the next turn."""


UNFINISHED = Unfinished()


def result_of(work: Steps[ResultT]) -> ResultT:
    """Do all of a short work at once."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: ResultT = done.value
            return result
