"""`exactly_once(PostgresTable(…))` in a real PostgreSQL: one transaction, fenced owners, crashes of either side."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from interop.brokers import Broker
from interop.group import Group, keyed
from interop.postgres import Postgres
from interop.producers import produce
from tests.spark.cluster import Topic
from tests.spark.killing import kill_often, kill_streams
from tests.spark.lake import offsets_of, step, stored

from kohort.model.ids import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kohort.spark.tables import PostgresTable

pytestmark = [pytest.mark.timeout(1200), pytest.mark.spark]

P, Q = TopicPartition("flights", 0), TopicPartition("flights", 1)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """One server for this file."""
    with Postgres() as running:
        yield running


@pytest.fixture(params=[20_000, 0], ids=["driver", "tasks"])
def table(request: pytest.FixtureRequest, postgres: Postgres) -> Iterator[PostgresTable]:
    """A table that does not exist yet, filled from the driver or by tasks."""
    with opened(postgres, f"t_{uuid.uuid4().hex[:8]}", request.param) as made:
        yield made


@contextmanager
def opened(postgres: Postgres, name: str, rows_on_driver: int = 20_000) -> Iterator[PostgresTable]:
    """A table, closed at the end."""
    from kohort.spark.tables import PostgresTable

    table = PostgresTable(postgres.conninfo, name, rows_on_driver=rows_on_driver)
    try:
        yield table
    finally:
        table.close()


def tables_of(postgres: Postgres) -> list[str]:
    return [name for (name,) in query(postgres, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]


def query(postgres: Postgres, text: str) -> list[Any]:
    import psycopg

    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        cursor = connection.execute(text)
        return cursor.fetchall() if cursor.description else []


def rows_in(postgres: Postgres, table: PostgresTable) -> int:
    ((count,),) = query(postgres, f"SELECT count(*) FROM {table.name}")
    return int(count)


def test_rows_and_offsets_come_together_and_the_same_step_is_refused_a_second_time(
    spark: SparkSession, postgres: Postgres, table: PostgresTable
) -> None:
    from kohort.spark.tables import Fenced

    table.set_offsets("g", {Q: 5})
    steps = {P: step(None, 100), Q: step(5, 6)}
    table.append(spark.range(100).selectExpr("id", "string(id) name"), "g", steps)
    with pytest.raises(Fenced):
        table.append(spark.range(100).selectExpr("id", "string(id) name"), "g", steps)
    assert query(postgres, f"SELECT count(*), sum(id) FROM {table.name}") == [(100, 4950)]
    assert stored(table, "g", [P, Q]) == {P: 100, Q: 6}
    assert stored(table, "another", [P, Q]) == {}
    assert not [name for name in tables_of(postgres) if name.startswith("kohort_staging")]


def test_every_type_comes_back_as_it_was(spark: SparkSession, postgres: Postgres, table: PostgresTable) -> None:
    rows = [
        (1, 2, 3, 4, 1.5, 2.5, 'a,"b"\nc', b"\x00\xff,\n", True, date(1, 1, 1), datetime(2020, 1, 1, 3, 4, 5, 678)),
        (*([None] * 6), "", b"", False, date(9999, 12, 31), datetime(1901, 1, 1)),
        tuple([None] * 11),
        (-1, -2, -3, -(1 << 63), float("inf"), float("-inf"), "\\N", b"\\x", None, None, None),
    ]
    names = "byte tinyint, short smallint, i int, l bigint, f float, d double, s string, b binary, t boolean, da date"
    frame = spark.createDataFrame(rows, f"{names}, ts timestamp").selectExpr(
        "*", "cast(ts AS timestamp_ntz) ntz", "cast(d AS decimal(20, 4)) de"
    )
    frame = frame.selectExpr("*", "cast('-1234567890.1234' AS decimal(20, 4)) big")
    table.append(frame, "g", {P: step(None, 4)})
    kinds = f"SELECT data_type FROM information_schema.columns WHERE table_name = '{table.name}'"
    assert {kind for (kind,) in query(postgres, kinds)} == {
        *("smallint", "integer", "bigint", "real", "double precision", "text", "bytea", "boolean", "date", "numeric"),
        *("timestamp with time zone", "timestamp without time zone"),
    }
    back = query(postgres, f"SELECT * FROM {table.name}")
    assert Counter(map(in_utc, back)) == Counter(map(in_utc, frame.collect()))
    assert {row[-1] for row in back} == {Decimal("-1234567890.1234")}


def test_odd_values_are_stored_as_they_are_or_refused_with_their_place(
    spark: SparkSession, postgres: Postgres, table: PostgresTable
) -> None:
    from kohort.spark.tables import SchemaMismatch, TableBroken

    frame = spark.sql(
        "SELECT 1 id, DATE'-0043-03-15' d, TIMESTAMP'+10000-01-01 00:00:00Z' t, TIMESTAMP_NTZ'0000-12-31 01:02:03' n,"
        " double('NaN') x, float('-0.0') y"
    )
    table.append(frame, "g", {P: step(None, 1)})
    query(postgres, f"ALTER TABLE {table.name} ADD COLUMN s text, ADD COLUMN z numeric(10, 2)")
    assert query(
        postgres, f"SELECT d::text, (t AT TIME ZONE 'UTC')::text, n::text, x::text, y::text FROM {table.name}"
    ) == [("0044-03-15 BC", "10000-01-01 00:00:00", "0001-12-31 01:02:03 BC", "NaN", "-0")]
    with pytest.raises(TableBroken, match=r'invalid byte sequence for encoding "UTF8": 0x00 \(COPY .*line 1'):
        table.append(spark.sql(r"SELECT 2 id, 'a\u0000b' s"), "g", {P: step(1, 2)})
    for rounded in ("1.125BD", "0.125D"):  # PostgreSQL rounds both without an error
        with pytest.raises(SchemaMismatch, match=r"its column z is numeric\(10, 2\), the rows' would be"):
            table.append(spark.sql(f"SELECT 2 id, {rounded} z"), "g", {P: step(1, 2)})
    with pytest.raises(SchemaMismatch, match="column a is array<int>, for which PostgreSQL has no type"):
        table.append(spark.sql("SELECT 2 id, array(1, NULL) a"), "g", {P: step(1, 2)})
    assert stored(table, "g", [P]) == {P: 1}


def in_utc(row: Iterable[object]) -> tuple[object, ...]:
    """Return a row whose moment, which is the eleventh value, has a time zone."""
    return tuple(
        each.astimezone(UTC) if number == 10 and isinstance(each, datetime) else each for number, each in enumerate(row)
    )


def test_rows_without_a_place_are_refused_before_anything_is_written(
    spark: SparkSession, postgres: Postgres, table: PostgresTable
) -> None:
    from kohort.spark.tables import SchemaMismatch

    query(postgres, f"CREATE TABLE {table.name} (id numeric, name varchar(3), made timestamptz DEFAULT now())")
    table.append(spark.range(2).selectExpr("id", "'abc' name"), "g", {P: step(None, 2)})
    for wrong, message in (
        ("id, 1 x", "it has no column x integer"),
        ("'a' id", "its column id is numeric, the rows' would be text"),
        ("id, array(id) name", r"to_json\(name\)"),
    ):
        with pytest.raises(SchemaMismatch, match=message):
            table.append(spark.range(2).selectExpr(*wrong.split(", ", 1)), "g", {P: step(2, 4)})
    with pytest.raises(Exception, match="too long"):
        table.append(spark.range(2).selectExpr("id", "'abcdef' name"), "g", {P: step(2, 4)})
    assert rows_in(postgres, table) == 2
    assert stored(table, "g", [P]) == {P: 2}


def test_a_table_has_one_row_of_offsets_however_it_is_named(spark: SparkSession, postgres: Postgres) -> None:
    from kohort.spark.tables import Fenced

    name = f"t_{uuid.uuid4().hex[:8]}"
    with opened(postgres, name) as short, opened(postgres, f"public.{name}") as full:
        short.append(spark.range(2), "g", {P: step(None, 2)})
        with pytest.raises(Fenced):
            full.append(spark.range(2), "g", {P: step(None, 2)})
        assert stored(full, "g", [P]) == stored(short, "g", [P]) == {P: 2}


def test_jobs_that_store_at_once_take_each_step_once(spark: SparkSession, postgres: Postgres) -> None:
    """Each tries every step, and one of them gets it."""
    from kohort.spark.tables import Fenced

    name = f"t_{uuid.uuid4().hex[:8]}"
    taken: list[int] = []

    def store() -> None:
        with opened(postgres, name) as table:
            for offset in range(5):
                try:
                    table.append(spark.range(offset, offset + 1), "g", {P: step(offset or None, offset + 1)})
                except Fenced:
                    continue
                taken.append(offset)

    jobs = [threading.Thread(target=store) for _ in range(3)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    stored = [row for (row,) in query(postgres, f"SELECT id FROM {name} ORDER BY id")]
    assert stored == sorted(taken) == list(range(5))


def test_a_round_is_written_again_after_its_server_crashed_and_ends_with_a_sentence_if_it_always_does(
    spark: SparkSession, table: PostgresTable, postgres: Postgres
) -> None:
    from kohort.spark.tables import TableBroken

    table.append(spark.range(10), "g", {P: step(None, 10)})

    class Crashing:
        """A frame that is read just as the server dies and comes back, so often."""

        schema = spark.range(1).schema

        def __init__(self, crashes: int) -> None:
            self.crashes = crashes

        def __getattr__(self, name: str) -> Any:
            if self.crashes:
                self.crashes -= 1
                postgres.crash()
                postgres.start()
            return getattr(spark.range(10, 20), name)

    with pytest.raises(
        TableBroken, match=rf"{table.name}.* of group g, flights-0 from 10 to 20: .*start the job again"
    ):
        table.append(Crashing(100), "g", {P: step(10, 20)})
    assert stored(table, "g", [P]) == {P: 10}
    assert rows_in(postgres, table) == 10
    table.append(Crashing(1), "g", {P: step(10, 20)})
    assert stored(table, "g", [P]) == {P: 20}
    assert rows_in(postgres, table) == 20


def test_sessions_that_an_administrator_ends_between_rounds_end_no_job(
    spark: SparkSession, table: PostgresTable, postgres: Postgres
) -> None:
    def end_sessions() -> None:
        query(postgres, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

    table.append(spark.range(10), "g", {P: step(None, 10)})
    end_sessions()
    assert stored(table, "g", [P]) == {P: 10}
    end_sessions()
    table.append(spark.range(10, 20), "g", {P: step(10, 20)})
    end_sessions()
    table.set_offsets("g", {P: 30})
    end_sessions()
    assert table.vacuum() == 0
    assert stored(table, "g", [P]) == {P: 30}
    assert rows_in(postgres, table) == 20


def test_a_commit_whose_answer_is_lost_is_found_in_the_table(
    spark: SparkSession, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks after the server committed: the round is not read again."""
    import psycopg

    with opened(postgres, f"t_{uuid.uuid4().hex[:8]}") as table:
        table.append(spark.range(10), "g", {P: step(None, 10)})
        leave = psycopg.Transaction.__exit__

        def cut(transaction: Any, *error: Any) -> Any:
            answer = leave(transaction, *error)
            monkeypatch.undo()
            transaction.connection.close()
            if error[0] is None:
                raise psycopg.OperationalError("the connection is lost")
            return answer

        monkeypatch.setattr(psycopg.Transaction, "__exit__", cut)
        table.append(spark.range(10, 20), "g", {P: step(10, 20)})
        assert rows_in(postgres, table) == 20


def test_jobs_that_fence_and_are_killed_leave_each_number_once(postgres: Postgres) -> None:
    name = f"t_{uuid.uuid4().hex[:8]}"
    with opened(postgres, name) as table:

        def numbers() -> list[int]:
            return [number for (number,) in query(postgres, f"SELECT id FROM {name}")]

        assert kill_often("postgres", postgres.conninfo, name, table, 8, numbers) > 8


def test_spark_applications_that_share_a_group_and_are_killed_leave_each_record_once(
    postgres: Postgres, broker: Broker
) -> None:
    name = f"t_{uuid.uuid4().hex[:8]}"
    with opened(postgres, name) as table, Topic(broker.bootstrap, name, partitions=3) as topic:
        written = kill_streams(topic, "postgres", postgres.conninfo, name, table, 2)
        ends = offsets_of(table, topic)
    places = Counter(query(postgres, f'SELECT partition, "offset" FROM {name}'))
    assert places == Counter((partition, offset) for partition, end in ends.items() for offset in range(end))
    assert places.total() == written


def test_a_vacuum_drops_what_dead_writers_left(spark: SparkSession, postgres: Postgres) -> None:
    with opened(postgres, f"t_{uuid.uuid4().hex[:8]}") as table:
        table.append(spark.range(1), "g", {P: step(None, 1)})
        query(postgres, "CREATE UNLOGGED TABLE kohort_staging_1000_dead (id bigint)")
        assert table.vacuum() == 1
        assert "kohort_staging_1000_dead" not in tables_of(postgres)


def test_a_writer_whose_staging_table_was_dropped_writes_its_rows_again(
    spark: SparkSession, postgres: Postgres
) -> None:
    with (
        opened(postgres, f"t_{uuid.uuid4().hex[:8]}", rows_on_driver=0) as table,
        opened(postgres, table.name) as other,
    ):
        vacuums = iter([1])

        class Slow:
            """A frame that a vacuum comes after, the first time."""

            schema = spark.range(1).schema

            def to(self, _: Any) -> Slow:
                return self

            def mapInArrow(self, *of: Any) -> Any:  # noqa: N802
                rows = spark.range(10).mapInArrow(*of).collect()
                if next(vacuums, None):
                    other.vacuum(older_than_s=-60)
                return spark.createDataFrame(rows)

        table.append(Slow(), "g", {P: step(None, 10)})
        assert rows_in(postgres, table) == 10


def test_a_table_without_ids_of_topics_is_read_on_from_and_goes_back_to_a_version_without(
    spark: SparkSession, postgres: Postgres
) -> None:
    """The statements are those of that version."""
    from kohort.spark.tables import OffsetStep, Position, TableBroken

    name = f"t_{uuid.uuid4().hex[:8]}"
    query(postgres, "DROP TABLE IF EXISTS kohort_offsets")
    query(
        postgres,
        "CREATE TABLE kohort_offsets (table_name text, group_id text, topic text, partition integer,"
        " next_offset bigint, PRIMARY KEY (table_name, group_id, topic, partition))",
    )
    query(postgres, f"INSERT INTO kohort_offsets VALUES ('{name}', 'g', 'flights', 0, 10)")
    with opened(postgres, name) as table:
        assert table.offsets("g", [P]) == {P: Position(10, None)}
        table.append(spark.range(10), "g", {P: OffsetStep(Position(10), Position(20, "x2Bb5r9XTf6Y0kqXG1oQzQ"))})
        query(
            postgres,
            f"INSERT INTO kohort_offsets VALUES ('{name}', 'g', 'flights', 0, NULL) ON CONFLICT DO NOTHING;"
            f" UPDATE kohort_offsets SET next_offset = 30 WHERE table_name = '{name}' AND topic = 'flights'",
        )
        assert table.offsets("g", [P]) == {P: Position(30, "x2Bb5r9XTf6Y0kqXG1oQzQ")}
        with pytest.raises(TableBroken, match="it was created again"):
            table.append(spark.range(10), "g", {P: OffsetStep(Position(30), Position(40, "Ab3Kp0aTSzqPj2n1mVw9Lg"))})


def test_what_made_a_round_fail_is_raised_although_its_staging_table_cannot_be_dropped(
    spark: SparkSession, postgres: Postgres
) -> None:
    with opened(postgres, f"t_{uuid.uuid4().hex[:8]}", rows_on_driver=0) as table:

        class Broken:
            """A frame whose rows cannot be computed, while an administrator ends the sessions of the database."""

            schema = spark.range(1).schema

            def to(self, _: Any) -> Broken:
                return self

            def mapInArrow(self, *_: Any) -> Any:  # noqa: N802
                query(postgres, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            table.append(Broken(), "g", {P: step(None, 10)})
        table.append(spark.range(10), "g", {P: step(None, 10)})
        assert rows_in(postgres, table) == 10


def test_streams_store_what_a_topic_holds_in_any_broker(
    spark: SparkSession, broker: Broker, group: Group, postgres: Postgres, table: PostgresTable
) -> None:
    from kohort.spark import GroupStream, exactly_once

    written: list[tuple[int, int]] = []
    for first in (0, 300):
        written += produce("librdkafka", broker.bootstrap, group.topic, keyed(300, 30, first))
        stream = GroupStream(
            spark,
            group.topic,
            bootstrap_servers=group.bootstrap,
            group_id=group.name,
            auto_offset_reset="earliest",
            max_rows_per_round=100,
        )
        with stream:
            store = exactly_once(table, lambda frame: frame.select("partition", "offset", "value"))
            stream.run(store, until=lambda each: each.is_caught_up, timeout_s=60)
    stored = Counter(query(postgres, f'SELECT partition, "offset" FROM {table.name}'))
    assert stored == Counter(written)
