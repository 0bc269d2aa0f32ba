"""Tables that take a round's rows and its offsets in one atomic step.

Names are loaded on first use, so that a table is known without Spark or a database driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.spark.tables.manifest import ManifestTable
    from kohort.spark.tables.postgres import PostgresTable
    from kohort.spark.tables.table import Claim, Fenced, Held, SchemaMismatch, Step, Table, TableBroken

__all__ = [
    "Claim",
    "Fenced",
    "Held",
    "ManifestTable",
    "PostgresTable",
    "SchemaMismatch",
    "Step",
    "Table",
    "TableBroken",
]

_NAMES_IN = {
    "kohort.spark.tables.manifest": "ManifestTable",
    "kohort.spark.tables.postgres": "PostgresTable",
    "kohort.spark.tables.table": "Claim Fenced Held SchemaMismatch Step Table TableBroken",
}

__getattr__ = lazy_exports(__name__, _NAMES_IN)
