"""Bronze as a run stores it: rows as they were read, what could not be read, and how far each partition was.

Inputs are read once, into one frame that holds all three (`decode_rows.py`); it is written once, and its records are
moved to their place. What stands in quarantine already does not come there again, however often its file is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kohort.fleet.decode_fields import kinds
from kohort.fleet.schema import COUNTS, QUARANTINE, RECORDS, TOPICS, Table
from kohort.fleet.tables import Run, read_parts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    """What inputs yield: rows of bronze `records` with the columns of `READ` behind them, and what is known of topics.

    A row with a `reason` is of the quarantine; one with a `next_offset` says how far its partition was read.
    """

    rows: DataFrame
    topics: DataFrame | None = None


class Bronze(NamedTuple):
    """What a run stored of bronze."""

    records: int
    quarantined: int
    positions: dict[str, dict[int, int]]
    dense: frozenset[tuple[str, int]]
    """Partitions of which every offset from the last run's end to this one's is there: nothing has vanished."""


def write_bronze(spark: SparkSession, run: Run, read: Read) -> Bronze:
    """Store what was read, and return how much it was."""
    from pyspark.sql import functions as f

    what = f.when(f.col("reason").isNotNull(), "quarantine").when(f.col("next_offset").isNotNull(), "position")
    rows = read.rows.withColumn("what", what.when(f.col("record_type").isNotNull(), "records"))
    run.store(READ, rows.where(f.col("what").isNotNull()))
    directory = run.directory(READ)
    read_back = read_parts(spark, directory, READ, [directory])
    positions = _positions(read_back)
    refused = _new_in_quarantine(spark, run, read_back)
    records = _move_records(spark, run)
    if not records and not refused:
        return Bronze(0, 0, positions, frozenset())
    written = run.written(spark, RECORDS)
    run.replace(COUNTS, _counts(written, run.frame(spark, COUNTS)).coalesce(1))
    run.replace(TOPICS, _topics(spark, run, written, read.topics).coalesce(1))
    return Bronze(records, refused, positions, _dense(written, run, positions))


def _positions(rows: DataFrame) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    ends = rows.where("what = 'position'").groupBy("source", "partition").agg({"next_offset": "max"})
    for source, partition, offset in ends.collect():
        found.setdefault(source, {})[partition] = offset
    return found


def _new_in_quarantine(spark: SparkSession, run: Run, rows: DataFrame) -> int:
    from pyspark.sql import functions as f

    known = run.frame(spark, QUARANTINE)
    place = ("source", "file", "partition", "position", "offset", "reason")
    same = [f.col(f"new.{name}").eqNullSafe(f.col(f"known.{name}")) for name in place]
    new = rows.where("what = 'quarantine'").select(*QUARANTINE.names).dropDuplicates(list(place)).alias("new")
    condition = same[0]
    for each in same[1:]:
        condition &= each
    fresh = new.join(known.alias("known"), condition, "left_anti").coalesce(1).cache()
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

    new = records.groupBy("source", "partition", "record_type").agg(
        f.count("*").alias("records"), f.count_if("tombstone").alias("tombstones"), f.max("offset").alias("last_offset")
    )
    merged = new.unionByName(known.drop("kind")).groupBy("source", "partition", "record_type")
    names = f.create_map(*(f.lit(part) for pair in kinds().items() for part in pair))
    return (
        merged.agg(
            f.sum("records").alias("records"),
            f.sum("tombstones").alias("tombstones"),
            f.max("last_offset").alias("last_offset"),
        )
        .withColumn("kind", f.coalesce(f.try_element_at(names, f.col("record_type")), f.lit("unknown")))
        .select(*COUNTS.names)
    )


def _topics(spark: SparkSession, run: Run, records: DataFrame, given: DataFrame | None) -> DataFrame:
    """Return what is known of topics: from commits, which name them, from records that list them, from the input."""
    from pyspark.sql import functions as f

    none = [f.lit(None).cast("int").alias("partitions"), f.lit(None).cast("array<bigint>").alias("end_offsets")]
    told = records.where(f.col("topic_id").isNotNull()).select("source", "topic_id", "topic").distinct()
    partly = "array<struct<topicId: string, topicName: string>>"
    lists = [f.from_json("fields", f"topics {partly}")["topics"]]
    lists += [
        f.from_json("fields", f"{name} {partly}")[name]
        for name in ("initializingTopics", "initializedTopics", "deletingTopics")
    ]
    listed = records.where(f.col("record_type").isin(4, 15) & f.col("fields").isNotNull())
    every = f.flatten(f.filter(f.array(*lists), lambda each: each.isNotNull()))
    listed = listed.select("source", f.explode(every).alias("topic")).select(
        "source", f.col("topic.topicId").alias("topic_id"), f.col("topic.topicName").alias("topic")
    )
    named = told.unionByName(listed).where("topic_id is not null and topic is not null").distinct()
    new = named.select("*", *none, f.lit(0).cast("bigint").alias("read_at_ms"))
    if given is not None:
        new = new.unionByName(given.select(*TOPICS.names))
    return (
        new.unionByName(run.frame(spark, TOPICS))
        .groupBy("source", "topic_id", "topic")
        .agg(
            f.max_by("partitions", f.when(f.col("partitions").isNotNull(), f.col("read_at_ms"))).alias("partitions"),
            f.max_by("end_offsets", f.when(f.col("end_offsets").isNotNull(), f.col("read_at_ms"))).alias("end_offsets"),
            f.max("read_at_ms").alias("read_at_ms"),
        )
        .select(*TOPICS.names)
    )


def names_of_topics(topics: DataFrame) -> dict[tuple[str, str], str]:
    """Return the names of topic ids, by source and id."""
    rows = topics.where("topic_id is not null").groupBy("source", "topic_id").agg({"topic": "max"}).collect()
    return {(source, topic_id): topic for source, topic_id, topic in rows}


def _dense(records: DataFrame, run: Run, positions: dict[str, dict[int, int]]) -> frozenset[tuple[str, int]]:
    known = run.tables.positions
    counts = {
        (source, partition): count
        for source, partition, count in records.groupBy("source", "partition").count().collect()
    }
    return frozenset(
        (source, partition)
        for source, ends in positions.items()
        for partition, end in ends.items()
        if counts.get((source, partition), 0) == end - known.get(source, {}).get(partition, -1)
    )
