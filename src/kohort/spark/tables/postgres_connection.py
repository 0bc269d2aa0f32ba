"""Connections to PostgreSQL by psycopg, and COPY of bytes into it.

The one module that knows psycopg; it knows no Spark and no group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kohort.extras import install_command

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
