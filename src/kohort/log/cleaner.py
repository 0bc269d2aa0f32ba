"""The cleaner of one log: a pass reads what is dirty, then writes all before its end anew, without superseded records.

It works in steps of one piece of a file each, so that its caller may do something else in between. The log may be
appended to and read meanwhile; what takes segments away ends the pass. What goes is decided by `compaction`; how far it
may go, by Kafka's rules, in `cleanable`. Segments are replaced from the oldest on, each one on the medium before it
counts, as Kafka does: the new bytes are written as `.log.cleaned` and flushed, and the rename to `.log.swap` is the
decision. What a crash leaves is finished when the log is opened: a `.cleaned` never was, a `.swap` already is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple, Protocol

from kohort.log import checkpoints
from kohort.log.compaction import Filter, LastOffsets
from kohort.log.disk import Buffer, Disk, StorageError, replace_file
from kohort.log.producer_state import Producers, ProducerSnapshots
from kohort.log.segment import (
    ABORTED_SUFFIX,
    LARGEST_RELATIVE,
    Segment,
    aborted_bytes,
    base_offsets,
    segment_name,
)
from kohort.log.segments import LogConfig, Segments
from kohort.wire.record_batches import HEADER_SIZE, BatchHeader, CorruptBatch, iter_batches, read_header

MEMORY_BYTES = 128 << 20
"""What the keys of one pass may take (Kafka's log.cleaner.dedupe.buffer.size)."""

PIECE_BYTES = 64 << 10
"""How much of a file one step reads; a larger batch is read whole."""

_FLUSH_BYTES = 8 << 20


class Cleaned(NamedTuple):
    """What a pass did."""

    first_dirty: int
    """Below this offset the log is clean now."""
    before_bytes: int
    after_bytes: int
    """What the segments that were looked at took, and take."""


class CleanedLog(Protocol):
    """What a cleaner needs of its log besides the segments."""

    directory: str
    config: LogConfig
    producers: Producers
    failure: StorageError | None
    """Set when a failed swap leaves files that the next open must finish: the log takes no more appends."""

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will get."""

    @property
    def high_watermark(self) -> int:
        """The end of what consumers may see."""


class Cleaner:
    """Cleans the segments of one log, and knows up to where that was done."""

    def __init__(self, log: CleanedLog, disk: Disk, segments: Segments, snapshots: ProducerSnapshots) -> None:
        self._log = log
        self._disk = disk
        self._segments = segments
        self._snapshots = snapshots
        self._running: Iterator[int] | None = None
        self._blocked_at = -1
        """Where the last pass could have ended that found a transaction open which it may not pass."""
        self.first_dirty = 0
        """The checkpoint: below it, every record is the last of its key in there."""
        self.last: Cleaned | None = None
        """What the last whole pass did."""

    def load(self) -> None:
        """Read the checkpoint; a log that has none is dirty from its start."""
        self.first_dirty = checkpoints.read_offset(self._disk, self._log.directory, checkpoints.CLEANER_OFFSET)

    def cleanable(self, now_ms: int) -> Cleanable:
        """Return what could be cleaned. Raises StorageError."""
        # A log that lost its end is shorter than its checkpoint.
        first_dirty = self.first_dirty if self.first_dirty <= self._log.log_end_offset else 0
        return cleanable(self._segments, first_dirty, self._log.high_watermark, self._log.config, now_ms)

    def is_worthwhile(self, now_ms: int) -> bool:
        """Whether a pass is due by min.cleanable.dirty.ratio and max.compaction.lag.ms. Raises StorageError."""
        if not self._log.config.compacts:
            return False
        found = self.cleanable(now_ms)
        return found.is_worthwhile(self._log.config.min_cleanable_ratio) and found.end != self._blocked_at

    def begin(self, now_ms: int, *, memory_bytes: int = MEMORY_BYTES, up_to: int | None = None) -> Iterator[int]:
        """Return a pass: each step does a piece and yields how many bytes it read. Only the newest pass continues.

        `up_to` ends it at an offset, before the log's own bound. A step raises StorageError, and CorruptBatch or
        CompressionUnavailable for a log that cannot be cleaned: nothing is lost, and another pass may be tried.
        """
        self.stop()
        bounds = self.cleanable(now_ms)
        end = bounds.end if up_to is None else min(bounds.end, up_to)
        self._running = self._run(bounds.first_dirty, end, now_ms, memory_bytes)
        return self._running

    def stop(self) -> None:
        """End a pass that is under way; what it has not put in place yet is forgotten."""
        running, self._running = self._running, None
        if running is not None:
            running.close()  # type: ignore[attr-defined]  # it is a generator

    # -- one pass

    def _run(self, first_dirty: int, end: int, now_ms: int, memory_bytes: int) -> Iterator[int]:
        bound = end
        while True:
            known = LastOffsets(memory_bytes, end)
            yield from self._map(known, first_dirty)
            if known.first_open is None:
                break
            # Who wins is not known before a transaction ends: a pass ends where the first of those began.
            end = known.first_open
        if known.end <= first_dirty:
            self._blocked_at = bound
            return
        self._blocked_at = -1
        judge = Filter(known, now_ms=now_ms, delete_retention_ms=self._log.config.delete_retention_ms)
        before = after = 0
        config = self._log.config
        for group in groups(self._segments, known.end, config.segment_bytes, LARGEST_RELATIVE):
            judge.last = self._log.producers.last_offsets()
            before += sum(segment.size for segment in group)
            yield from self._rewrite(group, judge)
            after += self._segments[self._segments.at(group[0].base_offset)].size
        checkpoints.write_offset(
            self._disk, self._log.directory, checkpoints.CLEANER_OFFSET, known.end, durable=config.is_durable
        )
        self.first_dirty = known.end
        self.last = Cleaned(known.end, before, after)

    def _map(self, known: LastOffsets, first_dirty: int) -> Iterator[int]:
        for segment in self._segments[self._segments.at(first_dirty) : -1]:
            if segment.base_offset >= known.end:
                return
            for batches, size in _pieces(segment):
                before = known.unpacked_bytes
                for header, batch in batches:
                    if header.last_offset >= first_dirty and not known.take(header, batch):
                        return
                yield size + known.unpacked_bytes - before

    def _rewrite(self, group: list[Segment], judge: Filter) -> Iterator[int]:
        """Write a run of segments anew as one, and put that in their place, unless it is what they are."""
        segment = self._segments.segment(group[0].base_offset, self._log.config.index_interval_bytes)
        draft = Draft(self._disk, self._log.directory, segment)
        is_decided, has_changed = False, len(group) > 1
        try:
            for old in group:
                for batches, size in _pieces(old):
                    pieces: list[Buffer] = []
                    before = judge.unpacked_bytes
                    for header, batch in batches:
                        retained = judge.retained(header, batch)
                        has_changed |= retained is not batch
                        if retained is not None:
                            pieces.append(retained)
                    if pieces:
                        draft.append(pieces, _FLUSH_BYTES)
                    yield size + judge.unpacked_bytes - before
            if has_changed:
                draft.flush()
                draft.close()
                self._write_aborted(group, segment.base_offset, judge.end)
                decide_swap(self._disk, self._log.directory, segment.base_offset)
                is_decided = True
        finally:
            if not is_decided:
                with suppress(StorageError):  # the next open removes it too
                    draft.discard()
        if is_decided:
            self._put_in_place(group, segment)

    def _write_aborted(self, group: list[Segment], base_offset: int, end: int) -> None:
        """Write the aborted transactions of which records are left: those whose marker lies beyond what is cleaned.

        A reader that got another one would look for its marker, which may be gone.
        """
        if any(old.aborted for old in group):
            remaining = (each for old in group for each in old.aborted if each.last_offset >= end)
            path = f"{self._log.directory}/{segment_name(base_offset, CLEANED_ABORTED)}"
            replace_file(self._disk, path, aborted_bytes(remaining), durable=True)

    def _put_in_place(self, group: list[Segment], segment: Segment) -> None:
        superseded = [old.base_offset for old in group[1:]]
        try:
            finish_swap(self._disk, self._log.directory, segment.base_offset, superseded)
        except StorageError as error:
            self._log.failure = error  # its files are half the old ones and half the new: the next open finishes it
            raise
        self._segments.replace(self._segments.at(segment.base_offset), len(group), segment)
        for base in superseded:
            self._snapshots.remove(base)
        segment.seal()


def _pieces(segment: Segment) -> Iterator[tuple[list[tuple[BatchHeader, memoryview]], int]]:
    """Yield the batches of a segment piece by piece, and how many bytes each has. Raises CorruptBatch.

    A compressed batch is a piece of its own: it may unpack to thousands of times its size.
    """
    position, size = 0, segment.size
    while position < size:
        piece: Buffer = segment.log.read(position, PIECE_BYTES)
        batches = _first_alike(piece)
        if not batches:
            header = read_header(piece)
            batches = list(iter_batches(segment.log.read(position, header.size)))
            if not batches:
                raise CorruptBatch(f"the batch at offset {header.base_offset} goes beyond the end of its segment")
        length = sum(len(batch) for _, batch in batches)
        yield batches, length
        position += length


def _first_alike(piece: Buffer) -> list[tuple[BatchHeader, memoryview]]:
    """Return the first batches of a piece: one that is compressed, or all before such a one."""
    found: list[tuple[BatchHeader, memoryview]] = []
    for header, batch in iter_batches(piece):
        if header.compression:
            return found or [(header, batch)]
        found.append((header, batch))
    return found


# -- what may be cleaned


class Cleanable(NamedTuple):
    """What the cleaner could do in one log. Below `first_dirty` it has been; from `end` on it may not go."""

    first_dirty: int
    end: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """Whether the oldest record that was never cleaned is older than max.compaction.lag.ms."""

    @property
    def ratio(self) -> float:
        """Which part of what may be cleaned is dirty."""
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes) if self.dirty_bytes else 0.0

    def is_worthwhile(self, min_ratio: float) -> bool:
        """Whether there is enough to do."""
        return self.dirty_bytes > 0 and (self.is_overdue or self.ratio > min_ratio)


def cleanable(
    segments: Sequence[Segment], first_dirty: int, high_watermark: int, config: LogConfig, now_ms: int
) -> Cleanable:
    """Return what may be cleaned: never the active segment, and nothing that consumers may not see yet.

    The first segment with a record younger than min.compaction.lag.ms ends it. Raises StorageError.
    """
    if not segments:
        return Cleanable(0, 0, 0, 0, is_overdue=False)
    first_dirty = max(first_dirty, segments[0].base_offset)
    clean_bytes = dirty_bytes = 0
    oldest: Segment | None = None
    end = segments[0].base_offset
    for segment, following in pairwise(segments):
        if following.base_offset > high_watermark:
            break
        end = following.base_offset
        if following.base_offset <= first_dirty:
            clean_bytes += segment.size
            continue
        lag_ms = config.min_compaction_lag_ms
        if lag_ms > 0 and segment.max_timestamp[0] > now_ms - lag_ms:
            end = segment.base_offset
            break
        dirty_bytes += segment.size
        oldest = oldest or segment
    first = oldest.read_first_timestamp() if oldest is not None else None
    is_overdue = first is not None and first >= 0 and now_ms - first > config.max_compaction_lag_ms
    return Cleanable(first_dirty, max(end, first_dirty), clean_bytes, dirty_bytes, is_overdue)


def groups(segments: Sequence[Segment], end: int, max_bytes: int, max_span: int) -> list[list[Segment]]:
    """Return the segments below `end` in runs that make one segment each when cleaned; the last one is active."""
    found: list[list[Segment]] = []
    size = 0
    for segment, following in pairwise(segments):
        if segment.base_offset >= end:
            break
        fits = (
            found and size + segment.size <= max_bytes and following.base_offset - found[-1][0].base_offset < max_span
        )
        if fits:
            found[-1].append(segment)
            size += segment.size
        else:
            found.append([segment])
            size = segment.size
    return found


# -- one new segment in the place of several

CLEANED, SWAP = ".log.cleaned", ".log.swap"
CLEANED_ABORTED = ABORTED_SUFFIX + ".cleaned"
"""It counts once its segment has no `.log.cleaned` any more."""
_INDEXES = (".index", ".timeindex")


def decide_swap(disk: Disk, directory: str, base_offset: int) -> None:
    """Take cleaned bytes, which are on the medium, for a segment's own. Raises StorageError: nothing is decided."""
    path = f"{directory}/{segment_name(base_offset, '')}"
    disk.rename(path + CLEANED, path + SWAP)


def finish_swap(disk: Disk, directory: str, base_offset: int, superseded: Iterable[int]) -> None:
    """Let what was decided be so, however often; `superseded` are the other segments that go. Raises StorageError."""
    disk.flush_directory(directory)
    for base in superseded:
        for suffix in (".log", *_INDEXES, ".snapshot", ABORTED_SUFFIX):
            disk.remove(f"{directory}/{segment_name(base, suffix)}")
    path = f"{directory}/{segment_name(base_offset, '')}"
    for suffix in _INDEXES:
        disk.remove(path + suffix)
    disk.rename(path + SWAP, path + ".log")
    if disk.exists(path + CLEANED_ABORTED):
        disk.rename(path + CLEANED_ABORTED, path + ABORTED_SUFFIX)
    disk.flush_directory(directory)


def recover_swaps(disk: Disk, directory: str, names: Sequence[str]) -> list[str]:
    """Bring a directory in order in which a cleaning was under way; return its names then. Raises StorageError."""
    if not any(name.endswith((CLEANED, SWAP, CLEANED_ABORTED)) for name in names):
        return list(names)
    for base in base_offsets(list(names), CLEANED):
        disk.remove(f"{directory}/{segment_name(base, CLEANED_ABORTED)}")
        disk.remove(f"{directory}/{segment_name(base, CLEANED)}")
    for base in base_offsets(list(names), SWAP):
        end = _end_offset(disk, f"{directory}/{segment_name(base, SWAP)}", base)
        finish_swap(disk, directory, base, [other for other in base_offsets(list(names), ".log") if base < other < end])
    for base in base_offsets(list(disk.list(directory)), CLEANED_ABORTED):
        path = f"{directory}/{segment_name(base, '')}"
        disk.rename(path + CLEANED_ABORTED, path + ABORTED_SUFFIX)
    return list(disk.list(directory))


def _end_offset(disk: Disk, path: str, base_offset: int) -> int:
    """Return the offset after the last batch of a file."""
    file = disk.open(path)
    try:
        position, end = 0, base_offset
        while position < file.size:
            header = read_header(file.read(position, HEADER_SIZE))
            position, end = position + header.size, header.last_offset + 1
    except CorruptBatch:
        pass  # reading the segment raises it again
    finally:
        file.close()
    return end


class Draft:
    """The segment that a cleaning writes, until it takes the place of others."""

    def __init__(self, disk: Disk, directory: str, segment: Segment) -> None:
        self._disk = disk
        stem = f"{directory}/{segment_name(segment.base_offset, '')}"
        self._path, self._aborted_path = stem + CLEANED, stem + CLEANED_ABORTED
        disk.remove(self._path)
        self._file = disk.open(self._path, create=True)
        self._unflushed = 0
        self.segment = segment
        """What it will be; its indexes are made on the way."""
        segment.begin_indexes()

    def append(self, batches: Sequence[Buffer], flush_bytes: int) -> None:
        """Write whole batches, and bring the file to the medium every `flush_bytes`. Raises StorageError."""
        position = self._file.append(batches)
        for batch in batches:
            self.segment.note(read_header(batch), position)
            position += len(batch)
            self._unflushed += len(batch)
        if self._unflushed >= flush_bytes:
            self.flush()

    def flush(self) -> None:
        """Return when every byte is on the medium."""
        self._file.flush()
        self._unflushed = 0

    def close(self) -> None:
        """Let go of the file; it stays."""
        self._file.close()

    def discard(self) -> None:
        """Remove the file."""
        self._file.close()
        self._disk.remove(self._aborted_path)
        self._disk.remove(self._path)
