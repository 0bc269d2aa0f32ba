"""What Spark's tasks do with PostgreSQL: write rows into a staging table, and read a table by its blocks.

A task's rows carry the mark of the attempt that wrote them. Spark may run a task twice; it reports one attempt of
each, and only the rows of reported attempts become rows of the table. Tasks commit for themselves: what is in a
staging table is not in the table.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from kohort.spark.direct_rows import Task
from kohort.spark.tables.postgres_columns import from_csv, to_csv
from kohort.spark.tables.postgres_connection import connect, copy_in, copy_out, quoted

ATTEMPT = "kohort_attempt"
"""The column of a staging table that says which attempt wrote a row."""

REPORT = "attempt string, rows bigint"


class Attempts(NamedTuple):
    """The attempts that Spark reported, and how many rows they wrote."""

    marks: list[str]
    rows: int


def writer(conninfo: str, staging: str, columns: Sequence[str]) -> Task:
    """Return the task that appends its rows to a staging table and yields its mark and their number."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mark = uuid.uuid4().hex
        with connect(conninfo) as connection, connection.transaction():
            chunks = (to_csv(_marked(each, mark)) for each in batches if each.num_rows)
            rows = copy_in(connection, staging, [*columns, ATTEMPT], chunks)
        yield pa.RecordBatch.from_pydict({"attempt": [mark], "rows": pa.array([rows], pa.int64())})

    return write


def reader(conninfo: str, table: str, columns: Sequence[str], schema: pa.Schema) -> Task:
    """Return the task that yields the rows of block ranges, which come as `(first, last)`."""
    names = ", ".join(quoted(name) for name in columns)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with connect(conninfo) as connection:
            connection.execute("SET timezone = 'UTC'; SET datestyle = 'ISO'; SET bytea_output = 'hex'")
            for batch in batches:
                for first, last in zip(batch["first"].to_pylist(), batch["last"].to_pylist(), strict=True):
                    where = f"ctid >= '({first},0)' AND ctid < '({last},0)'"
                    for text in _whole(copy_out(connection, f"SELECT {names} FROM {table} WHERE {where}")):
                        yield from_csv(text, schema)

    return read


CHUNK_BYTES = 1 << 22


def _whole(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines in larger pieces; PostgreSQL sends one row at a time."""
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= CHUNK_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def _marked(batch: pa.RecordBatch, mark: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [*batch.columns, pa.repeat(pa.scalar(mark), batch.num_rows)], names=[*batch.schema.names, ATTEMPT]
    )
