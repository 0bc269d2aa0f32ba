"""Records of `__consumer_offsets` as values that can be compared: our codecs read what either side wrote."""

from __future__ import annotations

from typing import Any

from kohort.group.consumer.events import MemberAssignmentStored, RegexStored, TargetStored
from kohort.group.events import GroupStored, HardEvent, OffsetCommitted
from kohort.log.offsets_topic import Replay
from kohort.wire.records import Record

Stored = tuple[bytes, bytes | None]
"""Key and value of a record; a value of None is a tombstone."""

Records = list[Stored]

_REPLAY = Replay()


def event_of(record: Stored) -> HardEvent:
    """Return what a record says happened, as our coordinator reads it when it loads."""
    key, value = record
    event = _REPLAY.event_of(Record(0, 0, key, value, ()))
    assert event is not None, "Kafka's coordinator writes records of groups that we know"
    return event


Value = tuple[Any, ...]
"""What a record says, without what cannot matter: why it was written, and in which order a list stands."""


def value_of(event: HardEvent) -> Value:
    """Return what an event says, its type first. A tombstone says nothing but its type."""
    kind = type(event).__name__
    if isinstance(event, OffsetCommitted):
        return (kind, *event[:-1])
    fields = {name: getattr(event, name) for name in event.__slots__ if name != "cause"}
    if isinstance(event, GroupStored):
        fields["members"] = tuple(sorted(event.members))
    return (kind, *fields.items())


def field_of(value: Value, name: str) -> Any:
    """Return a field of a value."""
    return dict(value[1:])[name]


__all__ = [
    "MemberAssignmentStored",
    "Records",
    "RegexStored",
    "Stored",
    "TargetStored",
    "Value",
    "event_of",
    "field_of",
    "value_of",
]
