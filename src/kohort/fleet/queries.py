"""SQL over a fleet's tables by DuckDB, in this process: with any size of tables, and without a Spark session.

Relations are Arrow's: files of tables, of which a query reads the columns and days that it needs, or rows in memory.
What does not fit into memory goes to temporary files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from kohort.fleet.schema import KEY, Table
from kohort.spark.tables.table import TableBroken

ROWS_AT_ONCE = 10_000
MEMORY_SHARE = 0.4
"""Share of what DuckDB would take of this machine's memory: several tasks run at once."""


class Query:
    """A DuckDB connection."""

    def __init__(self, relations: Mapping[str, Any], connection: Any) -> None:
        self._connection = connection
        for name, rows in relations.items():
            connection.register(name, rows)

    def put(self, name: str, query: str, *parameters: Any) -> None:
        """Make a temporary table of a query's rows."""
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}", list(parameters))

    def put_keys(self, name: str, keys: Iterable[tuple[str, str]]) -> None:
        """Make a relation of groups, by source and name."""
        rows = [dict(zip(KEY, key, strict=True)) for key in dict.fromkeys(keys)]
        self._connection.register(
            name, pa.Table.from_pylist(rows, schema=pa.schema([(each, pa.string()) for each in KEY]))
        )

    def batches(self, query: str, *parameters: Any, rows: int = ROWS_AT_ONCE) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query."""
        yield from self._connection.execute(query, list(parameters)).to_arrow_reader(rows)

    def rows(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        """Return the few rows of a query."""
        return [row for batch in self.batches(query, *parameters) for row in batch.to_pylist()]


class FleetQueryFailed(TableBroken):
    """A query could not read a file of the tables, or had too little memory or disk."""


@contextmanager
def query_over(relations: Mapping[str, Any]) -> Iterator[Query]:
    """Provide queries over relations by their names: Arrow tables and datasets. Raises FleetQueryFailed."""
    with tempfile.TemporaryDirectory(prefix="kohort-fleet.") as folder, duckdb.connect() as connection:
        (limit,) = connection.execute("SELECT current_setting('memory_limit')").fetchone()
        size, unit = limit.split()
        connection.execute(f"SET memory_limit = '{MEMORY_SHARE * float(size):.3f} {unit}'")
        connection.execute("SET enable_progress_bar = false")
        connection.execute("SET temp_directory = ?", [folder])
        connection.execute("SET preserve_insertion_order = false")
        try:
            yield Query(relations, connection)
        except duckdb.InvalidInputException as error:  # what Arrow raises, with its text
            what = _first_line(error).rpartition("failed(): ")[2]
            advice = "restore the file, or read the log into another directory"
            raise FleetQueryFailed(f"a file of the fleet's tables cannot be read: {what}: {advice}") from error
        except (duckdb.OutOfMemoryException, duckdb.IOException) as error:
            advice = f"free some memory, or disk in {tempfile.gettempdir()} (TMPDIR), and run it again"
            raise FleetQueryFailed(f"a query of the fleet's tables failed: {_first_line(error)}: {advice}") from error


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(". ")


def columns_of(table: Table, **values: str) -> str:
    """Return the columns of a table as a SELECT list, cast to its types; some with an expression of their own."""
    return ", ".join(
        f'CAST({values.get(name, quoted(name))} AS {sql_type(kind)}) AS "{name}"' for name, kind in table.types.items()
    )


def quoted(*names: str) -> str:
    """Return names of columns as a list."""
    return ", ".join(f'"{name}"' for name in names)


def struct_of(names: Iterable[str]) -> str:
    """Return a struct of columns; as a value of an aggregate it retains nulls."""
    return "{" + ", ".join(f"'{name}': {quoted(name)}" for name in names) + "}"


def sql_type(kind: str) -> str:
    """Return a type of Spark's DDL as DuckDB writes it."""
    if kind.startswith("array<struct<"):
        inner = kind.removeprefix("array<struct<").removesuffix(">>")
        return f"STRUCT({', '.join(_field(each) for each in inner.split(', '))})[]"
    if kind.startswith("array<"):
        return f"{sql_type(kind[6:-1])}[]"
    return kind


def _field(text: str) -> str:
    name, _, kind = text.partition(" ")
    return f'"{name}" {sql_type(kind)}'
