"""Offsets by time, as ListOffsets asks for them: the first record at or after a timestamp, and the latest record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kohort.log.segment import Segment
from kohort.wire.records import BatchHeader, CompressionUnavailable, Record, TimestampType, read_header, sound_records


class TimestampedOffset(NamedTuple):
    """The answer to a question for an offset by time."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_at_or_after(segments: Sequence[Segment], timestamp: int, start: int, end: int) -> TimestampedOffset | None:
    """Return the first record in offsets [start, end) whose timestamp is at least `timestamp`."""
    for segment in segments:
        if segment.base_offset >= end or segment.max_timestamp[0] < timestamp:
            continue
        from_offset = max(segment.time_index.offset_before(timestamp), start - segment.base_offset, 0)
        position = segment.offset_index.position_before(from_offset)
        for header in segment.headers(position):
            if header.max_timestamp >= timestamp and header.last_offset >= start:
                for record in _records(segment, header, position):
                    if record.timestamp_ms >= timestamp and start <= record.offset < end:
                        return TimestampedOffset(record.timestamp_ms, record.offset, header.partition_leader_epoch)
            position += header.size
    return None


def largest(segments: Sequence[Segment], start: int, end: int) -> TimestampedOffset | None:
    """Return the first record of those with the largest timestamp in offsets [start, end)."""
    best: Segment | None = None
    for segment in segments:
        if segment.base_offset < end and segment.size and (best is None or _latest(segment) > _latest(best)):
            best = segment
    if best is None or _latest(best) < 0:
        return None
    return first_at_or_after([best], _latest(best), start, end)


def _latest(segment: Segment) -> int:
    return segment.max_timestamp[0]


def _records(segment: Segment, header: BatchHeader, position: int) -> Sequence[Record]:
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return [Record(header.base_offset, header.max_timestamp, None, None)]
    batch = segment.log.read(position, header.size)
    try:
        return sound_records(header, batch)
    except CompressionUnavailable:
        # Without its codec a batch counts as one point in time.
        return [Record(read_header(batch).base_offset, header.max_timestamp, None, None)]
