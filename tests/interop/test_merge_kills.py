"""`kill -9` of jobs at any moment of a merge: the table is that of a replay up to its offset, and never another."""

from __future__ import annotations

import random
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("psycopg")

from interop.postgres import Postgres
from tests.spark.killing import output
from tests.spark.lake import rows_in, stored
from tests.spark.merging import require_replay
from tests.spark.merging_job import change_at
from tests.spark.storing_job import GROUP, PLACE, open_table

pytestmark = [pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
KILLS = 12


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """One server for this file."""
    with Postgres() as running:
        yield running


def start(kind: str, where: str, name: str, seed: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark.merging_job", kind, where, name, str(seed)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)


def steps_of(job: subprocess.Popen[bytes], count: int) -> None:
    """Wait until a job has taken steps."""
    for _ in range(count):
        assert output(job).readline(), "only a kill ends a job"


def kill_in_steps(kind: str, where: str, name: str) -> None:
    """Kill one of two jobs again and again, within a step: some part of the time that one takes after the last."""
    chance = random.Random(3)
    jobs = [start(kind, where, name, seed) for seed in range(2)]
    try:
        for number in range(KILLS):
            victim = chance.randrange(2)
            steps_of(jobs[victim], chance.randrange(1, 4))
            # Until then, or its next step: whichever is first.
            select.select([output(jobs[victim])], [], [], chance.uniform(0, 0.15))
            jobs[victim].kill()
            jobs[victim].communicate()
            jobs[victim] = start(kind, where, name, number + 2)
        steps_of(jobs[0], 1)
    finally:
        for each in jobs:
            each.kill()
            each.communicate()


@pytest.mark.parametrize("name", ["rows", "history"])
@pytest.mark.parametrize("kind", ["delta", "iceberg", "postgres"])
def test_a_job_that_is_killed_within_merges_leaves_the_table_of_a_replay(
    kind: str, name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    read: Callable[[], list[dict[str, Any]]]
    if kind == "postgres":
        where = request.getfixturevalue("postgres").conninfo

        def read() -> list[dict[str, Any]]:
            import psycopg
            from psycopg.rows import dict_row

            with psycopg.connect(where, row_factory=dict_row) as connection:
                return list(connection.execute(f"SELECT * FROM {name}"))
    else:
        where = str(tmp_path)

        def read() -> list[dict[str, Any]]:
            return rows_in(table)

    table = open_table(kind, where, name)
    kill_in_steps(kind, where, name)
    reached = stored(table, GROUP, [PLACE])[PLACE]
    assert reached > KILLS
    require_replay(read(), list(map(change_at, range(reached))), is_history=name == "history")
