"""Silver tables: events, ownership intervals, and parts of hours, from one pass over bronze records.

Offset commits, which are most of a log, are counted by a query and enter the fold as one row per group and hour, and
one for each that went back. All other records are sorted by group and offset, and folded one by one: a task has one
group at a time and writes results in batches, into files of each table. The cost is linear in records; memory is that
of the largest group's current state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any

import pyarrow as pa

from kohort.fleet.fold.fold import COMMITS, FIRST_COMMIT, REWOUND, Folded, fold, state_of
from kohort.fleet.fold.folded_group import FoldedRecord, Group, Interval, group_from_json, group_to_json
from kohort.fleet.fold.hours import Hour, Snapshot
from kohort.fleet.load_check import LogCheck
from kohort.fleet.queries import query_over
from kohort.fleet.schema import (
    DAY_MS,
    EVENTS,
    FIRST_DAY,
    HOUR_MS,
    HOUR_PARTS,
    LAST_DAY,
    OWNERSHIP,
    STATE_GROUPS,
    STATE_OPEN,
    Table,
    bucket_of,
)
from kohort.fleet.table_files import StoredRows, writer_of
from kohort.spark.tables.delta_files import DeltaFile
from kohort.spark.tables.delta_storage import DeltaPlan

STATE = -2
"""Pseudo record type of the row with the state that an earlier run stored for a group."""

NamesOfTopics = Mapping[tuple[str, str], str]
"""By source and topic id, the topic's name."""

INPUT = (
    "source",
    "group",
    "partition",
    "offset",
    "at_ms",
    "record_type",
    "tombstone",
    "member",
    "fields",
    "commits",
    "deletions",
)
"""The columns of the fold's input."""

IS_COMMIT = "record_type IN (0, 1) AND coalesce(transaction, 'committed') = 'committed'"
"""Whether a bronze row is a commit, or the deletion of one, that is not aborted or open."""

HERE = "source = $1 AND bucket = $2"
"""The rows of a task. All records of a group are in one bucket."""

QUERY = f"""
WITH commits AS (
    SELECT source, "group", partition, "offset", at_ms, tombstone, topic, topic_partition, topic_id, producer_id,
        CASE WHEN NOT tombstone THEN committed_offset END AS committed_offset
    FROM (FROM records UNION ALL BY NAME FROM settled) WHERE {IS_COMMIT} AND {HERE}
), steps AS (
    SELECT *, lag(committed_offset) OVER before AS previous, lag(topic_id) OVER before AS previous_id
    FROM (
        FROM commits
        UNION ALL BY NAME
        SELECT source, "group", "offset", at_ms, topic, topic_partition, topic_id, committed_offset
        FROM last_commits WHERE {HERE}
    ) WINDOW before AS (PARTITION BY source, "group", topic, topic_partition ORDER BY "offset")
), changes AS (
    SELECT source, "group", partition, "offset", at_ms, record_type, tombstone, member, fields, 0, 0
    FROM records WHERE record_type >= 2 AND "group" IS NOT NULL AND {HERE}
    UNION ALL
    SELECT source, "group", partition, max("offset"), max(at_ms), {COMMITS}, false, NULL, NULL,
        count(*) FILTER (NOT tombstone), count(*) FILTER (tombstone)
    FROM commits GROUP BY source, "group", partition, floor(at_ms / {HOUR_MS})
    UNION ALL
    SELECT source, "group", partition, min("offset"), arg_min(at_ms, "offset"), {FIRST_COMMIT}, false, NULL, NULL, 0, 0
    FROM records WHERE record_type IN (0, 1) AND NOT tombstone AND {HERE} GROUP BY source, "group", partition
    UNION ALL
    SELECT source, "group", partition, "offset", at_ms, {REWOUND}, false, NULL, to_json({{
        'topic': topic, 'partition': topic_partition, 'from': previous, 'to': committed_offset, 'producer': producer_id
    }}), 0, 0
    FROM steps WHERE partition IS NOT NULL AND committed_offset < previous
        AND coalesce(topic_id = previous_id, true) -- else the topic was made anew
), input({", ".join(f'"{name}"' for name in INPUT)}) AS (
    FROM changes
    UNION ALL
    SELECT source, "group", partition, -1, 0, {STATE}, false, NULL, folded, 0, 0
    FROM states SEMI JOIN changes USING (source, "group") WHERE {HERE}
)
SELECT * FROM input ORDER BY source, "group", "offset", record_type DESC
"""


@dataclass(frozen=True, slots=True)
class Folding:
    """What tasks fold: the new records, and what earlier runs left; it travels to them."""

    records: StoredRows
    settled: StoredRows
    """Commits of transactions that ended in this run, which began in an earlier file."""
    last_commits: StoredRows
    states: StoredRows
    names: NamesOfTopics
    dense: frozenset[tuple[str, int]]
    """The partitions, by source and number, of which no record was compacted away since the states were stored."""
    plans: Mapping[str, DeltaPlan]
    """How results are written, by a key of `PARTS`."""

    def fold(self, place: tuple[str, int]) -> dict[str, list[DeltaFile]]:
        """Fold the groups of a source's bucket, and return the files of results by a key of `PARTS`."""
        rows = ("records", "settled", "last_commits", "states")
        with query_over({name: getattr(self, name).dataset() for name in rows}) as query, ExitStack() as stack:
            writers = {what: stack.enter_context(writer_of(plan)) for what, plan in self.plans.items()}
            for what, batch in _results(query.batches(QUERY, *place), self.names, self.dense):
                writers[what].add(batch)
            return {what: writer.close() for what, writer in writers.items()}


def _results(
    batches: Iterator[pa.RecordBatch], names: NamesOfTopics, dense: frozenset[tuple[str, int]]
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
        is_gap &= record.record_type < 2
        if found.is_full():
            yield from found.batches()
    if group is not None:
        found.finish(group)
    yield from found.batches()


def _start(
    source: str,
    group_id: str,
    record: FoldedRecord,
    names: NamesOfTopics,
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
    is_gap = (source, record.partition) not in dense
    if is_gap:  # a coordinator loads the log without these records
        group.check = LogCheck()
    return group, is_gap


def _records(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, str, FoldedRecord]]:
    for batch in batches:
        columns: list[list[Any]] = [batch.column(name).to_pylist() for name in INPUT]
        for source, group, partition, offset, at_ms, kind, tombstone, member, fields, count, gone in zip(
            *columns, strict=True
        ):
            record = FoldedRecord(
                partition, offset, at_ms or 0, kind, bool(tombstone), member, fields, count or 0, gone or 0
            )
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

    def take(self, group: Group, record: FoldedRecord, folded: Folded) -> None:
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
