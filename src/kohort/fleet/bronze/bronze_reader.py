"""Planning and reading of `__consumer_offsets`: from inputs to rows in Spark's tasks.

`read` gives rows of three tables, because decoding is the expensive part and must happen once: records, quarantine, and
the position reached in each partition, which the next run gives as `since`. The driver decides the
tasks, so that a wrong input fails before any job starts. A task is a function over task numbers, not a Python data
source, which would start two more processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from kohort.fleet.inputs.input_splits import Input, Kind, Since, Split, packed, text_splits
from kohort.fleet.schema import DECODED, RECORDS, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from kohort.spark.direct_rows import Task

TASK_BYTES: Final = 128 << 20
"""Largest size of a task, unless a single file is larger."""

_LEAST_BYTES: Final = 16 << 20
"""Least size of a task: starting a Python worker and its decoder takes as long as decoding this much."""
_LEAST_TASKS: Final = 2


def plan(inputs: Sequence[Input], since: Since) -> list[Split]:
    """Return the splits to read. Raises KafkaError when a cluster does not list its offsets."""
    from kohort.fleet.inputs import cluster_input, segment_files

    found: list[Split] = []
    for given in inputs:
        if given.kind == "cluster":
            found += cluster_input.plan(given, since)
        elif given.kind == "segment":
            found += segment_files.plan(given, since)
        elif given.kind in ("dump", "export"):
            found += text_splits(given, since)
    return segment_files.without_replicas(found)


def has_news(inputs: Sequence[Input], since: Since) -> bool:
    """Whether inputs may have something that is not read yet. Raises KafkaError as `plan` does."""
    return any(each.kind not in ("cluster", "segment") for each in inputs) or bool(plan(inputs, since))


def read(spark: SparkSession, inputs: Sequence[Input], since: Since | None = None) -> PlannedRows:
    """Return the rows of `inputs` from the positions `since` on, with the columns of `DECODED`.

    Raises KafkaError when a cluster does not list its offsets; all other errors become rows of quarantine.
    """
    return PlannedRows(spark, plan(inputs, since or {}), DECODED)


def read_beside(spark: SparkSession, inputs: Sequence[Input], kind: Kind, table: Table) -> DataFrame:
    """Return the rows of inputs that are no records: metrics of members, or logs of brokers."""
    splits = [split for given in inputs if given.kind == kind for split in text_splits(given, {})]
    return PlannedRows(spark, splits, table).frame()


class PlannedRows:
    """The rows of pieces of inputs, of which each Spark task reads some.

    Reading raises KafkaError when a cluster stays unreachable.
    """

    def __init__(self, spark: SparkSession, splits: Sequence[Split], table: Table) -> None:
        self._spark = spark
        self._table = table
        size = sum(split.size for split in splits)
        cores = max(spark.sparkContext.defaultParallelism, _LEAST_TASKS)
        self._tasks = packed(splits, max(min(TASK_BYTES, size // cores), _LEAST_BYTES))

    def frame(self) -> DataFrame:
        """Return the lazy frame of the rows."""
        return self.mapInArrow(lambda batches: batches, self._table.ddl)

    def mapInArrow(self, function: Task, schema: str) -> DataFrame:  # noqa: N802 - as a frame of Spark has it
        """Return what a function makes of the rows, in the task that reads them: they do not go through Spark."""
        tasks = self._tasks
        if not tasks:
            return self._spark.createDataFrame([], schema)

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            numbers = (number for batch in batches for number in batch.column(0).to_pylist())
            yield from function(rows for number in numbers for split in tasks[number] for rows in rows_of(split))

        return self._spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, schema)


def settled(bronze_records: DataFrame) -> DataFrame:
    """Return bronze `records` with the outcome of transactions whose marker is in these rows.

    A marker may be read by a later run than its transaction: pass the rows of all runs to complete all.
    """
    from pyspark.sql import functions as f

    is_open = f.col("transaction") == "open"
    markers = bronze_records.where("record_type IS NULL AND producer_id IS NOT NULL").select(
        "source", "partition", "producer_id", f.col("offset").alias("ended_at"), f.col("transaction").alias("ended")
    )
    open_rows = bronze_records.where(is_open)
    first = (
        open_rows.select("source", "partition", "producer_id", "offset")
        .join(markers, ["source", "partition", "producer_id"])
        .where("ended_at > offset")
        .groupBy("source", "partition", "offset")
        .agg(f.min_by("ended", "ended_at").alias("ended"))
    )
    closed = open_rows.join(first, ["source", "partition", "offset"], "left").withColumn(
        "transaction", f.coalesce("ended", "transaction")
    )
    others = bronze_records.where(f.coalesce(~is_open, f.lit(True)))
    return others.select(*RECORDS.names).unionByName(closed.select(*RECORDS.names))


def topics(inputs: Sequence[Input], now_ms: int) -> list[dict[str, Any]]:
    """Return rows of bronze `topics`, with end offsets, read from the live clusters.

    Raises KafkaError when a cluster does not answer.
    """
    from kohort.fleet.inputs.cluster_input import topics_of

    return [
        {"source": given.source, "read_at_ms": now_ms, **row}
        for given in inputs
        if given.kind == "cluster"
        for row in topics_of(given)
    ]


def rows_of(split: Split) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split: with the columns of `schema.DECODED`, or of the table of its kind."""
    from kohort.fleet.inputs import broker_log, cluster_input, export_lines, kafka_dump, member_metrics, segment_files

    read: dict[str, Callable[[Split], Iterator[pa.RecordBatch]]] = {
        "segment": segment_files.read,
        "cluster": cluster_input.read,
        "dump": kafka_dump.read,
        "export": export_lines.read,
        "metrics": member_metrics.read,
        "broker_log": broker_log.read,
    }
    return read[split.kind](split)
