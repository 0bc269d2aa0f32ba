"""Rows of a frame as they came from topics, without Spark's copies between the reader and a task.

Spark copies each row from the Python process that read it into Java, and from there into the one that uses it. A frame
of a round also has its rows attached as they are; any transformation makes another frame, which has none.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_ATTRIBUTE = "_kohort_direct_rows"
_RESULT = "result binary"


class Read(Protocol):
    """Reads the rows of a part, in whichever process; it is sent to Spark's tasks."""

    def __call__(self, part: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """Rows that tasks read, a part each."""

    spark: SparkSession
    read: Read
    count: int

    def mapInArrow(self, function: Task, schema: str) -> DataFrame:  # noqa: N802 - as a frame of Spark has it
        """Return what a function makes of the rows in Spark's tasks."""
        read = self.read

        def run(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for number in (number for batch in numbers for number in batch["id"].to_pylist()):
                yield from function(read(number))

        return self.spark.range(0, self.count, 1, self.count).mapInArrow(run, schema)


def attach_table(frame: DataFrame, rows: pa.Table) -> DataFrame:
    """Return a frame with its rows, which this process has."""
    setattr(frame, _ATTRIBUTE, rows)
    return frame


def attach_parts(frame: DataFrame, read: Read, count: int) -> DataFrame:
    """Return a frame with what reads its rows, in `count` parts."""
    setattr(frame, _ATTRIBUTE, _Parts(frame.sparkSession, read, count))
    return frame


def table_of(frame: DataFrame | pa.Table) -> pa.Table:
    """Return the rows of a frame in this process, as one table."""
    rows = frame if isinstance(frame, pa.Table) else getattr(frame, _ATTRIBUTE, None)
    return rows if isinstance(rows, pa.Table) else _loose(frame).toArrow()


def columns_of(schema: StructType | pa.Schema) -> StructType:
    """Return the columns of a frame or a table as Spark's; a JVM is not needed."""
    if not isinstance(schema, pa.Schema):
        return schema
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def batches_of(frame: DataFrame | pa.Table) -> Sequence[pa.RecordBatch]:
    """Return the rows of a frame in this process."""
    found: list[pa.RecordBatch] = table_of(frame).to_batches()
    return found


class MapsInArrow(Protocol):
    """A frame of Spark, or what has its `mapInArrow`."""

    def mapInArrow(self, function: Task, schema: str) -> DataFrame:  # noqa: N802 - as Spark has it
        """Return what a function makes of the rows in Spark's tasks."""


def in_tasks(frame: MapsInArrow, work: Callable[[Iterator[pa.RecordBatch]], Any]) -> list[Any]:
    """Call a function with the rows of each of Spark's tasks, and return what each call that counts has returned."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(work(batches))]})

    parts = getattr(frame, _ATTRIBUTE, None)
    results = (parts if isinstance(parts, _Parts) else _loose(frame)).mapInArrow(run, _RESULT)
    return [pickle.loads(row.result) for row in results.collect()]


def _loose(frame: Any) -> Any:
    """Return a frame whose nested fields may be null: Arrow has nulls in the required ones of a struct that is null."""
    schema = getattr(frame, "schema", None)
    if schema is None:
        return frame
    text = json.dumps(schema.jsonValue())
    loose = re.sub(r'"(nullable|containsNull|valueContainsNull)": false', r'"\1": true', text)
    return frame if loose == text else frame.to(type(schema).fromJson(json.loads(loose)))
