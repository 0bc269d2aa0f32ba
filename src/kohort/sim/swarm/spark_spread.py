"""Seeds over a Spark cluster: each task runs some worlds, and what became of them comes back as rows.

Waves bound what is under way, so that progress shows and nothing grows with the number of seeds. It takes a session
that somebody else has made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kohort.sim.swarm.seed_batch import run_in_order
from kohort.sim.swarm.world_run import Broken, Outcome

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

SEEDS_PER_TASK = 50
"""How many worlds a task runs: some seconds of work."""

SCHEMA = "seed long, outcome string"


def spread(spark: SparkSession, seeds: range, seeds_per_task: int = SEEDS_PER_TASK) -> Iterator[Outcome]:
    """Yield the outcomes of a range of seeds, wave by wave in their order."""
    wave = seeds_per_task * spark.sparkContext.defaultParallelism
    for first in range(seeds.start, seeds.stop, wave):
        stop = min(first + wave, seeds.stop)
        tasks = -(-(stop - first) // seeds_per_task)
        frame = spark.range(first, stop, 1, tasks).toDF("seed").mapInArrow(_outcomes, SCHEMA)
        for row in sorted(frame.collect()):
            yield read_outcome(row["outcome"])


def _outcomes(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow

    for batch in batches:
        seeds = batch.column("seed").to_pylist()
        rows = [json.dumps(outcome) for outcome in run_in_order(seeds)]
        yield pyarrow.RecordBatch.from_arrays(
            [pyarrow.array(seeds, pyarrow.int64()), pyarrow.array(rows)], ["seed", "outcome"]
        )


def read_outcome(text: str) -> Outcome:
    """Return an outcome from the JSON of its fields."""
    outcome = Outcome(*json.loads(text))
    return outcome if outcome.broken is None else outcome._replace(broken=Broken(*outcome.broken))
