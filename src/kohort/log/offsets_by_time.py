"""Offsets by time, as ListOffsets asks for them: the first record at or after a timestamp, and the latest record."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from kohort.log.segment import Segment
from kohort.wire.record_batches import BatchHeader, CompressionUnavailable, TimestampType, sound_pieces

PIECE_RECORDS = 256
"""How many records of a batch are decoded at a time."""

PIECE_STEPS = 64
"""What decoding as many counts."""


class TimestampedOffset(NamedTuple):
    """The answer to a question for an offset by time."""

    timestamp: int
    offset: int
    leader_epoch: int


Search = Generator[int, None, TimestampedOffset | None]
"""A search that yields its steps, since a batch of a few kilobytes may hold a million records."""


def first_at_or_after(segments: Sequence[Segment], timestamp: int, start: int, end: int) -> Search:
    """Return the first record in offsets [start, end) whose timestamp is at least `timestamp`."""
    for segment in segments:
        if segment.base_offset >= end or segment.max_timestamp[0] < timestamp:
            continue
        from_offset = max(segment.time_index.offset_before(timestamp), start - segment.base_offset, 0)
        position = segment.offset_index.position_before(from_offset)
        for header in segment.headers(position):
            yield 1
            if header.max_timestamp >= timestamp and header.last_offset >= start:
                for times in _times(segment, header, position):
                    for offset, at_ms in times:
                        if at_ms >= timestamp and start <= offset < end:
                            return TimestampedOffset(at_ms, offset, header.partition_leader_epoch)
                    yield PIECE_STEPS
            position += header.size
    return None


def largest(segments: Sequence[Segment], start: int, end: int) -> Search:
    """Return the first record of those with the largest timestamp in offsets [start, end)."""
    best: Segment | None = None
    for segment in segments:
        if segment.base_offset < end and segment.size and (best is None or _latest(segment) > _latest(best)):
            best = segment
    if best is None or _latest(best) < 0:
        return None
    return (yield from first_at_or_after([best], _latest(best), start, end))


def _latest(segment: Segment) -> int:
    return segment.max_timestamp[0]


def _times(segment: Segment, header: BatchHeader, position: int) -> Iterator[list[tuple[int, int]]]:
    """Yield the offsets and timestamps of a batch's records, some at a time."""
    alone = [(header.base_offset, header.max_timestamp)]
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        yield alone
        return
    batch = segment.log.read(position, header.size)
    try:
        for rows in sound_pieces(header, batch, PIECE_RECORDS):
            yield [row[:2] for row in rows]
    except CompressionUnavailable:
        # Without its codec a batch counts as one point in time.
        yield alone
