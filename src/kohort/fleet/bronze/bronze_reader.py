"""Bronze: `__consumer_offsets` as decoded, of whatever inputs, by Spark's executors.

`read` gives one frame that holds three tables, because decoding is the expensive part and must happen once: write it
or cache it, then take `records`, `quarantine` and `ends` from what was written. What was read before is given as
positions, and what a run has read comes out as `ends`: the same positions give the same rows, but for what a cleaner
took away in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kohort.fleet.inputs.input_splits import Input, Kind, Piece, Since, packed
from kohort.fleet.schema import METRICS, QUARANTINE, RECORDS, STATE_CHANGES, TOPICS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_BYTES: Final = 128 << 20
"""What one task reads at most, unless a single file is larger."""

_LEAST_BYTES: Final = 16 << 20
"""What one task reads at least: starting a worker of Python, and its decoder, takes as long as decoding so much."""
_LEAST_TASKS: Final = 2


@dataclass(frozen=True, slots=True)
class Bronze:
    """What was planned: the frame that reads it when it is written, and in how many pieces, of which no bytes are 0."""

    rows: DataFrame
    pieces: int
    size: int


def plan(inputs: Sequence[Input], since: Since) -> list[Piece]:
    """Return what is to be read. Raises KafkaError when a cluster cannot say what it has."""
    from kohort.fleet.inputs import cluster_input, segment_files, text_files

    found: list[Piece] = []
    for given in inputs:
        if given.kind == "cluster":
            found += cluster_input.plan(given, since)
        elif given.kind == "segment":
            found += segment_files.plan(given, since)
        elif given.kind in ("dump", "export"):
            found += text_files.plan(given, since)
    return segment_files.without_replicas(found)


def read(spark: SparkSession, inputs: Sequence[Input], since: Since | None = None) -> Bronze:
    """Return the frame of what `inputs` have from the positions `since` on.

    Raises KafkaError when a cluster cannot say what it has; whatever else is wrong becomes rows of quarantine.
    """
    pieces = plan(inputs, since or {})
    return Bronze(_frame(spark, pieces, "records"), len(pieces), sum(piece.size for piece in pieces))


def metrics(spark: SparkSession, inputs: Sequence[Input]) -> DataFrame:
    """Return bronze `metrics` of the files that members' metrics were given in."""
    return _of_kind(spark, inputs, "metrics")


def state_changes(spark: SparkSession, inputs: Sequence[Input]) -> DataFrame:
    """Return bronze `state_changes` of the logs of brokers that were given."""
    return _of_kind(spark, inputs, "broker_log")


def _of_kind(spark: SparkSession, inputs: Sequence[Input], kind: Kind) -> DataFrame:
    from kohort.fleet.inputs import text_files

    pieces = [piece for given in inputs if given.kind == kind for piece in text_files.plan(given, {})]
    return _frame(spark, pieces, kind)


def _frame(spark: SparkSession, pieces: Sequence[Piece], kind: str) -> DataFrame:
    from kohort.fleet.bronze.tasks import frame
    from kohort.fleet.decode.columns import DDL

    size = sum(piece.size for piece in pieces)
    cores = max(spark.sparkContext.defaultParallelism, _LEAST_TASKS)
    tasks = packed(pieces, max(min(TASK_BYTES, size // cores), _LEAST_BYTES))
    return frame(spark, tasks, {"metrics": METRICS.ddl, "broker_log": STATE_CHANGES.ddl}.get(kind, DDL))


def records(rows: DataFrame) -> DataFrame:
    """Return bronze `records` of what `read` gave.

    The markers that end transactions are rows of it, without a record type.
    """
    return rows.where("reason IS NULL AND next_offset IS NULL").select(*RECORDS.names)


def quarantine(rows: DataFrame) -> DataFrame:
    """Return bronze `quarantine` of what `read` gave; `day` is that of the run."""
    from pyspark.sql import functions as f

    found = rows.where("reason IS NOT NULL").withColumn("day", f.current_date())
    return found.select(*QUARANTINE.names)


def ends(rows: DataFrame) -> DataFrame:
    """Return how far each partition was read, of what `read` gave: source, partition, next_offset."""
    from pyspark.sql import functions as f

    found = rows.where("next_offset IS NOT NULL").groupBy("source", "partition")
    return found.agg(f.max("next_offset").alias("next_offset"))


def settled(bronze_records: DataFrame) -> DataFrame:
    """Return bronze `records` with what is known of open transactions now: their markers may have come later.

    Whether one was committed can only be said where its marker is: with the rows of all runs this says it for all.
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
    """Return rows of bronze `topics`: what clusters have, with their end offsets.

    Raises KafkaError when a cluster cannot be asked.
    """
    from kohort.fleet.inputs.cluster_input import topics_of

    asked = [(given.source, *each, now_ms) for given in inputs if given.kind == "cluster" for each in topics_of(given)]
    return [dict(zip(TOPICS.names, row, strict=True)) for row in asked]
