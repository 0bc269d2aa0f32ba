"""What a cleaner leaves of a batch: of each key the last record, of a deleted one nothing after a while.

A tombstone, and the marker of a transaction that has no records left, stays for delete.retention.ms after the first
cleaning that found it so (KIP-534: that time is written into its batch). Records of aborted transactions go. The last
batch of each idempotent producer stays, if need be empty, because it gives the next sequence; so does the last batch
of what is cleaned. A record without a key goes: nothing can supersede it. The others stay as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kohort.wire.compression import Buffer
from kohort.wire.record_batches import BatchHeader, ControlType, Record, checked_records, control_type, retain_records

_COST = 160
"""Bytes that a key costs in the map besides its own: two objects and a place in a table."""


class Aborted(NamedTuple):
    """Where one aborted transaction lies."""

    producer_id: int
    first_offset: int
    marker_offset: int


def unpacked_bytes(header: BatchHeader, records: Sequence[Record]) -> int:
    """Return about how many bytes came out of a batch's compression; 0 where it has none."""
    if not header.compression:
        return 0
    return sum(len(record.key or b"") + len(record.value or b"") for record in records)


class LastOffsets:
    """Where the last record of each key lies in a stretch of a log, within a bound of memory.

    Records of a transaction count once it is committed. `end` is where the stretch ends that was taken in whole.
    """

    def __init__(self, memory_bytes: int, end: int) -> None:
        self.end = end
        self.offsets: dict[bytes, int] = {}
        self.aborted: list[Aborted] = []
        self.unpacked_bytes = 0
        """Size of the compressed records that were read, without their compression."""
        self._free = memory_bytes
        self._open: dict[int, list[tuple[bytes, int]]] = {}
        self._begun: dict[int, int] = {}
        self._committed: list[list[tuple[bytes, int]]] = []

    def take(self, header: BatchHeader, batch: Buffer) -> bool:
        """Take in the batch that lies after those before; False if it lies beyond the end or there is no room for it.

        A batch that alone is more than the whole room is taken. Raises CorruptBatch, CompressionUnavailable.
        """
        if header.last_offset >= self.end:
            self.end = min(self.end, header.base_offset)
            return False
        records = checked_records(header, batch)
        self.unpacked_bytes += unpacked_bytes(header, records)
        if header.is_control:
            self._close_transaction(header, control_type(records[0]) if records else None)
            return True
        rows = [(record.key, record.offset) for record in records if record.key is not None]
        cost = sum(_COST + len(key) for key, _ in rows if key not in self.offsets)
        if cost > self._free and (self.offsets or self._open):
            self.end = header.base_offset
            return False
        self._free -= cost
        if header.is_transactional:
            self._begun.setdefault(header.producer_id, header.base_offset)
            self._open.setdefault(header.producer_id, []).extend(rows)
        else:
            self._put(rows)
        return True

    @property
    def first_open(self) -> int | None:
        """Where the first transaction began of those without an end in the stretch: a cleaning must end there."""
        return min(self._begun.values(), default=None)

    def _close_transaction(self, header: BatchHeader, kind: ControlType | None) -> None:
        rows = self._open.pop(header.producer_id, [])
        first = self._begun.pop(header.producer_id, None)
        if kind is ControlType.COMMIT:
            self._put(rows)
        elif kind is ControlType.ABORT and first is not None:
            self.aborted.append(Aborted(header.producer_id, first, header.base_offset))

    def _put(self, rows: Sequence[tuple[bytes, int]]) -> None:
        offsets = self.offsets
        for key, offset in rows:
            if offsets.get(key, -1) < offset:
                offsets[key] = offset


class Filter:
    """Judges the batches of one log in their order."""

    def __init__(self, known: LastOffsets, *, now_ms: int, delete_retention_ms: int) -> None:
        self._offsets = known.offsets
        self.end = known.end
        """Where what is cleaned ends."""
        self.unpacked_bytes = 0
        """Size of the compressed records that were read, without their compression."""
        self.last: Mapping[int, tuple[int, int | None]] = {}
        """By producer id, the epoch and the offset of its last data; None where it only ended transactions."""
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        self._has_records: set[int] = set()
        """Producers with a batch in the transaction that is open at this point."""
        self._aborted: dict[int, list[Aborted]] = defaultdict(list)
        for aborted in known.aborted:
            self._aborted[aborted.producer_id].append(aborted)

    def retained(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        """Return the batch as it shall be from now on, itself if nothing changes, or None if it goes.

        Raises CorruptBatch, CompressionUnavailable.
        """
        if header.last_offset >= self.end:
            return batch
        records = checked_records(header, batch)
        self.unpacked_bytes += unpacked_bytes(header, records)
        horizon_ms = header.delete_horizon_ms
        is_old = horizon_ms is not None and horizon_ms <= self._now_ms
        if header.is_control:
            is_over = self._is_over(header, records)
            retained = [] if is_over and is_old else records
            is_waiting = is_over
        else:
            retained = [] if self._is_aborted(header) else [each for each in records if self._stays(each, is_old)]
            is_waiting = any(record.value is None for record in retained)
        starts_waiting = is_waiting and horizon_ms is None and bool(retained)
        if len(retained) == len(records) and not starts_waiting and records:
            return batch
        if not retained:
            # Readers must come to the end of what was cleaned even if nothing of it is left.
            if header.last_offset + 1 < self.end and not self._is_last_of_producer(header):
                return None
            return retain_records(header, []) if records else batch
        return retain_records(header, retained, self._horizon_ms if starts_waiting else horizon_ms)

    def _stays(self, record: Record, is_old: bool) -> bool:
        if record.key is None:
            return False
        return record.offset >= self._offsets.get(record.key, -1) and (record.value is not None or not is_old)

    def _is_over(self, header: BatchHeader, records: Sequence[Record]) -> bool:
        """Whether a marker ends a transaction of which the log has no batch any more."""
        if records and control_type(records[0]) is None:
            return False
        is_over = header.producer_id not in self._has_records
        self._has_records.discard(header.producer_id)
        return is_over

    def _is_aborted(self, header: BatchHeader) -> bool:
        if not header.is_transactional:
            return False
        self._has_records.add(header.producer_id)
        return any(
            each.first_offset <= header.base_offset < each.marker_offset for each in self._aborted[header.producer_id]
        )

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        epoch, last_offset = self.last.get(header.producer_id, (-1, -1))
        if last_offset is None:
            return header.is_control and header.producer_epoch == epoch
        return last_offset == header.last_offset
