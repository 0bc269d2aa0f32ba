"""What the fold of a task found, as Arrow: four tables in one frame, because a Python task of Spark yields only one.

A row is of one table, named by `what`, and has its columns in the struct of that name; the other structs are null.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa

from kohort.fleet.fold.fold import Folded, state_of
from kohort.fleet.fold.folded_group import Group, Record
from kohort.fleet.fold.group_json import group_to_json
from kohort.fleet.fold.hours import Hour, Standing
from kohort.fleet.fold.ownership_intervals import Interval
from kohort.fleet.schema import EVENTS, GROUP_HOURS, OWNERSHIP, Table, bucket_of
from kohort.fleet.state_tables import STATE_GROUPS, STATE_OPEN

PARTS: dict[str, Table] = {
    "event": EVENTS,
    "ended": OWNERSHIP,
    "open": STATE_OPEN,
    "hour": GROUP_HOURS,
    "state": STATE_GROUPS,
}

ROWS_OF_A_BATCH = 10_000
MOST_TEXTS = 1_000
"""How many clients or hosts of one group are listed."""


def struct_ddl(table: Table) -> str:
    """Return a table's columns as the DDL of one struct."""
    return "struct<" + ", ".join(f"`{name}`: {kind}" for name, kind in _columns(table)) + ">"


def _columns(table: Table) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind in (column.split(" ", 1) for column in table.columns)]


FOLDED_DDL = ", ".join(["what string", *(f"{what} {struct_ddl(table)}" for what, table in PARTS.items())])


@cache
def folded_schema() -> pa.Schema:
    """Return `FOLDED_DDL` as Arrow."""
    structs = [(what, pa.struct(list(table.arrow()))) for what, table in PARTS.items()]
    return pa.schema([("what", pa.string()), *structs])


class Found:
    """Rows that were found and not handed out yet, by table, as tuples in the order of its columns."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[Any, ...]]] = {what: [] for what in PARTS}

    def take(self, group: Group, record: Record, folded: Folded) -> None:
        """Take what one record brought about."""
        place = (group.source, record.partition, record.offset)
        for told in folded.events:
            at_ms, event, *rest = told
            row = (*place, at_ms, group.group, group.kind or None, event, *rest, *_when(at_ms, record.partition))
            self._rows["event"].append(row)
        self._take_ended(group, folded.ended)
        self._rows["hour"] += [_hour_row(group, hour) for hour in folded.hours]

    def _take_ended(self, group: Group, ended: list[Interval]) -> None:
        self._rows["ended"] += [_interval_row(group, each, each.until_ms) for each in ended]

    def finish(self, group: Group) -> None:
        """Take what is left of a group and how it stands."""
        self._take_ended(group, group.ownership.collect_ended())
        self._rows["open"] += [_interval_row(group, each, each.from_ms) for each in group.ownership.open_intervals()]
        self._rows["hour"] += [_hour_row(group, hour) for hour in group.hours.collect(all_of_them=True)]
        self._rows["state"].append(_state_row(group))

    def is_full(self) -> bool:
        """Whether there is a batch to hand out."""
        return any(len(rows) >= ROWS_OF_A_BATCH for rows in self._rows.values())

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Hand out everything."""
        schema = folded_schema()
        for what, rows in self._rows.items():
            for start in range(0, len(rows), ROWS_OF_A_BATCH):
                part = rows[start : start + ROWS_OF_A_BATCH]
                kinds = PARTS[what].arrow()
                columns = [
                    pa.array(column, kind.type) for column, kind in zip(zip(*part, strict=True), kinds, strict=True)
                ]
                filled = pa.StructArray.from_arrays(columns, fields=list(kinds))
                arrays = [pa.repeat(pa.scalar(what, pa.string()), len(part))]
                arrays += [filled if each.name == what else pa.nulls(len(part), each.type) for each in list(schema)[1:]]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            rows.clear()


UNKNOWN = Standing()
_DAY_MS = 86_400_000
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # of the years 1 and 9999, which is what a date can be
_EPOCH = date(1970, 1, 1).toordinal()


def _when(at_ms: int | None, partition: int) -> tuple[date, int]:
    return _day((at_ms or 0) // _DAY_MS), bucket_of(partition)


@lru_cache(maxsize=4096)
def _day(day: int) -> date:
    return date.fromordinal(_EPOCH + min(max(day, _FIRST_DAY), _LAST_DAY))


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
    standing = hour.standing or UNKNOWN
    return (
        group.source,
        group.group,
        hour.hour_ms,
        standing.kind or None,
        standing.strategy,
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
        standing.static_members / standing.members if standing.members else None,
        sorted(hour.protocols),
        sorted(hour.versions),
        hour.slowest_member,
        standing.members,
        standing.partitions,
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
        group.partition,
        bucket_of(group.partition),
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
        group.last_offset,
        group_to_json(group),
    )
