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
from typing import Any

from kohort.fleet import gold
from kohort.fleet.bronze import (
    InputRows,
    Positions,
    StoredBronze,
    names_of_topics,
    read_inputs,
    settle,
    write_bronze,
)
from kohort.fleet.findings.facts import Finding
from kohort.fleet.run_tasks import LocalTasks, Tasks
from kohort.fleet.schema import (
    EVENTS,
    FINDINGS,
    OWNERSHIP,
    RECORDS,
    SETTLED,
    STATE_COMMITS,
    STATE_GROUPS,
    STATE_PENDING,
)
from kohort.fleet.silver import PARTS, Folding
from kohort.fleet.tables import UPKEEP_EVERY, Run, Tables

ReadBronze = Callable[[Sequence[Any], Positions, int], InputRows]
"""Plans the reading of inputs from positions on, for so many tasks at once."""
FindAll = Callable[[Run, Tasks], Sequence[Finding]]
"""Makes findings from the tables as they will be once the run is published."""

Stage = Callable[[str], AbstractContextManager[None]]
"""Times a stage of a run, by its name."""

MANY_RECORDS = 200_000
"""With fewer new records, other processes start for longer than they work."""


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
    inputs: Sequence[Any],
    tables: str | os.PathLike[str] | Tables,
    *,
    tasks: Tasks | None = None,
    read: ReadBronze | None = None,
    find: FindAll | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> RunSummary:
    """Read what is new in `inputs` into the tables, and return what was done.

    `tasks` is where tasks are executed, by default in processes of this machine, which import the program's main module
    (as those of `multiprocessing` do). `read` and `find` replace bronze and findings; `progress` is called with the
    name of each stage as it begins. Raises TablesBusy, TableBroken, and whatever reading an input raises.
    """
    tasks = tasks or LocalTasks()
    published = tables if isinstance(tables, Tables) else Tables(tables)
    with published.begin() as writing:
        summary = RunSummary(published.run)

        @contextmanager
        def stage(name: str) -> Iterator[None]:
            progress(name)
            started = time.monotonic()
            yield
            summary.seconds[name] = round(time.monotonic() - started, 3)

        with stage("bronze"):
            bronze = write_bronze(tasks, writing, (read or read_inputs)(inputs, published.positions, tasks.parallelism))
        summary.records, summary.quarantined = bronze.records, bronze.quarantined
        summary.side_rows = bronze.side_rows
        if summary.is_new:
            nearby: Tasks = tasks if bronze.records >= MANY_RECORDS else LocalTasks(1)
            if bronze.records:
                _derive(nearby, writing, bronze, stage)
            with stage("findings"):
                from kohort.fleet.findings import find_all  # it loads the simulator, for which most verbs have no use

                found = [each.row() for each in (find or find_all)(writing, nearby)]
                writing.store_small(FINDINGS, found)
                writing.put(FINDINGS)
                summary.findings = len(found)
            with stage("publish"):
                writing.publish(bronze.positions)
            if writing.number % UPKEEP_EVERY == 0:
                with stage("upkeep"):
                    published.upkeep()
        summary.run, summary.positions = published.run, published.positions
    return summary


def _derive(tasks: Tasks, run: Run, bronze: StoredBronze, stage: Stage) -> None:
    """Make silver and gold of the records that this run stored."""
    if bronze.has_open or not run.is_empty(STATE_PENDING):
        closed, still_open = settle(run.written(RECORDS), run.rows(STATE_PENDING))
        run.store_small(SETTLED, closed)
        run.store_small(STATE_PENDING, still_open)
        run.put(STATE_PENDING)
    with stage("fold"):
        work = Folding(
            records=run.written(RECORDS),
            settled=run.written(SETTLED),
            last_commits=run.rows(STATE_COMMITS),
            states=run.rows(STATE_GROUPS),
            names=names_of_topics(run),
            dense=bronze.dense,
            plans={what: run.plan(table) for what, table in PARTS.items()},
        )
        for written in tasks.run(work.fold, sorted(bronze.places)):
            for what, files in written.items():
                run.take(PARTS[what], files)
    with stage("silver"):
        run.adopt(EVENTS)
        run.adopt(OWNERSHIP)
        # The new rows alone are those of the groups that gold has to look at.
        gold.replace_states(run)
    with stage("gold"):
        gold.write_gold(run)
