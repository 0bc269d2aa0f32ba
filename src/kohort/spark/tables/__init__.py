"""Tables that take a round's rows and its offsets in one atomic step.

Names are loaded on first use, so that a table is known without Spark or a database driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kohort.lazy import lazy_exports

if TYPE_CHECKING:
    from kohort.spark.tables.claims import Claim, Fenced, Held, Step
    from kohort.spark.tables.contract import SchemaMismatch, Table, TableBroken
    from kohort.spark.tables.manifest import ManifestTable
    from kohort.spark.tables.postgres import PostgresTable

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

_HOMES = {
    "Claim": "kohort.spark.tables.claims",
    "Fenced": "kohort.spark.tables.claims",
    "Held": "kohort.spark.tables.claims",
    "ManifestTable": "kohort.spark.tables.manifest",
    "PostgresTable": "kohort.spark.tables.postgres",
    "SchemaMismatch": "kohort.spark.tables.contract",
    "Step": "kohort.spark.tables.claims",
    "Table": "kohort.spark.tables.contract",
    "TableBroken": "kohort.spark.tables.contract",
}

__getattr__ = lazy_exports(__name__, _HOMES)
