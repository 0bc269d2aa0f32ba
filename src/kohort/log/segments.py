"""The segments of one log in order, and its settings: reading whole batches by offset, search by time, and retention.

Reads copy nothing. Only `Segments` adds and removes a segment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, overload

from kohort.log.disk import Disk, StorageError
from kohort.log.segment import Segment
from kohort.model.setting import Names, setting
from kohort.wire.compression import CompressionUnavailable
from kohort.wire.record_batches import BatchHeader, TimestampType, check_crc
from kohort.wire.record_walk import find_record


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Settings of one partition log, by their names those of its topic. A size or time of -1 is no limit."""

    segment_bytes: int = setting(1 << 30, name="segment.bytes")
    segment_ms: int = setting(7 * 24 * 3600 * 1000, name="segment.ms")
    index_interval_bytes: int = setting(4096, name="index.interval.bytes")
    retention_bytes: int = setting(-1, name="retention.bytes")
    retention_ms: int = setting(7 * 24 * 3600 * 1000, name="retention.ms")
    max_message_bytes: int = setting(1048588, name="max.message.bytes")
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = setting(
        "CreateTime", name="message.timestamp.type"
    )
    cleanup_policy: Names = setting(("delete",), name="cleanup.policy")
    min_compaction_lag_ms: int = setting(0, name="min.compaction.lag.ms")
    max_compaction_lag_ms: int = setting((1 << 63) - 1, name="max.compaction.lag.ms")
    """How old a record may get before it is cleaned whatever the ratio, and a segment before it is closed."""
    min_cleanable_ratio: float = setting(0.5, name="min.cleanable.dirty.ratio")
    delete_retention_ms: int = setting(24 * 3600 * 1000, name="delete.retention.ms")
    flush_policy: Literal["os", "fsync"] = "os"
    """`os`: an append is done when the system has it. `fsync`: when `flush` has put it on the medium."""
    producer_id_expiration_ms: int = 24 * 3600 * 1000
    """How long an idempotent producer is remembered after its last batch."""

    @property
    def deletes(self) -> bool:
        """Whether retention by size and time applies."""
        return "delete" in self.cleanup_policy

    @property
    def compacts(self) -> bool:
        """Whether the cleaner retains only the last record of each key."""
        return "compact" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """How old a segment gets."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    @property
    def is_durable(self) -> bool:
        """Whether an append is done only when it is on the medium."""
        return self.flush_policy == "fsync"


_REMEMBERED = 64


class SegmentLeftBehind(StorageError):
    """A segment could be neither made nor taken back: the next open finds it, empty, or does not."""


class Segments(Sequence[Segment]):
    """The segments of a directory, oldest first; the last one is active. `bases` are their base offsets."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._segments: list[Segment] = []
        self.bases: list[int] = []
        self._ends: dict[int, tuple[Segment, int]] = {}
        """Where recent reads ended: offset to the position where its batch begins, or will begin."""
        self.on_jump: Callable[[int, int], None] | None = None
        """Called when a read continues in a later segment, behind where it should: both offsets."""

    def __len__(self) -> int:
        return len(self._segments)

    @overload
    def __getitem__(self, at: int) -> Segment: ...

    @overload
    def __getitem__(self, at: slice) -> list[Segment]: ...

    def __getitem__(self, at: int | slice) -> Segment | list[Segment]:
        return self._segments[at]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def active(self) -> Segment:
        """The one that takes appends."""
        return self._segments[-1]

    @property
    def size(self) -> int:
        """Bytes in all of them."""
        return sum(segment.size for segment in self._segments)

    def segment(self, base_offset: int, index_interval_bytes: int) -> Segment:
        """Return a segment of this directory that is not among these yet."""
        return Segment(self._disk, self._directory, base_offset, index_interval_bytes)

    def take(self, bases: Sequence[int], index_interval_bytes: int) -> None:
        """Take up the segments that the directory has."""
        self.bases = list(bases)
        self._segments = [self.segment(base, index_interval_bytes) for base in bases]

    def begin(self, base_offset: int, index_interval_bytes: int, *, durable: bool) -> Segment:
        """Make an empty segment, from now on the active one. Raises StorageError: nothing of it is left.

        Raises SegmentLeftBehind where its file may be there and could not be taken back.
        """
        segment = self.segment(base_offset, index_interval_bytes)
        segment.create()
        if durable:
            try:
                self._disk.flush_directory(self._directory)
            except StorageError:
                _take_back(segment)
                raise
        self._segments.append(segment)
        self.bases.append(segment.base_offset)
        self._ends.clear()  # no read continues at the end of the one before it
        return segment

    def remove(self, at: int) -> Segment:
        """Take one out, and return it; its files are the caller's to remove."""
        segment = self._segments[at]
        self._segments = [each for each in self._segments if each is not segment]
        self.bases = [each.base_offset for each in self._segments]
        self._ends.clear()
        return segment

    def replace(self, first: int, count: int, segment: Segment) -> None:
        """Put one segment in the place of `count`, whose files are gone."""
        for old in self._segments[first : first + count]:
            old.close()
        self._segments = [*self._segments[:first], segment, *self._segments[first + count :]]
        self.bases = [each.base_offset for each in self._segments]
        self._ends.clear()

    def close(self) -> None:
        """Let go of all files."""
        for segment in self._segments:
            segment.close()
        self._ends.clear()

    def at(self, offset: int) -> int:
        """Return which segment an offset belongs to."""
        return max(bisect_right(self.bases, offset) - 1, 0)

    # -- reading

    def read(
        self, offset: int, limit: int, max_bytes: int, *, is_log_end: bool, at_least_one: bool
    ) -> list[memoryview]:
        """Return batches from the one with `offset` up to the offset `limit`, of one segment only.

        `is_log_end`: nothing lies beyond `limit`. A reader that continues where its last read ended needs no look-up;
        all others cost a bisection of the sparse index and a walk over a few headers.
        """
        found = self._ends.get(offset) or self._find(offset)
        if found is None:
            return []
        segment, start = found
        end = segment.size if is_log_end else self._end(segment, limit)
        following = limit
        if end - start > max_bytes:
            step = segment.border(start, start + max_bytes)
            assert step is not None, "where a read ends before its segment does, a batch crosses its end"
            end, following = step.position, step.base_offset
            if end == start:
                if not at_least_one:
                    return []
                end, following = start + step.size, step.last_offset + 1
        if end <= start:
            return []
        if end < segment.size or segment is self._segments[-1]:
            if len(self._ends) >= _REMEMBERED:
                del self._ends[next(iter(self._ends))]
            self._ends[following] = segment, end
        return [segment.log.read(start, end - start)]

    def _find(self, offset: int) -> tuple[Segment, int] | None:
        """Return where the batch with `offset` lies, or the first one after it."""
        expected = self._segments[self.at(offset)]
        for segment in self._segments[self.at(offset) :]:
            step = segment.find(offset)
            if step is not None:
                if segment is not expected and step.base_offset > offset and self.on_jump is not None:
                    self.on_jump(offset, step.base_offset)
                return segment, step.position
        return None

    def _end(self, segment: Segment, limit: int) -> int:
        """Return where the batches below the offset `limit` end in a segment."""
        found = self._ends.get(limit)
        if found is not None and found[0] is segment:
            return found[1]
        step = segment.find(limit)
        return segment.size if step is None else step.position


def _take_back(segment: Segment) -> None:
    try:
        segment.remove()
    except StorageError as error:
        raise SegmentLeftBehind(error.errno, error.strerror, error.filename) from error


# -- retention


def segments_to_delete(segments: Sequence[Segment], config: LogConfig, high_watermark: int, now_ms: int) -> int:
    """Return how many of the first segments go: too old, or more than `retention_bytes` without them.

    Nothing above the high watermark goes, nor an empty active segment. All of them means that the active one is full
    of records that are too old.
    """
    if not config.deletes or not segments:
        return 0
    excess = sum(segment.size for segment in segments) - config.retention_bytes if config.retention_bytes >= 0 else 0
    count = 0
    for at, segment in enumerate(segments):
        is_active = at == len(segments) - 1
        if segment.size == 0 and is_active:
            break
        if not is_active and segments[at + 1].base_offset > high_watermark:
            break
        excess -= segment.size
        if not _is_old(segment, config, now_ms) and (excess < 0 or config.retention_bytes < 0):
            break
        count += 1
    return count


def _is_old(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    if config.retention_ms < 0:
        return False
    timestamp, _offset = segment.max_timestamp
    # Records without a time have no age: they stay.
    return timestamp >= 0 and now_ms - timestamp > config.retention_ms


# -- offsets by time


class TimestampedOffset(NamedTuple):
    """The answer to a question for an offset by time."""

    timestamp: int
    offset: int
    leader_epoch: int


Search = Generator[int, None, TimestampedOffset | None]
"""A search that yields its steps, since a batch of a few kilobytes may have a million records."""


def first_at_or_after(segments: Sequence[Segment], timestamp: int, start: int, end: int) -> Search:
    """Return the first record in offsets [start, end) whose timestamp is at least `timestamp`."""
    for segment in segments:
        if segment.base_offset >= end or segment.max_timestamp[0] < timestamp:
            continue
        from_offset = max(segment.time_index.offset_before(timestamp), start - segment.base_offset, 0)
        position = segment.offset_index.position_before(from_offset)
        for header, at in segment.headers(position):
            yield 1
            if header.max_timestamp >= timestamp and header.last_offset >= start:
                offsets = range(start, end)
                found = yield from _find(segment, header, at, offsets, lambda time_ms: time_ms >= timestamp)
                if found is not None:
                    return TimestampedOffset(found[1], found[0], header.partition_leader_epoch)
    return None


def largest(segments: Sequence[Segment], start: int, end: int) -> Search:
    """Return the first record of those with the largest timestamp in offsets [start, end)."""
    bounds = {segment: segment.max_timestamp[0] for segment in segments if segment.base_offset < end and segment.size}
    while bounds and (bound := max(bounds.values())) >= 0:
        segment = next(segment for segment, time_ms in bounds.items() if time_ms == bound)
        found = yield from first_at_or_after([segment], bound, start, end)
        if found is not None:
            return found
        # The record with it was deleted, cleaned away, or is not visible yet.
        bounds[segment] = yield from _largest_in(segment, range(start, end))
    return None


def _largest_in(segment: Segment, offsets: range) -> Generator[int, None, int]:
    """Return the largest timestamp of a segment's records among `offsets`; -1 where none is left."""
    batches = list[tuple[BatchHeader, int]]()
    for header, position in segment.headers():
        yield 1
        if header.last_offset >= offsets.start and header.base_offset < offsets.stop:
            batches.append((header, position))
    largest_ms = -1

    def is_larger(time_ms: int) -> bool:
        nonlocal largest_ms
        largest_ms = max(largest_ms, time_ms)
        return False  # those that follow count, too

    for header, position in sorted(batches, key=lambda each: -each[0].max_timestamp):
        if header.max_timestamp <= largest_ms:
            break
        yield from _find(segment, header, position, offsets, is_larger)
    return largest_ms


def _find(
    segment: Segment, header: BatchHeader, position: int, offsets: range, is_wanted: Callable[[int], bool]
) -> Generator[int, None, tuple[int, int] | None]:
    """Return offset and timestamp of a batch's first record among `offsets` whose timestamp is wanted."""
    append_ms = header.max_timestamp if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    if append_ms is None or header.record_count <= header.last_offset_delta:
        batch = segment.log.read(position, header.size)
        check_crc(header, batch)

        def is_found(offset: int, time_ms: int) -> bool:
            return offset in offsets and is_wanted(time_ms if append_ms is None else append_ms)

        try:
            found = yield from find_record(header, batch, is_found)
        except CompressionUnavailable:
            pass  # without its codec a batch counts as one point in time
        else:
            return found if found is None or append_ms is None else (found[0], append_ms)
    # All its offsets have the same time.
    first = max(header.base_offset, offsets.start)
    return (first, header.max_timestamp) if first in offsets and is_wanted(header.max_timestamp) else None
