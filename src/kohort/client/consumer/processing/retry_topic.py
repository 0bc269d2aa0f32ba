"""Records that wait in a retry topic until their next attempt: what is written there, and how it is read again."""

from __future__ import annotations

from typing import NamedTuple

from kohort.client.consumer.processing.schedule import WorkItem
from kohort.client.record import Record

_PREFIX = "kohort.retry."
_NAMES = ("topic", "partition", "offset", "attempts", "due.ms")


class ParkedRecord(NamedTuple):
    """A record of a retry topic: as it came first, how often it has failed, and when its next attempt is due."""

    record: Record
    attempts: int
    due_ms: int


def headers_of(item: WorkItem, due_ms: int) -> list[tuple[str, bytes | None]]:
    """Return a record's own headers, and where it came from and when it is due."""
    record = item.record
    values = (record.topic, record.partition, record.offset, item.attempts, due_ms)
    ours = zip(_NAMES, values, strict=True)
    return [*record.headers, *((_PREFIX + name, str(value).encode()) for name, value in ours)]


def parked_of(record: Record) -> ParkedRecord | None:
    """Return what a record of a retry topic stands for; None where another program wrote it."""
    ours = {name: value or b"" for name, value in record.headers if name.startswith(_PREFIX)}
    try:
        topic, *numbers = (ours[_PREFIX + name].decode() for name in _NAMES)
        partition, offset, attempts, due_ms = map(int, numbers)
    except (KeyError, ValueError):
        return None
    own = tuple((name, value) for name, value in record.headers if not name.startswith(_PREFIX))
    return ParkedRecord(
        Record(topic, partition, offset, record.timestamp_ms, record.key, record.value, own), attempts, due_ms
    )
