"""Silver tables: events, ownership intervals, and parts of hours, from one pass over bronze records.

Offset commits, which are most of a log, are counted by Spark and enter the fold as one row per group and hour. All
other records are sorted by group and offset within their partition of `__consumer_offsets` and folded one by one: a
task holds one group at a time and writes results in batches, into files of each table. The cost is linear in records;
memory is that of the largest group's current state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kohort.fleet.fold.fold import COMMITS, Folded, fold, state_of
from kohort.fleet.fold.folded_group import Group, Interval, Record
from kohort.fleet.fold.group_json import group_from_json, group_to_json
from kohort.fleet.fold.hours import Hour, Snapshot
from kohort.fleet.schema import (
    DAY_MS,
    EVENTS,
    FIRST_DAY,
    HOUR_MS,
    HOUR_PARTS,
    KEY,
    LAST_DAY,
    OWNERSHIP,
    STATE_GROUPS,
    STATE_OPEN,
    Table,
    bucket_of,
)
from kohort.fleet.table_files import writer_of
from kohort.spark.direct_rows import in_tasks
from kohort.spark.tables.delta_files import DeltaFile
from kohort.spark.tables.delta_storage import DeltaPlan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STATE = -2
"""Pseudo record type of the row with the state that an earlier run stored for a group."""

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
"""The input of the fold."""


def is_commit() -> Column:
    """Return whether a bronze row is a commit, or the deletion of one, that is not aborted or open."""
    from pyspark.sql import functions as f

    return f.col("record_type").isin(0, 1) & (f.coalesce(f.col("transaction"), f.lit("committed")) == "committed")


def commit_hours(records: DataFrame) -> DataFrame:
    """Return the commits of each group and hour, counted, as rows of `INPUT`."""
    from pyspark.sql import functions as f

    hour = f.floor(f.col("at_ms") / HOUR_MS)
    counted = (
        records.where(is_commit())
        .groupBy(*KEY, "partition", hour.alias("hour"))
        .agg(
            f.max("offset").alias("offset"),
            f.max("at_ms").alias("at_ms"),
            f.count_if(~f.col("tombstone")).alias("commits"),
            f.count_if("tombstone").alias("deletions"),
        )
    )
    return _as_input(counted.withColumn("record_type", f.lit(COMMITS)))


def group_records(records: DataFrame) -> DataFrame:
    """Return the records that are no commits, as rows of `INPUT`; unknown types have no group."""
    return _as_input(records.where("record_type >= 2 AND `group` IS NOT NULL"))


def _as_input(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    present = set(rows.columns)
    return rows.select(
        *(
            (f.col(name) if name in present else f.lit(None)).cast(kind).alias(name)
            for name, kind in INPUT.types.items()
        )
    )


def folded(
    records: DataFrame,
    states: DataFrame,
    names: NamesOfTopics,
    dense: Iterable[tuple[str, int]],
    tasks: int,
    plans: Mapping[str, DeltaPlan],
) -> dict[str, list[DeltaFile]]:
    """Fold new records, and return the files of results: by a key of `PARTS`, they are written by its plan.

    `states` are the rows of `STATE_GROUPS` of an earlier run; `dense` are the partitions, by source and number, from
    which no record was compacted away since then; `tasks` is the number of Spark tasks.
    """
    from pyspark.sql import functions as f

    news = group_records(records).unionByName(commit_hours(records))
    touched = news.select(*KEY).distinct()
    before = states.join(touched, KEY, "left_semi").select(
        *KEY,
        "partition",
        f.lit(-1).alias("offset"),
        f.lit(STATE).alias("record_type"),
        f.col("folded").alias("fields"),
    )
    every = news.unionByName(_as_input(before))
    ordered = every.repartition(tasks, "source", "partition").sortWithinPartitions(*KEY, "offset")
    found: dict[str, list[DeltaFile]] = {}
    for written in in_tasks(ordered, _folding(dict(names), frozenset(dense), plans)):
        for what, files in written.items():
            found.setdefault(what, []).extend(files)
    return found


def untouched(rows: DataFrame, new: DataFrame) -> DataFrame:
    """Return the rows of groups without new records."""
    return rows.join(new.select(*KEY), KEY, "left_anti").select(*rows.columns)


def _folding(
    names: dict[tuple[str, str], str], dense: frozenset[tuple[str, int]], plans: Mapping[str, DeltaPlan]
) -> Callable[[Iterator[pa.RecordBatch]], dict[str, list[DeltaFile]]]:
    """Return the function that a task calls with its sorted rows; it returns what files it has written."""

    def run(batches: Iterator[pa.RecordBatch]) -> dict[str, list[DeltaFile]]:
        with ExitStack() as stack:
            writers = {what: stack.enter_context(writer_of(plan)) for what, plan in plans.items()}
            for what, rows in _results(batches, names, dense):
                writers[what].add(rows)
            return {what: writer.close() for what, writer in writers.items()}

    return run


def _results(
    batches: Iterator[pa.RecordBatch], names: dict[tuple[str, str], str], dense: frozenset[tuple[str, int]]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Fold sorted rows, and yield the rows of results, each batch with the key of its table in `PARTS`."""
    found = FoldResults()
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


def _start(
    source: str,
    group_id: str,
    record: Record,
    names: dict[tuple[str, str], str],
    dense: frozenset[tuple[str, int]],
) -> tuple[Group, bool]:
    """Return a group's state before its first new record, and whether records in between may have been compacted."""

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


PARTS: Mapping[str, Table] = {
    "event": EVENTS,
    "ended": OWNERSHIP,
    "open": STATE_OPEN,
    "hour": HOUR_PARTS,
    "state": STATE_GROUPS,
}

ROWS_OF_A_BATCH = 10_000
MOST_TEXTS = 1_000
"""How many clients or hosts of one group are listed."""


class FoldResults:
    """Result rows that were not yielded yet, by table, as tuples in the order of its columns."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[Any, ...]]] = {what: [] for what in PARTS}

    def take(self, group: Group, record: Record, folded: Folded) -> None:
        """Add the results of one record."""
        place = (group.source, record.partition, record.offset)
        for event_row in folded.events:
            at_ms, event, *rest = event_row
            row = (*place, at_ms, group.group, group.kind or None, event, *rest, *_when(at_ms, record.partition))
            self._rows["event"].append(row)
        self._take(group, folded.ended, folded.hours)

    def _take(self, group: Group, ended: Iterable[Interval], hours: Iterable[Hour]) -> None:
        self._rows["ended"] += [_interval_row(group, each, each.until_ms) for each in ended]
        self._rows["hour"] += [_hour_row(group, hour) for hour in hours]

    def finish(self, group: Group) -> None:
        """Add a group's open intervals, remaining hours and final state."""
        self._take(group, group.ownership.collect_ended(), group.hours.collect(all_of_them=True))
        self._rows["open"] += [_interval_row(group, each, each.from_ms) for each in group.ownership.open_intervals()]
        self._rows["state"].append(_state_row(group))

    def is_full(self) -> bool:
        """Whether a batch is full."""
        return any(len(rows) >= ROWS_OF_A_BATCH for rows in self._rows.values())

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield all rows as batches, each with the key of its table."""
        for what, rows in self._rows.items():
            schema = PARTS[what].arrow()
            for start in range(0, len(rows), ROWS_OF_A_BATCH):
                columns = zip(zip(*rows[start : start + ROWS_OF_A_BATCH], strict=True), schema, strict=True)
                arrays = [pa.array(column, field.type) for column, field in columns]
                yield what, pa.RecordBatch.from_arrays(arrays, schema=schema)
            rows.clear()


UNKNOWN = Snapshot()
_EPOCH = date(1970, 1, 1).toordinal()


def _when(at_ms: int | None, partition: int) -> tuple[date, int]:
    return _day((at_ms or 0) // DAY_MS), bucket_of(partition)


@lru_cache(maxsize=4096)
def _day(day: int) -> date:
    return date.fromordinal(_EPOCH + min(max(day, FIRST_DAY), LAST_DAY))


def _interval_row(group: Group, each: Interval, day_ms: int | None) -> tuple[Any, ...]:
    member = group.members.get(each.member_id) or group.departed.get(each.member_id)
    return (
        group.source,
        group.group,
        each.partition.topic,
        each.partition.partition,
        each.member_id,
        None if member is None else member.client_id,
        each.from_ms,
        each.until_ms,
        *_when(day_ms, group.partition),
    )


def _hour_row(group: Group, hour: Hour) -> tuple[Any, ...]:
    snapshot = hour.snapshot or UNKNOWN
    return (
        group.source,
        group.group,
        hour.hour_ms,
        snapshot.kind or None,
        snapshot.strategy,
        hour.rebalances,
        hour.rebalances_failed,
        hour.rebalance_ms_total,
        hour.rebalance_ms_max,
        hour.unowned_partition_ms / 1000,
        hour.partitions_moved,
        hour.partitions_kept,
        None,  # stickiness, commit rate and lag are of whole hours: gold.py
        hour.commits,
        None,
        None,
        hour.members_min,
        hour.members_max,
        hour.joined,
        hour.left,
        hour.evicted,
        snapshot.static_members / snapshot.members if snapshot.members else None,
        sorted(hour.protocols),
        sorted(hour.versions),
        hour.slowest_member,
        snapshot.members,
        snapshot.partitions,
        hour.last_at_ms,
        *_when(hour.hour_ms, group.partition),
    )


def _state_row(group: Group) -> tuple[Any, ...]:
    shares = [group.ownership.share_of(member_id) for member_id in group.members]
    if group.kind == "share":
        shares = [len(member.target) for member in group.members.values()]
    members = list(group.members.values())
    return (
        group.source,
        group.group,
        group.kind or "classic",
        state_of(group),
        group.epoch,
        len(members),
        group.static_members,
        len(group.ownership.owners) + len(group.ownership.unowned),
        sorted({topic for member in members for topic in member.topics})[:MOST_TEXTS],
        group.strategy,
        group.protocol,
        sorted({name for member in members for name in member.protocols})[:MOST_TEXTS],
        sorted({member.version for member in members if member.version is not None}),
        group.has_user_data,
        sorted({member.client_id for member in members})[:MOST_TEXTS],
        sorted({member.host for member in members})[:MOST_TEXTS],
        max(shares, default=None),
        min(shares, default=None),
        sum(share == 0 for share in shares),
        group.emptied_ms,
        None if group.running is None else group.running.since_ms,
        group.first_seen_ms,
        group.last_seen_ms,
        group.records,
        group.rebalances,
        group.partition,
        group.last_offset,
        bucket_of(group.partition),
        group_to_json(group),
    )
