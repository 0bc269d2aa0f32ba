"""The torture of the tables itself: its account finds what is wrong with a table, and a short run finds nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from interop.fault_schedule import schedule
from interop.lake_torture import account
from interop.lake_torture.account import Name, gaps, judged, snapshots
from interop.lake_torture.fault_rules import KILLS, RULES
from interop.lake_torture.merged_keys import DELETES, KEYS

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


def test_what_numbering_and_merging_make_of_a_log_is_known() -> None:
    assert account.as_numbered({0: {3: "a", 5: "b"}, 1: {0: "x"}}) == {0: {3: "1 a", 5: "2 b"}, 1: {0: "1 x"}}
    log = {0: {offset: str(offset) for offset in (1, 5, KEYS, KEYS + 1, 5 + DELETES * KEYS)}}
    deleting = DELETES * KEYS  # has the key of offset KEYS
    assert account.as_merged(log) == {0: {KEYS: str(KEYS), KEYS + 1: str(KEYS + 1), 5 + deleting: str(5 + deleting)}}
    log[0][deleting] = "deletes"
    assert sorted(account.as_merged(log)[0]) == [KEYS + 1, 5 + deleting]


def test_a_reader_beside_a_merge_sees_the_table_after_a_record() -> None:
    log = {0: {offset: str(offset) for offset in (1, 2, KEYS + 1, KEYS + 2)}}

    def seen(*offsets: int) -> list[Name]:
        rows = [(0, offset, str(offset)) for offset in offsets]
        return [each.name for each in account.no_states("job", "reader", account.rows_seen(rows), log)]

    assert seen() == seen(1) == seen(1, 2) == seen(2, KEYS + 1) == seen(KEYS + 1, KEYS + 2) == []
    assert seen(1, KEYS + 2) == seen(2) == [Name.GAP]
    assert seen(1, 1) == [Name.TWICE]


def test_a_seed_repeats_its_schedule_of_a_thousand_kills_an_hour() -> None:
    faults = schedule(RULES, 7, 3600)
    assert faults == schedule(RULES, 7, 3600)
    assert sum(each.kind in KILLS for each in faults) >= 1000
    assert faults != schedule(RULES, 8, 3600)


@pytest.mark.timeout(1800)
@pytest.mark.spark
def test_a_minute_of_kills_leaves_each_row_once(tmp_path: Path) -> None:
    object_store.program()
    postgres.program("initdb")
    command = [sys.executable, "-m", "interop.lake_torture", "--minutes", "1", "--seed", "7"]
    command += ["--jobs", "delta-cluster,iceberg-merge,postgres", "--keep", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
