"""The record that a handler works on, for log lines: in its task, and in its thread."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from kohort.client.record import Record

CURRENT: ContextVar[Record[Any, Any] | None] = ContextVar("kohort record", default=None)
"""Set while a handler of one record runs; None in a handler of lists."""


def record_fields() -> dict[str, object]:
    """Return topic, partition, offset and key of the record that is handled here, nothing outside of a handler."""
    record = CURRENT.get()
    if record is None:
        return {}
    key = record.key.decode(errors="backslashreplace") if isinstance(record.key, bytes) else record.key
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "key": key if key is None else str(key),
    }
