"""Which partition each row of a round is written to, so that Spark can give each partition one task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa

from kohort.client.producer.partitioner import partition_for_key
from kohort.spark.rows.row_encoder import RowEncoder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RECORD_COLUMNS = "key binary, value binary, headers array<struct<key: string, value: binary>>, target int"
"""The columns of a row whose partition is chosen."""


@dataclass(frozen=True, slots=True)
class TargetPartitions:
    """Adds the column `target`: the row's own partition, else that of its key as in Java, else one after another."""

    partitions: int
    first: int
    """Where rows without a key begin."""
    partitioner: Callable[[bytes, int], int]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return a task's rows with their partitions. Raises ValueError for a partition that does not exist."""
        if self.partitioner is partition_for_key:
            yield from self._as_java(batches)
            return
        turns = count(self.first)
        for batch in batches:
            keys, given = batch["key"].to_pylist(), batch["partition"].to_pylist()
            targets = [self._target(key, own, turns) for key, own in zip(keys, given, strict=True)]
            columns = [batch["key"], batch["value"], batch["headers"], pa.array(targets, pa.int32())]
            yield pa.RecordBatch.from_arrays(columns, ["key", "value", "headers", "target"])

    def _as_java(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        first = self.first
        for batch in batches:
            encoder = RowEncoder(batch["key"], batch["value"], 0)
            targets = encoder.targets(self.partitions, first, batch["partition"], turn_bytes=1)
            first += batch.num_rows
            columns = [batch["key"], batch["value"], batch["headers"], pa.array(targets, pa.int32())]
            yield pa.RecordBatch.from_arrays(columns, ["key", "value", "headers", "target"])

    def _target(self, key: bytes | None, own: int | None, turns: Iterator[int]) -> int:
        if own is not None:
            if not 0 <= own < self.partitions:
                raise ValueError(f"a row's partition is {own}: the topic has partitions 0 to {self.partitions - 1}")
            return own
        if key is not None:
            return self.partitioner(key, self.partitions)
        return next(turns) % self.partitions


def record_rows(frame: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    """Return the columns of a record for `TargetPartitions`, of which a frame has `columns`."""
    absent = {
        "key": "CAST(NULL AS binary) AS key",
        "headers": "CAST(NULL AS array<struct<key: string, value: binary>>) AS headers",
        "partition": "CAST(NULL AS int) AS partition",
    }
    chosen = [f"CAST({name} AS binary) AS {name}" if name in ("key", "value") else name for name in columns]
    return frame.selectExpr(*chosen, *(text for name, text in absent.items() if name not in columns))


def by_target(rows: DataFrame, targets: TargetPartitions, tasks: int) -> DataFrame:
    """Return records with their `target`, all those of one partition in one of `tasks` tasks."""
    from pyspark.sql import functions

    return rows.mapInArrow(targets, RECORD_COLUMNS).repartitionById(tasks, functions.col("target") % tasks)
