"""What every checker is: an observer that stops the world at the first thing that must not be.

The law: a checker looks at what changed and changes nothing. It counts how often it really compared something, because
a run that never came near an invariant proves nothing about it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, NoReturn

from kohort.sim.checks.invariants import Invariant
from kohort.sim.kernel.world_observer import TimedObserver

NO_DEFECT = "NoDefect"
"""The invariant that production code raises and logs no error of its own."""


class InvariantBroken(AssertionError):
    """Stops a run: an invariant is broken; the sentence has the culprit and the expectation."""

    def __init__(self, invariant: Invariant, sentence: str, at_us: int) -> None:
        super().__init__(f"{invariant.name} at {at_us / 1_000_000:.6f} s: {sentence}")
        self.invariant = invariant
        self.sentence = sentence


class Checker(TimedObserver):
    """Compares a world with some invariants. `checked` counts the comparisons made, by name."""

    invariants: ClassVar[tuple[Invariant, ...]] = ()

    def __init__(self) -> None:
        self.checked: dict[str, int] = {invariant.name: 0 for invariant in self.invariants}

    def count(self, invariant: Invariant, times: int = 1) -> None:
        """Note that something was compared."""
        self.checked[invariant.name] += times

    def broken(self, invariant: Invariant, sentence: str) -> NoReturn:
        """Stop the world."""
        raise InvariantBroken(invariant, sentence, self.now_us)

    def require(self, is_met: bool, invariant: Invariant, sentence: str) -> None:
        """Stop the world if an invariant is not met. For sentences that cost little to build."""
        if not is_met:
            self.broken(invariant, sentence)

    def compare(self, is_met: bool, invariant: Invariant, sentence: str) -> None:
        """Count one comparison, and stop the world if the invariant is not met."""
        self.count(invariant)
        self.require(is_met, invariant, sentence)


@contextmanager
def logs_to(handler: logging.Handler, level: int) -> Iterator[None]:
    """Have what production code logs go to one handler, and nowhere else: its own defects break a world."""
    logger = logging.getLogger("kohort")
    before = logger.level, logger.propagate, logger.handlers
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(level)
    try:
        yield
    finally:
        level, logger.propagate, logger.handlers = before
        logger.setLevel(level)
