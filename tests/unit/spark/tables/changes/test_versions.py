"""The history of keys: whatever the rounds, it is that of all changes in one pass."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

import pyarrow as pa
from tests.unit.spark.tables.changes.test_row_change import rows

from kohort.spark.tables.changes.row_change import DELETED, Change
from kohort.spark.tables.changes.versions import changed_versions, following

CHANGE = Change(("id",), ("at",), is_history=True)
COLUMNS = CHANGE.columns_in(rows().schema)

Version = tuple[Any, ...]


def replay(records: list[tuple[Any, ...]]) -> set[Version]:
    """Return the versions of all changes, in plain Python."""
    by_key: dict[int, dict[int, tuple[Any, ...]]] = {}
    for record in records:
        by_key.setdefault(record[0], {})[record[1]] = record
    found = set()
    for key, changes in by_key.items():
        orders = sorted(changes)
        for at, until in zip(orders, [*orders[1:], None], strict=True):
            _, _, value, is_deleted = changes[at]
            if not is_deleted:
                found.add((key, value, at, until, until is None))
    return found


class Table:
    """Versions and deletions, which take what a round changes."""

    def __init__(self) -> None:
        self.versions: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.deletions: set[tuple[int, int]] = set()

    def take(self, table: pa.Table) -> None:
        changes = CHANGE.last_changes(table)
        keys = set(changes["id"].to_pylist())
        stored = pa.Table.from_pylist([each for (key, _), each in self.versions.items() if key in keys], COLUMNS)
        gone = [{"id": key, "at": at} for key, at in self.deletions if key in keys]
        deletions = pa.Table.from_pylist(gone, pa.schema([COLUMNS.field("id"), COLUMNS.field("at")]))
        changes = following(changes, [stored.select(["id", "at"]), deletions], CHANGE)
        self.deletions |= {
            (each["id"], each["at"]) for each in changes.to_pylist() if each[DELETED] and each["at"] is not None
        }
        for each in changed_versions(changes, stored, deletions, CHANGE).to_pylist():
            if each.pop(DELETED):
                self.versions.pop((each["id"], each["valid_from"]), None)
            else:
                self.versions[each["id"], each["valid_from"]] = each

    def shown(self) -> set[Version]:
        return {
            (each["id"], each["value"], each["valid_from"], each["valid_to"], each["is_current"])
            for each in self.versions.values()
        }


records = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 6), st.sampled_from("abc"), st.booleans()), min_size=1, max_size=25
)


@given(records, st.integers())
def test_any_split_into_rounds_gives_the_history_of_one_pass(changes: list[tuple[Any, ...]], seed: int) -> None:
    chance, table = random.Random(seed), Table()
    at = 0
    while at < len(changes):
        stop = at + chance.randrange(1, 6)
        table.take(rows(*changes[at:stop]))
        at = stop
    assert table.shown() == replay(changes)


def test_a_late_change_is_put_into_the_middle() -> None:
    table = Table()
    table.take(rows((1, 10, "a"), (1, 30, "c")))
    table.take(rows((1, 20, "b")))
    assert table.shown() == {(1, "a", 10, 20, False), (1, "b", 20, 30, False), (1, "c", 30, None, True)}


def test_what_is_older_than_a_deletion_ends_there() -> None:
    table = Table()
    table.take(rows((1, 30, None, True)))
    table.take(rows((1, 10, "a")))
    table.take(rows((1, 20, None, True)))
    table.take(rows((1, 25, "b")))
    assert table.shown() == {(1, "a", 10, 20, False), (1, "b", 25, 30, False)}


def test_a_tombstone_behind_a_stored_deletion_changes_nothing() -> None:
    table = Table()
    table.take(rows((1, 10, "a")))
    table.take(rows((1, 20, None, True)))
    table.take(rows((1, None, None, True)))
    assert table.shown() == {(1, "a", 10, 20, False)}


def test_only_versions_that_change_are_written() -> None:
    stored = pa.Table.from_pylist(
        [
            {
                "id": 1,
                "at": at,
                "value": "x",
                "valid_from": at,
                "valid_to": at + 1 if at < 9 else None,
                "is_current": at == 9,
            }
            for at in range(10)
        ],
        COLUMNS,
    )
    changes = CHANGE.last_changes(rows((1, 20, "y")))
    none = pa.schema([COLUMNS.field("id"), COLUMNS.field("at")]).empty_table()
    found = changed_versions(changes, stored, none, CHANGE)
    assert sorted((each["valid_from"], each["valid_to"]) for each in found.to_pylist()) == [(9, 20), (20, None)]
