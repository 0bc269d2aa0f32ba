"""Bronze as a run stores it: rows as they were read, what could not be read, and how far each partition was.

Inputs are read once, into one frame that holds all three (`bronze.py`); it is written once, and its records are moved
to their place. What stands in quarantine already does not come there again, however often its file is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kohort.fleet.schema import COUNTS, QUARANTINE, RECORDS, TOPICS, Table
from kohort.fleet.tables import Run, read_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Positions = Mapping[str, Mapping[int, int]]

READ = Table(
    "state",
    "read",
    (
        *RECORDS.columns,
        "file string",
        "position bigint",
        "reason string",
        "sample string",
        "next_offset bigint",
        "what string",
    ),
    ("what", "day", "bucket"),
)
"""What a run read, until it is in its tables."""


class Read(NamedTuple):
    """What inputs yield: the rows of `bronze.read`, and what is known of topics once the records are there."""

    rows: DataFrame
    topics: Callable[[DataFrame], DataFrame] | None = None


class Bronze(NamedTuple):
    """What a run stored of bronze."""

    records: int
    quarantined: int
    positions: dict[str, dict[int, int]]
    dense: frozenset[tuple[str, int]]
    """Partitions of which every offset from the last run's end to this one's is there: nothing has vanished."""


def read_inputs(spark: SparkSession, inputs: Sequence[Any], positions: Positions) -> Read:
    """Return what is new in files and clusters. Raises KafkaError when a cluster cannot say what it has."""
    from kohort.fleet import bronze

    rows = bronze.read(spark, inputs, positions).rows
    return Read(rows, lambda records: bronze.topics(spark, inputs, records, int(time.time() * 1000)))


def write_bronze(spark: SparkSession, run: Run, read: Read) -> Bronze:
    """Store what was read, and return how much it was."""
    from pyspark.sql import functions as f

    what = f.when(f.col("reason").isNotNull(), "quarantine").when(f.col("next_offset").isNotNull(), "position")
    run.store(READ, read.rows.withColumn("what", what.otherwise("records")))
    directory = run.directory(READ)
    read_back = read_parts(spark, directory, READ, [directory])
    positions = _positions(read_back)
    refused = _new_in_quarantine(spark, run, read_back.where("what = 'quarantine'"))
    records = _move_records(spark, run)
    if not records:
        return Bronze(0, refused, positions, frozenset())
    written = run.written(spark, RECORDS)
    run.replace(COUNTS, _counts(written, run.frame(spark, COUNTS)).coalesce(1))
    known = run.frame(spark, TOPICS)
    run.replace(TOPICS, _topics(known if read.topics is None else known.unionByName(read.topics(written))).coalesce(1))
    return Bronze(records, refused, positions, _dense(written, run, positions))


def _positions(rows: DataFrame) -> dict[str, dict[int, int]]:
    from kohort.fleet import bronze

    found: dict[str, dict[int, int]] = {}
    for source, partition, offset in bronze.ends(rows.where("what = 'position'")).collect():
        found.setdefault(source, {})[partition] = offset
    return found


def _new_in_quarantine(spark: SparkSession, run: Run, rows: DataFrame) -> int:
    from pyspark.sql import functions as f

    from kohort.fleet import bronze

    place = ("source", "file", "partition", "position", "offset", "reason")
    new = bronze.quarantine(rows).dropDuplicates(list(place)).alias("new")
    known = run.frame(spark, QUARANTINE).select(*place).alias("known")
    is_same = f.lit(True)
    for name in place:
        is_same &= f.col(f"new.{name}").eqNullSafe(f.col(f"known.{name}"))
    fresh = new.join(known, is_same, "left_anti").coalesce(1).cache()
    count = int(fresh.count())
    if count:
        run.append(QUARANTINE, fresh)
    fresh.unpersist()
    return count


def _move_records(spark: SparkSession, run: Run) -> int:
    """Move the records to their table and return how many they are."""
    stored = run.directory(READ) / "what=records"
    if not stored.exists():
        return 0
    place = run.directory(RECORDS)
    place.parent.mkdir(parents=True, exist_ok=True)
    stored.rename(place)
    run.adopt(RECORDS)
    return int(run.written(spark, RECORDS).count())


def _counts(records: DataFrame, known: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    from kohort.fleet import bronze

    merged = bronze.counts(records).unionByName(known).groupBy("source", "partition", "record_type", "kind")
    return merged.agg(
        f.sum("records").alias("records"),
        f.sum("tombstones").alias("tombstones"),
        f.max("last_offset").alias("last_offset"),
    ).select(*COUNTS.names)


def _topics(rows: DataFrame) -> DataFrame:
    """Return one row for each topic, with the latest that anybody said of it."""
    from pyspark.sql import functions as f

    def latest(name: str) -> Any:
        when = f.when(f.col(name).isNotNull(), f.coalesce("read_at_ms", f.lit(0)))
        return f.max_by(name, when).alias(name)

    return (
        rows.groupBy("source", "topic_id", "topic")
        .agg(latest("partitions"), latest("end_offsets"), f.max("read_at_ms").alias("read_at_ms"))
        .select(*TOPICS.names)
    )


def names_of_topics(topics: DataFrame) -> dict[tuple[str, str], str]:
    """Return the names of topic ids, by source and id."""
    from pyspark.sql import functions as f

    named = topics.where("topic_id IS NOT NULL").groupBy("source", "topic_id").agg(f.max("topic"))
    return {(source, topic_id): topic for source, topic_id, topic in named.collect()}


def _dense(records: DataFrame, run: Run, positions: Positions) -> frozenset[tuple[str, int]]:
    known = run.tables.positions
    rows = records.groupBy("source", "partition").count().collect()
    counts = {(source, partition): count for source, partition, count in rows}
    return frozenset(
        (source, partition)
        for source, ends in positions.items()
        for partition, end in ends.items()
        if counts.get((source, partition), 0) == end - known.get(source, {}).get(partition, -1)
    )
