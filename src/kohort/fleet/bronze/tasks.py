"""How Spark's executors decode `__consumer_offsets`: one task reads some pieces of input.

What the tasks are was decided in the driver (`bronze.read`), so that a wrong input is told before any job starts. It is
a function over the numbers of tasks and no data source of Python: planning one of those starts two more processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kohort.fleet.inputs.input_splits import Piece, from_json, to_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def rows_of(piece: Piece) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece: of `decode.columns.DDL`, or of the table that its kind fills."""
    from kohort.fleet.inputs import broker_log, cluster_input, export_lines, kafka_dump, member_metrics, segment_files

    read: dict[str, Callable[[Piece], Iterator[pa.RecordBatch]]] = {
        "segment": segment_files.read,
        "cluster": cluster_input.read,
        "dump": kafka_dump.read,
        "export": export_lines.read,
        "metrics": member_metrics.read,
        "broker_log": broker_log.read,
    }
    return read[piece.kind](piece)


def frame(spark: SparkSession, tasks: list[list[Piece]], ddl: str) -> DataFrame:
    """Return the rows of pieces; each list of them is read by one task of Spark.

    Reading raises KafkaError when a cluster stays out of reach.
    """
    if not tasks:
        return spark.createDataFrame([], ddl)
    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(_reading(to_json(tasks)), ddl)


def _reading(tasks: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that reads the tasks whose numbers it is given."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for piece in from_json(tasks)[number]:
                    yield from rows_of(piece)

    return run
