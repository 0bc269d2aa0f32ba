"""`kohort fleet run`: from `__consumer_offsets` to the bronze, silver and gold tables and the findings.

A run reads what is new in its inputs, folds it onto the state of earlier runs, and publishes all tables at once
(`tables.py`): readers see a whole run or none of it. A run that finds nothing new writes nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kohort.fleet import gold, silver
from kohort.fleet.bronze.bronze_reader import settled
from kohort.fleet.bronze.bronze_writer import (
    InputRows,
    Positions,
    StoredBronze,
    names_of_topics,
    read_inputs,
    write_bronze,
)
from kohort.fleet.schema import (
    EVENTS,
    FINDINGS,
    GROUP_HOURS,
    GROUPS,
    HOUR_PARTS,
    OWNERSHIP,
    RECORDS,
    STATE_COMMITS,
    STATE_GROUPS,
    STATE_OPEN,
    STATE_PENDING,
    TOPICS,
)
from kohort.fleet.silver import PARTS
from kohort.fleet.tables import UPKEEP_EVERY, Run, Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ReadBronze = Callable[["SparkSession", Sequence[Any], Positions], InputRows]
FindAll = Callable[["SparkSession", Run], "DataFrame"]
"""Makes the rows of findings from the tables as `Run.frame` gives them: those of this run included."""

Stage = Callable[[str], AbstractContextManager[None]]
"""Times a stage of a run, by its name."""

TASKS_PER_CORE = 2
SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",  # a job looks at files slower than the driver
    "spark.sql.session.timeZone": "UTC",
}


@dataclass(slots=True)
class RunSummary:
    """Result of one run."""

    run: int
    """Number of the run; of the previous run where nothing was new."""
    records: int = 0
    quarantined: int = 0
    side_rows: int = 0
    """Rows of member metrics and of broker logs."""
    findings: int = 0
    positions: dict[str, dict[int, int]] = field(default_factory=dict)
    """By source and partition, how far has been read."""
    seconds: dict[str, float] = field(default_factory=dict)
    """How long each stage took."""

    @property
    def is_new(self) -> bool:
        """Whether anything was new."""
        return bool(self.records or self.quarantined or self.side_rows)


def run(
    spark: SparkSession,
    inputs: Sequence[Any],
    tables: str | os.PathLike[str] | Tables,
    *,
    read: ReadBronze | None = None,
    find: FindAll | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> RunSummary:
    """Read what is new in `inputs` into the tables, and return what was done.

    `read` and `find` replace bronze and findings; `progress` is called with the name of each stage as it begins. Raises
    TablesBusy, TableBroken, and whatever reading an input raises.
    """
    published = tables if isinstance(tables, Tables) else Tables(tables)
    with _settings_of(spark), published.begin() as writing:
        summary = RunSummary(published.run)

        @contextmanager
        def stage(name: str) -> Iterator[None]:
            progress(name)
            started = time.monotonic()
            yield
            summary.seconds[name] = round(time.monotonic() - started, 3)

        with stage("bronze"):
            bronze = write_bronze(spark, writing, (read or read_inputs)(spark, inputs, published.positions))
        summary.records, summary.quarantined = bronze.records, bronze.quarantined
        summary.side_rows = bronze.side_rows
        if summary.is_new:
            if bronze.records:
                _derive(spark, writing, bronze, stage)
            with stage("findings"):
                from kohort.fleet.findings import find_all  # it loads the simulator, for which most verbs have no use

                found = (find or find_all)(spark, writing).toArrow()
                writing.store_arrow(FINDINGS, found)
                writing.put(FINDINGS)
                summary.findings = found.num_rows
            with stage("publish"):
                writing.publish(bronze.positions)
            if writing.number % UPKEEP_EVERY == 0:
                with stage("upkeep"):
                    published.upkeep()
        summary.run, summary.positions = published.run, published.positions
    return summary


def _derive(spark: SparkSession, run: Run, bronze: StoredBronze, stage: Stage) -> None:
    """Make silver and gold of the records that this run stored."""
    records = _with_outcomes(spark, run, has_open=bronze.has_open)
    states = run.frame(spark, STATE_GROUPS)
    with stage("fold"):
        plans = {what: run.plan(table) for what, table in PARTS.items()}
        tasks = spark.sparkContext.defaultParallelism * TASKS_PER_CORE
        found = silver.folded(records, states, names_of_topics(run), bronze.dense, tasks, plans)
        for what, files in found.items():
            run.take(PARTS[what], files)
    with stage("silver"):
        run.adopt(EVENTS)
        run.adopt(OWNERSHIP)
        new = run.written(spark, STATE_GROUPS)
        for table in (STATE_OPEN, STATE_GROUPS):
            if not run.is_empty(table):
                run.store(table, silver.untouched(run.frame(spark, table), new))
            run.put(table)
    with stage("gold"):
        run.store(STATE_COMMITS, gold.last_commits(records, run.frame(spark, STATE_COMMITS)))
        run.put(STATE_COMMITS)
        ends = gold.ends_of_topics(spark, run.small_rows(TOPICS))
        lagged = gold.lag_of_commits(run.written(spark, STATE_COMMITS), ends)
        parts = run.written(spark, HOUR_PARTS)
        days = parts.select("day").distinct()
        known = run.frame(spark, GROUP_HOURS).join(days, "day", "left_semi")
        lags = None if ends is None else gold.lags_of_hours(lagged)
        run.store(GROUP_HOURS, gold.hours(parts, known, lags))
        run.put_days(GROUP_HOURS)
        run.store(GROUPS, gold.groups(run.written(spark, STATE_GROUPS), lagged))
        run.put(GROUPS)


def _with_outcomes(spark: SparkSession, run: Run, *, has_open: bool) -> DataFrame:
    """Return the new records, and commits that awaited their transaction's end in earlier runs and have it now."""
    records = run.written(spark, RECORDS)
    if not has_open and run.is_empty(STATE_PENDING):
        return records
    records = settled(records.unionByName(run.frame(spark, STATE_PENDING)))
    run.store(STATE_PENDING, records.where("transaction = 'open'"))
    run.put(STATE_PENDING)
    return records


@contextmanager
def _settings_of(spark: SparkSession) -> Iterator[None]:
    """Set the Spark settings of a run, and restore the previous values afterwards."""
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, was in before.items():
            if was is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, was)
