"""Keys and values as a program's own functions make them of bytes.

The law: a function that raises costs no record. What comes before its record is handed out, and the position stays at
the record, so that a program may mend the function, or seek past it. A null key or value stays None: Kafka's null is
the absence of bytes, and a tombstone must not become a text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kohort.client.errors import DeserializationFailed
from kohort.model.ids import TopicPartition
from kohort.wire.record_batches import Record

Deserializer = Callable[[bytes], Any]


class Deserializers(NamedTuple):
    """A consumer's functions; None leaves bytes as they are."""

    key: Deserializer | None
    value: Deserializer | None

    def apply(
        self, partition: TopicPartition, records: Sequence[Record]
    ) -> tuple[list[Record], DeserializationFailed | None]:
        """Return the records with keys and values made of their bytes, up to the first one that cannot be, and why."""
        made: list[Record] = []
        for offset, timestamp_ms, key, value, headers in records:
            which = "key"
            try:
                own_key = key if key is None or self.key is None else self.key(key)
                which = "value"
                own_value = value if value is None or self.value is None else self.value(value)
            except Exception as cause:
                failed = DeserializationFailed(partition, offset, which, cause)
                failed.__cause__ = cause
                return made, failed
            made.append(Record(offset, timestamp_ms, own_key, own_value, headers))
        return made, None
