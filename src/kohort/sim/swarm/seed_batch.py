"""Many worlds: seeds run one after the other, in several processes or on a Spark cluster, and their sums.

A tally adds outcomes up in whatever order they come; the same seeds give the same sums.
"""

from __future__ import annotations

import gc
import json
import signal
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from kohort.sim.scenario.world_plan import Broken, WorldOutcome
from kohort.sim.swarm.seed_plan import draw_plan
from kohort.sim.swarm.world_run import run

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

CHUNK = 4
"""Seeds that a process takes at once."""

SEEDS_PER_TASK = 50
"""How many worlds a task of Spark runs: some seconds of work."""

SCHEMA = "seed long, outcome string"

SWEEP = 16
"""After so many worlds what is left of them is swept up, and not before: that is a fifth of the time."""


def run_seed(seed: int, gateways: int = 0, producers: int = 0, *, streams: bool | None = None) -> WorldOutcome:
    """Let the world of a seed happen, with so many gateways and producers; `streams` as in `draw_plan`."""
    return run(draw_plan(seed, gateways, producers, streams=streams))


def run_seeds(seeds: Iterable[int], jobs: int, gateways: int = 0, producers: int = 0) -> Iterator[WorldOutcome]:
    """Yield the outcomes of many worlds as they end; with one job in this process, in the order of the seeds."""
    if jobs <= 1:
        yield from run_in_order(seeds, gateways, producers)
        return
    with get_context().Pool(jobs, _begin_process) as pool:
        yield from pool.imap_unordered(partial(_run_and_sweep, gateways, producers), seeds, chunksize=CHUNK)


def run_in_order(seeds: Iterable[int], gateways: int = 0, producers: int = 0) -> Iterator[WorldOutcome]:
    """Yield the outcomes of worlds that run in this process, one after the other."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for seed in seeds:
            yield _run_and_sweep(gateways, producers, seed)
    finally:
        if was_enabled:
            gc.enable()


_worlds = count(1)


def _run_and_sweep(gateways: int, producers: int, seed: int) -> WorldOutcome:
    outcome = run_seed(seed, gateways, producers)
    if next(_worlds) % SWEEP == 0:
        gc.collect()
    return outcome


def _begin_process() -> None:
    """Leave Ctrl-C to the main process, which ends this one, and what is there already out of every sweep."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # by which it does; else the command's handler prints a traceback
    gc.freeze()
    gc.disable()


def spread(
    spark: SparkSession, seeds: range, seeds_per_task: int = SEEDS_PER_TASK, gateways: int = 0, producers: int = 0
) -> Iterator[WorldOutcome]:
    """Yield the outcomes of a range of seeds, wave by wave in their order."""
    wave = seeds_per_task * spark.sparkContext.defaultParallelism
    for first in range(seeds.start, seeds.stop, wave):
        stop = min(first + wave, seeds.stop)
        tasks = -(-(stop - first) // seeds_per_task)
        frame = (
            spark.range(first, stop, 1, tasks).toDF("seed").mapInArrow(partial(_outcomes, gateways, producers), SCHEMA)
        )
        for row in sorted(frame.collect()):
            yield read_outcome(row["outcome"])


def _outcomes(gateways: int, producers: int, batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow

    for batch in batches:
        seeds = batch.column("seed").to_pylist()
        rows = [json.dumps(outcome) for outcome in run_in_order(seeds, gateways, producers)]
        yield pyarrow.RecordBatch.from_arrays(
            [pyarrow.array(seeds, pyarrow.int64()), pyarrow.array(rows)], ["seed", "outcome"]
        )


def read_outcome(text: str) -> WorldOutcome:
    """Return an outcome from the JSON of its fields."""
    outcome = WorldOutcome(*json.loads(text))
    return outcome if outcome.broken is None else outcome._replace(broken=Broken(*outcome.broken))


Row = tuple[str, int, int, int]


class Tally:
    """What many worlds amount to."""

    def __init__(self) -> None:
        self.seeds = 0
        self.events = 0
        self.virtual_us = 0
        self.chunks = 0
        self.broken: list[WorldOutcome] = []
        self.worlds: Counter[str] = Counter()
        """In how many worlds a kind of step was drawn."""
        self.drawn: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.coverage: Counter[str] = Counter()
        self.covered: Counter[str] = Counter()
        """In how many worlds an invariant was compared with something."""
        self.failures: Counter[str] = Counter()
        self.slowest_rest_us = 0

    def add(self, outcome: WorldOutcome) -> None:
        """Count one more world."""
        self.seeds += 1
        self.events += outcome.events
        self.virtual_us += outcome.virtual_us
        self.chunks += outcome.chunks
        if outcome.broken is not None:
            self.broken.append(outcome)
        self.worlds.update(outcome.drawn.keys())
        self.drawn.update(outcome.drawn)
        self.met.update(outcome.met)
        self.coverage.update(outcome.coverage)
        self.covered.update(name for name, times in outcome.coverage.items() if times)
        self.failures.update(outcome.failures)
        self.slowest_rest_us = max(self.slowest_rest_us, outcome.rest_us)

    def faults(self) -> list[Row]:
        """Return for each kind of step: in how many worlds, how often drawn, how often it came to something."""
        return [(name, self.worlds[name], self.drawn[name], self.met[name]) for name in sorted(self.drawn)]

    def invariants(self) -> list[Row]:
        """Return for each invariant: in how many worlds it was compared, how often, and how many broke it."""
        broken = Counter(outcome.broken.invariant for outcome in self.broken if outcome.broken is not None)
        return [(name, self.covered[name], self.coverage[name], broken[name]) for name in sorted(self.coverage)]

    def summary(self) -> str:
        """Return one sentence."""
        hours = self.virtual_us / 3_600_000_000
        verdict = f"{len(self.broken):,} failed" if self.broken else "all passed"
        return f"{self.seeds:,} seeds: {verdict}; {self.events:,} events in {hours:,.1f} virtual hours"

    def as_json(self) -> dict[str, Any]:
        """Return everything, for --json."""
        return {
            "seeds": self.seeds,
            "failed": len(self.broken),
            "events": self.events,
            "virtual_s": round(self.virtual_us / 1e6, 3),
            "messages": self.chunks,
            "slowest_rest_s": round(self.slowest_rest_us / 1e6, 3),
            "faults": _named(("worlds", "drawn", "met"), self.faults()),
            "invariants": _named(("worlds", "compared", "broken"), self.invariants()),
            "members_that_failed": dict(sorted(self.failures.items())),
            "failures": [failure_as_json(outcome) for outcome in sorted(self.broken)],
        }


def _named(columns: Sequence[str], rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    return {name: dict(zip(columns, counts, strict=True)) for name, *counts in rows}


def outcome_as_json(outcome: WorldOutcome) -> dict[str, Any]:
    """Return what became of one world, for --json."""
    shown: dict[str, Any] = {
        "seed": outcome.seed,
        "passed": outcome.broken is None,
        "events": outcome.events,
        "virtual_s": round(outcome.virtual_us / 1e6, 6),
        "rest_s": None if outcome.rest_us < 0 else round(outcome.rest_us / 1e6, 6),
        "messages": outcome.chunks,
        "drawn": outcome.drawn,
        "met": outcome.met,
        "coverage": outcome.coverage,
        "members_that_failed": outcome.failures,
    }
    return shown if outcome.broken is None else shown | {"failure": failure_as_json(outcome)}


def failure_as_json(outcome: WorldOutcome) -> dict[str, Any]:
    """Return what broke a world, and the command that shows it."""
    broken = outcome.broken
    assert broken is not None, "only a broken world has a failure"
    return {
        "seed": outcome.seed,
        "invariant": broken.invariant,
        "sentence": broken.sentence,
        "at_s": round(broken.at_us / 1e6, 6),
        "event": broken.event,
        "replay": replay_of(outcome),
    }


def replay_of(outcome: WorldOutcome) -> str:
    """Return the command that runs a world again."""
    gateways = f" --gateways {outcome.gateways}" if outcome.gateways else ""
    producers = f" --producers {outcome.producers}" if outcome.producers else ""
    return f"kohort sim --seed {outcome.seed}{gateways}{producers}"
