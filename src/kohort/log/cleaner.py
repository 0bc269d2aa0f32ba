"""The cleaner of one log: a pass reads what is dirty, then writes all before its end anew, without what is superseded.

It works in steps of one piece of a file each, so that whoever runs it may do something else in between. The log may be
appended to and read meanwhile; what takes segments away ends the pass. Nothing is lost at any point: segments are
replaced from the oldest on, each one on the medium before it counts (`swapping`). What goes is said by `compaction`,
how far it may go by `cleanable`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kohort.log import checkpoints, swapping
from kohort.log.cleanable import Cleanable, cleanable, groups
from kohort.log.compaction import Filter, LastOffsets
from kohort.log.disk import Disk, StorageError
from kohort.log.producer_state import ProducerSnapshots
from kohort.log.segment import LARGEST_RELATIVE, Segment
from kohort.log.segments import Segments
from kohort.log.swapping import Draft
from kohort.wire.record_batches import BatchHeader, Buffer, CorruptBatch, iter_batches, read_header

if TYPE_CHECKING:
    from kohort.log.partition_log import PartitionLog

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


class Cleaner:
    """Cleans the segments of one log, and knows up to where that was done."""

    def __init__(self, log: PartitionLog, disk: Disk, segments: Segments, snapshots: ProducerSnapshots) -> None:
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
        # A log that lost its end is shorter than its checkpoint says.
        first_dirty = self.first_dirty if self.first_dirty <= self._log.log_end_offset else 0
        return cleanable(self._segments, first_dirty, self._log.high_watermark, self._log.config, now_ms)

    def is_worthwhile(self, now_ms: int) -> bool:
        """Whether a pass is due by min.cleanable.dirty.ratio and max.compaction.lag.ms. Raises StorageError."""
        if not self._log.config.compacts:
            return False
        found = self.cleanable(now_ms)
        return found.is_worthwhile(self._log.config.min_cleanable_ratio) and found.end != self._blocked_at

    def begin(self, now_ms: int, *, memory_bytes: int = MEMORY_BYTES, up_to: int | None = None) -> Iterator[int]:
        """Return a pass: each step does a piece and says how many bytes it read. Only the newest pass goes on.

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
                for header, batch in batches:
                    if header.last_offset >= first_dirty and not known.take(header, batch):
                        return
                yield size

    def _rewrite(self, group: list[Segment], judge: Filter) -> Iterator[int]:
        """Write a run of segments anew as one, and put that in their place, unless it is what they are."""
        segment = self._segments.segment(group[0].base_offset, self._log.config.index_interval_bytes)
        draft = Draft(self._disk, self._log.directory, segment)
        is_decided, has_changed = False, len(group) > 1
        try:
            for old in group:
                for batches, size in _pieces(old):
                    kept: list[Buffer] = []
                    for header, batch in batches:
                        retained = judge.retained(header, batch)
                        has_changed |= retained is not batch
                        if retained is not None:
                            kept.append(retained)
                    if kept:
                        draft.append(kept, _FLUSH_BYTES)
                    yield size
            if has_changed:
                draft.flush()
                draft.close()
                swapping.decide(self._disk, self._log.directory, segment.base_offset)
                is_decided = True
        finally:
            if not is_decided:
                with suppress(StorageError):  # the next open removes it too
                    draft.discard()
        if is_decided:
            self._put_in_place(group, segment)

    def _put_in_place(self, group: list[Segment], segment: Segment) -> None:
        superseded = [old.base_offset for old in group[1:]]
        try:
            swapping.finish(self._disk, self._log.directory, segment.base_offset, superseded)
        except StorageError as error:
            self._log.failure = error  # its files are half the old ones and half the new: the next open finishes it
            raise
        self._segments.replace(self._segments.at(segment.base_offset), len(group), segment)
        for base in superseded:
            self._snapshots.remove(base)
        segment.seal()


def _pieces(segment: Segment) -> Iterator[tuple[list[tuple[BatchHeader, memoryview]], int]]:
    """Yield the batches of a segment piece by piece, and how many bytes each has. Raises CorruptBatch."""
    position, size = 0, segment.size
    while position < size:
        piece: Buffer = segment.log.read(position, PIECE_BYTES)
        batches = list(iter_batches(piece))
        if not batches:
            header = read_header(piece)
            batches = list(iter_batches(segment.log.read(position, header.size)))
            if not batches:
                raise CorruptBatch(f"the batch at offset {header.base_offset} goes beyond the end of its segment")
        length = sum(len(batch) for _, batch in batches)
        yield batches, length
        position += length
