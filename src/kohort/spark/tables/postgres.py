"""`PostgresTable`: a table in PostgreSQL that takes a round's rows and its offsets in one transaction.

Rows come into a staging table first, from the driver for a small round and from Spark's tasks for a large one; then
one short transaction locks the offsets, compares them, moves the rows and the offsets, and commits. Offsets are in
`kohort_offsets` beside the table. `vacuum` drops the staging tables of writers that died.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from kohort.model.ids import TopicPartition
from kohort.spark.direct_rows import batches_of, in_tasks
from kohort.spark.direct_rows import columns_of as spark_columns_of
from kohort.spark.tables.arrow_columns import schema_of
from kohort.spark.tables.changes.row_change import CURRENT, DELETED, FROM, TO, Change, Write, refused
from kohort.spark.tables.postgres_rows import (
    Column,
    Connection,
    ConnectionLost,
    DatabaseError,
    UndefinedTable,
    column_list,
    columns_of,
    connect,
    copy_in,
    is_open,
    quoted,
    require_psycopg,
    require_room,
    statements,
    to_csv,
)
from kohort.spark.tables.table import (
    DELETIONS,
    PAUSES_S,
    OffsetStep,
    Position,
    Positions,
    TableBroken,
    are_taken,
    broken_in_tasks,
    check_steps,
    in_a_sentence,
    most_rows,
    positions_at,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

T = TypeVar("T")

ROWS_ON_DRIVER = 20_000
"""Rounds of up to this many offsets go through the application: below it, that is faster than a job's tasks."""

VACUUM_AFTER_S = 3600.0
"""Age from which a staging table is taken for a dead writer's."""

ATTEMPT = "kohort_attempt"
"""The column of a staging table with the attempt that wrote a row."""

Steps = Mapping[TopicPartition, OffsetStep]

_ADVICE = "Rows and offsets come together or not at all: see to the server, and start the job again"
_TRIES = 3
_STAGING = "kohort_staging_"
_LONGEST_NAME = 63

_OFFSETS = """CREATE TABLE IF NOT EXISTS {offsets} (
    table_name text, group_id text, topic text, partition integer,
    next_offset bigint, topic_id text,
    PRIMARY KEY (table_name, group_id, topic, partition))"""


class PostgresTable:
    """The table `name` (or `schema.name`) of the database that `conninfo` (libpq's) leads to.

    The first round makes it where it does not exist; one that exists must have a place for every column of the rows.
    Rounds of more than `rows_on_driver` offsets are written by Spark's tasks, which then connect by `conninfo` too.
    Raises PsycopgMissing without psycopg.
    """

    def __init__(self, conninfo: str, name: str, *, rows_on_driver: int = ROWS_ON_DRIVER) -> None:
        require_psycopg()
        self.name = name
        self._schema, _, self._plain = name.rpartition(".")
        self._conninfo = conninfo
        self.rows_in_arrow = rows_on_driver
        """Up to how many offsets the application writes a round, which then may be a `pyarrow.Table`."""
        self._connection: Connection | None = None
        self._is_prepared = False
        self._round = f"pg_temp.kohort_round_{uuid.uuid4().hex[:12]}"
        """The temporary table of its rounds."""
        self._round_of: tuple[Connection | None, tuple[str, ...]] = (None, ())
        """The session that has it, and its columns."""
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"PostgresTable({self.name!r})"

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def offsets(self, group: str, partitions: Iterable[TopicPartition]) -> Positions:
        """Return the positions of these partitions, as they are now, without those that have none.

        Raises TableBroken.
        """
        asked = tuple(partitions)
        with self._in_a_sentence(f"cannot be read for group {group}"):
            return self._tried(lambda connection: self._found(connection, group, asked))

    def set_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Move partitions to these offsets without adding rows; jobs of the group read on there.

        Raises TableBroken.
        """

        def move(connection: Connection) -> None:
            with connection.transaction():
                self._locked(connection, group, offsets)
                self._move_to(connection, group, positions_at(offsets))

        with self._in_a_sentence(f"did not confirm the offsets of group {group}"):
            self._tried(move)

    def append(self, frame: DataFrame | pa.Table, group: str, steps: Steps) -> None:
        """Add a frame's rows and take the steps, all or nothing. Raises Fenced, SchemaMismatch, TableBroken."""
        write = Write(self, frame)
        if isinstance(frame, pa.Table) or most_rows(steps) <= self.rows_in_arrow:
            self.take_together([write], group, steps)
            return
        columns = columns_of(spark_columns_of(frame.schema))

        def add(connection: Connection) -> None:
            self._make(connection, columns)
            self._append_from_tasks(connection, frame, group, steps)

        with self._in_a_sentence(refused([write], group, steps)):
            self._take(group, steps, add)

    def merge(self, frame: DataFrame | pa.Table, group: str, steps: Steps, change: Change) -> None:
        """Change rows by key and take the steps, all or nothing.

        Raises Fenced, SchemaMismatch, TableBroken, BadChange, ValueError.
        """
        self.take_together([Write(self, frame, change)], group, steps)

    @staticmethod
    def require_together(tables: Sequence[PostgresTable]) -> None:
        """Raise ValueError unless the tables are of one database."""
        if len({each._conninfo for each in tables}) > 1:
            raise ValueError(f"{', '.join(map(repr, tables))} differ in conninfo: a transaction is of one database")

    @staticmethod
    def take_together(writes: Sequence[Write], group: str, steps: Steps) -> None:
        """Take steps in tables of one database, all or nothing. Raises what `append` and `merge` of one table raise."""
        tables: list[PostgresTable] = [each.table for each in writes]
        rounds = [table._round_of_rows(write) for table, write in zip(tables, writes, strict=True)]

        def take(connection: Connection) -> None:
            batches = [each.prepared(connection) for each in rounds]
            if len({each.table._table for each in rounds}) < len(rounds):
                raise TableBroken(f"{tables} has a table twice, by two names: give each table one part of a step")
            with connection.transaction():
                for each, rows in zip(rounds, batches, strict=True):
                    # Into a table of this session: the offsets are not locked while rows travel.
                    copy_in(connection, each.table._round, each.names, map(to_csv, rows))
                for each in sorted(rounds, key=lambda each: each.table._table):  # in one order, against deadlocks
                    each.table._step(connection, group, steps)
                    each.move(connection)

        names = " and ".join(map(repr, tables))
        with in_a_sentence(names, refused(writes, group, steps), _ADVICE, (DatabaseError,)):
            tables[0]._take(group, steps, take)

    def _round_of_rows(self, write: Write) -> _Round:
        """Return the rows or changes of a round, in this process. Raises BadChange, ValueError, SchemaMismatch."""
        kinds, change = spark_columns_of(write.frame.schema), write.change
        if change is None:
            return _Round(self, columns_of(kinds), write.frame, None)
        from pyspark.sql.types import StructType

        stored = change.columns_in(schema_of(write.frame)).names
        columns = columns_of(StructType([each for each in kinds.fields if each.name in stored]))
        if change.is_history:
            (order,) = (each for each in columns if each.name == change.order[0])
            columns += (order._replace(name=FROM), order._replace(name=TO), Column(CURRENT, "boolean"))
        return _Round(self, columns, change.collect(write.frame), change)

    def vacuum(self, *, older_than_s: float = VACUUM_AFTER_S) -> int:
        """Drop staging tables that dead writers left, and return how many; a slow writer's round is written again.

        Raises TableBroken.
        """
        before_ms = int((time.time() - older_than_s) * 1000)

        def drop(connection: Connection) -> int:
            found = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename LIKE %s",
                (self._schema, f"{_STAGING}%"),
            ).fetchall()
            old = [name for (name,) in found if (made_ms(name) or before_ms + 1) <= before_ms]
            for name in old:
                connection.execute(f"DROP TABLE IF EXISTS {self._beside(name)}")
            return len(old)

        with self._in_a_sentence("was not vacuumed"):
            return self._tried(drop)

    def _make_round(self, connection: Connection, names: tuple[str, ...]) -> None:
        """See that a session has the empty table for a round; once, since each new one costs the catalogue."""
        if (connection, names) != self._round_of:
            connection.execute(f"DROP TABLE IF EXISTS {self._round}")
            listed = ", ".join("FALSE AS " + quoted(each) if each == DELETED else quoted(each) for each in names)
            connection.execute(
                f"CREATE TEMPORARY TABLE {self._round} ON COMMIT DELETE ROWS AS SELECT {listed} FROM {self._table}"
                " WITH NO DATA"
            )
            self._round_of = (connection, names)

    def _append_from_tasks(self, connection: Connection, frame: DataFrame, group: str, steps: Steps) -> None:
        names = tuple(frame.schema.names)
        for _ in range(_TRIES):
            staging = self._beside(f"{_STAGING}{time.time_ns() // 1_000_000}_{uuid.uuid4().hex[:12]}")
            # Not logged: twice the work for rows that a crash of the server may take, because they are counted below.
            connection.execute(f"CREATE UNLOGGED TABLE {staging} AS {self._select(names)} WITH NO DATA")
            connection.execute(f"ALTER TABLE {staging} ADD COLUMN {ATTEMPT} text")
            try:
                with broken_in_tasks():
                    written = dict(in_tasks(frame, partial(_staged, self._conninfo, staging, names)))
                with connection.transaction():
                    self._step(connection, group, steps)
                    self._move(connection, staging, names, written)
            except (_StagingLost, UndefinedTable):
                log.warning(
                    "group %s: %s was dropped before its rows were stored: they are written again",
                    group,
                    staging,
                )
                continue
            finally:
                self._drop(connection, staging)
            return
        raise TableBroken(
            f"{self!r}: the staging table of a round was lost {_TRIES} times: set older_than_s of vacuum to more than"
            " the longest round, and check whether the server restarts"
        )

    def _drop(self, connection: Connection, staging: str) -> None:
        try:
            if is_open(connection):
                connection.execute(f"DROP TABLE IF EXISTS {staging}")
        except DatabaseError as error:  # the round is stored, or what made it fail is the error to raise
            log.warning("%r: %s could not be dropped, which vacuum does later: %s", self, staging, error)

    def _move(self, connection: Connection, staging: str, names: Sequence[str], written: Mapping[str, int]) -> None:
        """Move the rows of the attempts that Spark reported, by their marks."""
        moved = connection.execute(
            f"INSERT INTO {self._table} ({column_list(names)}) SELECT {column_list(names)} FROM {staging}"
            f" WHERE {ATTEMPT} = ANY (%s)",
            (list(written),),
        ).rowcount
        if moved != sum(written.values()):
            raise _StagingLost

    def _in_a_sentence(self, what: str) -> AbstractContextManager[None]:
        """Raise what psycopg raises as a TableBroken that names the table, and advises what to do."""
        return in_a_sentence(repr(self), what, _ADVICE, (DatabaseError,))

    @property
    def _table(self) -> str:
        return self._beside(self._plain)

    @property
    def _deletions(self) -> str:
        return self._beside(self._plain + DELETIONS)

    @property
    def _offsets(self) -> str:
        return self._beside("kohort_offsets")

    def _beside(self, name: str) -> str:
        return quoted(self._schema, name)

    def _select(self, names: Sequence[str]) -> str:
        return f"SELECT {column_list(names)} FROM {self._table}"

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        with self._lock:
            if not is_open(self._connection):
                self._connection = connect(self._conninfo)
            self._prepare(self._connection)
            yield self._connection

    def _prepare(self, connection: Connection) -> None:
        """Find the schema of the table, so that its offsets have one place however it is named, and make them, once."""
        if self._is_prepared:
            return
        if not self._schema:
            (self._schema,) = connection.execute(
                "SELECT coalesce((SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                " WHERE c.oid = to_regclass(%s)), current_schema())",
                (quoted(self._plain),),
            ).fetchone()
        self._alone(connection, _OFFSETS.format(offsets=self._offsets))
        if "topic_id" not in (each.name for each in self._columns(connection, self._offsets)):
            self._alone(connection, f"ALTER TABLE {self._offsets} ADD COLUMN IF NOT EXISTS topic_id text")
        self._is_prepared = True

    def _alone(self, connection: Connection, statement: str) -> None:
        """Run CREATE … IF NOT EXISTS under a lock: PostgreSQL refuses one of two that run at the same time."""
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('kohort'))")
            connection.execute(statement)

    def _make(self, connection: Connection, wanted: Sequence[Column], key: Sequence[str] = ()) -> None:
        """Check that the table has the columns; create it where it does not exist."""
        if not (columns := self._columns(connection)):
            declared = ", ".join(f"{quoted(each.name)} {each.declaration}" for each in wanted)
            declared += f", PRIMARY KEY ({column_list(key)})" if key else ""
            self._alone(connection, f"CREATE TABLE IF NOT EXISTS {self._table} ({declared})")
            columns = self._columns(connection)
        require_room(columns, wanted, repr(self))

    def _make_deletions(self, connection: Connection, names: Sequence[str]) -> None:
        """See that the table of the orders of deleted keys exists."""
        if {each.name for each in self._columns(connection, self._deletions)}.issuperset(names):
            return
        if len((self._plain + DELETIONS).encode()) > _LONGEST_NAME:
            raise TableBroken(
                f"{self!r}: the orders of deleted keys are in a table beside, whose name, with {DELETIONS}, is longer"
                f" than PostgreSQL's {_LONGEST_NAME} bytes: use a shorter name"
            )
        index = quoted(f"{self._plain}{DELETIONS}_key")
        self._alone(
            connection,
            f"CREATE TABLE IF NOT EXISTS {self._deletions} AS {self._select(names)} WITH NO DATA;"
            f" CREATE UNIQUE INDEX IF NOT EXISTS {index} ON {self._deletions} ({column_list(names)})",
        )

    def _columns(self, connection: Connection, table: str = "") -> tuple[Column, ...]:
        found = connection.execute(
            "SELECT column_name, data_type, numeric_precision, numeric_scale FROM information_schema.columns"
            " WHERE (table_schema, table_name) = (SELECT n.nspname, c.relname FROM pg_class c"
            " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)) ORDER BY ordinal_position",
            (table or self._table,),
        ).fetchall()
        return tuple(Column(*row) for row in found)

    def _found(
        self, connection: Connection, group: str, partitions: Iterable[TopicPartition], *, locked: bool = False
    ) -> Positions:
        """Return the positions of partitions, under row locks until the transaction ends if they are to be `locked`."""
        asked = sorted(partitions)
        # In one order, so that two transactions on the same rows do not deadlock.
        query = (
            f"SELECT topic, partition, next_offset, topic_id FROM {self._offsets}"
            " WHERE table_name = %s AND group_id = %s"
            " AND (topic, partition) IN (SELECT * FROM unnest(%s::text[], %s::int[])) ORDER BY topic, partition"
        )
        values = [self._plain, group, [each.topic for each in asked], [each.partition for each in asked]]
        rows = connection.execute(f"{query} FOR UPDATE" if locked else query, values)
        return {
            TopicPartition(topic, partition): Position(at, topic_id)
            for topic, partition, at, topic_id in rows
            if at is not None
        }

    def _locked(self, connection: Connection, group: str, partitions: Iterable[TopicPartition]) -> Positions:
        """Return the positions of partitions, under locks until the transaction ends."""
        asked = sorted(partitions)
        with connection.cursor() as cursor:
            # Rows that do not exist cannot be locked: they are inserted first.
            cursor.executemany(
                f"INSERT INTO {self._offsets} VALUES (%s, %s, %s, %s, NULL, NULL) ON CONFLICT DO NOTHING",
                [(self._plain, group, *each) for each in asked],
            )
        return self._found(connection, group, asked, locked=True)

    def _move_to(self, connection: Connection, group: str, positions: Mapping[TopicPartition, Position]) -> None:
        with connection.cursor() as cursor:
            cursor.executemany(
                f"UPDATE {self._offsets} SET next_offset = %s, topic_id = %s"
                " WHERE table_name = %s AND group_id = %s AND topic = %s AND partition = %s",
                [(*position, self._plain, group, *each) for each, position in sorted(positions.items())],
            )

    def _step(self, connection: Connection, group: str, steps: Steps) -> None:
        """Compare offsets under their locks and move them, in the transaction that is open. Raises Fenced."""
        check_steps(repr(self), group, self._locked(connection, group, steps), steps)
        self._move_to(connection, group, {each: step.stop for each, step in steps.items()})

    def _take(self, group: str, steps: Steps, write: Callable[[Connection], None]) -> None:
        """Take steps by `write`, in a transaction of its own; it is called again unless the table has them."""
        is_again = False

        def attempt(connection: Connection) -> None:
            nonlocal is_again
            if is_again and self._has_taken(connection, group, steps):
                log.warning("group %s: %r has the round whose connection was lost", group, self)
                return
            is_again = True
            check_steps(repr(self), group, self._found(connection, group, steps), steps)  # before rows travel
            write(connection)

        self._tried(attempt)

    def _tried(self, use: Callable[[Connection], T]) -> T:
        """Return what a use of the connection returns; where that is lost, it is tried again on another one."""
        for pause_s in PAUSES_S:
            try:
                with self._connected() as connection:
                    return use(connection)
            except ConnectionLost as error:
                if is_open(self._connection):
                    raise
                log.warning("%r: a connection was lost, and what it was for is tried again: %s", self, error)
                time.sleep(pause_s)
        with self._connected() as connection:
            return use(connection)

    def _has_taken(self, connection: Connection, group: str, steps: Steps) -> bool:
        """Return whether the table has taken the steps, or steps beyond; waits for an unfinished transaction."""
        with connection.transaction():
            return are_taken(self._found(connection, group, steps, locked=True), steps)


def made_ms(name: str) -> int | None:
    """Return when a staging table was made, None for a table that only begins like one."""
    found = re.fullmatch(rf"{_STAGING}(\d+)_[0-9a-f]+", name)
    return int(found[1]) if found else None


@dataclass(frozen=True, slots=True)
class _Round:
    """Rows of a round for a table, or the changes that they are."""

    table: PostgresTable
    columns: Sequence[Column]
    rows: DataFrame | pa.Table
    change: Change | None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the rows."""
        return tuple(self.rows.schema.names)

    def prepared(self, connection: Connection) -> Sequence[pa.RecordBatch]:
        """Return the rows, once there are the tables that take them."""
        table, change = self.table, self.change
        table._prepare(connection)
        table._make(connection, self.columns, change.matches if change else ())
        if change and change.order:
            table._make_deletions(connection, (*change.keys, *change.order))
        table._make_round(connection, self.names)
        return batches_of(self.rows)

    def move(self, connection: Connection) -> None:
        """Move the rows from the session's table into the table, in the transaction that is open."""
        table, change, columns = self.table, self.change, column_list(self.names)
        if change is None:
            connection.execute(f"INSERT INTO {table._table} ({columns}) SELECT * FROM {table._round}")
            return
        # Two merges of one key would both insert it. Offsets are locked first, by rows that are added too.
        connection.execute(f"LOCK TABLE {table._table} IN SHARE ROW EXCLUSIVE MODE")
        names = [each for each in self.names if each != DELETED]
        is_unordered = any(self.rows[each].null_count for each in change.order)
        found = statements(change, names, table._table, table._round, table._deletions, is_unordered=is_unordered)
        for each in found:
            connection.execute(each)


class _StagingLost(Exception):
    """Fewer rows are in a staging table than tasks have written."""


def _staged(conninfo: str, staging: str, columns: Sequence[str], batches: Iterator[pa.RecordBatch]) -> tuple[str, int]:
    """Append the rows of a task to a staging table, and return the mark of this attempt and their number.

    Spark may run a task twice; it reports one attempt of each, and only the rows of reported attempts become rows of
    the table. Tasks commit for themselves: what is in a staging table is not in the table.
    """
    mark = uuid.uuid4().hex
    refused = in_a_sentence(f"the staging table {staging}", "took no rows of a task", _ADVICE, (DatabaseError,))
    with refused, connect(conninfo) as connection, connection.transaction():
        marked = (each.append_column(ATTEMPT, pa.repeat(mark, each.num_rows)) for each in batches if each.num_rows)
        return mark, copy_in(connection, staging, [*columns, ATTEMPT], map(to_csv, marked))
