"""`@kohort.sim.world`: a test function that runs once for each seed, in a world of its own each time.

The decorated test is a plain function without the parameter `world`; its other parameters stay what they
are, fixtures for example. KOHORT_SEED (pytest's `--kohort-seed`) runs one seed alone, KOHORT_SEEDS (`--kohort-seeds`)
another number of them.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, overload

from kohort.sim.users.seed_runs import run_seeds
from kohort.sim.users.world import World
from kohort.sim.users.world_options import ALL, Faults, WorldOptions, chosen

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
) -> Any:
    """Run a test in simulated worlds: a broker, records, and as many instances of a program as it starts.

    The test takes `world`, a `World`, and may be async. `seeds` is how many worlds there are (100), or which. `topics`
    gives each topic's partitions, by default {"orders": 4}. `instances` and `seconds`, for how long faults happen, are
    drawn where they are not given. `faults` is "all", names of faults, or None: then nothing happens but what the test
    does, and one world is enough. `settings` are the broker's, with dots or underscores. `values` makes the value of
    the n-th record, by default its number.

    Raises, when the test is run, `WorldFailed` for the first seed that fails.
    """
    options = WorldOptions(
        topics=dict(topics) if topics is not None else {"orders": 4},
        instances=instances,
        seconds=seconds,
        faults=chosen(faults),
        is_led_by_hand=faults is None,
        settings={name.replace("_", "."): _text(value) for name, value in (settings or {}).items()},
        **({} if values is None else {"value": values}),
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


__all__ = ["World", "world"]
