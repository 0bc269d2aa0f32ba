"""Two storing jobs that are killed at any moment and started again, and what must be in their table then."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.spark.storing_job import GROUP, PLACE

from kohort.spark.tables import Table

ROOT = Path(__file__).parent.parent.parent


def start(kind: str, where: str, name: str, seed: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark.storing_job", kind, where, name, str(seed)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)


def kill_often(kind: str, where: str, name: str, table: Table, kills: int, numbers: Callable[[], Iterable[int]]) -> int:
    """Kill one of two jobs `kills` times, when it has stored a little; return how many numbers the table has then."""
    chance = random.Random(7)
    jobs = [start(kind, where, name, seed) for seed in range(2)]
    try:
        for number in range(kills):
            victim = chance.randrange(2)
            for _ in range(chance.randrange(1, 6)):
                assert jobs[victim].stdout.readline(), "only a kill ends a job"
            jobs[victim].kill()
            jobs[victim].communicate()
            found = sorted(numbers())  # while the other goes on
            assert found == list(range(len(found)))
            jobs[victim] = start(kind, where, name, number + 2)
    finally:
        for each in jobs:
            each.kill()
            each.communicate()
    reached = table.held(GROUP)[PLACE].offset or 0
    assert sorted(numbers()) == list(range(reached))
    return reached
