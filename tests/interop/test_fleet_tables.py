"""A fleet's tables in an object store: runs that are killed are repeated, and strangers read while a run writes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from interop.foreign_readers import duckdb, secret
from interop.object_store import BUCKET, ObjectStore
from interop.process import Child
from tests.fleets import generate

from kohort.fleet.schema import EVENTS, FINDINGS, GROUP_HOURS, GROUPS, STATE_GROUPS, Table
from kohort.fleet.tables import Tables

pytestmark = pytest.mark.timeout(1800)

ROOT = Path(__file__).parent.parent.parent
WHERE = f"s3://{BUCKET}/fleet"
SCENARIOS = ("eager", "gone", "restless", "simple", "skewed consumer")
COMMITTED = "_delta_log/00000000000000000001.json"


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    """One object store for this file, which clients of S3 find by their environment."""
    with ObjectStore() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        yield running


def fleet_run(tables: str | Path, log: Path) -> list[str]:
    """Return the command of a run that reads a log, whose folder names the source."""
    return [sys.executable, "-m", "kohort", "fleet", "run", "--tables", f"{tables}", f"{log.name}={log}"]


def done(tables: str | Path, log: Path) -> None:
    outcome = subprocess.run(fleet_run(tables, log), cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stderr


def seen_in(look: Callable[[], bool], _: str) -> bool:
    """Return what is seen elsewhere than in the output of a program."""
    return look()


def rows_of(tables: Tables, table: Table) -> list[str]:
    """Return the rows of a table, with lists that have an order of their own sorted."""
    return sorted(repr(sorted(row.items())) for row in tables.small_rows(table))


@pytest.mark.capability(
    "spark", "a fleet's tables in an object store: runs killed and repeated; read by DuckDB, Polars"
)
def test_runs_into_an_object_store_are_whole_or_not_there(store: ObjectStore, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    logs = [tmp_path / name for name in ("first", "second")]
    for seed, log in enumerate(logs):
        generate(log, groups=len(SCENARIOS), seed=seed, scenarios=SCENARIOS, partitions=2)
    folder = store.folder / BUCKET / "fleet"
    moments: list[Callable[[], bool]] = [
        lambda: any((folder / EVENTS.path).rglob("*.parquet")),  # tasks write
        (folder / GROUP_HOURS.path / COMMITTED).exists,  # some tables are committed
    ]
    for number, is_reached in enumerate(moments):
        run = Child(fleet_run(WHERE, logs[0]), tmp_path / f"killed-{number}.log")
        run.wait_for(partial(seen_in, is_reached), "a run", 600)
        run.crash()
        assert Tables(WHERE).run == 0
    done(WHERE, logs[0])
    done(tmp_path / "tables", logs[0])
    found, expected = Tables(WHERE), Tables(tmp_path / "tables")
    assert (found.run, found.positions) == (expected.run, expected.positions)
    for table in (EVENTS, GROUP_HOURS, GROUPS, FINDINGS, STATE_GROUPS):
        assert rows_of(found, table) == rows_of(expected, table), table.path

    connection = duckdb("delta")
    connection.execute(secret(store.endpoint))

    def events_seen() -> tuple[int, int]:
        """Return how many events DuckDB and Polars find."""
        (by_duckdb,) = connection.execute(f"SELECT count(*) FROM delta_scan('{WHERE}/{EVENTS.path}')").fetchone()
        return by_duckdb, polars.scan_delta(f"{WHERE}/{EVENTS.path}").select(polars.len()).collect().item()

    before = events_seen()
    run = Child(fleet_run(WHERE, logs[1]), tmp_path / "second.log")
    seen = set()
    while run.is_running:
        seen |= set(events_seen())
    assert run.process.returncode == 0, run.text()
    after = events_seen()
    assert before[0] == before[1] < after[0] == after[1]
    assert before[0] in seen
    assert seen <= {before[0], after[0]}, "a stranger sees a table before a run or after it"
    assert sum(file.rows for file in Tables(WHERE).files(EVENTS)) == after[0]
    assert sum(file.rows for file in Tables(WHERE, run=1).files(EVENTS)) == before[0]
