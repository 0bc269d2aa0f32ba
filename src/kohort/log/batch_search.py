"""Search for valid batches among other bytes of a file: behind a damaged batch the next one is found by its CRC."""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from kohort.log.disk import Buffer
from kohort.wire.record_batches import HEADER_SIZE, BatchHeader, CorruptBatch, check_batch, read_header

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
