"""Silver: what happened to each group, made of bronze by one pass over its records.

Offset commits, which are most of a log, are counted by Spark itself and come to the fold as one row for each hour of a
group. All other records are sorted by group and offset inside of the partition of `__consumer_offsets` in which they
lie, and folded one after another: a task holds one group at a time, and what it found is handed out in batches. So the
cost is linear in records, whatever groups they are of, and memory is that of the largest group as it is, not its past.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kohort.fleet.fold.fold import COMMITS, fold
from kohort.fleet.fold.folded_group import Group, Record
from kohort.fleet.fold.group_json import group_from_json
from kohort.fleet.schema import Table
from kohort.fleet.silver.rows import FOLDED_DDL, Found

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

STATE = -2
"""The type of the row that holds what an earlier run folded of a group."""

NamesOfTopics = Mapping[tuple[str, str], str]
"""By source and topic id, the topic's name."""

INPUT = Table(
    "",
    "",
    (
        "source string",
        "group string",
        "partition int",
        "offset bigint",
        "at_ms bigint",
        "record_type int",
        "tombstone boolean",
        "member string",
        "fields string",
        "commits bigint",
        "deletions bigint",
    ),
)
"""What the fold reads, in this order."""


def is_commit() -> Column:
    """Return whether a row of bronze is a commit, or the deletion of one, that took effect."""
    from pyspark.sql import functions as f

    return f.col("record_type").isin(0, 1) & (f.coalesce(f.col("transaction"), f.lit("committed")) == "committed")


def commits(records: DataFrame) -> DataFrame:
    """Return silver `commits`: a projection of bronze."""
    from kohort.fleet.schema import COMMITS as TABLE

    return records.where(is_commit()).select(*TABLE.names)


def commit_hours(records: DataFrame) -> DataFrame:
    """Return the commits of each group and hour, counted, as rows of `INPUT`."""
    from pyspark.sql import functions as f

    hour = f.floor(f.col("at_ms") / 3_600_000)
    counted = (
        records.where(is_commit())
        .groupBy("source", "group", "partition", hour.alias("hour"))
        .agg(
            f.max("offset").alias("offset"),
            f.max("at_ms").alias("at_ms"),
            f.count_if(~f.col("tombstone")).alias("commits"),
            f.count_if("tombstone").alias("deletions"),
        )
    )
    return _as_input(counted, record_type=COMMITS)


def group_records(records: DataFrame) -> DataFrame:
    """Return the records that are no commits, as rows of `INPUT`; a type that nobody knows names no group."""
    return _as_input(records.where("record_type >= 2 AND `group` IS NOT NULL"))


def _as_input(rows: DataFrame, *, record_type: int | None = None) -> DataFrame:
    from pyspark.sql import functions as f

    if record_type is not None:
        rows = rows.withColumn("record_type", f.lit(record_type))
    missing = [column.split(" ", 1) for column in INPUT.columns if column.split(" ", 1)[0] not in rows.columns]
    for name, kind in missing:
        rows = rows.withColumn(name, f.lit(None).cast(kind))
    return rows.select(*(f.col(name).cast(kind) for name, kind in (each.split(" ", 1) for each in INPUT.columns)))


def folded(
    records: DataFrame, states: DataFrame, names: NamesOfTopics, dense: Iterable[tuple[str, int]], tasks: int
) -> DataFrame:
    """Return what new records bring about, as rows of `FOLDED_DDL`.

    `states` are the rows of `STATE_GROUPS` of an earlier run; `dense` are the partitions, by source and number, of
    which no record vanished since then; `tasks` is into how many parts the work is cut.
    """
    from pyspark.sql import functions as f

    news = group_records(records).unionByName(commit_hours(records))
    touched = news.select("source", "group").distinct()
    before = states.join(touched, ["source", "group"], "left_semi").select(
        "source", "group", "partition", f.lit(-1).alias("offset"), f.col("folded").alias("fields")
    )
    every = news.unionByName(_as_input(before, record_type=STATE))
    ordered = every.repartition(tasks, "source", "partition").sortWithinPartitions("source", "group", "offset")
    return ordered.mapInArrow(_folding(dict(names), frozenset(dense)), FOLDED_DDL)


def untouched(rows: DataFrame, new: DataFrame) -> DataFrame:
    """Return the rows of groups of which nothing new was read."""
    return rows.join(new.select("source", "group"), ["source", "group"], "left_anti").select(*rows.columns)


def _folding(
    names: dict[tuple[str, str], str], dense: frozenset[tuple[str, int]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that a task runs over its sorted rows."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = Found()
        group: Group | None = None
        is_gap = False
        for source, group_id, record in _records(batches):
            if group is None or group.group != group_id or group.source != source:
                if group is not None:
                    found.finish(group)
                group, is_gap = _start(source, group_id, record, names, dense)
                if record.record_type == STATE:
                    continue
            found.take(group, record, fold(group, record, is_gap=is_gap))
            is_gap &= record.record_type == COMMITS
            if found.is_full():
                yield from found.batches()
        if group is not None:
            found.finish(group)
        yield from found.batches()

    return run


def _start(
    source: str,
    group_id: str,
    record: Record,
    names: dict[tuple[str, str], str],
    dense: frozenset[tuple[str, int]],
) -> tuple[Group, bool]:
    """Return a group as it was before its first new record, and whether records in between may have vanished."""

    def name_of(topic_id: str) -> str:
        return names.get((source, topic_id), topic_id)

    if record.record_type != STATE:
        group = Group(source, group_id)
        group.name_of = name_of
        return group, False
    group = group_from_json(source, group_id, record.fields or "{}", name_of)
    return group, (source, record.partition) not in dense


def _records(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, str, Record]]:
    for batch in batches:
        columns: list[list[Any]] = [batch.column(name).to_pylist() for name in INPUT.names]
        for source, group, partition, offset, at_ms, kind, tombstone, member, fields, count, gone in zip(
            *columns, strict=True
        ):
            record = Record(partition, offset, at_ms or 0, kind, bool(tombstone), member, fields, count or 0, gone or 0)
            yield source, group, record
