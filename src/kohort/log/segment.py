"""One segment of a partition's log: a file of record batches, two sparse indexes, and the transactions aborted there.

Files are made on the first append and indexes are read on the first look-up, so that an unused segment costs
nothing. The `.log` file is the truth: an index that is missing or wrong is made anew from it. Indexes (offset to
position, timestamp to offset) are whole in memory and written behind the log: a crash may lose their ends. They
are hints: their user checks what it finds, and anything but growing entries ends the reading of a file. The list of
aborted transactions (`.txnindex`) is written at once and is no hint: readers of committed records skip what it names.
All are in Kafka's format.
"""

from __future__ import annotations

import errno
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from kohort.log.disk import Buffer, Disk, File, StorageError, read_file
from kohort.log.producer_state import AbortedTransaction
from kohort.wire.record_batches import HEADER_SIZE, BatchHeader, CorruptBatch, Marker, read_header, read_marker

LARGEST_RELATIVE = (1 << 31) - 1
"""Relative offsets and positions are int32 in the indexes."""

_STEP = Struct(">qi11xi")  # base offset, batch length, last offset delta
_STEP_BYTES = 27
_WINDOW = 16 * 1024
_UNSAVED_ENTRIES = 256
_LONGEST_TAIL = 8 << 20
"""How much of a segment is read to find its end; more than an index leaves out, unless it is none of this segment."""

ABORTED_SUFFIX = ".txnindex"
_ABORTED = Struct(">hqqqq")
_ABORTED_VERSION = 0


class BatchPlace(NamedTuple):
    """Where one batch lies in a segment, and which offsets it has."""

    position: int
    size: int
    base_offset: int
    last_offset: int


def segment_name(base_offset: int, suffix: str) -> str:
    """Return the name of a segment's file, as Kafka spells it: twenty digits and a suffix."""
    return f"{base_offset:020d}{suffix}"


def base_offsets(names: list[str], suffix: str) -> list[int]:
    """Return the base offsets in a directory's names that bear `suffix`, sorted."""
    stems = (name[:20] for name in names if len(name) == 20 + len(suffix) and name.endswith(suffix))
    return sorted(int(stem) for stem in stems if stem.isdecimal())


_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_IS_LITTLE_ENDIAN = array("h", [1]).tobytes()[0] == 1


def aborted_bytes(several: Iterable[AbortedTransaction]) -> bytes:
    """Return aborted transactions as a `.txnindex` file has them."""
    return b"".join(_ABORTED.pack(_ABORTED_VERSION, *each) for each in several)


def parse_aborted(content: bytes, path: str) -> list[AbortedTransaction]:
    """Return the aborted transactions of a `.txnindex` file. Raises StorageError where it has another content."""
    rows = [] if len(content) % _ABORTED.size else list(_ABORTED.iter_unpack(content))
    if len(rows) * _ABORTED.size != len(content) or any(row[0] or not row[2] <= row[3] for row in rows):
        raise StorageError(errno.EINVAL, "is no index of aborted transactions", path)
    return [AbortedTransaction(*row[1:]) for row in rows]


class OffsetIndex:
    """Entries (last offset of a batch relative to the segment, position of that batch), both growing."""

    __slots__ = ("offsets", "positions", "saved")

    def __init__(self) -> None:
        self.offsets = array("i")
        self.positions = array("i")
        self.saved = 0
        """Entries that the file has."""

    def __len__(self) -> int:
        return len(self.offsets)

    def append(self, relative_offset: int, position: int) -> None:
        self.offsets.append(relative_offset)
        self.positions.append(position)

    def position_before(self, relative_offset: int) -> int:
        """Return the position of a batch that starts at or before the one with this offset."""
        at = bisect_right(self.offsets, relative_offset)
        return self.positions[at - 1] if at else 0

    def border_before(self, position: int) -> int:
        """Return the largest known position of a batch that is at most `position`."""
        at = bisect_right(self.positions, position)
        return self.positions[at - 1] if at else 0

    def unsaved(self) -> bytes:
        """Return the entries that the file lacks, as it wants them."""
        start = self.saved
        return b"".join(map(_OFFSET_ENTRY.pack, self.offsets[start:], self.positions[start:]))

    @classmethod
    def parse(cls, content: memoryview, log_size: int) -> OffsetIndex | None:
        """Return the index in a file, or None when it cannot be trusted for a log of `log_size` bytes.

        Kafka fills the files of a running broker up with zeros; they end where the entries stop growing.
        """
        index = cls()
        words = array("i", bytes(content[: len(content) // 8 * 8]))
        if _IS_LITTLE_ENDIAN:
            words.byteswap()
        offsets, positions = words[::2], words[1::2]
        count = _growing(offsets, positions)
        if count and (offsets[0] < 0 or positions[0] < 0 or positions[count - 1] >= log_size):
            return None
        if any(offsets[count:]) or any(positions[count:]):
            return None
        index.offsets, index.positions, index.saved = offsets[:count], positions[:count], count
        return index


def _growing(offsets: array[int], positions: array[int]) -> int:
    """How many first entries grow in both columns."""
    last_offset = last_position = -1
    for at, (offset, position) in enumerate(zip(offsets, positions, strict=True)):
        if offset <= last_offset or position <= last_position:
            return at
        last_offset, last_position = offset, position
    return len(offsets)


class TimeIndex:
    """Entries (largest timestamp so far, last relative offset of its batch), timestamps growing."""

    __slots__ = ("offsets", "saved", "timestamps")

    def __init__(self) -> None:
        self.timestamps = array("q")
        self.offsets = array("i")
        self.saved = 0

    def __len__(self) -> int:
        return len(self.timestamps)

    def append(self, timestamp: int, relative_offset: int) -> None:
        """Add an entry, unless its timestamp is not larger."""
        if timestamp < 0 or (self.timestamps and timestamp <= self.timestamps[-1]):
            return
        self.timestamps.append(timestamp)
        self.offsets.append(relative_offset)

    @property
    def last(self) -> tuple[int, int]:
        """The largest timestamp and its batch's last relative offset; (-1, 0) where there is none."""
        return (self.timestamps[-1], self.offsets[-1]) if self.timestamps else (-1, 0)

    def offset_before(self, timestamp: int) -> int:
        """Return a relative offset in the batch, or before it, that first reaches `timestamp`."""
        at = bisect_right(self.timestamps, timestamp)
        return self.offsets[at - 1] if at else 0

    def unsaved(self) -> bytes:
        start = self.saved
        return b"".join(map(_TIME_ENTRY.pack, self.timestamps[start:], self.offsets[start:]))

    @classmethod
    def parse(cls, content: memoryview) -> TimeIndex | None:
        """Return the index in a file, or None when it cannot be trusted."""
        index = cls()
        for timestamp, offset in _TIME_ENTRY.iter_unpack(content[: len(content) // 12 * 12]):
            if timestamp <= index.last[0] or offset < 0:
                if timestamp or offset:
                    return None
                break
            index.append(timestamp, offset)
        index.saved = len(index)
        return index


class Segment:
    """One segment. `size` and the largest timestamp are those of the `.log` file, whatever the indexes have."""

    def __init__(self, disk: Disk, directory: str, base_offset: int, index_interval_bytes: int) -> None:
        self._disk = disk
        self._stem = f"{directory}/{base_offset:020d}"
        self.base_offset = base_offset
        self._index_interval_bytes = index_interval_bytes
        self._log: File | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._unindexed_bytes = 0
        self._max_timestamp: tuple[int, int] | None = None
        self._aborted: list[AbortedTransaction] | None = None
        self.first_timestamp: int | None = None
        """Of the first batch; decides when the segment is old enough to be rolled. Loaded by `read_first_timestamp`."""

    # -- files

    @property
    def log(self) -> File:
        """The `.log` file. Raises StorageError when the segment has none."""
        if self._log is None:
            self._log = self._disk.open(self._stem + ".log")
        return self._log

    def create(self) -> None:
        """Make an empty `.log` file, and forget whatever else bears this segment's name."""
        for suffix in (".index", ".timeindex", ABORTED_SUFFIX):
            self._disk.remove(self._stem + suffix)
        self._log = self._disk.open(self._stem + ".log", create=True)
        self._aborted = []
        self._offset_index, self._time_index = OffsetIndex(), TimeIndex()
        self._max_timestamp = (-1, -1)

    @property
    def size(self) -> int:
        return self.log.size

    def close(self) -> None:
        """Let go of the file. Views that were read stay valid."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def remove(self) -> None:
        """Remove the segment's files."""
        self.close()
        for suffix in (".log", ".index", ".timeindex", ABORTED_SUFFIX):
            self._disk.remove(self._stem + suffix)

    # -- appending

    def append(self, buffers: list[Buffer], headers: list[BatchHeader]) -> None:
        """Write batches, whose headers already bear their offsets, and note them in the indexes."""
        offset_index, time_index = self.offset_index, self.time_index
        timestamp, timestamp_offset = self.max_timestamp
        position = self.log.append(buffers)
        if self.first_timestamp is None:
            self.first_timestamp = headers[0].max_timestamp
        for header in headers:
            last_offset = header[0] + header[6]
            if header[8] > timestamp:
                timestamp, timestamp_offset = header[8], last_offset
            if self._unindexed_bytes > self._index_interval_bytes:
                offset_index.append(last_offset - self.base_offset, position)
                time_index.append(timestamp, timestamp_offset - self.base_offset)
                self._unindexed_bytes = 0
            size = header[1] + 12
            position += size
            self._unindexed_bytes += size
        self._max_timestamp = timestamp, timestamp_offset
        if len(offset_index) - offset_index.saved >= _UNSAVED_ENTRIES:
            self.save_indexes()

    def save_indexes(self) -> None:
        """Write what the index files lack. A disk that fails is no error here: the log can be indexed again."""
        for index, suffix in ((self._offset_index, ".index"), (self._time_index, ".timeindex")):
            if index is None or (index.saved == len(index) and index.saved):
                continue
            try:
                file = self._disk.open(self._stem + suffix, create=True)
                try:
                    width = 8 if suffix == ".index" else 12
                    if file.size != index.saved * width:
                        file.truncate(0)
                        index.saved = 0
                    if unsaved := index.unsaved():
                        file.append([unsaved])
                    index.saved = len(index)
                finally:
                    file.close()
            except StorageError:
                return

    def seal(self) -> None:
        """Finish the indexes when no append will come, as Kafka does: the last entry is the largest timestamp."""
        timestamp, offset = self.max_timestamp
        self.time_index.append(timestamp, offset - self.base_offset)
        self.save_indexes()

    # -- aborted transactions

    @property
    def aborted(self) -> list[AbortedTransaction]:
        """The transactions whose ABORT marker lies in this segment, in the order of the markers.

        Raises StorageError, also where the file has another content.
        """
        if self._aborted is None:
            self._aborted = self._load_aborted()
        return self._aborted

    def add_aborted(self, aborted: AbortedTransaction) -> None:
        """Add one whose marker was written. Raises StorageError: then only this process knows it."""
        self.aborted.append(aborted)
        file = self._disk.open(self._stem + ABORTED_SUFFIX, create=True)
        try:
            file.append([aborted_bytes([aborted])])
        finally:
            file.close()

    def flush_aborted(self) -> None:
        """Bring the list to the medium. Raises StorageError."""
        if self.aborted:
            file = self._disk.open(self._stem + ABORTED_SUFFIX)
            try:
                file.flush()
            finally:
                file.close()

    def forget_aborted(self) -> None:
        """Empty the list, before every batch is looked at again."""
        self._disk.remove(self._stem + ABORTED_SUFFIX)
        self._aborted = []

    def _load_aborted(self) -> list[AbortedTransaction]:
        path = self._stem + ABORTED_SUFFIX
        return parse_aborted(read_file(self._disk, path), path) if self._disk.exists(path) else []

    # -- indexes

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offset_index is None:
            self._load_indexes()
        assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            self._load_indexes()
        assert self._time_index is not None
        return self._time_index

    @property
    def max_timestamp(self) -> tuple[int, int]:
        """The largest timestamp and the last offset of the first batch that has it; (-1, -1) where there is none."""
        if self._max_timestamp is None:
            self._load_indexes()
        assert self._max_timestamp is not None
        return self._max_timestamp

    def trust(self, max_timestamp: tuple[int, int]) -> None:
        """Take the largest timestamp that a clean shutdown stored."""
        self._max_timestamp = max_timestamp

    def _load_indexes(self) -> None:
        try:
            offset_index = OffsetIndex.parse(memoryview(read_file(self._disk, self._stem + ".index")), self.size)
            time_index = TimeIndex.parse(memoryview(read_file(self._disk, self._stem + ".timeindex")))
        except StorageError:
            offset_index = time_index = None
        if offset_index is None or time_index is None or not self._is_consistent(offset_index, time_index):
            self.rebuild_indexes()
            return
        self._offset_index, self._time_index = offset_index, time_index
        self._finish_loading(offset_index, time_index)

    def _is_consistent(self, offset_index: OffsetIndex, time_index: TimeIndex) -> bool:
        """Whether the last entries point at what is there."""
        if not offset_index:
            return not time_index or self.size > 0
        try:
            header = read_header(self.log.read(offset_index.positions[-1], HEADER_SIZE))
        except CorruptBatch:
            return False
        return header.last_offset - self.base_offset == offset_index.offsets[-1]

    def _finish_loading(self, offset_index: OffsetIndex, time_index: TimeIndex) -> None:
        """Read the batches behind the last entries, which no index knows."""
        position = offset_index.positions[-1] if offset_index else 0
        self._unindexed_bytes = self.size - position
        if self._max_timestamp is None:
            timestamp, relative = time_index.last
            largest = (timestamp, self.base_offset + relative) if timestamp >= 0 else (-1, -1)
            with suppress(CorruptBatch):
                for header, _ in self.headers(position):
                    if header.max_timestamp > largest[0]:
                        largest = header.max_timestamp, header.last_offset
            self._max_timestamp = largest

    def rebuild_indexes(self) -> None:
        """Make both indexes from the log."""
        self.forget_indexes()
        with suppress(CorruptBatch):  # reading that far raises it again
            for header, position in self.headers():
                self.note(header, position)

    def forget_indexes(self) -> None:
        """Empty both indexes and remove their files, before every batch is passed to `note`."""
        for suffix in (".index", ".timeindex"):
            self._disk.remove(self._stem + suffix)
        self.begin_indexes()

    def begin_indexes(self) -> None:
        """Begin empty indexes, before every batch is passed to `note`; their files are left alone."""
        self._offset_index, self._time_index, self._max_timestamp = OffsetIndex(), TimeIndex(), (-1, -1)
        self.first_timestamp, self._unindexed_bytes = None, 0

    def note(self, header: BatchHeader, position: int) -> None:
        """Note one batch that lies in the log in indexes that are being made anew."""
        offset_index, time_index = self.offset_index, self.time_index
        if self.first_timestamp is None:
            self.first_timestamp = header.max_timestamp
        if header.max_timestamp > self.max_timestamp[0]:
            self._max_timestamp = header.max_timestamp, header.last_offset
        if self._unindexed_bytes > self._index_interval_bytes:
            offset_index.append(header.last_offset - self.base_offset, position)
            time_index.append(self.max_timestamp[0], self.max_timestamp[1] - self.base_offset)
            self._unindexed_bytes = 0
        self._unindexed_bytes += header.size

    # -- reading

    def is_in_range(self, header: BatchHeader) -> bool:
        """Whether a batch has offsets that fit into this segment and its indexes; no CRC covers the base offset."""
        return self.base_offset <= header.base_offset and header.last_offset - self.base_offset <= LARGEST_RELATIVE

    def headers(self, position: int = 0) -> Iterator[tuple[BatchHeader, int]]:
        """Yield the header of each batch from `position` on, and where it lies. Raises CorruptBatch without one."""
        size = self.size
        while position < size:
            header = read_header(self.log.read(position, HEADER_SIZE))
            if position + header.size > size:
                raise CorruptBatch(f"the batch at {position} of {self._stem}.log goes beyond the end")
            if not self.is_in_range(header):
                raise CorruptBatch(
                    f"offset {header.base_offset} at {position} of {self._stem}.log is not of this segment"
                )
            yield header, position
            position += header.size

    def batches(self) -> Iterator[tuple[BatchHeader, Marker | None]]:
        """Yield the header of each batch, and its marker if it ends a transaction. Raises CorruptBatch."""
        for header, position in self.headers():
            yield header, read_marker(self.log.read(position, header.size)) if header.is_control else None

    def read_first_timestamp(self) -> int | None:
        """Return the largest timestamp of the first batch; None in an empty segment."""
        if self.first_timestamp is None and self.size >= HEADER_SIZE:
            self.first_timestamp = read_header(self.log.read(0, HEADER_SIZE)).max_timestamp
        return self.first_timestamp

    def steps(self, position: int) -> Iterator[BatchPlace]:
        """Yield where the batches from `position` on lie; as `headers`, with less to decode."""
        size = self.size
        window, start = memoryview(b""), position
        while position < size:
            at = position - start
            if at < 0 or at + _STEP_BYTES > len(window):
                window, start, at = self.log.read(position, _WINDOW), position, 0
                if len(window) < _STEP_BYTES:
                    raise CorruptBatch(f"{len(window)} bytes are left at {position} of {self._stem}.log")
            base_offset, length, delta = _STEP.unpack_from(window, at)
            if length < HEADER_SIZE - 12 or delta < 0 or position + length + 12 > size:
                raise CorruptBatch(f"no batch at {position} of {self._stem}.log")
            yield BatchPlace(position, length + 12, base_offset, base_offset + delta)
            position += length + 12

    def find(self, offset: int) -> BatchPlace | None:
        """Return the batch with `offset`, or the first one after it; None when all end before it."""
        position = self.offset_index.position_before(offset - self.base_offset)
        for step in self.steps(position):
            if step.last_offset >= offset:
                return step
        return None

    def ends(self) -> tuple[int | None, int | None]:
        """Return the first offset and the one after the last batch, None for what is not found without a long search.

        A segment that takes no more appends is meant: the end of its index file shows where the last batches are, and
        the index need not be read whole.
        """
        begin = None
        try:
            if not self.size:
                return self.base_offset, self.base_offset
            begin = next(self.steps(0)).base_offset
            index = self._disk.open(self._stem + ".index")
            entry = index.read(max(0, index.size - _OFFSET_ENTRY.size), _OFFSET_ENTRY.size)
            index.close()
            _, position = _OFFSET_ENTRY.unpack(entry) if len(entry) == _OFFSET_ENTRY.size else (0, 0)
            if not 0 <= position < self.size or self.size - position > _LONGEST_TAIL:
                return begin, None
            end = begin
            for step in self.steps(position):
                end = step.last_offset + 1
        except (StorageError, CorruptBatch):
            return begin, None
        return begin, end

    def border(self, start: int, end: int) -> BatchPlace | None:
        """Return the batch that crosses `end` or starts there, given a border `start`; None when none does."""
        position = max(self.offset_index.border_before(end), start)
        for step in self.steps(position):
            if step.position + step.size > end:
                return step
        return None
