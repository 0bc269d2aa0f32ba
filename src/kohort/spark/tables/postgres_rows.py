"""Rows of Spark in PostgreSQL: connections by psycopg, types of columns, CSV that COPY reads, changes of rows by key.

In CSV a null is nothing between commas; an empty text is two quotes. In the SQL of changes `s` are the changes of a
round, `t` the rows, `d` the deletions. The statements of a round run in one transaction, in which no other one changes
rows of the table. A history is put right by them as a whole: the versions of each changed key end where the next one,
or a deletion, begins. The one module that knows psycopg; it knows no session of Spark and no group.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from kohort.model.extras import install_command
from kohort.spark.tables.changes.row_change import CURRENT, DELETED, FROM, TO, Change, not_older
from kohort.spark.tables.table import SchemaMismatch

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


_TYPES = {
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}
"""What a column of Spark becomes in a table that is made for it."""

_WHOLE = ("smallint", "integer", "bigint", "numeric")
_ALSO = {
    "smallint": _WHOLE,
    "integer": _WHOLE,
    "bigint": _WHOLE,
    "real": ("double precision", "numeric"),
    "double precision": ("numeric",),
    "text": ("character varying", "character", "json", "jsonb", "uuid", "inet", "USER-DEFINED"),
    "timestamp with time zone": ("timestamp without time zone",),
}
"""Other types of an existing table that take the same text; a value that is too large is refused by the server.

Types that would round a value are none: the server rounds without an error.
"""


class Column(NamedTuple):
    """A column of a table, with its type as the information schema has it."""

    name: str
    kind: str
    precision: int | None = None
    scale: int | None = None

    @property
    def declaration(self) -> str:
        """The type as in a CREATE TABLE."""
        return f"numeric({self.precision}, {self.scale})" if self.kind == "numeric" and self.precision else self.kind


def columns_of(schema: StructType) -> tuple[Column, ...]:
    """Return the columns of a table for a frame. Raises SchemaMismatch for a type that has no place there."""
    return tuple(Column(field.name, *_kind(field.name, field.dataType)) for field in schema.fields)


def require_room(table: Sequence[Column], wanted: Sequence[Column], name: str) -> None:
    """Raise SchemaMismatch, naming what differs, unless a table has a place for each of a frame's columns."""
    here = {each.name: each for each in table}
    faults = [f"it has no column {each.name} {each.kind}" for each in wanted if each.name not in here]
    faults += [
        f"its column {each.name} is {here[each.name].declaration}, the rows' would be {each.declaration}"
        for each in wanted
        if each.name in here and not _has_room(here[each.name], each)
    ]
    if faults:
        raise SchemaMismatch(f"{name} does not take these rows: {'; '.join(faults)}")


def _has_room(column: Column, wanted: Column) -> bool:
    """Whether a column takes each value of another one as it is, or refuses it."""
    if column.kind == "numeric" and column.scale is not None:
        if wanted.kind in ("real", "double precision"):
            return False
        if wanted.kind == "numeric":
            return wanted.scale is not None and wanted.scale <= column.scale
    return column.kind in (wanted.kind, *_ALSO.get(wanted.kind, ()))


def to_csv(batch: pa.RecordBatch) -> bytes:
    """Return rows as lines of CSV for COPY."""
    sink = BytesIO()
    columns = [_as_text(batch.column(number)) for number in range(batch.num_columns)]
    rows = pa.RecordBatch.from_arrays(columns, names=[str(number) for number in range(batch.num_columns)])
    arrow_csv.write_csv(rows, sink, arrow_csv.WriteOptions(include_header=False))
    return sink.getvalue()


def _kind(name: str, kind: DataType) -> tuple[str, int | None, int | None]:
    from pyspark.sql.types import DecimalType

    if isinstance(kind, DecimalType):
        return "numeric", kind.precision, kind.scale
    name_of_kind = kind.simpleString().partition("(")[0]
    if name_of_kind in ("char", "varchar"):
        return "text", None, None
    if name_of_kind not in _TYPES:
        raise SchemaMismatch(
            f"column {name} is {kind.simpleString()}, for which PostgreSQL has no type:"
            f" store it as text, with to_json({name}) for example"
        )
    return _TYPES[name_of_kind], None, None


def _as_text(column: pa.Array) -> pa.Array:
    """Return a column in a type that CSV can express."""
    kind = column.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pa.array([None if each is None else "\\x" + each.hex() for each in column.to_pylist()], pa.string())
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        column = column.cast(pa.timestamp("us", "UTC"))
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        texts = column.cast(pa.string())
        if pc.any(pc.match_substring_regex(texts, "^-|^0000|^[0-9]{5}")).as_py():
            return pa.array([each and _of_any_year(each) for each in texts.to_pylist()], pa.string())
    return column


def _of_any_year(text: str) -> str:
    """Return a date or a time as PostgreSQL has it: before the year 1 come those before Christ."""
    found = re.fullmatch(r"(-?\d+)(-.*)", text)
    assert found is not None, "a date begins with its year"
    year, rest = int(found[1]), found[2]
    return f"{year:04}{rest}" if year > 0 else f"{1 - year:04}{rest} BC"


try:
    import psycopg
    from psycopg import sql

    DatabaseError, ConnectionLost = psycopg.Error, psycopg.OperationalError
    UndefinedTable = psycopg.errors.UndefinedTable
except ImportError:
    psycopg = None
    DatabaseError = ConnectionLost = UndefinedTable = OSError

Connection = Any
"""A `psycopg.Connection`."""

STALLED_S = 60
"""How long a transaction with locks on offsets may wait for its client, before the server ends it."""


class PsycopgMissing(ImportError):
    """psycopg is not installed; the text has the command that installs it."""


def require_psycopg() -> None:
    """Raise PsycopgMissing, naming the command to run, unless psycopg is installed."""
    if psycopg is None:
        raise PsycopgMissing(f"psycopg is not installed: {install_command('postgres')}")


def connect(conninfo: str) -> Connection:
    """Return a new connection in autocommit mode. Raises psycopg's error where there is none."""
    require_psycopg()
    connection = psycopg.connect(conninfo, autocommit=True, application_name="kohort")
    # A client that is paused, or whose machine has failed, must not retain the locks on its offsets.
    connection.execute(f"SET idle_in_transaction_session_timeout = '{STALLED_S}s'")
    return connection


def is_open(connection: Connection | None) -> bool:
    """Return whether a connection is usable, as far as is known."""
    return connection is not None and not connection.closed and not connection.broken


def quoted(*names: str) -> str:
    """Return a name, with its schema if that comes first, as SQL."""
    require_psycopg()
    return str(sql.Identifier(*names).as_string(None))


def copy_in(connection: Connection, table: str, columns: Sequence[str], chunks: Iterable[bytes]) -> int:
    """Append lines of CSV to a table, and return how many there were."""
    names = ", ".join(quoted(name) for name in columns)
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY {table} ({names}) FROM STDIN (FORMAT csv)") as copy:
            for chunk in chunks:
                copy.write(chunk)
        return int(cursor.rowcount)


def statements(
    change: Change, names: Sequence[str], rows: str, changes: str, deletions: str, *, is_unordered: bool
) -> Iterator[str]:
    """Yield what changes the table `rows` by `changes`, which have the columns `names` and `DELETED`.

    `is_unordered`: some deletions have no order.
    """
    keys, same = change.keys, partial(_equal, change.keys)
    gone = f"s.{quoted(DELETED)}"
    if change.order:
        first, listed = change.order[0], column_list((*keys, *change.order))
        if is_unordered:
            yield _ordered(change, rows, changes, deletions)
        yield (
            f"INSERT INTO {deletions} ({listed}) SELECT {listed} FROM {changes} s"
            f" WHERE {gone} AND {quoted(first)} IS NOT NULL ON CONFLICT DO NOTHING"
        )
        if change.is_history:
            yield f"DELETE FROM {changes} WHERE {quoted(first)} IS NULL"
        else:
            ended = f"({column_list(change.order, 's')}) < ({column_list(change.order, 'd')})"
            yield f"DELETE FROM {changes} s USING {deletions} d WHERE {same('d')} AND {ended}"
    counts = not_older(change.condition, quoted)
    match = same("t")
    columns, values = [quoted(each) for each in names], [f"s.{quoted(each)}" for each in names]
    if change.is_history:
        match += f" AND t.{quoted(FROM)} = s.{quoted(first)}"
    yield f"DELETE FROM {rows} t USING {changes} s WHERE {gone} AND {match} AND {counts}"
    taken = ", ".join(f"{column} = {value}" for column, value in zip(columns, values, strict=True))
    yield f"UPDATE {rows} t SET {taken} FROM {changes} s WHERE NOT {gone} AND {match} AND {counts}"
    if change.is_history:
        columns, values = [*columns, *map(quoted, (FROM, CURRENT))], [*values, f"s.{quoted(first)}", "TRUE"]
    yield (
        f"INSERT INTO {rows} ({', '.join(columns)}) SELECT {', '.join(values)} FROM {changes} s"
        f" WHERE NOT {gone} AND NOT EXISTS (SELECT FROM {rows} t WHERE {match})"
    )
    if change.is_history:
        yield _ended(change, rows, changes, deletions)


def _ordered(change: Change, rows: str, changes: str, deletions: str) -> str:
    """Return what gives deletions without an order the newest that is stored of their key."""
    keys, listed, gone = change.keys, column_list((*change.keys, *change.order)), f"s.{quoted(DELETED)}"
    is_asked = f"{gone} AND s.{quoted(change.order[0])} IS NULL"
    stored = " UNION ALL ".join(
        f"SELECT {listed} FROM {each} t WHERE EXISTS (SELECT FROM {changes} s WHERE {is_asked} AND {_equal(keys, 't')})"
        for each in (rows, deletions)
    )
    newest = ", ".join(f"{quoted(each)} DESC NULLS LAST" for each in change.order)
    return (
        f"UPDATE {changes} s SET ({column_list(change.order)}) = ROW({column_list(change.order, 't')})"
        f" FROM (SELECT DISTINCT ON ({column_list(keys)}) * FROM ({stored}) a ORDER BY {column_list(keys)}, {newest}) t"
        f" WHERE {is_asked} AND {_equal(keys, 't')}"
    )


def _ended(change: Change, rows: str, changes: str, deletions: str) -> str:
    """Return what ends each version of the changed keys where the next one, or a deletion, begins."""
    keys, since, until, current = change.keys, *map(quoted, (FROM, TO, CURRENT))
    order = quoted(change.order[0])
    deleted = f"SELECT min(d.{order}) FROM {deletions} d WHERE {_equal(keys, 'd', 't')} AND d.{order} > t.{since}"
    following = f"lead(t.{since}) OVER (PARTITION BY {column_list(keys, 't')} ORDER BY t.{since})"
    versions = (
        f"SELECT {column_list((*keys, FROM), 't')}, LEAST({following}, ({deleted})) AS ends FROM {rows} t"
        f" WHERE EXISTS (SELECT FROM {changes} s WHERE {_equal(keys, 't')})"
    )
    return (
        f"UPDATE {rows} t SET {until} = s.ends, {current} = s.ends IS NULL FROM ({versions}) s"
        f" WHERE {_equal((*keys, FROM), 't')}"
        f" AND (t.{until} IS DISTINCT FROM s.ends OR t.{current} IS DISTINCT FROM (s.ends IS NULL))"
    )


def _equal(columns: Sequence[str], of: str, beside: str = "s") -> str:
    return " AND ".join(f"{of}.{quoted(each)} = {beside}.{quoted(each)}" for each in columns)


def column_list(names: Sequence[str], of: str = "") -> str:
    """Return names as SQL, separated by commas, each with the alias of its table if that is given."""
    return ", ".join(f"{of}.{quoted(each)}" if of else quoted(each) for each in names)
