"""A job without Spark or a group that stores numbers into a table for ever, and is killed by the test that runs it.

    python -m tests.spark.storing_job KIND WHERE NAME SEED

For each line of its input it stores a few numbers in some steps, and continues from where it is, as do others: each is
fenced whenever another one was faster, and reads on from the table. It prints a line for each step.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import pyarrow as pa
from tests.spark.lake import lake_table, step, stored

from kohort.model.ids import TopicPartition
from kohort.spark.tables import Fenced, PostgresTable, Table

GROUP = "g"
PLACE = TopicPartition("numbers", 0)


class Numbers:
    """As much of a frame of Spark as the tables need: one column of the numbers of a step."""

    def __init__(self, first: int, stop: int) -> None:
        from pyspark.sql.types import LongType, StructField, StructType

        self.schema = StructType([StructField("id", LongType())])
        self._rows = pa.table({"id": pa.array(range(first, stop), pa.int64())})

    def toArrow(self) -> pa.Table:  # noqa: N802
        """Return the rows."""
        return self._rows


def open_table(kind: str, where: str, name: str) -> Table:
    if kind == "postgres":
        return PostgresTable(where, name)
    table: Table = lake_table(kind, where, name)
    return table


def store(table: Table, chance: random.Random) -> bool:
    """Store numbers in some steps; return whether any step was stored."""
    at = stored(table, GROUP, [PLACE]).get(PLACE)
    is_stored = False
    try:
        for _ in range(chance.randrange(1, 12)):
            stop = (at or 0) + chance.randrange(1, 9)
            frame: Any = Numbers(at or 0, stop)
            table.append(frame, GROUP, {PLACE: step(at, stop)})
            at, is_stored = stop, True
            print(stop, flush=True)
    except Fenced:
        # Two jobs in step would fence each other for long.
        for _ in range(chance.randrange(20)):
            table.offsets(GROUP, [PLACE])
    return is_stored


if __name__ == "__main__":
    kind, where, name, seed = sys.argv[1:]
    table, chance = open_table(kind, where, name), random.Random(int(seed))
    for _ in sys.stdin:
        while not store(table, chance):
            pass
