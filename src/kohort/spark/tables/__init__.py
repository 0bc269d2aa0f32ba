"""Tables that take a round's rows and its offsets in one atomic step.

Names are loaded on first use, so that a table is known without Spark or the packages of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.spark.tables.addresses import table_at
    from kohort.spark.tables.delta import DeltaLakeTable
    from kohort.spark.tables.iceberg import IcebergTable
    from kohort.spark.tables.postgres import PostgresTable
    from kohort.spark.tables.table import Fenced, Position, SchemaMismatch, Step, Table, TableBroken, check_steps

__all__ = [
    "DeltaLakeTable",
    "Fenced",
    "IcebergTable",
    "Position",
    "PostgresTable",
    "SchemaMismatch",
    "Step",
    "Table",
    "TableBroken",
    "check_steps",
    "table_at",
]

_NAMES_IN = {
    "kohort.spark.tables.addresses": "table_at",
    "kohort.spark.tables.delta": "DeltaLakeTable",
    "kohort.spark.tables.iceberg": "IcebergTable",
    "kohort.spark.tables.postgres": "PostgresTable",
    "kohort.spark.tables.table": "Fenced Position SchemaMismatch Step Table TableBroken check_steps",
}

__getattr__ = lazy_exports(__name__, _NAMES_IN)
