"""Records of `__consumer_offsets` as values that can be compared: our codecs read what either side wrote."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from kohort.group.events import GroupStored, HardEvent, OffsetCommitted, RegexStored
from kohort.log.offsets_topic import Replay
from kohort.wire.record_batches import Record

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
    values = {each.name: getattr(event, each.name) for each in fields(event) if each.name != "cause"}
    if isinstance(event, RegexStored):
        values["version"] = 0  # Kafka's is the offset of the cluster's metadata, ours a count
    if isinstance(event, GroupStored):
        values["members"] = tuple(sorted(event.members))
    return (kind, *values.items())


def compacted(log: Records, cut: int, *, drops: bool) -> Records:
    """Return a log whose first `cut` records have been compacted; `drops`: the tombstones among them are gone, too."""
    last = {key: at for at, (key, _) in enumerate(log[:cut])}
    kept = [record for at, record in enumerate(log[:cut]) if last[record[0]] == at]
    return [record for record in kept if record[1] is not None or not drops] + log[cut:]
