"""Looks for the bugs of the museum with the simulator: seed after seed, until a world breaks or the budget is spent."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import NamedTuple

from tests.quality.exhibits import EXHIBITS, Exhibit
from tests.sim.rolling_restarts import draw_restarts, like_kafka

from kohort.sim.checks.checker import NO_DEFECT
from kohort.sim.checks.invariants import STANDSTILL_BOUNDED
from kohort.sim.swarm.seed_plan import draw_plan
from kohort.sim.swarm.world_run import run
from kohort.sim.users.seed_runs import run_plan
from kohort.sim.users.world_options import draw_world

STARTS = (1, 100_001, 200_001, 300_001, 400_001)
"""From which seeds a bug is looked for: what one finds by chance, another must find too."""

LEAST = 5
"""How many restarts a sum must be of: one alone may go either way."""

PATIENCE_S = 5
"""A world that takes so much of a processor has come to stand still; the longest takes less than one."""


class Hunt(NamedTuple):
    """How one search went: after how many seeds a world broke, and which invariant reported it; 0 where none did."""

    name: str
    start: int
    seeds: int
    invariant: str = ""
    sentence: str = ""

    @property
    def is_found(self) -> bool:
        """Whether the bug was found within its budget."""
        return self.seeds > 0


class Score(NamedTuple):
    """What all hunts for one exhibit came to."""

    exhibit: Exhibit
    hunts: tuple[Hunt, ...]

    @property
    def found(self) -> int:
        """How many found it."""
        return sum(hunt.is_found for hunt in self.hunts)

    @property
    def median(self) -> float:
        """How many seeds were needed; a hunt that found nothing counts as one more than the budget."""
        return median(hunt.seeds or self.exhibit.budget + 1 for hunt in self.hunts)

    @property
    def invariants(self) -> tuple[str, ...]:
        """Which invariants caught it, the most frequent first."""
        names = [hunt.invariant for hunt in self.hunts if hunt.is_found]
        return tuple(sorted(set(names), key=lambda name: (-names.count(name), name)))


class StandsStill(BaseException):
    """A world does not go on: some code in it never comes back."""


def exhibit(name: str) -> Exhibit:
    """Return the exhibit of a name."""
    return next(each for each in EXHIBITS if each.name == name)


def hunt(name: str, start: int) -> Hunt:
    """Look for one bug from a seed on. A world that breaks without it, too, has found something else."""
    wanted = exhibit(name)
    if wanted.is_compared:
        return _hunt_sum(wanted, start)
    count = 0
    while (found := _next_broken(wanted, start, count)) is not None:
        count, invariant, sentence = found
        if _broken(start + count - 1, wanted) is None:
            return Hunt(name, start, count, invariant, sentence)
    return Hunt(name, start, 0)


def _hunt_sum(wanted: Exhibit, start: int) -> Hunt:
    """Restart groups from a seed on, until they have stood still longer with the bug than with no improvement."""
    wrong_us = right_us = plain_us = 0
    for number in range(1, wanted.budget + 1):
        plan = draw_restarts(start + number - 1)
        with wanted.mutation():
            wrong_us += run(plan).unowned_us
        right_us += run(plan).unowned_us
        plain_us += run(like_kafka(plan)).unowned_us
        if number >= LEAST and right_us <= plain_us < wrong_us:
            sentence = f"{wrong_us / 1e6:.1f} partition-seconds without an owner, {plain_us / 1e6:.1f} without parking"
            return Hunt(wanted.name, start, number, STANDSTILL_BOUNDED.name, sentence)
    return Hunt(wanted.name, start, 0)


def _next_broken(wanted: Exhibit, start: int, count: int) -> tuple[int, str, str] | None:
    """Return how many seeds there were when the next world broke with the bug in it, and how; None in no world."""
    with wanted.mutation():
        for number in range(count + 1, wanted.budget + 1):
            broken = _broken(start + number - 1, wanted)
            if broken is not None:
                return number, *broken
    return None


def _broken(seed: int, wanted: Exhibit) -> tuple[str, str] | None:
    try:
        with _patience():
            if wanted.program is not None:
                course, options = wanted.program
                failure = run_plan(course, draw_world(seed, options), options)
                return None if failure is None else (failure.broken.invariant, failure.broken.sentence)
            broken = run(wanted.worlds(draw_plan(seed, producers=wanted.producers, streams=wanted.has_streams))).broken
    except StandsStill:
        return NO_DEFECT, "an event takes for ever"
    return None if broken is None else (broken.invariant, broken.sentence)


@contextmanager
def _patience() -> Iterator[None]:
    """Raise StandsStill where the body takes more of a processor than it may."""

    def give_up(*_: object) -> None:
        raise StandsStill

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
