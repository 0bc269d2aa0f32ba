"""Recovery of a log after an unclean shutdown: read its last segment and cut the torn tail.

A batch with a wrong CRC that has valid batches after it stays where it is, for readers to refuse. Where bytes are no
batch at all, the file is cut; if valid batches lie beyond, the cut bytes are set aside in `<segment>.log.cut` first.
The next valid batch behind damaged bytes is found by its CRC.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from kohort.log.disk import Buffer, Disk, StorageError, replace_file
from kohort.log.producer_state import Producers, ProducerSnapshots
from kohort.log.segment import Segment, segment_name
from kohort.wire.record_batches import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    Marker,
    check_batch,
    read_header,
    read_marker,
)

Read = Callable[[int, int], memoryview]
"""Reads a file: from a position, so many bytes, fewer at its end."""

_SEARCH_BYTES = 1 << 20
_MAGIC_POSITION = 16
_OFFSET = Struct(">q")


def is_valid_batch(batch: Buffer) -> bool:
    """Whether bytes are exactly one valid batch."""
    try:
        check_batch(batch)
    except CorruptBatch:
        return False
    return True


def valid_batch(read: Read, position: int, size: int) -> BatchHeader | None:
    """Return the header of the batch at a position of a file of `size` bytes; None where no whole, valid one begins."""
    try:
        header = read_header(read(position, HEADER_SIZE))
        return check_batch(read(position, header.size)) if position + header.size <= size else None
    except CorruptBatch:
        return None


def next_valid_batch(read: Read, position: int, size: int, expected: int = 0) -> int | None:
    """Return where the first valid batch at an offset of `expected` or more begins, from a position on; else None."""
    while position + HEADER_SIZE <= size:
        window = bytes(read(position, _SEARCH_BYTES + HEADER_SIZE))
        at = window.find(b"\x02", _MAGIC_POSITION)
        while 0 <= at <= len(window) - HEADER_SIZE + _MAGIC_POSITION:
            start = at - _MAGIC_POSITION
            is_later = _OFFSET.unpack_from(window, start)[0] >= expected
            if is_later and valid_batch(read, position + start, size) is not None:
                return position + start
            at = window.find(b"\x02", at + 1)
        position += _SEARCH_BYTES
    return None


class DamagedLog(StorageError):
    """Bytes in the middle of a log are no valid batch, and valid ones lie behind them."""

    def __init__(self, file: str, position: int, why: str) -> None:
        super().__init__(errno.EIO, f"{file} is damaged at byte {position}: {why}", file)


class Recovery(NamedTuple):
    """What a recovery found."""

    end_offset: int
    """The offset after the last valid batch."""
    cut_bytes: int
    """Bytes that were no whole batch and are gone from the segment."""
    set_aside: str | None
    """The file that has them, when there were valid batches among them."""
    corrupt_batches: int
    """Batches with a wrong CRC that stay."""
    file: str
    """The segment's file."""
    position: int
    """Where in the file the cut bytes began."""
    lost_records: int
    """Number of records that the headers among the cut bytes announce; 0 where no header can be read."""
    lost_to: int
    """The last of their offsets; -1 where no header can be read."""

    @property
    def sentence(self) -> str | None:
        """What an operator must know of it; None when nothing was lost."""
        found = []
        if self.cut_bytes:
            text = f"cut {self.cut_bytes} bytes that were no whole batch from {self.file} at byte {self.position}"
            text += f"; the log ends at offset {self.end_offset}"
            if self.lost_records:
                text += f", {self.lost_records} records up to offset {self.lost_to} are lost"
            if self.set_aside is not None:
                text += f"; valid batches are among the cut bytes, which are stored in {self.set_aside}"
            found.append(text)
        if self.corrupt_batches:
            text = f"{self.corrupt_batches} batches with a wrong CRC stay in {self.file}, with valid ones behind them"
            found.append(f"{text}; their readers get CORRUPT_MESSAGE")
        return "; ".join(found) or None


def recover(
    disk: Disk,
    directory: str,
    segment: Segment,
    visit: Callable[[BatchHeader, Marker | None], None],
    *,
    strict: bool = False,
) -> Recovery:
    """Bring a segment back to whole batches, and index it anew; `visit` sees each valid one. Raises StorageError.

    `strict` raises DamagedLog, and changes nothing, where valid batches lie behind what would be cut.
    """
    size = segment.size
    file = f"{directory}/{segment_name(segment.base_offset, '.log')}"
    view = segment.log.read(0, size)
    segment.forget_indexes()
    segment.forget_aborted()
    end, end_offset, corrupt = _scan(view, segment, visit)
    set_aside = None
    lost_records, lost_to = _lost(view, end, end_offset)
    if end < size:
        if next_valid_batch(segment.log.read, end, size) is not None:
            if strict:
                raise DamagedLog(file, end, "no whole batch, and valid ones behind it")
            set_aside = f"{directory}/{segment_name(segment.base_offset, '.log.cut')}"
            replace_file(disk, set_aside, bytes(view[end:]), durable=True)
        view.release()
        segment.log.truncate(end)
    return Recovery(end_offset, size - end, set_aside, corrupt, file, end, lost_records, lost_to)


def _lost(view: memoryview, position: int, offset: int) -> tuple[int, int]:
    """Return how many records the headers from `position` on announce, and the last offset of these."""
    count, last = 0, -1
    while position < len(view):
        try:
            header = read_header(view, position)
        except CorruptBatch:
            break
        if header.base_offset < offset or not 0 <= header.record_count <= header.last_offset_delta + 1:
            break
        count, last = count + header.record_count, header.last_offset
        position, offset = position + header.size, last + 1
    return count, last


def restore_producers(
    producers: Producers, snapshots: ProducerSnapshots, segments: Sequence[Segment], offset: int, now_ms: int
) -> None:
    """Bring the producers to what they were at `offset`, from a snapshot or from the `segments` before it."""
    start = snapshots.restore(producers, offset)
    if start == offset:
        return
    ends = [*(segment.base_offset for segment in segments[1:]), offset]
    for segment, end in zip(segments, ends, strict=False):
        if end > start:
            with suppress(CorruptBatch):  # reading the batch raises it again
                for header, marker in segment.batches():
                    if header.producer_id >= 0 and header.base_offset >= start:
                        producers.replay(header, now_ms, marker)


def _scan(
    view: memoryview, segment: Segment, visit: Callable[[BatchHeader, Marker | None], None]
) -> tuple[int, int, int]:
    """Return where the last valid batch ends, the offset after it, and how many before it are not valid."""
    position = end = corrupt = 0
    end_offset, size = segment.base_offset, len(view)
    doubtful: list[tuple[BatchHeader, int]] = []
    while position < size:
        try:
            header = read_header(view, position)
        except CorruptBatch:
            break
        following = position + header.size
        if following > size or header.base_offset < end_offset or header.last_offset_delta < 0:
            break
        if not segment.is_in_range(header):
            break
        if is_valid_batch(view[position:following]):
            for other, at in doubtful:
                segment.note(other, at)
            corrupt += len(doubtful)
            doubtful.clear()
            segment.note(header, position)
            visit(header, read_marker(view[position:following]) if header.is_control else None)
            end, end_offset = following, header.last_offset + 1
        else:
            doubtful.append((header, position))
        position = following
    return end, end_offset, corrupt
