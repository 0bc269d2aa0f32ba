"""Worlds run in Spark's executors become what they would be here."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from kohort.sim.swarm.seed_batch import run_seeds, spread

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def test_seeds_that_are_spread_give_the_outcomes_they_give_here(spark: SparkSession) -> None:
    seeds = range(40, 43)
    assert list(spread(spark, seeds, seeds_per_task=2)) == list(run_seeds(seeds, 1))
