"""Records of `__consumer_offsets`: hard events to bytes and back, as Kafka writes and reads them.

The records are defined in `group_records` (types 0 to 2), `consumer_records` (3 to 8, 16) and `streams_records` (17, 19
to 23). Here they become batches, and batches events. Records of other types (share groups) are counted and skipped. A
record that cannot be read stops the replay, and the error names its place. It knows no log and no clock.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from struct import Struct
from typing import Any

from kohort.group.events import (
    GroupDeleted,
    GroupStored,
    HardEvent,
    OffsetCommitted,
    OffsetDeleted,
    OffsetPending,
)
from kohort.log import consumer_records, streams_records
from kohort.log.group_records import (
    GROUP_METADATA,
    LEGACY_OFFSET_COMMIT,
    OFFSET_COMMIT,
    group_key,
    group_value,
    offset_key,
    offset_key_head,
    offset_value,
    partition_bytes,
    read_group,
    read_legacy_offset,
    read_offset,
)
from kohort.model.errors import ErrorCode, KafkaError
from kohort.wire.codec import Buffer
from kohort.wire.primitives import MalformedMessage, UnencodableMessage
from kohort.wire.record_batches import (
    BatchHeader,
    ControlType,
    CorruptBatch,
    Record,
    Row,
    checked_rows,
    control_type,
    framed,
    read_header,
    signed_varint,
)


class CorruptOffsetsRecord(Exception):
    """A record with a group's state cannot be read. `offset` is where it is in its partition."""

    def __init__(self, offset: int, reason: str) -> None:
        self.offset = offset
        super().__init__(f"record at offset {offset}: {reason}")


# -- writing

_TRANSACTIONAL = 0x10

_WRITERS: dict[type[Any], Callable[[Any], tuple[bytes, bytes | None]]] = {
    OffsetCommitted: lambda event: (offset_key(event.group_id, event.topic, event.partition), offset_value(event)),
    OffsetDeleted: lambda event: (offset_key(event.group_id, event.topic, event.partition), None),
    GroupStored: lambda event: (group_key(event.group_id), group_value(event)),
    GroupDeleted: lambda event: (group_key(event.group_id), None),
    **consumer_records.WRITERS,
    **streams_records.WRITERS,
}


def encode_events(events: Sequence[HardEvent], now_ms: int) -> bytes:
    """Return one batch with a record for each event: a transactional one for offsets that are pending.

    Raises KafkaError when one fits no record.
    """
    producer_id, epoch, attributes = -1, -1, 0
    try:
        parts: list[bytes] = []
        for delta, event in enumerate(events):
            if type(event) is OffsetPending:
                producer_id, epoch, attributes = event.producer_id, event.producer_epoch, _TRANSACTIONAL
                event = event.committed
            if type(event) is OffsetCommitted:
                key = offset_key_head(event.group_id, event.topic) + partition_bytes(event.partition)
                value: bytes | None = offset_value(event)
            else:
                key, value = _WRITERS[type(event)](event)
            field = b"\x01" if value is None else signed_varint(len(value)) + value
            body = b"\x00\x00%b%b%b%b\x00" % (signed_varint(delta), signed_varint(len(key)), key, field)
            parts += (signed_varint(len(body)), body)
    except (struct.error, UnencodableMessage, UnicodeEncodeError) as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a name or text fits no record: {error}") from error
    count = len(events)
    return framed(b"".join(parts), (attributes, count - 1, now_ms, now_ms, producer_id, epoch, -1, count))


def record_of(event: HardEvent) -> tuple[bytes, bytes | None]:
    """Return the key and the value of an event's record; a value of None is a tombstone."""
    return _WRITERS[type(event)](event)


# -- reading

_SHORT = Struct(">h")
_READERS: dict[int, Callable[[bytes, bytes | None], HardEvent]] = {
    OFFSET_COMMIT: read_offset,
    LEGACY_OFFSET_COMMIT: read_legacy_offset,
    GROUP_METADATA: read_group,
    **consumer_records.READERS,
    **streams_records.READERS,
}


class Replay:
    """A partition's batches as events, in the order in which they took effect.

    `read` gives all of them. A load skips what was superseded: it has `take` each batch, and then folds the `events` of
    the last record of each key, as if the log had just been cleaned, and the `pending` ones. Offsets committed in a
    transaction take effect at its COMMIT marker, and lose against a plain commit that came after them; those of a
    transaction without an end are pending. `offset` is where the event stands that was yielded last; `skipped` counts
    the records left out, by type. What stands at one of the offsets in `ignored` is left out too if it cannot be read,
    because the operator allowed it; `lost` are those where that was so.
    """

    def __init__(self, ignored: Collection[int] = ()) -> None:
        self.offset = -1
        self.skipped: Counter[int] = Counter()
        self.lost: list[int] = []
        self._ignored = frozenset(ignored)
        self._open: dict[int, list[Row]] = {}
        self._latest: dict[bytes | None, int] = {}
        self._last: dict[bytes | None, Row] = {}

    def read(self, batch: Buffer) -> Iterator[HardEvent]:
        """Yield the events that a batch makes happen. Raises CorruptOffsetsRecord."""
        for row in self.effective(read_header(batch), batch):
            event = self.event_of(Record(*row))
            if event is not None:
                self.offset = row[0]
                yield event

    def take(self, header: BatchHeader, batch: Buffer) -> None:
        """Store the records of a batch until others with their keys come. Raises CorruptOffsetsRecord."""
        last = self._last
        rows = self.effective(header, batch)
        for row in rows:
            if row[3] is not None:
                last[row[2]] = row
            elif self.event_of(Record(*row)) is not None:
                last.pop(row[2], None)
        if None in last:
            for row in rows:
                if row[2] is None:
                    self.event_of(Record(*row))
            del last[None]

    def events(self) -> Iterator[HardEvent]:
        """Yield the events of the last records, without tombstones; forget them all.

        Raises CorruptOffsetsRecord.
        """
        rows = sorted(self._last.values(), reverse=True)
        self._last.clear()
        while rows:
            record = Record(*rows.pop())
            event = self.event_of(record)
            if event is not None:
                self.offset = record.offset
                yield event

    def pending(self) -> Iterator[OffsetPending]:
        """Yield the offsets of transactions that have no end. Raises CorruptOffsetsRecord."""
        rows = sorted((row[0], producer_id, row) for producer_id, rows in self._open.items() for row in rows)
        for offset, producer_id, row in rows:
            event = self.event_of(Record(*row))
            if isinstance(event, OffsetCommitted):
                self.offset = offset
                yield OffsetPending(producer_id, -1, event, is_superseded=self._latest.get(row[2], -1) > offset)

    def effective(self, header: BatchHeader, batch: Buffer) -> Sequence[Row]:
        """Return the records that a batch makes count, in order. Raises CorruptOffsetsRecord."""
        try:
            rows = checked_rows(header, batch)
            marker = control_type(Record(*rows[0])) if header.is_control and rows else None
        except CorruptBatch as error:
            if self._is_ignored(header.base_offset):
                return ()
            raise CorruptOffsetsRecord(header.base_offset, f"its batch is corrupt: {error}") from error
        if header.is_control:
            return self._end_transaction(header.producer_id, marker)
        if header.is_transactional:
            self._open.setdefault(header.producer_id, []).extend(rows)
            return ()
        if self._open or self._latest:
            return [row for row in rows if self._is_newest(row)]
        return rows

    def event_of(self, record: Record) -> HardEvent | None:
        """Return the event of a record, or None for one that is skipped. Raises CorruptOffsetsRecord."""
        key = record.key
        if key is None or len(key) < 2:
            self.refuse(record.offset, "its key has no record type")
            return None
        (record_type,) = _SHORT.unpack_from(key)
        read = _READERS.get(record_type)
        if read is None:
            self.skipped[record_type] += 1
            return None
        try:
            return read(key, record.value)
        except MalformedMessage as error:
            self.refuse(record.offset, f"a record of type {record_type} is malformed: {error}", error)
            return None

    def refuse(self, offset: int, reason: str, error: Exception | None = None) -> None:
        """Raise CorruptOffsetsRecord, unless the operator asked to leave out what stands there."""
        if not self._is_ignored(offset):
            raise CorruptOffsetsRecord(offset, reason) from error

    def _is_ignored(self, offset: int) -> bool:
        if offset in self._ignored:
            self.lost.append(offset)
            return True
        return False

    def _end_transaction(self, producer_id: int, marker: ControlType | None) -> Sequence[Row]:
        rows = self._open.pop(producer_id, [])
        counting = [row for row in rows if self._is_newest(row)] if marker is ControlType.COMMIT else []
        if not self._open:
            self._latest.clear()
        return counting

    def _is_newest(self, row: Row) -> bool:
        if self._latest.get(row[2], -1) > row[0]:
            return False
        self._latest[row[2]] = row[0]
        return True
