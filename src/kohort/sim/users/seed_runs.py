"""Runs a test once for each seed, shrinks the first failure, and reports it: what broke, how, how to run it again.

A test is a plain or async function that takes a `World`. One seed is one run; a failure that does not come again with
its seed is reported as that: something in the test is not decided by the seed then.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from kohort.sim.kernel.world_observer import Observer
from kohort.sim.programs.program import CURRENT
from kohort.sim.programs.stdlib_patches import guarded
from kohort.sim.scenario.outcome import Broken
from kohort.sim.scenario.shrinking import shrink
from kohort.sim.scenario.world_plan import SECOND_US, Plan, show_step, show_time
from kohort.sim.users.failure_report import Story
from kohort.sim.users.world import World
from kohort.sim.users.world_driver import WorldBroken
from kohort.sim.users.world_options import WorldOptions, draw_world

Test = Callable[[World], object]

TRIES = 60
"""How many worlds the search for a shorter story may take."""

_OF_THE_USER = ("kohort.client.membership.user_callbacks", "kohort.client.consumer.offset_commits")
"""Who logs exceptions of the user's own functions."""


class WorldFailed(AssertionError):
    """A seed failed. `seed` is its number, `invariant` the broken invariant; the text has the rest."""

    def __init__(self, text: str, seed: int, invariant: str) -> None:
        super().__init__(text)
        self.seed = seed
        self.invariant = invariant


WorldFailed.__module__ = "kohort.sim"


class Failure(NamedTuple):
    """What broke one run, and what the user's own code raised."""

    broken: Broken
    error: BaseException | None


def run_seeds(test: Test, seeds: Iterable[int], options: WorldOptions, rerun: Callable[[int], str]) -> None:
    """Run a test for each seed. `rerun` says how to run one alone. Raises `WorldFailed` for the first that fails."""
    __tracebackhide__ = True
    for seed in seeds:
        plan = draw_world(seed, options)
        failure = run_plan(test, plan, options)
        if failure is not None:
            raise report(test, plan, options, failure, rerun(seed)) from failure.error


def run_plan(test: Test, plan: Plan, options: WorldOptions, story: Story | None = None) -> Failure | None:
    """Let one world happen; return what broke it."""
    observers: Sequence[Observer] = () if story is None else (story,)
    world = World(plan, options, observers)
    with _listening(world, story), guarded(world.seed):
        try:
            _call(test, world)
            world.conclude()
        except WorldBroken as error:
            return Failure(Broken(error.invariant, error.sentence, error.at_us, error.event), error.__cause__)
        except Exception as error:
            text = str(error).partition("\n")[0] or "(without a word)"
            return Failure(Broken(type(error).__name__, text, round(world.now * SECOND_US), world.events), error)
        finally:
            if story is not None:
                story.is_over = True
            world.close()
    return None


def report(test: Test, plan: Plan, options: WorldOptions, failure: Failure, rerun: str) -> WorldFailed:
    """Shrink a failure, and return it with its story."""
    broken = failure.broken
    again = run_plan(test, plan, options)
    if again is None or again.broken.invariant != broken.invariant:
        lines = [_headline(plan, broken), f"  {broken.sentence}", "", _UNSTEADY, "", f"run it alone: {rerun}"]
        return WorldFailed("\n".join(lines), plan.seed, broken.invariant)
    small, tries = plan, 0

    def runs(smaller: Plan) -> Broken | None:
        # Without the program nothing in the sentence could be true.
        is_there = any(step.what == "start" for step in smaller.steps)
        found = run_plan(test, smaller, options) if is_there else None
        return None if found is None else found.broken

    if plan.steps:
        small, _, tries = shrink(plan, broken, runs, TRIES)
    story = Story()
    last = (run_plan(test, small, options, story) or failure).broken
    lines = [_headline(plan, last), f"  {last.sentence}", ""]
    if plan.steps:
        lines += [f"{len(small.steps)} of its {len(plan.steps)} steps are enough ({tries} worlds tried):"]
        lines += [f"  {show_time(step.at_us)}  {show_step(step)}" for step in small.steps]
        lines += [""]
    lines += ["what happened:", *(f"  {line}" for line in story.lines_about(last.sentence)), ""]
    lines += [f"run it alone: {rerun}"]
    return WorldFailed("\n".join(lines), plan.seed, broken.invariant)


_UNSTEADY = (
    "The same seed did not fail a second time, so something in the test is not decided by the seed: state that one\n"
    "world leaves to the next, a real clock, a thread, the order of a set of strings or objects (set PYTHONHASHSEED=0)."
)


def _headline(plan: Plan, broken: Broken) -> str:
    return f"seed {plan.seed} broke {broken.invariant} after {broken.at_us / SECOND_US:.3f} s of its world:"


def _call(test: Test, world: World) -> None:
    result = test(world)
    if inspect.iscoroutine(result):
        loop = world.test_loop()
        try:
            world.drive(loop, result)
        finally:
            loop.close()


class _Listener(logging.Handler):
    """Takes what the client and the broker log: their own defects break the world, the rest is part of the story."""

    def __init__(self, world: World, story: Story | None) -> None:
        super().__init__()
        self._world = world
        self._story = story

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and record.name not in _OF_THE_USER:
            self._world.note_defect(f"{record.getMessage()}: {type(error).__name__}: {error}")
        elif self._story is not None and (program := CURRENT.get(None)) is not None:
            self._story.put(program.name, "logs", record.getMessage())


@contextmanager
def _listening(world: World, story: Story | None) -> Iterator[None]:
    logger = logging.getLogger("kohort")
    level, propagates, handlers = logger.level, logger.propagate, list(logger.handlers)
    logger.handlers = [_Listener(world, story)]
    logger.propagate = False
    logger.setLevel(logging.ERROR if story is None else logging.WARNING)
    try:
        yield
    finally:
        logger.handlers = handlers
        logger.propagate = propagates
        logger.setLevel(level)
