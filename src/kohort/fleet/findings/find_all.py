"""Runs the rules over the tables of a fleet: Spark collects the facts of each group, and the rules judge them.

Spark reduces: hours, recent events, and of commits only those that went back. A rule gets one row per group, so that
rules are plain functions, and the cost of a group is that of its recent history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from datetime import date, timedelta
from functools import partial, reduce
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

from kohort.fleet.findings import unloadable_log
from kohort.fleet.findings.facts import CommitOf, EventOf, Facts, Finding, HourOf
from kohort.fleet.findings.rules import EVENTS as LOOKED_AT
from kohort.fleet.findings.rules import judge
from kohort.fleet.findings.thresholds import DEFAULTS, Thresholds
from kohort.fleet.schema import DAY_MS, EVENTS, FINDINGS, GROUP_HOURS, GROUPS, HOUR_MS, KEY, LAST_DAY, RECORDS, Table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

_OF_GROUPS = tuple(each.name for each in fields(Facts) if each.name in set(GROUPS.names) - set(KEY))
_ROWS = 256
"""Groups of one batch on its way to a Python worker."""


class Frames(Protocol):
    """Access to tables: of a run, or published ones."""

    def frame(self, spark: SparkSession, table: Table) -> DataFrame:
        """Return one table."""


def find_all(spark: SparkSession, tables: Frames, settings: Thresholds = DEFAULTS) -> DataFrame:
    """Return the findings of all groups, as rows of the table `findings`."""
    about_groups = facts_of(spark, tables, settings).mapInArrow(_judging(settings), FINDINGS.ddl)
    return about_groups.unionByName(about_logs(spark, tables, settings))


# -- about groups


def facts_of(spark: SparkSession, tables: Frames, settings: Thresholds) -> DataFrame:
    """Return the facts of each group as one row."""
    from pyspark.sql import functions as f

    groups = tables.frame(spark, GROUPS)
    ends = _ends(groups)
    since_ms = min((row["now_ms"] for row in ends.collect()), default=0) - settings.look_back_ms
    recent = partial(_recent, ends=ends, since_ms=since_ms, settings=settings)
    records = tables.frame(spark, RECORDS)
    hours = recent(tables.frame(spark, GROUP_HOURS), "hour_ms")
    events = recent(tables.frame(spark, EVENTS).where(f.col("event").isin(*LOOKED_AT)), "at_ms")
    last = _last_records(records)
    subscribed = last.where("record_type = 5 AND NOT last.tombstone")
    parts = (
        groups.join(f.broadcast(ends), "source").select(*KEY, f.struct("now_ms", *_OF_GROUPS).alias("stands")),
        hours.select(*KEY, f.struct(*HourOf._fields).alias("hour")),
        events.select(*KEY, f.struct(*EventOf._fields).alias("event")),
        _returns(recent(records, "at_ms"), hours).select(*KEY, f.struct(*CommitOf._fields).alias("return")),
        last.where("record_type = 2").select(*KEY, f.col("last.content").alias("last_record")),
        subscribed.select(*KEY, f.col("last.content").alias("subscription")),
    )
    # One grouping of them all costs one shuffle, and a join of each would sort them all again and again.
    every = reduce(lambda some, more: some.unionByName(more, allowMissingColumns=True), parts)
    found = every.groupBy(*KEY).agg(
        f.first("stands", ignorenulls=True).alias("stands"),
        f.collect_list("hour").alias("hours"),
        f.collect_list("event").alias("events"),
        f.collect_list("return").alias("returns"),
        f.max("last_record").alias("last_record"),
        f.collect_set("subscription").alias("subscriptions"),
    )
    known = found.where("stands IS NOT NULL")
    return known.select(*KEY, "stands.*", "hours", "events", "returns", "last_record", "subscriptions")


def _ends(groups: DataFrame) -> DataFrame:
    """Return when the log of each source ends: its last record that is not in the future."""
    from pyspark.sql import functions as f

    last = f.greatest("last_seen_ms", f.coalesce("last_commit_ms", "last_seen_ms"))
    sane = f.when(last <= f.unix_millis(f.current_timestamp()) + DAY_MS, last)
    ends = groups.groupBy("source").agg(f.coalesce(f.max(sane), f.max(last)).alias("now_ms"))
    return ends.where(f.col("now_ms").isNotNull())


def _recent(rows: DataFrame, at: str, ends: DataFrame, since_ms: int, settings: Thresholds) -> DataFrame:
    """Return the recent rows, without opening the files of earlier days."""
    from pyspark.sql import functions as f

    some = rows.where(f.col("day") >= f.lit(_day_of(since_ms)))
    return some.join(f.broadcast(ends), "source").where(f.col(at) > f.col("now_ms") - settings.look_back_ms)


def _day_of(at_ms: int) -> date:
    return date(1970, 1, 1) + timedelta(days=min(max(at_ms, 0) // DAY_MS, LAST_DAY))


def _returns(records: DataFrame, hours: DataFrame) -> DataFrame:
    """Return the commits that went back, each with the offset committed before it.

    Most partitions only go forward, which the first, last, least and greatest offset of an hour show. Only the other
    hours are sorted, and those with several possible committers: producers in transactions, or any client while the
    group has no members.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    partition = (*KEY, "topic", "topic_partition")
    counts = ~f.col("tombstone") & f.coalesce(f.col("transaction") == "committed", f.lit(True))
    hour = f.floor(f.col("at_ms") / HOUR_MS).alias("hour")
    commits = records.where(f.col("record_type").isin(0, 1) & counts).select(
        *partition, hour, "partition", "offset", "at_ms", "committed_offset", "producer_id"
    )
    committer = f.coalesce("producer_id", f.lit(-1))
    open_hours = hours.where("members_min = 0").select(
        *KEY, f.floor(f.col("hour_ms") / HOUR_MS).alias("hour"), f.lit(True).alias("are_free")
    )
    restless = (
        commits.groupBy(*partition, "hour")
        .agg(
            f.min("committed_offset").alias("least"),
            f.max("committed_offset").alias("greatest"),
            f.min_by("committed_offset", "offset").alias("first"),
            f.max_by("committed_offset", "offset").alias("last"),
            (f.min(committer) < f.max(committer)).alias("are_several"),
        )
        .join(open_hours, [*KEY, "hour"], "left")
        .where("first > least OR last < greatest OR are_several OR are_free")
        .select(*partition, "hour")
    )
    before = f.lag("committed_offset").over(Window.partitionBy(*partition).orderBy("offset"))
    ordered = commits.join(restless, [*partition, "hour"], "left_semi").withColumn("previous", before)
    return ordered.where(f.col("committed_offset") < f.col("previous"))


def _last_records(records: DataFrame) -> DataFrame:
    """Return the last record of each classic group, and the subscription of each member of a consumer group."""
    from pyspark.sql import functions as f

    def of(name: str) -> Column:
        return f.coalesce(f.get_json_object("fields", f"$.{name}"), f.lit(""))

    wanted = f.concat_ws(" ", of("subscribedTopicNames"), of("subscribedTopicRegex"))
    content = f.when(f.col("record_type") == 2, f.col("fields")).otherwise(wanted)
    return (
        records.where(f.col("record_type").isin(2, 5))
        .groupBy(*KEY, "record_type", "member")
        .agg(f.max_by(f.struct("tombstone", content.alias("content")), "offset").alias("last"))
    )


Judging = Callable[[Iterator["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]


def _judging(settings: Thresholds) -> Judging:
    """Return the function that judges the groups of a task."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for first in range(0, batch.num_rows, _ROWS):
                rows = batch.slice(first, _ROWS).to_pylist()
                yield from _as_batches(finding for row in rows for finding in judge(facts_from(row), settings))

    return run


def facts_from(row: dict[str, Any]) -> Facts:
    """Return the facts that a row of `facts_of` holds."""
    values = {name: row[name] for name in (*KEY, "now_ms", *_OF_GROUPS) if row[name] is not None}
    return Facts(
        **values,
        hours=sorted(HourOf(**hour) for hour in row["hours"] or ()),
        events=sorted(
            (EventOf(**event) for event in row["events"] or ()), key=lambda event: (event.at_ms, event.offset)
        ),
        returns=sorted((CommitOf(**commit) for commit in row["returns"] or ()), key=lambda commit: commit.offset),
        last_record=row["last_record"],
        subscriptions=row["subscriptions"] or (),
    )


def _as_batches(findings: Iterable[Finding]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    rows = [
        finding._asdict() | {"evidence": [evidence._asdict() for evidence in finding.evidence]} for finding in findings
    ]
    if rows:
        yield from pa.Table.from_pylist(rows, schema=FINDINGS.arrow()).to_batches()


# -- about logs


def about_logs(spark: SparkSession, tables: Frames, settings: Thresholds) -> DataFrame:
    """Return the groups at whose records some version of Kafka would fail to load."""
    from pyspark.sql import functions as f

    records = tables.frame(spark, RECORDS)
    place = ("source", "partition")
    fields = f.when((f.col("record_type") == 8), f.col("fields")).alias("fields")
    others = records.where("record_type >= 2 AND `group` IS NOT NULL").select(*_columns(), fields)
    first_commits = (
        records.where(f.col("record_type").isin(0, 1) & ~f.col("tombstone"))
        .groupBy(*KEY, "partition")
        .agg(f.min("offset").alias("offset"), f.min("at_ms").alias("at_ms"))
        .withColumn("record_type", f.lit(1))
        .withColumn("member", f.lit(None).cast("string"))
        .withColumn("tombstone", f.lit(False))
        .select(*_columns(), f.lit(None).cast("string").alias("fields"))
    )
    every = others.unionByName(first_commits).unionByName(_gaps(records))
    ordered = every.repartition(*place).sortWithinPartitions(*place, "offset", "record_type")
    return ordered.mapInArrow(_checking(settings), FINDINGS.ddl)


def _gaps(records: DataFrame) -> DataFrame:
    """Return a row where a run begins before which records were compacted away since the run before it.

    A coordinator loads the log without these records, although earlier ones that they superseded are in our tables.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    place = ("source", "partition")
    read = records.groupBy(*place, "run").agg(
        f.count("*").alias("count"), f.min("offset").alias("first"), f.max("offset").alias("last")
    )
    ended = f.lag("last").over(Window.partitionBy(*place).orderBy("run"))
    gaps = read.withColumn("ended", ended).where(f.col("count") < f.col("last") - f.col("ended"))
    values: dict[str, Column] = {"offset": f.col("first"), "record_type": f.lit(unloadable_log.GAP)}
    missing = [f.lit(None).cast("string").alias("fields")]
    return gaps.select(
        *(values.get(name, f.col(name) if name in place else f.lit(None)).alias(name) for name in _columns()), *missing
    )


def _columns() -> list[str]:
    return [name for name in unloadable_log.Row._fields if name != "fields"]


def _checking(settings: Thresholds) -> Judging:
    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[unloadable_log.Row]:
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in unloadable_log.Row._fields]
            yield from map(unloadable_log.Row, *columns)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, partition in groupby(rows(batches), key=lambda row: (row.source, row.partition)):
            yield from _as_batches(unloadable_log.find(partition, settings))

    return run
