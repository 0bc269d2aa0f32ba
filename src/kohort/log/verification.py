"""Verification of a partition's files: every damaged, torn, misplaced or missing piece, found by checksum and named.

`verify` reads each byte once and changes nothing. Batches are checked by their CRC; the bytes that no CRC covers, a
batch's offset and length, by its neighbours; indexes, checkpoints and the list of aborted transactions by the batches;
snapshots of producers by their CRC. A cleaned log may lack offsets below its checkpoint: there a gap is no finding. It
takes the files of Apache Kafka too.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from struct import Struct
from typing import NamedTuple

from kohort.log import checkpoints
from kohort.log.checkpoints import CleanShutdown, read_rows
from kohort.log.disk import Disk, StorageError, read_file
from kohort.log.producer_state import AbortedTransaction, CorruptSnapshot, Producers
from kohort.log.recovery import Read, next_valid_batch, valid_batch
from kohort.log.segment import (
    ABORTED_SUFFIX,
    LARGEST_RELATIVE,
    OffsetIndex,
    TimeIndex,
    base_offsets,
    parse_aborted,
    segment_name,
)
from kohort.model.ids import NO_TOPIC_ID
from kohort.wire.record_batches import HEADER_SIZE, BatchHeader, CorruptBatch, check_batch, read_header, read_marker

_LENGTH_POSITION, _EPOCH_POSITION = 8, 12
_OFFSET, _LENGTH = Struct(">q"), Struct(">i")


class DamageKind(StrEnum):
    """What is wrong with a piece of a file."""

    TORN_END = "torn end"
    DAMAGED_BATCH = "damaged batch"
    NO_BATCH = "no batch"
    DAMAGED_HEADER = "damaged header"
    OUT_OF_PLACE = "out of place"
    MISSING_OFFSETS = "missing offsets"
    INDEX = "index"
    ABORTED_INDEX = "aborted index"
    SNAPSHOT = "snapshot"
    CHECKPOINT = "checkpoint"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Damage:
    """One damaged or missing piece: `size` bytes of a file, from `position` on."""

    kind: DamageKind
    file: str
    """Path on the disk."""
    reason: str
    position: int = 0
    size: int = 0
    offsets: tuple[int, int] | None = None
    """First and last offset whose records cannot be read; None where none is lost, or none is known."""
    patch: bytes = b""
    """What has to stand at `position`, where that is known."""

    @property
    def loses_records(self) -> bool:
        """Whether records are lost, or may be."""
        return self.kind in _LOSING


_LOSING = frozenset(
    {
        DamageKind.DAMAGED_BATCH,
        DamageKind.NO_BATCH,
        DamageKind.OUT_OF_PLACE,
        DamageKind.MISSING_OFFSETS,
        DamageKind.TORN_END,
        DamageKind.UNREADABLE,
    }
)
Advanced = Callable[[int], object]
"""Called with the number of bytes read since the last call."""


class Verified(NamedTuple):
    """How much a directory has."""

    batches: int
    records: int
    end_offset: int


def partitions_of(disk: Disk) -> list[str]:
    """Return the directories of a data directory with a log, sorted. Raises StorageError."""
    found = []
    for name in disk.list(""):
        try:
            names = list(disk.list(name))
        except StorageError as error:
            if error.errno != errno.ENOTDIR:
                raise
            continue  # a file, which has no names
        if base_offsets(names, ".log"):
            found.append(name)
    return found


def verify(
    disk: Disk, directory: str, advanced: Advanced = lambda _: None, *, is_in_use: bool = False
) -> tuple[Verified, list[Damage]]:
    """Read all files of a partition's directory, and return how much it has and what is wrong. Raises StorageError.

    `is_in_use`: a broker writes to it meanwhile, so that the end of the newest segment may be half an append.
    """
    check = _LogCheck(disk, directory, advanced, is_in_use=is_in_use)
    findings = sorted(check.run(), key=lambda found: (found.file.rpartition("/")[2], found.position))
    return Verified(check.batches, check.records, check.expected or 0), findings


class _LogCheck:
    """The state of one verification: what was read so far, and what the next batch should be."""

    def __init__(self, disk: Disk, directory: str, advanced: Advanced, *, is_in_use: bool) -> None:
        self._disk = disk
        self._directory = directory
        self._prefix = f"{directory}/"
        self._names = list(disk.list(directory))
        self._advanced = advanced
        self._is_in_use = is_in_use
        self._cleaned_to = self._read_cleaned_to()
        self._known_gaps = self._read_known_gaps()
        self._producers = Producers()
        self._epochs: list[tuple[int, int]] = []
        """Leader epochs as the batches have them: (epoch, first offset)."""
        self._next_base: int | None = None
        """Where the next segment begins; after the last, where the log was closed, None if it was not."""
        self.batches = self.records = 0
        self.expected: int | None = None
        """The offset that comes next; None before the first batch."""

    def _read_cleaned_to(self) -> int:
        """Return up to where a cleaner may have removed records, by our checkpoint or that of Apache Kafka."""
        own = checkpoints.read_offset(self._disk, self._directory, checkpoints.CLEANER_OFFSET)
        with suppress(StorageError, ValueError):
            for line in read_file(self._disk, checkpoints.CLEANER_OFFSET).decode().split("\n"):
                *partition, offset = line.split() or [""]
                if "-".join(partition) == self._directory:
                    return max(own, int(offset))
        return own

    def _read_known_gaps(self) -> list[tuple[int, int]]:
        with suppress(StorageError, ValueError):
            return [(first, last) for first, last in read_rows(self._disk, self._prefix + checkpoints.LOST_OFFSETS)]
        return []

    def run(self) -> Iterator[Damage]:
        """Yield what is wrong."""
        bases = base_offsets(self._names, ".log")
        clean = CleanShutdown.read(self._disk, self._directory)
        ends = [*bases[1:], None if clean is None else clean.log_end_offset]
        for at, (base, self._next_base) in enumerate(zip(bases, ends, strict=False)):
            yield from self._segment(base, is_last=at == len(bases) - 1)
        yield from self._end(bases, clean)
        yield from self._snapshots()
        yield from self._checkpoints()

    # -- segments

    def _segment(self, base: int, *, is_last: bool) -> Iterator[Damage]:
        path = self._prefix + segment_name(base, ".log")
        try:
            log = self._disk.open(path)
        except StorageError as error:
            yield Damage(DamageKind.UNREADABLE, path, str(error))
            return
        try:
            yield from self._gap_before(path, base)
            index = _IndexCheck(self._disk, self._prefix, base, log.size, is_last=is_last)
            aborted: list[AbortedTransaction] = []
            end = 0
            while end < log.size:
                header, finding, following = self._piece(log.read, path, end, log.size, base, is_last=is_last)
                if finding is not None:
                    yield finding
                if header is None:
                    index.is_trusted = False
                else:
                    index.batch(header, end)
                    self._note(header, log.read(end, following - end), aborted)
                self._advanced(following - end)
                end = following
            yield from index.findings()
            yield from self._aborted(base, aborted)
        except StorageError as error:
            yield Damage(DamageKind.UNREADABLE, path, str(error))
        finally:
            log.close()

    def _gap_before(self, path: str, base: int) -> Iterator[Damage]:
        """Yield the offsets that are missing before a segment: a file that is gone, or records cut from an end."""
        if self.expected is None or base <= self.expected or self._is_known_gap(self.expected, base):
            return
        yield Damage(
            DamageKind.MISSING_OFFSETS, path,
            f"it begins at offset {base}, the file before it ends at {self.expected}: a file or its end is missing",
            offsets=(self.expected, base - 1),
        )  # fmt: skip
        self.expected = base

    def _piece(
        self, read: Read, path: str, position: int, size: int, base: int, *, is_last: bool
    ) -> tuple[BatchHeader | None, Damage | None, int]:
        """Return the batch at a position, as it should be, what is wrong there, and where the next piece begins."""
        header = valid_batch(read, position, size)
        if header is None:
            return self._broken(read, path, position, size, is_last=is_last)
        end, expected = position + header.size, max(self.expected or 0, base)
        at = header.base_offset
        if at == expected or self._is_known_gap(expected, at):
            return header, None, end
        if self._has_wrong_offset(header, expected, base, self._follower(read, end, size)):
            reason = f"its offset reads {at}, between its neighbours it is {expected}"
            wrong = Damage(DamageKind.DAMAGED_HEADER, path, reason, position, 8, patch=_OFFSET.pack(expected))
            return header._replace(base_offset=expected), wrong, end
        if at > expected:
            reason = f"a batch at offset {at} follows offset {expected - 1}: the records between are missing"
            return header, Damage(DamageKind.MISSING_OFFSETS, path, reason, position, offsets=(expected, at - 1)), end
        reason = f"a batch at offset {at} where offset {expected} should come: it belongs elsewhere"
        return None, Damage(DamageKind.OUT_OF_PLACE, path, reason, position, header.size), end

    def _is_known_gap(self, start: int, end: int) -> bool:
        """Whether the offsets from `start` up to `end` may be missing: cleaned away, or noted by a repair."""
        if start >= end:
            return False
        is_noted = any(first <= start and end - 1 <= last for first, last in self._known_gaps)
        return end <= self._cleaned_to or is_noted

    def _has_wrong_offset(self, header: BatchHeader, expected: int, base: int, follower: int | None) -> bool:
        """Whether a batch is where it should be and only its offset, which no CRC covers, is wrong."""
        if not base <= header.base_offset <= base + LARGEST_RELATIVE:
            return True
        if follower is None:  # the log's last batch: appends leave no gap
            return header.base_offset > expected
        return follower == expected + header.last_offset_delta + 1 != header.last_offset + 1

    def _follower(self, read: Read, position: int, size: int) -> int | None:
        """Return the offset that comes next by what follows a batch: another one, or the next file; None at the end."""
        if position + HEADER_SIZE <= size:
            with suppress(CorruptBatch):
                return read_header(read(position, HEADER_SIZE)).base_offset
        return self._next_base if position == size else None

    def _offset_after(self, read: Read, position: int, size: int, framed: BatchHeader | None) -> int | None:
        """Return the offset of the valid batch that follows damaged bytes; None where it is not known.

        It is the batch's own, unless its neighbour shows another one.
        """
        expected = self.expected or 0
        header = valid_batch(read, position, size)
        if header is None:
            if self._next_base is not None:
                return self._next_base
            return max(framed.last_offset + 1, expected) if framed is not None else None
        follower = self._follower(read, position + header.size, size)
        by_follower = expected if follower is None else follower - header.last_offset_delta - 1
        return header.base_offset if by_follower < expected or follower is None else by_follower

    def _broken(
        self, read: Read, path: str, position: int, size: int, *, is_last: bool
    ) -> tuple[BatchHeader | None, Damage | None, int]:
        """Return what is wrong where no valid batch begins, and where the next valid one does, or the file ends.

        Where only the length of a batch is wrong, that batch is returned too.
        """
        expected = self.expected or 0
        framed = self._framed(read, position, size)
        end = position + framed.size if framed is not None else next_valid_batch(read, position + 1, size, expected)
        if end is None:
            if is_last and self._is_in_use:
                return None, None, size
            kind = DamageKind.TORN_END if is_last else DamageKind.NO_BATCH
            return (
                None,
                Damage(kind, path, "no whole batch begins here, none follows", position, size - position),
                size,
            )
        if framed is None and (header := _with_length(read(position, end - position))) is not None:
            reason = f"its length is wrong: the {header.size} bytes up to the next batch have the right CRC"
            patch = _LENGTH.pack(header.batch_length)
            return (
                header,
                Damage(DamageKind.DAMAGED_HEADER, path, reason, position + _LENGTH_POSITION, 4, patch=patch),
                end,
            )
        following = self._offset_after(read, end, size, framed)
        lost = (expected, following - 1) if following is not None and following > expected else None
        self.expected = max(following or 0, expected)
        if framed is not None:
            kind, reason = DamageKind.DAMAGED_BATCH, "the CRC of the batch is wrong"
        else:
            kind, reason = DamageKind.NO_BATCH, "the bytes up to the next batch are no batch"
        return None, Damage(kind, path, reason, position, end - position, lost), end

    def _framed(self, read: Read, position: int, size: int) -> BatchHeader | None:
        """Return the header of a damaged batch if it ends, as it reads, where a valid one begins or the file ends."""
        with suppress(CorruptBatch):
            header = read_header(read(position, HEADER_SIZE))
            end = position + header.size
            is_plausible = header.base_offset == self.expected and header.last_offset_delta >= 0
            if (end == size and is_plausible) or (end < size and valid_batch(read, end, size) is not None):
                return header
        return None

    def _note(self, header: BatchHeader, batch: memoryview, aborted: list[AbortedTransaction]) -> None:
        self.batches += 1
        self.records += 0 if header.is_control else header.record_count
        self.expected = header.last_offset + 1
        epoch = header.partition_leader_epoch
        if epoch >= 0 and (not self._epochs or epoch > self._epochs[-1][0]):
            self._epochs.append((epoch, header.base_offset))
        if header.producer_id >= 0:
            with suppress(CorruptBatch):
                marker = read_marker(batch) if header.is_control else None
                if (ended := self._producers.update(header, marker=marker)) is not None:
                    aborted.append(ended)

    # -- the other files, compared with the batches

    def _aborted(self, base: int, found: list[AbortedTransaction]) -> Iterator[Damage]:
        name = segment_name(base, ABORTED_SUFFIX)
        path = self._prefix + name
        try:
            stored = parse_aborted(read_file(self._disk, path), path) if name in self._names else []
        except StorageError as error:
            yield Damage(DamageKind.ABORTED_INDEX, path, f"cannot be read: {error.strerror}")
            return
        # A transaction that began before the log's first offset is known to the file alone.
        if self._cleaned_to == 0 and not set(found) <= set(stored):
            missing = len(set(found) - set(stored))
            yield Damage(
                DamageKind.ABORTED_INDEX, path, f"lacks {missing} transactions that were aborted in the segment"
            )

    def _end(self, bases: list[int], clean: CleanShutdown | None) -> Iterator[Damage]:
        """Yield the offsets that other files know and the segments do not have."""
        if not bases:
            return
        end = self.expected if self.expected is not None else bases[-1]
        known = [(offset, segment_name(offset, ".snapshot")) for offset in base_offsets(self._names, ".snapshot")]
        if clean is not None:
            known.append((clean.log_end_offset, checkpoints.CLEAN_SHUTDOWN))
        for offset, name in [max(known)] if known else []:
            if offset > end and not self._is_known_gap(end, offset):
                yield Damage(
                    DamageKind.MISSING_OFFSETS, self._prefix + segment_name(bases[-1], ".log"),
                    f"its last batch ends at offset {end}, {name} knows offset {offset}: a file or its end is missing",
                    offsets=(end, offset - 1),
                )  # fmt: skip

    def _snapshots(self) -> Iterator[Damage]:
        for offset in base_offsets(self._names, ".snapshot"):
            path = self._prefix + segment_name(offset, ".snapshot")
            try:
                Producers().restore(read_file(self._disk, path))
            except CorruptSnapshot as error:
                yield Damage(DamageKind.SNAPSHOT, path, f"is no snapshot of producers: {error}")
            except StorageError as error:
                yield Damage(DamageKind.UNREADABLE, path, str(error))

    def _checkpoints(self) -> Iterator[Damage]:
        for name, width in _CHECKPOINTS.items():
            if name in self._names and (why := self._why_malformed(name, width)) is not None:
                yield Damage(DamageKind.CHECKPOINT, self._prefix + name, why)
        name = checkpoints.PARTITION_METADATA
        if name in self._names and checkpoints.read_topic_id(self._disk, self._directory) == NO_TOPIC_ID:
            yield Damage(DamageKind.CHECKPOINT, self._prefix + name, "has no topic id")

    def _why_malformed(self, name: str, width: int) -> str | None:
        try:
            rows = read_rows(self._disk, self._prefix + name)
        except (StorageError, ValueError) as error:
            return f"cannot be read: {error}"
        if any(len(row) != width for row in rows):
            return f"has rows that are not {width} numbers"
        if name != checkpoints.LEADER_EPOCHS or self._cleaned_to:
            return None
        starts = dict(self._epochs[1:])  # where the first one began may be before the log's first offset
        wrong = [row for row in rows if starts.get(row[0], row[1]) != row[1]]
        return f"epoch {wrong[0][0]} begins at {starts[wrong[0][0]]}, not at {wrong[0][1]}" if wrong else None


def _with_length(batch: memoryview) -> BatchHeader | None:
    """Return the header of bytes that are a valid batch once their length is right; else None."""
    piece = bytearray(batch)
    if len(piece) < HEADER_SIZE:
        return None
    _LENGTH.pack_into(piece, _LENGTH_POSITION, len(piece) - _EPOCH_POSITION)
    with suppress(CorruptBatch):
        return check_batch(piece)
    return None


_CHECKPOINTS = {
    checkpoints.LEADER_EPOCHS: 2,
    checkpoints.LOG_START_OFFSET: 1,
    checkpoints.CLEANER_OFFSET: 1,
    checkpoints.CLEAN_SHUTDOWN: len(CleanShutdown._fields),
    checkpoints.LOST_OFFSETS: 2,
}


class _IndexCheck:
    """The two indexes of a segment beside its batches, which come in order."""

    def __init__(self, disk: Disk, prefix: str, base: int, size: int, *, is_last: bool) -> None:
        self._base = base
        self._paths = [prefix + segment_name(base, suffix) for suffix in (".index", ".timeindex")]
        self._wrong: dict[str, str] = {}
        self.is_trusted = True
        """False once a batch was broken: what the indexes have of it cannot be compared."""
        offsets, times = (self._content(disk, path, is_needed=size > 0 and not is_last) for path in self._paths)
        offset_index = OffsetIndex.parse(memoryview(offsets), size) if offsets is not None else OffsetIndex()
        time_index = TimeIndex.parse(memoryview(times)) if times is not None else TimeIndex()
        for path, index in zip(self._paths, (offset_index, time_index), strict=True):
            if index is None:
                self._wrong[path] = "its entries do not grow, or point beyond the segment"
        self._positions = dict(zip(offset_index.positions, offset_index.offsets, strict=True)) if offset_index else {}
        self._times = list(zip(time_index.offsets, time_index.timestamps, strict=True)) if time_index else []
        self._next_time = 0

    def _content(self, disk: Disk, path: str, *, is_needed: bool) -> bytes | None:
        try:
            return read_file(disk, path)
        except StorageError as error:
            if disk.exists(path):
                self._wrong[path] = f"cannot be read: {error}"
            elif is_needed:
                self._wrong[path] = "is missing"
            return None

    def batch(self, header: BatchHeader, position: int) -> None:
        """Compare the entries of one batch."""
        first, last = header.base_offset - self._base, header.last_offset - self._base
        entry = self._positions.pop(position, None)
        if entry is not None and entry < first:
            self._wrong.setdefault(self._paths[0], f"offset {self._base + entry} is not at byte {position}")
        while self._next_time < len(self._times) and self._times[self._next_time][0] <= last:
            offset, timestamp = self._times[self._next_time]
            if offset >= first and timestamp != header.max_timestamp:
                self._wrong.setdefault(self._paths[1], f"the time at offset {self._base + offset} is another one")
            self._next_time += 1

    def findings(self) -> Iterator[Damage]:
        """Yield what is wrong, once the segment was read."""
        if self.is_trusted and self._positions:
            position = min(self._positions)
            self._wrong.setdefault(self._paths[0], f"no batch begins at byte {position}")
        if self.is_trusted and self._next_time < len(self._times):
            offset = self._base + self._times[self._next_time][0]
            self._wrong.setdefault(self._paths[1], f"offset {offset} is beyond the segment")
        for path, why in self._wrong.items():
            yield Damage(DamageKind.INDEX, path, why)
