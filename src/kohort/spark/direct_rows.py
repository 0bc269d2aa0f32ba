"""Rows of a frame as they came from topics, without Spark's copies between the reader and a task.

Spark copies each row from the Python process that read it into Java, and from there into the one that uses it. A frame
of a round also has its rows attached as they are; any transformation makes another frame, which has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_ATTRIBUTE = "_kohort_direct_rows"


class Read(Protocol):
    """Reads the rows of a part, in whichever process; it is sent to Spark's tasks."""

    def __call__(self, part: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""
        ...


@dataclass(frozen=True, slots=True)
class _Parts:
    """Rows that tasks read, a part each."""

    read: Read
    count: int


def attach_table(frame: DataFrame, rows: pa.Table) -> DataFrame:
    """Return a frame with its rows, which this process has."""
    setattr(frame, _ATTRIBUTE, rows)
    return frame


def attach_parts(frame: DataFrame, read: Read, count: int) -> DataFrame:
    """Return a frame with what reads its rows, in `count` parts."""
    setattr(frame, _ATTRIBUTE, _Parts(read, count))
    return frame


def batches_of(frame: DataFrame) -> Sequence[pa.RecordBatch]:
    """Return the rows of a frame in this process."""
    rows = getattr(frame, _ATTRIBUTE, None)
    found: list[pa.RecordBatch] = (rows if isinstance(rows, pa.Table) else frame.toArrow()).to_batches()
    return found


def map_in_tasks(frame: DataFrame, task: Task, columns: str) -> DataFrame:
    """Return what a task yields for the rows of a frame, as `mapInArrow` does."""
    parts = getattr(frame, _ATTRIBUTE, None)
    if not isinstance(parts, _Parts):
        return frame.mapInArrow(task, columns)
    spark = frame.sparkSession

    def read_and_map(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch["id"].to_pylist():
                yield from task(parts.read(number))

    return spark.range(0, parts.count, 1, parts.count).mapInArrow(read_and_map, columns)
