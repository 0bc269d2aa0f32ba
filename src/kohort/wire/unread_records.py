"""Reads fetched record batches for a lag: how many records are unread, and the timestamp of the oldest of them.

Of most batches the header has both. The records of one are decoded where it begins before the offset, or where a
cleaner took some of its records, and then only for the oldest record and for a count at the edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kohort.model.lag import LagReason, OldestRecord, UnreadRecords
from kohort.wire.compression import Buffer, CompressionUnavailable
from kohort.wire.record_batches import BatchHeader, CorruptBatch, TimestampType, check_crc, checked_records
from kohort.wire.visible_batches import RawBatch, visible_batches


def read_unread(
    unread: UnreadRecords, records: Buffer, aborted: Sequence[tuple[int, int]] | None, high_watermark: int
) -> None:
    """Add what was fetched at `unread.next_offset`; nothing where the bytes end within the first batch.

    `aborted` are the (producer id, first offset) of aborted transactions, None where a reader sees uncommitted records.
    """
    visible = visible_batches(memoryview(records), unread.next_offset, aborted, stop=high_watermark)
    count_batches(unread, visible.raw)
    if visible.fault is not None and visible.next_offset <= unread.next_offset:
        unread.fault = LagReason.UNREADABLE
    if unread.fault is None:
        unread.next_offset = max(unread.next_offset, visible.next_offset)


def count_batches(unread: UnreadRecords, batches: Iterable[RawBatch]) -> None:
    """Add batches that a reader may see, up to the first that cannot be read."""
    try:
        for header, view in batches:
            count, oldest = _records_from(header, view, unread)
            unread.count += count
            unread.oldest = unread.oldest or oldest
            unread.next_offset = header.last_offset + 1
    except (CorruptBatch, CompressionUnavailable):
        unread.fault = LagReason.UNREADABLE


def _records_from(header: BatchHeader, view: memoryview, unread: UnreadRecords) -> tuple[int, OldestRecord | None]:
    """Return how many records of a batch are unread, and the first of them where none was found before.

    Raises CorruptBatch, CompressionUnavailable.
    """
    base_offset, offset = header.base_offset, max(header.base_offset, unread.next_offset)
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    is_whole = header.record_count == header.last_offset_delta + 1
    if unread.oldest is not None and (is_whole or offset == base_offset):
        return (header.last_offset - offset + 1 if is_whole else header.record_count), None
    if is_whole and header.delete_horizon_ms is None and (is_append_time or offset == base_offset):
        check_crc(header, view)
        timestamp_ms = header.max_timestamp if is_append_time else header.base_timestamp
        return header.last_offset - offset + 1, OldestRecord(offset, timestamp_ms, is_append_time)
    found = (
        [record for record in checked_records(header, view) if record.offset >= offset] if header.record_count else []
    )
    oldest = OldestRecord(found[0].offset, found[0].timestamp_ms, is_append_time) if found else None
    return len(found), oldest
