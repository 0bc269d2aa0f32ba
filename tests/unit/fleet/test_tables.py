"""The manifest of a fleet's tables: what a run wrote counts from one rename on, and what no manifest names goes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kohort.fleet.findings.facts import CommitOf, EventOf, HourOf
from kohort.fleet.fold.folded_group import SilverEvent
from kohort.fleet.schema import EVENTS, GROUP_HOURS, GROUPS, RECORDS
from kohort.fleet.tables import MANIFEST, Run, Tables, TablesBroken, TablesBusy


def filled(run: Run, *parts: str) -> None:
    """Let a run have files of events and groups."""
    for table in (EVENTS, GROUPS, GROUP_HOURS):
        for part in parts:
            file = run.directory(table) / part / "rows.parquet"
            file.parent.mkdir(parents=True)
            file.write_bytes(b"PAR1")


def test_a_run_that_died_left_nothing_that_counts_and_the_next_one_removes_it(tmp_path: Path) -> None:
    with Tables(tmp_path).begin() as died:
        filled(died, "day=2026-11-21")
    assert Tables(tmp_path).parts == {}
    assert list(tmp_path.rglob("*.parquet"))
    with Tables(tmp_path).begin() as again:
        assert again.number == 1
        assert not list(tmp_path.rglob("*.parquet"))


def test_rows_and_positions_are_published_together(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    with tables.begin() as run:
        filled(run, "day=2026-11-21")
        run.adopt(EVENTS)
        run.publish({"cluster": {0: 17, 49: 3}})
    seen = Tables(tmp_path)
    assert (seen.run, seen.parts, seen.positions) == (1, {"silver/events": ["run=1"]}, {"cluster": {0: 17, 49: 3}})
    with seen.begin() as run:
        run.publish({"cluster": {49: 5}, "other": {0: 1}})
    assert Tables(tmp_path).positions == {"cluster": {0: 17, 49: 5}, "other": {0: 1}}


def test_what_was_replaced_stays_until_the_next_run(tmp_path: Path) -> None:
    for _ in range(2):
        with Tables(tmp_path).begin() as run:
            filled(run, "day=2026-11-20", "day=2026-11-21")
            run.adopt(EVENTS)
            run.put(GROUPS)
            run.put_days(GROUP_HOURS)
            run.publish({})
    assert sorted(each.name for each in (tmp_path / "gold/groups").iterdir()) == ["run=1", "run=2"]
    with Tables(tmp_path).begin():
        assert sorted(each.name for each in (tmp_path / "gold/groups").iterdir()) == ["run=2"]
        assert sorted(each.name for each in (tmp_path / "silver/events").iterdir()) == ["run=1", "run=2"]


def test_a_day_that_is_replaced_takes_no_other_day_with_it(tmp_path: Path) -> None:
    for days in (("day=2026-11-20", "day=2026-11-21"), ("day=2026-11-21",)):
        with Tables(tmp_path).begin() as run:
            filled(run, *days)
            run.put_days(GROUP_HOURS)
            run.publish({})
    assert Tables(tmp_path).parts["gold/group_hours"] == ["run=1/day=2026-11-20", "run=2/day=2026-11-21"]
    with Tables(tmp_path).begin():
        found = sorted(
            str(each.relative_to(tmp_path / "gold/group_hours")) for each in tmp_path.rglob("group_hours/*/*")
        )
        assert found == ["run=1/day=2026-11-20", "run=2/day=2026-11-21"]


def test_a_second_run_is_refused_while_one_works(tmp_path: Path) -> None:
    with Tables(tmp_path).begin(), pytest.raises(TablesBusy, match="another run works"):
        Tables(tmp_path).begin().__enter__()
    with Tables(tmp_path).begin():
        pass


@pytest.mark.parametrize("content", ["{", "[]", json.dumps({"version": 99})])
def test_a_manifest_that_cannot_be_read_is_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / MANIFEST).write_text(content)
    with pytest.raises(TablesBroken, match=r"manifest\.json"):
        Tables(tmp_path)


def test_what_rules_and_folds_know_of_a_row_are_columns_of_its_table() -> None:
    assert set(EventOf._fields) <= set(EVENTS.names)
    assert set(HourOf._fields) <= set(GROUP_HOURS.names)
    assert set(CommitOf._fields) - {"previous"} <= set(RECORDS.names)
    place = ("source", "partition", "offset", "at_ms", "group", "kind")
    assert EVENTS.names == (*place, *SilverEvent._fields[1:], "day", "bucket")
