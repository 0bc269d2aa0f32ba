"""The fold of one group's records into events, ownership intervals and hours: the silver layer, without Spark.

A pure function of the records in offset order and of the state that an earlier run left. It refuses nothing: a record
with contradictory fields becomes an `unreadable` event. The cost of a record is linear in its size; only the current
group and the hours that were not collected yet are stored.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from kohort.fleet.fold.classic_fold import CLASSIC, fold_group_metadata
from kohort.fleet.fold.epoch_fold import EPOCH_FOLDS, enter, flush_departed
from kohort.fleet.fold.folded_group import FoldedRecord, Group, Interval, SilverEvent
from kohort.fleet.fold.hours import Hour
from kohort.fleet.load_check import KAFKA_17306, CheckedRecord
from kohort.log.consumer_records import MEMBER_ASSIGNMENT
from kohort.log.group_records import GROUP_METADATA

COMMITS = -1
"""Pseudo record type: the number of commits of an hour."""
REWOUND = -3
"""Pseudo record type: a commit of an offset below the one before; `fields` is the event's detail as JSON."""
FIRST_COMMIT = 1
"""The record type of the first commit that was read of a group; further ones are ignored."""


class Folded(NamedTuple):
    """Result of folding one record."""

    events: list[SilverEvent]
    ended: list[Interval]
    hours: list[Hour]


NOTHING_FOLDED = Folded([], [], [])


def fold(group: Group, record: FoldedRecord, *, is_gap: bool = False) -> Folded:
    """Fold one record; with `is_gap`, records before it may have been compacted since the state was stored."""
    if record.record_type == FIRST_COMMIT:
        if not group.is_committed:
            group.is_committed = True
            check(group, record, None)
        return NOTHING_FOLDED
    group.records += record.record_type >= 0
    group.partition, group.last_offset = record.partition, max(group.last_offset, record.offset)
    try:
        _fold(group, record, is_gap=is_gap)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        group.add_event("unreadable", cause=type(error).__name__, type=record.record_type, error=str(error)[:200])
    group.hours.note(group.clock_ms, group.snapshot())
    events, group.events = group.events, []
    return Folded(events, group.ownership.collect_ended(), group.hours.collect(all_of_them=False))


def _fold(group: Group, record: FoldedRecord, *, is_gap: bool) -> None:
    if record.record_type == COMMITS:
        _fold_commits(group, record)
        return
    if record.record_type == REWOUND:
        group.add_event("rewound", at_ms=record.at_ms, **json.loads(record.fields or "{}"))
        return
    value: Any = None if record.tombstone else json.loads(record.fields or "{}")
    check(group, record, value)
    if record.record_type == GROUP_METADATA:
        group.last_record = record.fields
        fold_group_metadata(group, value, record.at_ms, is_gap=is_gap)
        if not group.clock_ms:
            group.advance_clock(record.at_ms)
        return
    group.advance_clock(record.at_ms)
    flush_departed(group)
    kind, step = EPOCH_FOLDS.get(record.record_type, ("", None))
    if step is None:
        return
    if group.kind != kind:
        if value is None:
            return  # a tombstone of a record that was compacted
        enter(group, kind)
    step(group, value, record)


def check(group: Group, record: FoldedRecord, value: Any) -> None:
    """Note where some version of Kafka would fail to load the group; what only a preview requires is left out."""
    owned: list[tuple[str, int]] = []
    epoch = -1
    if record.record_type == MEMBER_ASSIGNMENT and value:
        epoch = int(value.get("memberEpoch", -1))
        owned = [
            (str(topic["topicId"]), int(number))
            for name in ("assignedPartitions", "partitionsPendingRevocation")
            for topic in value.get(name) or ()
            for number in topic["partitions"]
        ]
    place = record.offset, record.at_ms, record.record_type, group.group, record.member or ""
    for violation in group.check.take(CheckedRecord(*place, record.tombstone, epoch, owned)):
        if violation.demand is not KAFKA_17306:
            group.violations.add(violation)


def _fold_commits(group: Group, record: FoldedRecord) -> None:
    if record.at_ms > group.clock_ms:  # commits of a long transaction arrive late
        group.advance_clock(record.at_ms)
    flush_departed(group)
    hour = group.hours.at(record.at_ms)
    hour.commits += record.commits
    group.has_commits |= record.commits > 0
    if record.deletions and not group.members:
        group.add_event("expired", at_ms=record.at_ms, offsets=record.deletions)


def state_of(group: Group) -> str:
    """Return the group's state by Kafka's names, as far as the log shows it."""
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
    return "Reconciling" if group.unreconciled and group.kind != "share" else "Stable"
