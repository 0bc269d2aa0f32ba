"""A job without Spark or a group that stores numbers into a table for ever, and is killed by the test that runs it.

    python -m tests.spark.storing_job KIND WHERE NAME SEED

It claims the partition in a newer generation than it finds, stores a few numbers in each step, and claims again some
time after it was fenced, so that two of them fence each other without end. It prints a line for each step.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kohort.model.ids import TopicPartition
from kohort.spark.tables import Claim, Fenced, ManifestTable, PostgresTable, Step, Table

GROUP = "g"
PLACE = TopicPartition("numbers", 0)


class Numbers:
    """As much of a frame of Spark as the tables need: one column of the numbers of a step."""

    def __init__(self, first: int, stop: int) -> None:
        from pyspark.sql.types import LongType, StructField, StructType

        self.schema = StructType([StructField("id", LongType())])
        self.write = self
        self._rows = pa.table({"id": pa.array(range(first, stop), pa.int64())})

    def parquet(self, uri: str) -> None:
        """Write as Spark does: a directory of files."""
        folder = Path(uri.removeprefix("file://"))
        folder.mkdir(parents=True)
        half = self._rows.num_rows // 2
        pq.write_table(self._rows.slice(0, half), folder / "part-0.parquet")
        pq.write_table(self._rows.slice(half), folder / "part-1.parquet")

    def toArrow(self) -> pa.Table:  # noqa: N802
        """Return the rows."""
        return self._rows


def open_table(kind: str, where: str, name: str) -> Table:
    return ManifestTable(Path(where) / name) if kind == "manifest" else PostgresTable(where, name)


def store_for_ever(table: Table, seed: int) -> None:
    chance = random.Random(seed)
    frame: Any
    while True:
        held = table.held(GROUP).get(PLACE)
        mine = Claim(held.claim.generation + 1 if held else 1, f"job {seed}")
        try:
            offset = table.claim(GROUP, mine, [PLACE])[PLACE].offset
            if offset is None:
                offset = 0
                table.place(GROUP, mine, {PLACE: 0})
            for _ in range(chance.randrange(1, 12)):
                stop = offset + chance.randrange(1, 9)
                frame = Numbers(offset, stop)
                table.append(frame, GROUP, {PLACE: Step(offset, stop, mine)})
                offset = stop
                print(stop, flush=True)
        except Fenced:
            # Two jobs that claim at once fence each other before either has stored anything.
            for _ in range(chance.randrange(20, 200)):
                table.held(GROUP)


if __name__ == "__main__":
    kind, where, name, seed = sys.argv[1:]
    store_for_ever(open_table(kind, where, name), int(seed))
