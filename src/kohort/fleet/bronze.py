"""Bronze: `__consumer_offsets` as decoded, of whatever inputs, by Spark's executors.

`read` gives one frame that holds three tables, because decoding is the expensive part and must happen once: write it
or cache it, then take `records`, `quarantine` and `ends` from what was written. What was read before is given as
positions, and what a run has read comes out as `ends`: the same positions give the same rows, but for what a cleaner
took away in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from kohort.fleet.inputs.pieces import Input, Kind, Piece, Since, packed, to_json
from kohort.fleet.schema import COUNTS, QUARANTINE, RECORDS, TOPICS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TASK_BYTES: Final = 128 << 20
"""What one task reads at most, unless a single file is larger."""

_LEAST_TASKS: Final = 2
_registered: WeakSet[SparkSession] = WeakSet()


@dataclass(frozen=True, slots=True)
class Bronze:
    """What was planned: the frame that reads it when it is written, and in how many pieces, of which no bytes are 0."""

    rows: DataFrame
    pieces: int
    size: int


def plan(inputs: Sequence[Input], since: Since) -> list[Piece]:
    """Return what is to be read. Raises KafkaError when a cluster cannot say what it has."""
    from kohort.fleet.inputs import cluster, segment_files, text_files

    found: list[Piece] = []
    for given in inputs:
        if given.kind == "cluster":
            found += cluster.plan(given, since)
        elif given.kind == "segment":
            found += segment_files.plan(given, since)
        elif given.kind in ("dump", "export"):
            found += text_files.plan(given, since)
    return found


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
    from kohort.fleet.bronze_source import FORMAT, BronzeSource

    if spark not in _registered:
        spark.dataSource.register(BronzeSource)
        _registered.add(spark)
    size = sum(piece.size for piece in pieces)
    cores = max(spark.sparkContext.defaultParallelism, _LEAST_TASKS)
    tasks = packed(pieces, max(min(TASK_BYTES, size // cores), 1 << 20))
    return spark.read.format(FORMAT).option("kind", kind).option("tasks", to_json(tasks)).load()


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


def counts(bronze_records: DataFrame) -> DataFrame:
    """Return bronze `counts` of bronze `records`."""
    from pyspark.sql import functions as f

    from kohort.fleet.decode_fields import kinds

    names = f.create_map(*[f.lit(each) for number, name in sorted(kinds().items()) for each in (number, name)])
    name = f.when(f.col("record_type").isNull(), f.lit("TransactionMarker"))
    found = bronze_records.groupBy("source", "partition", "record_type").agg(
        f.count("*").alias("records"),
        f.count_if("tombstone").alias("tombstones"),
        f.max("offset").alias("last_offset"),
    )
    named = found.withColumn("kind", name.otherwise(f.coalesce(names[f.col("record_type")], f.lit("unknown"))))
    return named.select(*COUNTS.names)


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


def topics(spark: SparkSession, inputs: Sequence[Input], bronze_records: DataFrame, now_ms: int) -> DataFrame:
    """Return bronze `topics`: what a log says of ids, and clusters of what they have, with their end offsets.

    Raises KafkaError when a cluster cannot be asked.
    """
    from pyspark.sql import functions as f

    from kohort.fleet.inputs.cluster import topics_of

    pairs = bronze_records.where("topic_id IS NOT NULL").select("source", "topic_id", "topic").distinct()
    told = bronze_records.where("record_type IN (4, 15) AND fields IS NOT NULL")
    shown = "array<struct<topicId:string,topicName:string,numPartitions:int>>"
    held = f.from_json(
        "fields", f"topics {shown}, initializingTopics {shown}, initializedTopics {shown}, deletingTopics {shown}"
    )
    lists = [
        f.coalesce(held[name], f.array().cast(shown))
        for name in ("topics", "initializingTopics", "initializedTopics", "deletingTopics")
    ]
    named = told.select("source", f.explode(f.concat(*lists)).alias("it")).select(
        "source", f.col("it.topicId").alias("topic_id"), f.col("it.topicName").alias("topic"), "it.numPartitions"
    )
    named = named.groupBy("source", "topic_id", "topic").agg(f.max("numPartitions").alias("partitions"))
    asked = spark.createDataFrame(
        [(given.source, *each, now_ms) for given in inputs if given.kind == "cluster" for each in topics_of(given)],
        TOPICS.ddl,
    )
    found = pairs.unionByName(named, allowMissingColumns=True).unionByName(asked, allowMissingColumns=True)
    return found.select(*TOPICS.names)
