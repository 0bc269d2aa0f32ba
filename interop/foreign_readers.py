"""DuckDB as a reader of lakehouse tables: its extensions come as wheels, so that nothing is fetched at run time."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from interop.object_store import PASSWORD, USER


def duckdb(*extensions: str) -> Any:
    """Return a connection that reads an object store."""
    connection = import_module("duckdb").connect()
    for name in ("httpfs", *extensions):
        folder = Path(str(import_module(f"duckdb_extension_{name}").__file__)).parent
        (file,) = folder.rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    return connection


def secret(endpoint: str) -> str:
    """Return the statement by which a connection of DuckDB reads the store at an endpoint."""
    address = endpoint.removeprefix("http://")
    return (
        f"CREATE SECRET (TYPE s3, KEY_ID '{USER}', SECRET '{PASSWORD}', ENDPOINT '{address}',"
        " URL_STYLE 'path', USE_SSL false, REGION 'us-east-1')"
    )
