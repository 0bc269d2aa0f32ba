"""The fold of one group's records into events, intervals of ownership and hours: silver, without Spark.

It is a pure function of the records in the order of their offsets, and of the state that an earlier run left. It
refuses nothing: a record that cannot be what it says is told as `unreadable` and passed over. What one record costs is
linear in what that record says; nothing is kept but the group as it is now and hours not yet handed out.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from kohort.fleet.fold.classic_fold import CLASSIC, fold_group_metadata
from kohort.fleet.fold.epoch_fold import EPOCH_FOLDS, enter, flush_departed
from kohort.fleet.fold.folded_group import Group, Record, Told
from kohort.fleet.fold.hours import Hour
from kohort.fleet.fold.ownership_intervals import Interval
from kohort.log.group_records import GROUP_METADATA

COMMITS = -1
"""The type of what is no record: the commits of an hour, counted."""


class Folded(NamedTuple):
    """What one record brought about."""

    events: list[Told]
    ended: list[Interval]
    hours: list[Hour]


def fold(group: Group, record: Record, *, is_gap: bool = False) -> Folded:
    """Take one record; `is_gap` says that records before it may have vanished since the state was left."""
    group.records += record.record_type != COMMITS
    group.partition, group.last_offset = record.partition, max(group.last_offset, record.offset)
    try:
        _fold(group, record, is_gap=is_gap)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        group.tell("unreadable", cause=type(error).__name__, type=record.record_type, error=str(error)[:200])
    group.hours.note(group.clock_ms, group.standing())
    told, group.told = group.told, []
    return Folded(told, group.ownership.collect_ended(), group.hours.collect(all_of_them=False))


def _fold(group: Group, record: Record, *, is_gap: bool) -> None:
    if record.record_type == COMMITS:
        _fold_commits(group, record)
        return
    value: Any = None if record.tombstone else json.loads(record.fields or "{}")
    if record.record_type == GROUP_METADATA:
        fold_group_metadata(group, value, record.at_ms, is_gap=is_gap)
        if not group.clock_ms:
            group.pass_time(record.at_ms)
        return
    group.pass_time(record.at_ms)
    flush_departed(group)
    kind, step = EPOCH_FOLDS.get(record.record_type, ("", None))
    if step is None:
        return
    if group.kind != kind:
        if value is None:
            return  # a tombstone of what the log no longer has
        enter(group, kind)
    step(group, value, record)


def _fold_commits(group: Group, record: Record) -> None:
    if record.at_ms > group.clock_ms:  # those of a transaction that ended late are told late
        group.pass_time(record.at_ms)
    flush_departed(group)
    hour = group.hours.at(record.at_ms)
    hour.commits += record.commits
    group.has_commits |= record.commits > 0
    if record.deletions and not group.members:
        group.tell("expired", at_ms=record.at_ms, offsets=record.deletions)


def state_of(group: Group) -> str:
    """Return the group's state in Kafka's words, as far as the log knows it."""
    if not group.kind:
        return "Simple" if group.has_commits else "Dead"
    if group.is_deleted and not group.members:
        return "Dead"
    if not group.members:
        return "Empty"
    if group.kind == CLASSIC:
        return "CompletingRebalance" if group.awaits_sync else "Stable"
    if group.target_epoch < group.epoch:
        return "Assigning"
    return "Reconciling" if group.unsettled and group.kind != "share" else "Stable"
