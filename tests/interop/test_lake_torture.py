"""The torture of the tables itself: its account finds what is wrong with a table, and a short run finds nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from interop.lake_torture.account import Name, gaps, judged, snapshots
from interop.lake_torture.schedule import KILLS, schedule

from interop import object_store, postgres

ROOT = Path(__file__).parents[2]
LOG = {0: {0: "a", 1: "b", 3: "d"}, 1: {0: "x"}}
WHOLE = [(0, 0, "a"), (0, 1, "b"), (0, 3, "d"), (1, 0, "x")]
"""Offset 2 is the end of a transaction."""


def names(rows: list[tuple[int, int, str]]) -> list[Name]:
    return [each.name for each in judged("job", "reader", rows, LOG)[1]]


def test_each_fault_of_a_table_is_named() -> None:
    assert names(WHOLE) == []
    assert names(WHOLE[1:]) == [Name.MISSING]
    assert names([*WHOLE, WHOLE[2]]) == [Name.TWICE]
    assert names([*WHOLE, (0, 2, "c")]) == [Name.FOREIGN]
    assert sorted(names([*WHOLE[1:], (0, 0, "of another topic")])) == [Name.MISSING, Name.FOREIGN]


def test_a_reader_beside_the_jobs_sees_a_beginning_of_each_partition() -> None:
    def seen(rows: list[tuple[int, int, str]]) -> list[Name]:
        return [each.name for each in gaps("job", "reader", snapshots(rows), LOG)]

    assert seen([]) == seen(WHOLE[:2]) == seen(WHOLE) == []
    assert seen([WHOLE[0], WHOLE[2]]) == [Name.GAP]
    assert seen([WHOLE[0], WHOLE[0]]) == [Name.TWICE]


def test_a_seed_repeats_its_schedule_of_a_thousand_kills_an_hour() -> None:
    faults = schedule(7, 3600)
    assert faults == schedule(7, 3600)
    assert sum(each.kind in KILLS for each in faults) >= 1000
    assert faults != schedule(8, 3600)


@pytest.mark.timeout(900)
@pytest.mark.spark
def test_a_minute_of_kills_leaves_each_row_once(tmp_path: Path) -> None:
    object_store.program()
    postgres.program("initdb")
    command = [sys.executable, "-m", "interop.lake_torture", "--minutes", "1", "--seed", "7", "--keep", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
