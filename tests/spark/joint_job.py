"""A job without Spark or a group that stores changes in two tables in one step, for ever, and is killed by its test.

    python -m tests.spark.joint_job KIND WHERE SEED

KIND is `iceberg`, with the properties of a REST catalog as JSON, or `postgres`, with a connection string. Changes
follow from their offsets: all are added to bronze, and change the rows of silver. It prints a line for each step.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import pyarrow as pa
from tests.spark.lake import step
from tests.spark.merging_job import change_at
from tests.spark.storing_job import GROUP, PLACE

from kohort.spark import exactly_once
from kohort.spark.into_table import ExactlyOnce, in_one_step
from kohort.spark.tables import Fenced, IcebergTable, PostgresTable
from kohort.spark.tables.changes.row_change import DELETED

TABLES = ("air.bronze", "air.silver")


def changes(start: int, stop: int) -> pa.Table:
    """Return the changes of offsets, as rows of bronze."""
    found = [(at, *change_at(at)) for at in range(start, stop)]
    kinds = {"offset": pa.int64(), "id": pa.int64(), "at": pa.int64(), "value": pa.string(), "gone": pa.bool_()}
    columns = list(zip(*found, strict=True)) or [()] * len(kinds)
    return pa.table({name: pa.array(each, kinds[name]) for name, each in zip(kinds, columns, strict=True)})


def as_changes(rows: pa.Table) -> pa.Table:
    """Return rows of bronze as changes of silver."""
    return rows.select(["id", "at", "value"]).append_column(DELETED, rows["gone"])


def open_tables(kind: str, where: str) -> list[Any]:
    if kind == "postgres":
        return [PostgresTable(where, name.rpartition(".")[2]) for name in TABLES]
    from pyiceberg.catalog.rest import RestCatalog

    catalog = RestCatalog("lake", **json.loads(where))
    return [IcebergTable(name, catalog=catalog) for name in TABLES]


def stores(bronze: Any, silver: Any) -> ExactlyOnce:
    """Return what stores changes in both."""
    return in_one_step(exactly_once(bronze), exactly_once(silver, as_changes, merge_on=["id"], order="at"))


def take_steps(store: ExactlyOnce, chance: random.Random, steps: int) -> None:
    """Take steps from where the tables are, until another job was faster."""
    at = next((position.offset for position in store.offsets(GROUP, [PLACE]).values()), None)
    for _ in range(steps):
        stop = (at or 0) + chance.randrange(1, 9)
        store.table.append(changes(at or 0, stop), GROUP, {PLACE: step(at, stop)})
        at = stop
        print(stop, flush=True)


if __name__ == "__main__":
    kind, where, seed = sys.argv[1:]
    store, chance = stores(*open_tables(kind, where)), random.Random(int(seed))
    while True:
        try:
            take_steps(store, chance, chance.randrange(1, 8))
        except Fenced:
            for _ in range(chance.randrange(20)):  # two jobs in step would fence each other for long
                store.table.offsets(GROUP, [PLACE])
