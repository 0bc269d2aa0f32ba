"""The log of one partition: record batches in segments, appended at the end and read by offset.

Batches lie as they were received, with base offset and leader epoch patched in. Nothing is acknowledged by this
module: `high_watermark` ends what consumers may see, which under `fsync` is what `flush` has put on the medium.
It knows no clock (times come in), no topic and no client. Errors of the disk are `StorageError`; nothing of a failed
append remains.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

from kohort.log import checkpoints
from kohort.log.checkpoints import CleanShutdown, LeaderEpochs
from kohort.log.cleaner import Cleaned, Cleaner, recover_swaps
from kohort.log.disk import Buffer, Disk, DiskFull, StorageError
from kohort.log.producer_state import AbortedTransaction, Producers, ProducerSnapshots
from kohort.log.recovery import DamagedLog, Recovery, recover, restore_producers
from kohort.log.segment import ABORTED_SUFFIX, LARGEST_RELATIVE, Segment, base_offsets, segment_name
from kohort.log.segments import (
    LogConfig,
    Search,
    SegmentLeftBehind,
    Segments,
    first_at_or_after,
    largest,
    segments_to_delete,
)
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import NO_TOPIC_ID, topic_id_text
from kohort.wire.record_batches import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    Marker,
    check_batch,
    iter_batches,
    read_header,
    read_marker,
    stamp_append_time,
)


class OffsetOutOfRange(KafkaError):
    """An offset below the log start or beyond the end (OFFSET_OUT_OF_RANGE)."""

    def __init__(self, text: str | None = None) -> None:
        super().__init__(ErrorCode.OFFSET_OUT_OF_RANGE, text)


class Appended(NamedTuple):
    """What an append did."""

    base_offset: int
    last_offset: int
    append_time_ms: int
    """The time the records got from the broker; -1 where they have their own."""
    log_start_offset: int


class LogFlush:
    """The flush of one log: what to bring to the medium, up to which offset, and how it went."""

    def __init__(self, segments: list[Segment], end_offset: int) -> None:
        self.segments = segments
        self.end_offset = end_offset
        self.failure: StorageError | None = None
        self._flushers: list[Callable[[], None]] = []
        for segment in segments:
            try:
                self._flushers.append(segment.log.flusher())
            except StorageError as error:
                self.failure = self.failure or error

    def run(self) -> None:
        """Flush the files, in any thread, once."""
        for flush in self._flushers:
            try:
                flush()
            except StorageError as error:
                self.failure = self.failure or error


class PartitionLog:
    """One partition's log; make one with `open`."""

    def __init__(self, disk: Disk, directory: str, config: LogConfig, topic_id: bytes) -> None:
        self._disk = disk
        self.directory = directory
        self.config = config
        """May be replaced at any time; the next append and the next retention use it."""
        self.topic_id = topic_id
        self.producers = Producers()
        """The idempotent producers: call `producers.check(header)` before an append, which itself updates them."""
        self._is_strict = False
        self.recovery: Recovery | None = None
        """What the recovery at open found; None when none was needed."""
        self._segments = Segments(disk, directory)
        self.log_start_offset = 0
        """The first offset that can be read."""
        self.log_end_offset = 0
        """The offset that the next record will get."""
        self._flushed_offset = 0
        self._unflushed: list[Segment] = []
        self._snapshots = ProducerSnapshots(disk, directory, durable=config.is_durable)
        self._epochs = LeaderEpochs(disk, directory, durable=config.is_durable)
        self._is_marked_clean = False
        self.failure: StorageError | None = None
        """Why the log takes no appends until it is `reopened`; None as long as it does."""
        self._cut_to: int | None = None
        """Where the bytes begin that a failed flush may have lost, if their senders wait for the flush."""
        self.cleaner = Cleaner(self, disk, self._segments, self._snapshots)
        self.report: Callable[[str], None] | None = None
        """Takes a sentence about damage that a read finds."""
        self._missing: set[int] = set()
        """The offsets after those that are missing and were reported."""
        self._segments.on_jump = self._jumped

    # -- opening and closing

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        config: LogConfig,
        now_ms: int,
        *,
        topic_id: bytes = NO_TOPIC_ID,
        strict: bool = False,
        report: Callable[[str], None] | None = None,
    ) -> PartitionLog:
        """Open the log of a directory, which need not exist before the first append.

        After a clean shutdown the files are trusted; otherwise the last segment is recovered, and `recovery` has what
        that did. `report` takes sentences about damage that is found now or when it is read. Raises StorageError;
        DamagedLog if `strict` and valid batches lie behind what would be cut.
        """
        log = cls(disk, directory, config, topic_id)
        log._is_strict = strict
        log.report = report
        names = list(disk.list(directory))
        if names:
            log._load(names, now_ms)
        return log

    def _load(self, names: list[str], now_ms: int) -> None:
        names = recover_swaps(self._disk, self.directory, names)
        if checkpoints.PARTITION_METADATA in names:
            topic_id = checkpoints.read_topic_id(self._disk, self.directory)
            if NO_TOPIC_ID not in (topic_id, self.topic_id) and topic_id != self.topic_id:
                text = (
                    f"the files belong to topic id {topic_id_text(topic_id)}, not {topic_id_text(self.topic_id)}: the "
                )
                text += "metadata log was lost or shortened, or they are another broker's; put the folder "
                text += "__kohort_metadata-0 back from a copy, or move these files away"
                raise StorageError(errno.EINVAL, text, self.directory)
            self.topic_id = topic_id if self.topic_id == NO_TOPIC_ID else self.topic_id
        if checkpoints.LEADER_EPOCHS in names:
            self._epochs.load()
        if checkpoints.LOG_START_OFFSET in names:
            name = checkpoints.LOG_START_OFFSET
            self.log_start_offset = checkpoints.read_offset(self._disk, self.directory, name)
        if checkpoints.CLEANER_OFFSET in names:
            self.cleaner.load()
        self._segments.take(base_offsets(names, ".log"), self.config.index_interval_bytes)
        self._snapshots.offsets = base_offsets(names, ".snapshot")
        if self._segments:
            clean = CleanShutdown.read(self._disk, self.directory) if checkpoints.CLEAN_SHUTDOWN in names else None
            active = self._segments.active
            if clean is not None and clean[:2] == (active.base_offset, active.size):
                active.trust((clean.max_timestamp, clean.max_timestamp_offset))
                self.log_end_offset = clean.log_end_offset
                self._is_marked_clean = True
                restore_producers(self.producers, self._snapshots, self._segments, self.log_end_offset, now_ms)
            else:
                self._recover(names, now_ms)
            self.log_start_offset = max(self.log_start_offset, self._segments.bases[0])
            self._check_order()
        # What was deleted must not come again under the same offsets, even if the log lost its end.
        self.log_end_offset = max(self.log_end_offset, self.log_start_offset)
        self._flushed_offset = self.log_end_offset

    def _check_order(self) -> None:
        """Report where a segment does not begin at the offset at which the one before it ends, or is another's file."""
        if self.report is None or self._may_have_holes:
            return
        for segment, following in pairwise(self._segments):
            begin, end = segment.ends()
            if begin is not None and begin != segment.base_offset:
                file = segment_name(segment.base_offset, ".log")
                self.report(
                    f"{self.directory}/{file} begins at offset {begin}: it is another file, or a copy of one; put the"
                    " right one back from a copy while the broker is stopped, or see `kohort log verify`"
                )
            elif end is not None and end < following.base_offset:
                self._jumped(end, following.base_offset)

    @property
    def _may_have_holes(self) -> bool:
        """Whether a cleaner may have removed offsets."""
        return self.config.compacts or self.cleaner.first_dirty > 0

    def _recover(self, names: list[str], now_ms: int) -> None:
        """Read what the last close did not vouch for."""
        suffixes = ".index", ".timeindex", ABORTED_SUFFIX
        known = {segment_name(base, suffix) for base in self._segments.bases for suffix in suffixes}
        for name in names:
            if (name.endswith("index") and name not in known) or name.endswith(".tmp"):
                self._disk.remove(f"{self.directory}/{name}")
        self._disk.remove(f"{self.directory}/{checkpoints.CLEAN_SHUTDOWN}")
        # When the newest segment is still empty, the one before it may be the one that was being written.
        doubtful = self._segments[-2:] if self._segments[-1].size == 0 else self._segments[-1:]
        trusted = self._segments[: -len(doubtful)]
        restore_producers(self.producers, self._snapshots, trusted, doubtful[0].base_offset, now_ms)

        def visit(header: BatchHeader, marker: Marker | None) -> None:
            if header.partition_leader_epoch > self._epochs.latest:
                self._epochs.assign(header.partition_leader_epoch, header.base_offset)
            if header.producer_id >= 0:
                aborted = self.producers.replay(header, now_ms, marker)
                if aborted is not None:
                    self._segments[self._segments.at(header.base_offset)].add_aborted(aborted)

        for segment in doubtful:
            if segment.base_offset < self.log_end_offset:
                # It is empty, and could be neither made nor taken back for certain: the log continued without it.
                self._segments.remove(-1).remove()
                break
            self.recovery = recover(self._disk, self.directory, segment, visit, strict=self._is_strict)
            self.log_end_offset = self.recovery.end_offset
            if self.config.is_durable:
                segment.log.flush()
        self._epochs.truncate_end(self.log_end_offset)

    def close(self) -> None:
        """Flush, write what makes the next open fast, and let go of the files.

        A disk that fails now costs the next open a recovery, and nothing that was promised.
        """
        self.cleaner.stop()
        if self._segments and self.failure is None and not self._is_marked_clean:
            with suppress(StorageError):
                self._mark_clean()
        self._segments.close()

    def _mark_clean(self) -> None:
        active = self._segments.active
        active.seal()
        active.flush_aborted()
        self._snapshots.write(self.producers, self.log_end_offset, self._segments.bases)
        self.flush()
        CleanShutdown(active.base_offset, active.size, self.log_end_offset, *active.max_timestamp).write(
            self._disk, self.directory
        )
        self._is_marked_clean = True

    def reopened(self, now_ms: int) -> PartitionLog:
        """Return this log, opened again after a failure; this object must not be used afterwards.

        What a failed flush may have lost is cut off before: the system may have dropped it from memory, so that a later
        flush succeeds without it. Raises StorageError: then this log is as it was.
        """
        if self._cut_to is not None:
            active = self._segments.active
            step = active.find(self._cut_to)
            if step is not None:
                active.log.truncate(step.position)
            active.log.flush()
        config, topic_id = self.config, self.topic_id
        fresh = self.open(
            self._disk, self.directory, config, now_ms, topic_id=topic_id, strict=self._is_strict, report=self.report
        )
        self.cleaner.stop()
        self._segments.close()
        return fresh

    def delete(self) -> None:
        """Remove the log with all its files; it must not be used afterwards."""
        self.cleaner.stop()
        self._segments.close()
        self._disk.remove_directory(self.directory)

    # -- what there is

    @property
    def high_watermark(self) -> int:
        """The end of what consumers may see: everything, or under `fsync` what is on the medium."""
        return self._flushed_offset if self.config.is_durable else self.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        """The end of what readers of committed records may see: no transaction is open before it (KIP-98)."""
        high_watermark = self.high_watermark
        first = self.producers.first_unstable(high_watermark)
        return high_watermark if first is None else min(first, high_watermark)

    @property
    def is_dirty(self) -> bool:
        """Whether something was appended that is not known to be on the medium."""
        return self._flushed_offset < self.log_end_offset

    @property
    def size(self) -> int:
        """Bytes in the segments."""
        return self._segments.size

    # -- appending

    def require_no_failure(self) -> None:
        """Raise StorageError after a failure: what was appended before it may be lost."""
        if self.failure is not None:
            text = f"takes no appends until the disk works: {self.failure.strerror}"
            raise StorageError(self.failure.errno, text, self.directory)

    def append(self, batches: Sequence[Buffer], *, leader_epoch: int, now_ms: int) -> Appended:
        """Append whole batches, each checked with `records.check_batch` before, in order and all or none.

        Raises KafkaError MESSAGE_TOO_LARGE or RECORD_LIST_TOO_LARGE when a batch or all together are too large,
        INVALID_RECORD when a batch has other offsets than its records, StorageError.
        """
        self.require_no_failure()
        buffers, headers, size = place(batches, self.log_end_offset, leader_epoch, self.config, now_ms)
        base_offset, last_offset = headers[0].base_offset, headers[-1].last_offset
        active = self._make_room(size, last_offset, headers[0].max_timestamp)
        self._unmark()
        if leader_epoch > self._epochs.latest:
            self._epochs.assign(leader_epoch, base_offset)
        active.append(buffers, headers)
        self.log_end_offset = last_offset + 1
        for header, batch in zip(headers, batches, strict=True):
            if header.producer_id >= 0:
                marker = read_marker(batch) if header.is_control else None
                aborted = self.producers.update(header, now_ms, marker)
                if aborted is not None:
                    self._add_aborted(active, aborted)
        append_time_ms = now_ms if self.config.message_timestamp_type == "LogAppendTime" else -1
        return Appended(base_offset, last_offset, append_time_ms, self.log_start_offset)

    def _add_aborted(self, segment: Segment, aborted: AbortedTransaction) -> None:
        """Remember an aborted transaction whose marker was appended; if it cannot be stored, the next open finds it."""
        try:
            segment.add_aborted(aborted)
        except StorageError as error:
            self.failure = error

    def _make_room(self, size: int, last_offset: int, timestamp: int) -> Segment:
        """Return the segment that takes the next append; the active one is rolled when it is full or old."""
        if not self._segments:
            self._disk.make_directory(self.directory)
            if self.config.is_durable:
                self._disk.flush_directory(self.directory.rpartition("/")[0])
            if self.topic_id != NO_TOPIC_ID:
                checkpoints.write_topic_id(self._disk, self.directory, self.topic_id, durable=self.config.is_durable)
            return self._add_segment()
        active = self._segments.active
        first = active.first_timestamp if active.first_timestamp is not None else active.read_first_timestamp()
        if first is None:  # it is empty
            return active
        # As in Kafka, a segment's age is measured in its records' time where they bear any.
        age_ms = timestamp - first if first >= 0 and timestamp >= 0 else 0
        if (
            active.size + size > self.config.segment_bytes
            or age_ms > self.config.roll_ms
            or last_offset - active.base_offset > LARGEST_RELATIVE
        ):
            return self.roll()
        return active

    def _add_segment(self) -> Segment:
        config = self.config
        try:
            return self._segments.begin(self.log_end_offset, config.index_interval_bytes, durable=config.is_durable)
        except SegmentLeftBehind as error:
            self.failure = error  # appends would go beyond where it begins
            raise

    def roll(self) -> Segment:
        """End the active segment and begin the next, which is returned. Raises StorageError."""
        self._unmark()
        if self.config.is_durable:
            self.flush()
        old = self._segments.active
        old.seal()
        if self.config.is_durable:
            old.flush_aborted()
        self._snapshots.write(self.producers, self.log_end_offset, self._segments.bases)
        segment = self._add_segment()
        if self.is_dirty:
            self._unflushed.append(old)
        return segment

    def _unmark(self) -> None:
        """Remove the marker of the last clean shutdown: the log is about to change."""
        if self._is_marked_clean:
            self._disk.remove(f"{self.directory}/{checkpoints.CLEAN_SHUTDOWN}")
            self._is_marked_clean = False

    def flush(self) -> None:
        """Return when everything appended is on the medium.

        After a StorageError the log takes no more appends until it is `reopened`: what a failed fsync lost cannot be
        known.
        """
        if self.is_dirty:
            flush = self.begin_flush()
            flush.run()
            self.end_flush(flush)

    def begin_flush(self) -> LogFlush:
        """Begin to flush what was appended so far; appends may continue meanwhile. `end_flush` must follow."""
        # A log that was deleted since its last append has nothing left.
        segments = [*self._unflushed, self._segments.active] if self.is_dirty and self._segments else []
        return LogFlush(segments, self.log_end_offset)

    def end_flush(self, flush: LogFlush) -> None:
        """Take the outcome of a flush that has run. Raises StorageError as `flush`, and after an earlier failure."""
        self.require_no_failure()
        if flush.failure is not None:
            self.failure = flush.failure
            if self.config.is_durable:
                self._cut_to = max(self._flushed_offset, self._segments.active.base_offset)
            raise flush.failure
        self._unflushed = [segment for segment in self._unflushed if segment not in flush.segments]
        self._flushed_offset = max(self._flushed_offset, flush.end_offset)

    # -- reading

    def read(
        self, offset: int, max_bytes: int, *, up_to: int | None = None, at_least_one: bool = True
    ) -> list[memoryview]:
        """Return whole batches from the one with `offset`, `max_bytes` at most and without copying them.

        `up_to` (the high watermark where it is None) ends the reading; `at_least_one` lets a first batch that is
        larger than `max_bytes` through. Empty at the end. Raises OffsetOutOfRange, StorageError.
        """
        limit = self.high_watermark if up_to is None else min(up_to, self.log_end_offset)
        if offset >= limit or offset < self.log_start_offset:
            if self.log_start_offset <= offset <= self.log_end_offset:
                return []
            raise OffsetOutOfRange(f"offset {offset} is not in {self.log_start_offset}..{self.log_end_offset}")
        is_log_end = limit == self.log_end_offset
        return self._segments.read(offset, limit, max_bytes, is_log_end=is_log_end, at_least_one=at_least_one)

    def _jumped(self, offset: int, following: int) -> None:
        """Report offsets that no segment has, unless a cleaner may have removed them."""
        if self._may_have_holes or following in self._missing or self.report is None:
            return
        self._missing.add(following)
        self.report(
            f"{self.directory}: no segment has the offsets {offset} to {following - 1}, a file is missing: readers go "
            f"on at {following}; put the segment back from a copy while the broker is stopped"
        )

    def aborted_transactions(self, offset: int, views: Sequence[memoryview]) -> list[AbortedTransaction]:
        """Return the aborted transactions of which records are in `views`, what was read from `offset` on.

        Raises StorageError.
        """
        found: list[AbortedTransaction] = []
        end: int | None = None
        for segment in self._segments[self._segments.at(offset) :]:
            for aborted in segment.aborted:
                if end is None:
                    end = _end_offset(views, offset)
                if aborted.last_offset >= offset and aborted.first_offset < end:
                    found.append(aborted)
                if aborted.last_stable_offset >= end:
                    return found
        return found

    def checked_batches(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yield every batch of a log that was never compacted, each found valid and where it should be.

        Raises DamagedLog, which names the file and the position, and StorageError.
        """
        offset = self._segments.bases[0] if self._segments else self.log_end_offset
        for segment in self._segments:
            file = f"{self.directory}/{segment_name(segment.base_offset, '.log')}"
            position = 0
            while position < segment.size:
                try:
                    header = read_header(segment.log.read(position, HEADER_SIZE))
                    batch = segment.log.read(position, header.size)
                    check_batch(batch)
                except CorruptBatch as error:
                    raise DamagedLog(file, position, str(error)) from error
                if header.base_offset != offset:
                    why = f"a batch begins at offset {header.base_offset} where {offset} should come"
                    raise DamagedLog(file, position, why)
                yield header, batch
                position += header.size
                offset = header.last_offset + 1
        if offset != self.log_end_offset:
            last = f"{self.directory}/{segment_name(self._segments.bases[-1], '.log')}"
            why = f"its batches end at offset {offset}, the log at {self.log_end_offset}"
            raise DamagedLog(last, self._segments.active.size, why)

    # -- offsets by time and epoch

    def offset_for_timestamp(self, timestamp: int) -> Search:
        """Search in steps for the first visible record whose timestamp is at least `timestamp`; None if there is none.

        A step raises StorageError, and CorruptBatch when the batch cannot be read.
        """
        return first_at_or_after(self._segments, timestamp, self.log_start_offset, self.high_watermark)

    def max_timestamp_offset(self, end: int | None = None) -> Search:
        """Search in steps for the first record with the largest timestamp; None if there is none.

        `end` is the offset up to which records are visible, by default the high watermark.
        """
        return largest(self._segments, self.log_start_offset, self.high_watermark if end is None else end)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """Return (the largest epoch up to `leader_epoch`, its end offset) as OffsetForLeaderEpoch does, or (-1, -1)."""
        return self._epochs.end_offset(leader_epoch, self.log_end_offset)

    # -- the beginning

    def compact(self, now_ms: int, *, roll: bool = False, up_to: int | None = None) -> Cleaned | None:
        """Clean the log at once, whatever its cleanup policy and the ratio; return what that did, None if nothing.

        The active segment is closed before, if `roll`; else it is left alone as ever. `up_to` ends the cleaning at an
        offset. Raises as `Cleaner.begin`.
        """
        if roll and self._segments and self._segments.active.size:
            self.roll()
        before, self.cleaner.last = self.cleaner.last, None
        for _ in self.cleaner.begin(now_ms, up_to=up_to):
            pass
        done, self.cleaner.last = self.cleaner.last, self.cleaner.last or before
        return done

    def delete_records(self, before: int) -> int:
        """Move the log start offset up to `before`, and return it. Segments wholly below it go.

        Raises OffsetOutOfRange beyond the high watermark, StorageError.
        """
        if not 0 <= before <= self.high_watermark:
            raise OffsetOutOfRange(f"offset {before} is not in {self.log_start_offset}..{self.high_watermark}")
        if before > self.log_start_offset:
            name = checkpoints.LOG_START_OFFSET
            checkpoints.write_offset(self._disk, self.directory, name, before, durable=self.config.is_durable)
            self.log_start_offset = before
            self._epochs.truncate_start(before)
            self._delete_segments(self._segments.at(before))
        return self.log_start_offset

    def enforce_retention(self, now_ms: int) -> int:
        """Delete the oldest segments as the config demands, and forget expired producers; return how many bytes went.

        Raises StorageError.
        """
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        count = segments_to_delete(self._segments, self.config, self.high_watermark, now_ms)
        if not count:
            return 0
        if count == len(self._segments):
            try:
                self.roll()  # the log's end must outlive its records
            except DiskFull:
                count -= 1
        return self._delete_segments(count)

    def _delete_segments(self, count: int) -> int:
        """Remove the first segments, oldest first, so that a crash in between leaves a log without holes."""
        freed = 0
        for _ in range(count):
            self.cleaner.stop()
            self._unmark()
            segment = self._segments.remove(0)
            freed += segment.size
            self._unflushed = [other for other in self._unflushed if other is not segment]
            self.log_start_offset = max(self.log_start_offset, self._segments.bases[0])
            segment.remove()
            self._snapshots.remove(segment.base_offset)
        if freed:
            self._epochs.truncate_start(self.log_start_offset)
        return freed


def _end_offset(views: Sequence[memoryview], offset: int) -> int:
    """Return the offset after the last batch of what was read."""
    for view in views:
        for header, _ in iter_batches(view):
            offset = header.last_offset + 1
    return offset


# -- placing batches in the log

_PATCHED = Struct(">qii")  # base offset, batch length, leader epoch: none is under the CRC
_PATCHED_BYTES = 16
_new_tuple = tuple.__new__  # BatchHeader(...) and _replace cost three times as much


def place(
    batches: Sequence[Buffer], offset: int, leader_epoch: int, config: LogConfig, now_ms: int
) -> tuple[list[Buffer], list[BatchHeader], int]:
    """Return what to write, the headers as they will be in the log, and the size of it all.

    Batches get their offsets, leader epoch and, where asked, the broker's time. Nothing is copied: the patched first
    bytes of each batch and a view of the rest go to the disk side by side.

    Raises KafkaError MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_RECORD, and ValueError without batches.
    """
    is_stamped = config.message_timestamp_type == "LogAppendTime"
    size = 0
    buffers: list[Buffer] = []
    headers: list[BatchHeader] = []
    for batch in batches:
        if is_stamped:
            batch = stamp_append_time(batch, now_ms)
        header = read_header(batch)
        if len(batch) > config.max_message_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {len(batch)} bytes, max.message.bytes is {config.max_message_bytes}",
            )
        count, span = header[12], header[6] + 1
        if header[1] + 12 != len(batch) or count != span or count < 1:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"{count} records in {span} offsets and {len(batch)} bytes")
        buffers += (_PATCHED.pack(offset, header[1], leader_epoch), memoryview(batch)[_PATCHED_BYTES:])
        headers.append(_new_tuple(BatchHeader, (offset, header[1], leader_epoch, *header[3:])))
        offset += count
        size += len(batch)
    if not headers:
        raise ValueError("an append has at least one batch")
    if size > config.segment_bytes:
        raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes, segment.bytes is {config.segment_bytes}")
    return buffers, headers, size
