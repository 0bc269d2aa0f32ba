"""The facts of each group of a generated fleet, folded without Spark: what its queries do, in plain loops.

Another test holds the queries themselves to the same findings.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kohort.fleet.decode.value_json import fields_of
from kohort.fleet.findings.facts import DEFAULTS, HOUR_MS, EventOf, Facts, Finding, HourOf, Thresholds
from kohort.fleet.findings.rules import JUDGED_EVENTS, facts_from, judge
from kohort.fleet.fold.fold import COMMITS, FIRST_COMMIT, REWOUND, fold
from kohort.fleet.fold.folded_group import FoldedRecord, Group
from kohort.fleet.load_check import segments_of, step_of
from kohort.fleet.silver import FoldResults
from kohort.group.events import OffsetCommitted
from kohort.log.offsets_topic import Replay
from kohort.wire.record_batches import ControlType, Record, control_type, decode_batch, iter_batches

SOURCE = "fleet"


class Story:
    """What the log says of one group."""

    def __init__(self) -> None:
        self.records: list[FoldedRecord] = []
        self.commits: list[tuple[int, int, OffsetCommitted, int]] = []


def findings_of(directory: Path, now_ms: int, settings: Thresholds = DEFAULTS) -> Iterator[Finding]:
    """Yield everything that the rules find."""
    for (partition, _), files in segments_of([directory]).items():
        stories: dict[str, Story] = {}
        for record, producer_id in _effective(b"".join(file.read_bytes() for file in files)):
            _add_record(partition, record, producer_id, stories)
        for group_id, story in stories.items():
            yield from judge(_facts(partition, group_id, story, now_ms, settings), settings)


def _effective(content: bytes) -> Iterator[tuple[Record, int]]:
    """Yield records but for those of transactions that were aborted."""
    held: dict[int, list[Record]] = {}
    for header, batch in iter_batches(content):
        records = decode_batch(batch)
        if header.is_control:
            ended = held.pop(header.producer_id, [])
            if control_type(records[0]) is ControlType.COMMIT:
                yield from ((record, header.producer_id) for record in ended)
        elif header.is_transactional:
            held.setdefault(header.producer_id, []).extend(records)
        else:
            yield from ((record, -1) for record in records)


def _add_record(partition: int, record: Record, producer_id: int, stories: dict[str, Story]) -> None:
    key, value = record.key or b"", record.value
    step = step_of(record.offset, record.timestamp_ms, key, value)
    story = stories.setdefault(step.group, Story())
    fields = None
    if step.record_type >= 2:
        fields = None if value is None else fields_of(step.record_type, value)
        member = step.member or None
        story.records.append(
            FoldedRecord(partition, step.offset, step.at_ms, step.record_type, value is None, member, fields, 0, 0)
        )
    else:
        event = Replay().event_of(record)
        assert isinstance(event, OffsetCommitted)
        story.commits.append((step.offset, step.at_ms, event, producer_id))


def _facts(partition: int, group_id: str, story: Story, now_ms: int, settings: Thresholds) -> Facts:
    group, found = Group(SOURCE, group_id), FoldResults()
    hours = Counter(at_ms - at_ms % HOUR_MS for _, at_ms, _, _ in story.commits)
    last = {at_ms - at_ms % HOUR_MS: (offset, at_ms) for offset, at_ms, _, _ in story.commits}
    counted = [
        FoldedRecord(partition, *last[hour_ms], COMMITS, False, None, None, count, 0)
        for hour_ms, count in hours.items()
    ]
    for first_offset, first_ms, _, _ in story.commits[:1]:
        counted.append(FoldedRecord(partition, first_offset, first_ms, FIRST_COMMIT, False, None, None))
    counted += _returns(partition, story)
    for record in sorted([*story.records, *counted], key=lambda record: (record.offset, -record.record_type)):
        found.take(group, record, fold(group, record))
    found.finish(group)
    tables: dict[str, list[dict[str, Any]]] = {}
    for what, batch in found.batches():
        tables.setdefault(what, []).extend(batch.to_pylist())
    (state,) = tables["state"]
    recent = now_ms - settings.look_back_ms
    events = [each for each in tables.get("event", ()) if each["event"] in JUDGED_EVENTS and each["at_ms"] > recent]
    committed = {(event.topic, event.partition): event for _, _, event, _ in story.commits}
    expiries = [event.expire_ms for event in committed.values() if event.expire_ms >= 0]
    row = state | {
        "now_ms": now_ms,
        "last_commit_ms": max((at_ms for _, at_ms, _, _ in story.commits), default=None),
        "lag": None,
        "next_expiry_ms": min(expiries, default=None),
        "committed_partitions": len(committed),
        "hours": [{name: each[name] for name in HourOf._fields} for each in _merged(tables.get("hour", ()), recent)],
        "events": [{name: each[name] for name in EventOf._fields} for each in events],
    }
    return facts_from(row)


def _merged(hours: Any, recent: int) -> list[dict[str, Any]]:
    merged: dict[int, dict[str, Any]] = {}
    for hour in hours:
        known = merged.setdefault(hour["hour_ms"], dict.fromkeys(HourOf._fields, 0) | {"hour_ms": hour["hour_ms"]})
        for name in HourOf._fields[1:]:
            known[name] += hour[name]
    return [hour for hour_ms, hour in sorted(merged.items()) if hour_ms > recent]


def _returns(partition: int, story: Story) -> Iterator[FoldedRecord]:
    before: dict[tuple[str, int], tuple[int, bytes]] = {}
    for offset, at_ms, event, _ in story.commits:
        previous, topic_id = before.get((event.topic, event.partition), (-1, event.topic_id))
        before[event.topic, event.partition] = event.offset, event.topic_id
        if event.offset < previous and event.topic_id == topic_id:
            place = {"topic": event.topic, "partition": event.partition}
            detail = place | {"from": previous, "to": event.offset}
            yield FoldedRecord(partition, offset, at_ms, REWOUND, False, None, json.dumps(detail))
