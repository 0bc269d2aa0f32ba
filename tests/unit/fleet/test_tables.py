"""Runs of a fleet's tables: all or nothing, one after the other, and Delta tables for other programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from tests.unit.fleet.published import publish, write

pytest.importorskip("deltalake")

import deltalake
from deltalake.exceptions import CommitFailedError

from kohort.fleet import tables as fleet_tables
from kohort.fleet.findings.facts import CommitOf, EventOf, HourOf
from kohort.fleet.fold.folded_group import SilverEvent
from kohort.fleet.schema import EVENTS, FINDINGS, GROUP_HOURS, GROUPS, RECORDS, STATE_GROUPS, Table
from kohort.fleet.tables import Tables, TablesBusy
from kohort.spark.tables.table import TableBroken

FRIDAY, SATURDAY = date(2026, 11, 20), date(2026, 11, 21)


def event(name: str, day: date = SATURDAY) -> dict[str, Any]:
    return {"source": "a", "group": name, "offset": 7, "event": "joined", "day": day, "bucket": 3}


def hour(name: str, day: date) -> dict[str, Any]:
    return {"source": "a", "group": name, "hour_ms": 0, "protocols": ["consumer"], "day": day, "bucket": 3}


def group(name: str) -> dict[str, Any]:
    return {"source": "a", "group": name, "topics": ["t"]}


def groups_in(tables: Tables, table: Table) -> list[str]:
    return sorted(row["group"] for row in tables.small_rows(table))


def strangers(directory: Path, table: Table, version: int | None = None) -> list[dict[str, Any]]:
    """Return the rows that another program finds in a table."""
    found = deltalake.DeltaTable(str(directory / table.path), version=version)
    rows: list[dict[str, Any]] = found.to_pyarrow_table().to_pylist()
    return rows


def parquet_files(directory: Path) -> set[Path]:
    return set(directory.rglob("*.parquet"))


def test_a_run_that_fails_leaves_nothing(tmp_path: Path) -> None:
    publish(tmp_path, {EVENTS: [event("kept")]})
    before = parquet_files(tmp_path)
    with suppress(KeyboardInterrupt), Tables(tmp_path).begin() as run:
        write(run, {EVENTS: [event("lost")]})
        assert parquet_files(tmp_path) > before
        raise KeyboardInterrupt
    assert parquet_files(tmp_path) == before
    assert groups_in(Tables(tmp_path), EVENTS) == ["kept"]


def test_rows_and_positions_are_published_together(tmp_path: Path) -> None:
    rows = {EVENTS: [event("g")], STATE_GROUPS: [group("g")]}
    tables = publish(tmp_path, rows, {"cluster": {0: 17, 49: 3}})
    for shown in (tables, Tables(tmp_path)):
        assert (shown.run, shown.positions) == (1, {"cluster": {0: 17, 49: 3}})
        assert groups_in(shown, EVENTS) == groups_in(shown, STATE_GROUPS) == ["g"]
    publish(tmp_path, {}, {"cluster": {49: 5}, "other": {0: 1}})
    assert Tables(tmp_path).positions == {"cluster": {0: 17, 49: 5}, "other": {0: 1}}


def test_another_program_finds_each_table_with_its_history(tmp_path: Path) -> None:
    publish(tmp_path, {EVENTS: [event("first", FRIDAY)], GROUPS: [group("first")]})
    tables = publish(tmp_path, {EVENTS: [event("second")], GROUPS: [group("second")]})
    assert {(row["group"], row["day"], row["bucket"]) for row in strangers(tmp_path, EVENTS)} == {
        ("first", FRIDAY, 3),
        ("second", SATURDAY, 3),
    }
    assert [row["group"] for row in strangers(tmp_path, GROUPS)] == ["second"]
    assert strangers(tmp_path, RECORDS) == []
    version = {each["table"]: each["version"] for each in tables.runs[0]["versions"]}[GROUPS.path]
    assert [row["group"] for row in strangers(tmp_path, GROUPS, version)] == ["first"]
    earlier = Tables(tmp_path, run=1)
    assert groups_in(earlier, EVENTS) == groups_in(earlier, GROUPS) == ["first"]
    with pytest.raises(TableBroken, match=r"has no run 3: 1 to 2 are listed"):
        Tables(tmp_path, run=3)


def test_a_reader_sees_its_run_while_others_are_published(tmp_path: Path) -> None:
    reader = publish(tmp_path, {GROUPS: [group("first")]})
    publish(tmp_path, {GROUPS: [group("second")]})
    assert groups_in(reader, GROUPS) == ["first"]
    reader.refresh()
    assert groups_in(reader, GROUPS) == ["second"]


def test_a_day_that_is_replaced_takes_no_other_day_with_it(tmp_path: Path) -> None:
    publish(tmp_path, {GROUP_HOURS: [hour("friday", FRIDAY), hour("old", SATURDAY)]})
    tables = publish(tmp_path, {GROUP_HOURS: [hour("new", SATURDAY)]})
    assert groups_in(tables, GROUP_HOURS) == ["friday", "new"]
    assert sorted(row["group"] for row in strangers(tmp_path, GROUP_HOURS)) == ["friday", "new"]


def test_nothing_found_replaces_what_was_found(tmp_path: Path) -> None:
    publish(tmp_path, {FINDINGS: [{"source": "a", "group": "g", "finding": "stuck_group", "evidence": []}]})
    tables = publish(tmp_path, {FINDINGS: []})
    assert groups_in(tables, FINDINGS) == strangers(tmp_path, FINDINGS) == []


def commits(monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Any], None]) -> None:
    """Let `wrong` be called with each commit, as a function, instead of it."""
    commit = fleet_tables.commit_files
    monkeypatch.setattr(fleet_tables, "commit_files", lambda *of, **how: wrong(lambda: commit(*of, **how)))


@pytest.mark.parametrize("is_first", [True, False])
def test_a_run_that_is_killed_while_it_publishes_counts_nowhere_and_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    if not is_first:
        publish(tmp_path, {EVENTS: [event("kept")], GROUPS: [group("kept")]}, {"a": {0: 1}})
    with monkeypatch.context() as patch:
        done: list[None] = []

        def killed(commit: Callable[[], None]) -> None:
            if len(done) == (len(fleet_tables.EVERY_TABLE) if is_first else 2):
                raise KeyboardInterrupt
            done.append(commit())

        commits(patch, killed)
        with pytest.raises(KeyboardInterrupt):
            publish(tmp_path, {EVENTS: [event("lost")], GROUPS: [group("lost")]}, {"a": {0: 9}})
    assert "lost" in {row["group"] for row in strangers(tmp_path, EVENTS)}
    shown = Tables(tmp_path)
    kept = [] if is_first else ["kept"]
    assert groups_in(shown, EVENTS) == groups_in(shown, GROUPS) == kept
    assert shown.positions == ({} if is_first else {"a": {0: 1}})
    again = publish(tmp_path, {FINDINGS: []}, {"a": {0: 5}})
    assert (again.run, again.positions) == (1 if is_first else 2, {"a": {0: 5}})
    for table in (EVENTS, GROUPS):
        assert groups_in(again, table) == [row["group"] for row in strangers(tmp_path, table)] == kept


@contextmanager
def second_run(directory: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> Iterator[None]:
    """Publish another run as the first one begins its commit number `at`."""
    done: list[None] = []
    with monkeypatch.context() as patch:

        def after_another(commit: Callable[[], None]) -> None:
            done.append(None)
            if len(done) == at:
                publish(directory, {GROUPS: [group("second")]}, {"a": {0: 7}})
            commit()

        commits(patch, after_another)
        yield


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("at", [1, 2])
def test_of_two_runs_at_once_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, is_first: bool
) -> None:
    if not is_first:
        publish(tmp_path, {EVENTS: [event("kept")]})
    with second_run(tmp_path, monkeypatch, at), pytest.raises(TablesBusy, match="another run was published"):
        publish(tmp_path, {EVENTS: [event("first")], GROUPS: [group("first")]}, {"a": {0: 3}})
    shown = Tables(tmp_path)
    assert groups_in(shown, GROUPS) == ["second"]
    assert groups_in(shown, EVENTS) == ([] if is_first else ["kept"])
    assert shown.positions == {"a": {0: 7}}
    tables = publish(tmp_path, {FINDINGS: []})
    for table in (EVENTS, GROUPS):
        assert groups_in(tables, table) == [row["group"] for row in strangers(tmp_path, table)]


def test_a_run_that_was_overtaken_changes_no_table(tmp_path: Path) -> None:
    publish(tmp_path, {})
    with Tables(tmp_path).begin() as run:
        write(run, {EVENTS: [event("late")]})
        publish(tmp_path, {EVENTS: [event("second")]})
        with pytest.raises(TablesBusy, match="run 2 worked"):
            run.publish({})
    assert [row["group"] for row in strangers(tmp_path, EVENTS)] == ["second"]


@pytest.mark.parametrize("error", [CommitFailedError("raced"), OSError("no answer")])
def test_a_commit_whose_answer_was_lost_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def lost(commit: Callable[[], None]) -> None:
        commit()
        raise error

    commits(monkeypatch, lost)
    tables = publish(tmp_path, {EVENTS: [event("g")]}, {"a": {0: 1}})
    assert (tables.run, groups_in(tables, EVENTS)) == (1, ["g"])


def test_a_storage_that_takes_nothing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> None:
        raise OSError("no space left")

    commits(monkeypatch, full)
    with pytest.raises(TableBroken, match=r"bronze/records: no space left"):
        publish(tmp_path, {RECORDS: [{"source": "a", "day": FRIDAY, "bucket": 1}]})
    assert Tables(tmp_path).run == 0


def test_upkeep_joins_small_files_and_removes_those_of_killed_runs(tmp_path: Path) -> None:
    for number in range(3):
        tables = publish(tmp_path, {EVENTS: [event(f"g{number}")], STATE_GROUPS: [group(f"g{number}")]})
    before, files = groups_in(tables, EVENTS), len(tables.files(EVENTS))
    tables.upkeep()
    assert (tables.run, len(tables.files(EVENTS))) == (3, 1)
    assert files == 3
    assert groups_in(Tables(tmp_path), EVENTS) == before
    assert groups_in(Tables(tmp_path, run=1), STATE_GROUPS) == ["g0"], "it was replaced less than a day ago"
    with Tables(tmp_path).begin() as run:
        write(run, {EVENTS: [event("g3")]})
        run.publish({})
    assert groups_in(Tables(tmp_path), EVENTS) == [*before, "g3"]


def test_files_that_another_program_joined_are_read_on(tmp_path: Path) -> None:
    for name in ("a", "b"):
        publish(tmp_path, {EVENTS: [event(name)]})
    deltalake.DeltaTable(str(tmp_path / EVENTS.path)).optimize.compact()
    tables = publish(tmp_path, {FINDINGS: []})
    assert len(tables.files(EVENTS)) == 1
    assert groups_in(publish(tmp_path, {EVENTS: [event("c")]}), EVENTS) == ["a", "b", "c"]


def test_tables_of_another_layout_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.fleet.tables.LAYOUT", 1)
    publish(tmp_path, {})
    monkeypatch.undo()
    with pytest.raises(TableBroken, match=r"layout 1, and this one reads 2\): read the log into another directory"):
        Tables(tmp_path)


def test_a_table_that_is_gone_is_named(tmp_path: Path) -> None:
    tables = publish(tmp_path, {EVENTS: [event("g")]})
    (tmp_path / EVENTS.path).rename(tmp_path / "elsewhere")
    tables.refresh()
    with pytest.raises(TableBroken, match="silver/events"):
        tables.small_rows(EVENTS)


def test_what_rules_and_folds_know_of_a_row_are_columns_of_its_table() -> None:
    assert set(EventOf._fields) <= set(EVENTS.names)
    assert set(HourOf._fields) <= set(GROUP_HOURS.names)
    assert set(CommitOf._fields) - {"previous"} <= set(RECORDS.names)
    place = ("source", "partition", "offset", "at_ms", "group", "kind")
    assert EVENTS.names == (*place, *SilverEvent._fields[1:], "day", "bucket")
