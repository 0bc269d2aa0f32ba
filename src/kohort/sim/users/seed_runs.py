"""`@kohort.sim.world`: a test function that runs once for each seed, in a world of its own each time.

The decorated test is a plain function without the parameter `world`; its other parameters stay what they are, fixtures
for example. KOHORT_SEED (pytest's `--kohort-seed`) runs one seed alone, KOHORT_SEEDS (`--kohort-seeds`) another number
of them. The first failure is shrunk and reported; one that does not come again with its seed is reported as that.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, overload

from kohort.sim.checks.checker import logs_to
from kohort.sim.kernel.world_observer import Observer
from kohort.sim.programs.program import CURRENT
from kohort.sim.programs.stdlib_patches import guarded
from kohort.sim.scenario.shrinking import shrink
from kohort.sim.scenario.world_plan import SECOND_US, Broken, WorldPlan, show_step, show_time
from kohort.sim.trace import RecordedTrace
from kohort.sim.users.world import World
from kohort.sim.users.world_driver import WorldBroken
from kohort.sim.users.world_options import ALL, Faults, WorldOptions, chosen, draw_world, numbered, without_key

Test = Callable[[World], object]

TRIES = 60
"""How many worlds the search for a smaller plan may take."""

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
    """Run a test for each seed. `rerun` is how to run one alone. Raises `WorldFailed` for the first that fails."""
    __tracebackhide__ = True
    for seed in seeds:
        plan = draw_world(seed, options)
        failure = run_plan(test, plan, options)
        if failure is not None:
            raise report(test, plan, options, failure, rerun(seed)) from failure.error


def run_plan(test: Test, plan: WorldPlan, options: WorldOptions, trace: RecordedTrace | None = None) -> Failure | None:
    """Let one world happen; return what broke it."""
    observers: Sequence[Observer] = () if trace is None else (trace,)
    world = World(plan, options, observers)
    level = logging.ERROR if trace is None else logging.WARNING
    with logs_to(_LogListener(world, trace), level), guarded(world.seed):
        try:
            _call(test, world)
            world.conclude()
        except WorldBroken as error:
            return Failure(Broken(error.invariant, error.sentence, error.at_us, error.event), error.__cause__)
        except Exception as error:
            text = str(error).partition("\n")[0] or "(without a word)"
            return Failure(Broken(type(error).__name__, text, round(world.now * SECOND_US), world.events), error)
        finally:
            if trace is not None:
                trace.is_over = True
            world.close()
    return None


def report(test: Test, plan: WorldPlan, options: WorldOptions, failure: Failure, rerun: str) -> WorldFailed:
    """Shrink a failure, and return it with its trace."""
    broken = failure.broken
    again = run_plan(test, plan, options)
    if again is None or again.broken.invariant != broken.invariant:
        lines = [_headline(plan, broken), f"  {broken.sentence}", "", _UNSTEADY, "", f"run it alone: {rerun}"]
        return WorldFailed("\n".join(lines), plan.seed, broken.invariant)
    small, tries = plan, 0

    def runs(smaller: WorldPlan) -> Broken | None:
        # Without the program nothing in the sentence could be true.
        has_start = any(step.what == "start" for step in smaller.steps)
        found = run_plan(test, smaller, options) if has_start else None
        return None if found is None else found.broken

    if plan.steps:
        small, _, tries = shrink(plan, broken, runs, TRIES)
    trace = RecordedTrace()
    last = (run_plan(test, small, options, trace) or failure).broken
    lines = [_headline(plan, last), f"  {last.sentence}", ""]
    if plan.steps:
        lines += [f"{len(small.steps)} of its {len(plan.steps)} steps are enough ({tries} worlds tried):"]
        lines += [f"  {show_time(step.at_us)}  {show_step(step)}" for step in small.steps]
        lines += [""]
    lines += ["what happened:", *(f"  {line}" for line in trace.lines_about(last.sentence)), ""]
    lines += [f"run it alone: {rerun}"]
    return WorldFailed("\n".join(lines), plan.seed, broken.invariant)


_UNSTEADY = (
    "The same seed did not fail a second time, so something in the test is not decided by the seed: state that one\n"
    "world leaves to the next, a real clock, a thread, the order of a set of strings or objects (set PYTHONHASHSEED=0)."
)


def _headline(plan: WorldPlan, broken: Broken) -> str:
    return f"seed {plan.seed} broke {broken.invariant} after {broken.at_us / SECOND_US:.3f} s of its world:"


def _call(test: Test, world: World) -> None:
    result = test(world)
    if inspect.iscoroutine(result):
        loop = world.test_loop()
        try:
            world.drive(loop, result)
        finally:
            loop.close()


class _LogListener(logging.Handler):
    """Takes what the client and the broker log: their own defects break the world, the rest is part of the trace."""

    def __init__(self, world: World, trace: RecordedTrace | None) -> None:
        super().__init__()
        self._world = world
        self._trace = trace

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line."""
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and record.name not in _OF_THE_USER:
            self._world.note_defect(f"{record.getMessage()}: {type(error).__name__}: {error}")
        elif self._trace is not None and (program := CURRENT.get(None)) is not None:
            self._trace.put(program.name, "logs", record.getMessage())


TestT = TypeVar("TestT", bound=Callable[..., Any])

SEEDS = 100
PARAMETER = "world"


@overload
def world(test: TestT, /) -> Callable[..., None]: ...


@overload
def world(
    *,
    seeds: int | Iterable[int] | None = None,
    topics: Mapping[str, int] | None = None,
    instances: int | None = None,
    seconds: float | None = None,
    faults: Faults = ALL,
    settings: Mapping[str, object] | None = None,
    values: Callable[[int], bytes] | None = None,
    keys: Callable[[bytes], bytes | None] | None = None,
) -> Callable[[TestT], Callable[..., None]]: ...


def world(
    test: Callable[..., Any] | None = None,
    /,
    *,
    seeds: int | Iterable[int] | None = None,
    topics: Mapping[str, int] | None = None,
    instances: int | None = None,
    seconds: float | None = None,
    faults: Faults = ALL,
    settings: Mapping[str, object] | None = None,
    values: Callable[[int], bytes] | None = None,
    keys: Callable[[bytes], bytes | None] | None = None,
) -> Any:
    """Run a test in simulated worlds: a broker, records, and as many instances of a program as it starts.

    The test takes `world`, a `World`, and may be async. `seeds` is how many worlds there are (100), or which. `topics`
    gives each topic's partitions, by default {"orders": 4}. `instances` and `seconds`, for how long faults happen, are
    drawn where they are not given. `faults` is "all", names of faults, or None: then nothing happens but what the test
    does, and one world is enough. `settings` are the broker's, with dots or underscores. `values` makes the value of
    the n-th record, by default its number, and `keys` a record's key of its value, by default none.

    Raises, when the test is run, `WorldFailed` for the first seed that fails.
    """
    options = WorldOptions(
        topics=dict(topics) if topics is not None else {"orders": 4},
        instances=instances,
        seconds=seconds,
        faults=chosen(faults),
        is_led_by_hand=faults is None,
        settings={name.replace("_", "."): _text(value) for name, value in (settings or {}).items()},
        value=values or numbered,
        key=keys or without_key,
    )
    if seeds is None:
        seeds = 1 if faults is None else SEEDS
    which = tuple(range(seeds)) if isinstance(seeds, int) else tuple(seeds)

    def decorate(function: Callable[..., Any]) -> Callable[..., None]:
        return _decorated(function, which, options)

    return decorate if test is None else decorate(test)


def _decorated(function: Callable[..., Any], seeds: tuple[int, ...], options: WorldOptions) -> Callable[..., None]:
    signature = inspect.signature(function)
    if PARAMETER not in signature.parameters:
        raise TypeError(f"{function.__qualname__} runs in a world: give it a parameter named {PARAMETER!r}")

    parameters = [each for name, each in signature.parameters.items() if name != PARAMETER]
    public = signature.replace(parameters=parameters, return_annotation=None)

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True

        others = public.bind(*args, **kwargs)
        others.apply_defaults()

        def test(world: World) -> object:
            return function(**others.arguments, **{PARAMETER: world})

        run_seeds(test, _asked_for(seeds), options, _rerun)

    run.__signature__ = public  # type: ignore[attr-defined]
    del run.__wrapped__
    return run


def _asked_for(seeds: tuple[int, ...]) -> Iterable[int]:
    """Return the seeds to run: those of the test, unless the environment asks for others."""
    if one := os.environ.get("KOHORT_SEED"):
        return (int(one),)
    if count := os.environ.get("KOHORT_SEEDS"):
        return range(int(count))
    return seeds


def _rerun(seed: int) -> str:
    """Return the command that runs one seed alone."""
    # A script that a test runs inherits the variable.
    name = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0] if "pytest" in sys.modules else ""
    return f"pytest {name!r} --kohort-seed {seed}" if name else f"KOHORT_SEED={seed}, and the same command"


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
