"""What a commit of a table costs as its log grows: one row and the offsets of 1,000 partitions, again and again.

The figure are the last commits, its peer the first ones of the same table: their ratio shows whether the cost grows.
No Spark and no broker take part. The Iceberg table is in a catalog of SQLite, and expires its snapshots.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa

from bench.result import Aim, Outcome, Result
from kohort.model.ids import TopicPartition
from kohort.spark.tables import DeltaLakeTable, IcebergTable, OffsetStep, Position, Table

PARTITIONS = 1000
COMMITS = 1000
SHOWN = 20
"""How many commits at each end are compared, after as many that warm up."""

AT_MOST = Aim(50, of_ratio=False, at_most=True)
FLAT = Aim(1.5, of_ratio=True, at_most=True)


def commits(table: Table, partitions: int, count: int) -> list[float]:
    """Return the milliseconds of commits that each move every partition."""
    rows = pa.table({"n": [1]})
    places = [TopicPartition("orders", number) for number in range(partitions)]
    at: dict[TopicPartition, Position | None] = dict.fromkeys(places)
    took = []
    table.offsets("bench", places)
    for number in range(count):
        steps = {each: OffsetStep(at[each], Position(number + 1, "abcdefghijklmnopqrstuv")) for each in places}
        began = time.perf_counter()
        table.append(rows, "bench", steps)
        took.append(1000 * (time.perf_counter() - began))
        at.update({each: step.stop for each, step in steps.items()})
    return took


def commit_cost(quick: bool) -> Iterator[Outcome]:
    """Commit to one table of each format."""
    from pyiceberg.catalog.sql import SqlCatalog

    count = 100 if quick else COMMITS
    with tempfile.TemporaryDirectory(prefix="kohort-commits.") as folder:
        catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=Path(folder).as_uri())
        catalog.create_namespace("bench")
        tables = {
            "Delta": DeltaLakeTable(f"{folder}/delta"),
            "Iceberg": IcebergTable("bench.t", catalog=catalog, expire_after=timedelta(seconds=1)),
        }
        for name, table in tables.items():
            took = commits(table, PARTITIONS, count)
            ends = took[-SHOWN:], took[SHOWN : 2 * SHOWN], f"the first {2 * SHOWN} commits"
            note = f"{count:,} commits; the slowest took {max(took):.0f} ms"
            yield Result(f"a commit to {name}, {PARTITIONS:,} partitions", "ms", *ends, AT_MOST, note)
            yield Result(f"growth of a commit to {name}, {PARTITIONS:,} partitions", "ms", *ends, FLAT)
