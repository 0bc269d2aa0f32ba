"""Tables that take a round's rows and its offsets in one atomic step.

Names are loaded on first use, so that a table is known without Spark or the packages of the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.model.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.spark.tables.addresses import table_at as table_at
    from kohort.spark.tables.delta import DeltaLakeTable as DeltaLakeTable
    from kohort.spark.tables.iceberg import IcebergTable as IcebergTable
    from kohort.spark.tables.postgres import PostgresTable as PostgresTable
    from kohort.spark.tables.table import Fenced as Fenced
    from kohort.spark.tables.table import OffsetStep as OffsetStep
    from kohort.spark.tables.table import Position as Position
    from kohort.spark.tables.table import SchemaMismatch as SchemaMismatch
    from kohort.spark.tables.table import Table as Table
    from kohort.spark.tables.table import TableBroken as TableBroken
    from kohort.spark.tables.table import check_steps as check_steps

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "kohort.spark.tables.addresses": "table_at",
        "kohort.spark.tables.delta": "DeltaLakeTable",
        "kohort.spark.tables.iceberg": "IcebergTable",
        "kohort.spark.tables.postgres": "PostgresTable",
        "kohort.spark.tables.table": "Fenced OffsetStep Position SchemaMismatch Table TableBroken check_steps",
    },
)
