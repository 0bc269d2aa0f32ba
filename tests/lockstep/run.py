"""Runs of both coordinators: one seed, the same steps again, and the shortest steps that still fail."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol, TypeVar

from tests.lockstep.apache import Apache
from tests.lockstep.generator import Generator, clients_of, config_of
from tests.lockstep.model import Step
from tests.lockstep.pair import Mismatch
from tests.lockstep.play import Play


class Failing(Protocol):
    """A run that may have failed."""

    @property
    def failure(self) -> object:
        """Why it failed; None if it did not."""


StepT = TypeVar("StepT")
RunT = TypeVar("RunT", bound=Failing)

STEPS = 120
"""Steps of one seed."""


@dataclass
class Run:
    """What became of a seed: the steps it took, the differences it met, and why it ended early, if it did."""

    seed: int
    steps: list[Step] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)
    failure: Exception | None = None

    @property
    def reason(self) -> str:
        """Say why it ended early."""
        failure = self.failure
        assert failure is not None, "it did not"
        if isinstance(failure, Mismatch):
            return str(failure)
        return "".join(traceback.format_exception(failure)).rstrip()


def begin(theirs: Apache, seed: int, count: int = STEPS) -> tuple[Play, Generator]:
    """Return a run before its first step."""
    random = Random(f"lockstep {seed}")
    clients = clients_of(random)
    config = config_of(random)
    return Play(theirs, seed, clients, config), Generator(random, clients, count)


def run(theirs: Apache, seed: int) -> Run:
    """Take the steps of a seed."""
    play, generator = begin(theirs, seed)
    found = Run(seed, met=play.pair.met)
    try:
        for step in generator:
            found.steps.append(step)
            play.do(step)
    except Exception as failure:  # whatever it is, it is a finding
        found.failure = failure
    return found


def again(theirs: Apache, seed: int, steps: list[Step], trace: Callable[[str], None] | None = None) -> Run:
    """Take these steps in the world of a seed; `trace` takes what happens, line by line."""
    play, _ = begin(theirs, seed)
    play.pair.trace = trace
    found = Run(seed, steps, play.pair.met)
    try:
        for step in steps:
            if trace is not None:
                trace(str(step))
            play.do(step)
    except Exception as failure:
        found.failure = failure
    return found


def shrink(theirs: Apache, failed: Run) -> Run:
    """Leave out whatever the failure does not need; return the shortest run that still fails."""
    return fewest(failed.steps, failed, lambda steps: again(theirs, failed.seed, steps))


def fewest(steps: list[StepT], failed: RunT, again: Callable[[list[StepT]], RunT]) -> RunT:
    """Return the run of the fewest of these steps that still fails; `failed` where it does not fail again."""
    best = again(steps)
    if best.failure is None:
        return failed
    size = max(len(steps) // 2, 1)
    while size:
        start = 0
        while start < len(steps):
            fewer = steps[:start] + steps[start + size :]
            found = again(fewer)
            if found.failure is None:
                start += size
            else:
                best, steps = found, fewer
        size //= 2
    return best


# -- many seeds


class _Worker:
    """One process with a coordinator of Kafka's, kept for the next seeds."""

    theirs: Apache | None = None


def take(seeds: list[int], pom: str = "pom.xml") -> tuple[int, Counter[str], list[tuple[Run, Run]]]:
    """Run some seeds; return the steps, the differences met, and what failed, shrunk."""
    if _Worker.theirs is None:
        _Worker.theirs = Apache(pom)
    theirs, steps, met, failed = _Worker.theirs, 0, Counter[str](), []
    for seed in seeds:
        found = run(theirs, seed)
        steps += len(found.steps)
        met += found.met
        if found.failure is not None:
            if not theirs.is_alive:
                _Worker.theirs = theirs = Apache(pom)
            failed.append((_plain(found), _plain(shrink(theirs, found))))
    return steps, met, failed


def _plain(found: Run) -> Run:
    """Return a run that can travel between processes."""
    return Run(found.seed, found.steps, found.met, RuntimeError(found.reason) if found.failure else None)
