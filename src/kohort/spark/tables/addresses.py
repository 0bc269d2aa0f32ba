"""Addresses of tables, as `exactly_once` takes them: one text for each kind of table."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from kohort.spark.tables.table import Table

FORMS = "delta:PATH-OR-URL, iceberg:CATALOG.NAMESPACE.TABLE, or postgresql://USER@HOST/DATABASE?table=NAME"


def table_at(address: str) -> Table:
    """Return the table at an address. Raises ValueError, and ImportError with the command that installs its package."""
    kind, _, rest = address.partition(":")
    if kind == "delta" and rest:
        from kohort.spark.tables.delta import DeltaLakeTable

        return DeltaLakeTable(rest)
    if kind == "iceberg":
        from kohort.spark.tables.iceberg import IcebergTable

        catalog, _, name = rest.partition(".")
        if catalog and "." in name:
            return IcebergTable(name, catalog=catalog)
    if kind in ("postgresql", "postgres"):
        from kohort.spark.tables.postgres import PostgresTable

        parts = urlsplit(address)
        query = parse_qsl(parts.query, keep_blank_values=True)
        tables = [value for name, value in query if name == "table"]
        if len(tables) == 1 and tables[0]:
            others = urlencode([each for each in query if each[0] != "table"])
            return PostgresTable(urlunsplit(parts._replace(query=others)), tables[0])
    raise ValueError(f"{kind}:… is no address of a table as {FORMS}")
