"""Tables as readers see them that are not ours: Polars and DuckDB, and PostgreSQL by psql and psycopg.

Each returns the rows as (partition, offset, text). A table that does not exist yet has none.
"""

from __future__ import annotations

import csv
import io
import os
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

from interop.foreign_readers import duckdb, secret
from interop.object_store import PASSWORD, USER, ObjectStore

Row = tuple[int, int, str]
Reader = Callable[[], list[Row]]
COLUMNS = 'partition, "offset", text'


class NoTable(Exception):
    """No job has made the table yet."""


def delta_readers(uri: str, store: ObjectStore | None) -> Mapping[str, Reader]:
    """Return the readers of a Delta table in a folder, or in the store at an endpoint."""

    def polars() -> list[Row]:
        import polars
        from deltalake import DeltaTable

        options = None if store is None else dict(store.environment)
        if not DeltaTable.is_deltatable(uri, storage_options=options):
            raise NoTable
        rows: list[Row] = polars.read_delta(uri, storage_options=options).select("partition", "offset", "text").rows()
        return rows

    def duck() -> list[Row]:
        connection = duckdb("delta")
        if store is not None:
            connection.execute(secret(store.endpoint))
        rows: list[Row] = connection.execute(f"SELECT {COLUMNS} FROM delta_scan('{uri}')").fetchall()
        return rows

    return {"Polars": polars, "DuckDB": duck}


def iceberg_readers(conninfo: str, name: str, store: ObjectStore | None) -> Mapping[str, Reader]:
    """Return the readers of an Iceberg table, whose newest metadata a catalog in PostgreSQL names."""

    def newest() -> str:
        found = query(conninfo, f"SELECT metadata_location FROM iceberg_tables WHERE table_name = '{name}'")
        if not found:
            raise NoTable
        return str(found[0][0])

    def polars() -> list[Row]:
        import polars

        storage = None
        if store is not None:
            storage = {"s3.endpoint": store.endpoint, "s3.access-key-id": USER, "s3.secret-access-key": PASSWORD}
            storage["s3.region"] = "us-east-1"
        os.environ["POLARS_ICEBERG_PLANNER"] = "pyiceberg"  # its own planner is another package
        frame = polars.scan_iceberg(newest(), storage_options=storage)
        rows: list[Row] = frame.select("partition", "offset", "text").collect().rows()
        return rows

    def duck() -> list[Row]:
        connection = duckdb("avro", "iceberg")
        if store is not None:
            connection.execute(secret(store.endpoint))
        rows: list[Row] = connection.execute(f"SELECT {COLUMNS} FROM iceberg_scan('{newest()}')").fetchall()
        return rows

    return {"Polars": polars, "DuckDB": duck}


def postgres_readers(conninfo: str, name: str) -> Mapping[str, Reader]:
    """Return the readers of a table of PostgreSQL."""

    def psycopg() -> list[Row]:
        if not query(conninfo, f"SELECT 1 FROM pg_tables WHERE tablename = '{name}'"):
            raise NoTable
        return query(conninfo, f"SELECT {COLUMNS} FROM {name}")

    def psql() -> list[Row]:
        command = ["psql", conninfo, "--csv", "--tuples-only", "--no-psqlrc", "-c", f"SELECT {COLUMNS} FROM {name}"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return [(int(partition), int(offset), text) for partition, offset, text in csv.reader(io.StringIO(done.stdout))]

    return {"psycopg": psycopg, "psql": psql}


def query(conninfo: str, text: str) -> list[Any]:
    """Return the rows of a statement."""
    import psycopg

    with psycopg.connect(conninfo, autocommit=True) as connection:
        rows: list[Any] = connection.execute(text).fetchall()
        return rows
