"""`PostgresTable.merge` in a real PostgreSQL: the rows are those of a replay in plain Python, read by psycopg."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("psycopg")

import pyarrow as pa
from interop.postgres import Postgres
from tests.spark.lake import ArrowFrame, step
from tests.spark.merging import merge_by_two, require_replay
from tests.unit.spark.tables.changes.test_row_change import rows

from kohort.model.ids import TopicPartition
from kohort.spark.tables import PostgresTable, TableBroken
from kohort.spark.tables.changes.row_change import Change

pytestmark = [pytest.mark.timeout(300)]

P = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """One server for this file."""
    with Postgres() as running:
        yield running


@pytest.fixture
def table(postgres: Postgres) -> Iterator[PostgresTable]:
    """A table that does not exist yet."""
    made = PostgresTable(postgres.conninfo, f"t_{uuid.uuid4().hex[:8]}")
    yield made
    made.close()


def found(postgres: Postgres, table: PostgresTable, where: str = "") -> list[dict[str, Any]]:
    """Return the rows of a table."""
    import psycopg
    from psycopg.rows import dict_row

    with psycopg.connect(postgres.conninfo, row_factory=dict_row) as connection:
        return list(connection.execute(f"SELECT * FROM {table.name} {where}"))


def run(postgres: Postgres, statement: str) -> None:
    import psycopg

    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        connection.execute(statement)


def merge(table: PostgresTable, change: Change, *rounds: pa.Table) -> None:
    """Store changes, a step each."""
    for each in rounds:
        at = table.offsets("g", [P]).get(P)
        expected = None if at is None else at.offset
        table.merge(ArrowFrame(each), "g", {P: step(expected, (expected or 0) + 1)}, change)


def some_changes(chance: random.Random) -> list[tuple[Any, ...]]:
    """Return changes of a few keys, no two of one order."""
    changes: dict[tuple[int, int], tuple[Any, ...]] = {}
    for _ in range(chance.randrange(1, 60)):
        key, at = chance.randrange(4), chance.randrange(40)
        changes.setdefault((key, at), (key, at, chance.choice("abc"), chance.random() < 0.3))
    return list(changes.values())


@pytest.mark.parametrize("is_history", [False, True])
def test_any_rounds_of_two_writers_give_the_table_of_one_pass(postgres: Postgres, is_history: bool) -> None:
    change = Change(("id",), ("at",), is_history=is_history)
    for seed in range(12):
        changes = some_changes(random.Random(seed))
        writers = [PostgresTable(postgres.conninfo, f"seed_{seed}_{is_history}".lower()) for _ in range(2)]
        merge_by_two(writers, changes, seed, change)
        require_replay(found(postgres, writers[0]), changes, is_history=is_history)
        for each in writers:
            each.close()


def test_two_jobs_at_the_same_time_leave_one_row_of_each_key(postgres: Postgres, table: PostgresTable) -> None:
    change, failures = Change(("id",), ("at",)), []
    changes = [
        [(key, at * 2 + number, f"{number}", at % 5 == 0) for at in range(40) for key in range(9)] for number in (0, 1)
    ]

    def job(number: int) -> None:
        own = PostgresTable(postgres.conninfo, table.name)
        place = TopicPartition("t", number)
        try:
            for at in range(0, 360, 9):
                steps = {place: step(at or None, at + 9)}
                own.merge(ArrowFrame(rows(*changes[number][at : at + 9])), "g", steps, change)
        except Exception as error:
            failures.append(error)
        finally:
            own.close()

    jobs = [threading.Thread(target=job, args=[number]) for number in range(2)]
    for each in jobs:
        each.start()
    for each in jobs:
        each.join()
    assert not failures
    require_replay(found(postgres, table), changes[0] + changes[1], is_history=False)


@pytest.mark.parametrize("is_history", [False, True])
def test_a_deletion_without_an_order_ends_late_changes(
    postgres: Postgres, table: PostgresTable, is_history: bool
) -> None:
    change = Change(("id",), ("at",), is_history=is_history)
    merge(table, change, rows((1, 9, "a"), (2, None, None, True)), rows((1, None, None, True)), rows((1, 5, "late")))
    expected = [("late", 9)] if is_history else []
    assert [(each["value"], each.get("valid_to")) for each in found(postgres, table)] == expected


def test_a_table_of_ones_own_keeps_its_types_and_the_columns_that_rows_lack(
    postgres: Postgres, table: PostgresTable
) -> None:
    first, second = uuid.uuid4(), uuid.uuid4()
    run(
        postgres,
        f'CREATE TABLE {table.name} ("the % ""key""" uuid, at numeric, value varchar(5) NOT NULL, mine text DEFAULT 7)',
    )
    run(postgres, f"INSERT INTO {table.name} VALUES ('{first}', 1, 'a', 'kept'), ('{first}', 1, 'b', 'too')")
    change = Change(('the % "key"',), ("at",))

    def keyed(*records: tuple[Any, ...]) -> pa.Table:
        ids = pa.array([str(each[0]) for each in records])
        return rows(*[(0, *each[1:]) for each in records]).drop(["id"]).append_column('the % "key"', ids)

    merge(table, change, keyed((first, 2, "new"), (second, 2, "x")), keyed((second, 3, None, True), (second, 2, "y")))
    assert sorted((each["value"], each["mine"]) for each in found(postgres, table)) == [("new", "kept"), ("new", "too")]
    with pytest.raises(TableBroken, match="value too long"):
        merge(table, change, keyed((second, 9, "too long")))
    assert len(found(postgres, table)) == 2


def test_a_name_that_leaves_no_room_for_the_table_of_deletions_is_refused(postgres: Postgres) -> None:
    table = PostgresTable(postgres.conninfo, "t" * 60)
    with pytest.raises(TableBroken, match="use a shorter name"):
        merge(table, Change(("id",), ("at",)), rows((1, 1, "a")))
    table.close()


def test_a_vacuum_of_a_server_that_is_gone_is_a_sentence() -> None:
    with pytest.raises(TableBroken, match=r"was not vacuumed: .*see to the server"):
        PostgresTable("host=127.0.0.1 port=1", "arrivals").vacuum()
