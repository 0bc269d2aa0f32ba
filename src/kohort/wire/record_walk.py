"""Walk through the records of a batch in steps, without decoding keys, values or headers: for brokers.

A batch of some kilobytes may unpack to millions of records, or to one record with millions of headers. So everything
here is a generator that yields, after a bounded amount of work, how many steps of some ten microseconds that was.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from kohort.wire.compression import Buffer, CorruptCompression, decompress_in_pieces
from kohort.wire.record_batches import (
    HEADER_SIZE,
    MAX_UNPACKED_BYTES,
    BatchHeader,
    CorruptBatch,
    read_unsigned,
    read_varint,
)

ResultT = TypeVar("ResultT")

Walk = Generator[int, None, ResultT]

_PIECE = 128
"""How many records, or headers of a record, are walked through before each `yield`."""
_PIECE_STEPS = 64

SMALLEST_RECORD = 7
"""Bytes of a record without key, value and headers, with its size."""
_SMALLEST_SIZE = SMALLEST_RECORD - 1 << 1
"""The size of such a record, as it is written."""


def find_record(
    header: BatchHeader, batch: Buffer, is_wanted: Callable[[int, int], bool], limit: int = MAX_UNPACKED_BYTES
) -> Walk[tuple[int, int] | None]:
    """Return offset and timestamp of the first record that is wanted by them, or None.

    Raises CorruptBatch, and CompressionUnavailable.
    """
    payload = yield from _unpacked(header, batch, limit)
    position, end = 0, len(payload)
    try:
        for number in range(header.record_count):
            size, position = read_varint(payload, position)
            if not SMALLEST_RECORD - 1 <= size <= end - position:
                raise CorruptBatch(f"batch at offset {header.base_offset}: record {number} states an impossible size")
            delta, at = read_varint(payload, position + 1)  # behind the attributes
            offset, _ = read_varint(payload, at)
            found = header.base_offset + offset, header.base_timestamp + delta
            if is_wanted(*found):
                return found
            position += size
            if number % _PIECE == _PIECE - 1:
                yield _PIECE_STEPS
    except IndexError:
        raise CorruptBatch(f"batch at offset {header.base_offset}: a record ends beyond the batch") from None
    return None


def check_records(
    header: BatchHeader, batch: Buffer, limit: int = MAX_UNPACKED_BYTES, most_headers: int | None = None
) -> Walk[bool]:
    """Check that a produced batch has just the records that its header claims; return whether all have keys.

    `most_headers` limits the headers of all records together. Raises CorruptBatch, and CompressionUnavailable.
    """
    payload = yield from _unpacked(header, batch, limit)
    read, at, end = read_unsigned, 0, len(payload)
    have_keys, headers = True, 0
    try:
        # Most varints have one byte, and a call costs more than the rest: all of them are read unsigned, as zigzag.
        for number in range(header.record_count):
            size, at = (size, at + 1) if (size := payload[at]) < 0x80 else read(payload, at)
            record_end = at + (size >> 1)
            if size & 1 or size < _SMALLEST_SIZE or record_end > end:
                raise CorruptBatch(f"record {number} states an impossible size")
            at += 1  # the attributes are unused
            at = at + 1 if payload[at] < 0x80 else read(payload, at)[1]  # the timestamp
            offset, at = (offset, at + 1) if (offset := payload[at]) < 0x80 else read(payload, at)
            if offset != number << 1:
                raise CorruptBatch(f"record {number} states another offset")
            length, at = (length, at + 1) if (length := payload[at]) < 0x80 else read(payload, at)
            if length & 1:
                have_keys = False
            else:
                at += length >> 1
            length, at = (length, at + 1) if (length := payload[at]) < 0x80 else read(payload, at)
            if not length & 1:
                at += length >> 1
            count, at = (count, at + 1) if (count := payload[at]) < 0x80 else read(payload, at)
            if count:
                if count & 1 or count >> 1 > record_end - at:
                    raise CorruptBatch(f"record {number} states an impossible number of headers")
                headers += count >> 1
                if most_headers is not None and headers > most_headers:
                    raise CorruptBatch(f"its records have more than {most_headers} headers")
                at = yield from _headers(payload, at, count >> 1, number)
            if at != record_end:
                raise CorruptBatch(f"the fields of record {number} do not fill it")
            if number % _PIECE == _PIECE - 1:
                yield _PIECE_STEPS
    except IndexError:
        raise CorruptBatch("a record ends beyond the batch") from None
    if at != end:
        raise CorruptBatch(f"{end - at} bytes after the last record")
    return have_keys


def _headers(payload: bytes, position: int, count: int, number: int) -> Walk[int]:
    """Walk through a record's headers; return where they end."""
    for at in range(count):
        length, position = read_varint(payload, position)
        if length < 0:
            raise CorruptBatch(f"record {number} has a header without a name")
        length, position = read_varint(payload, position + length)
        position += max(length, 0)
        if at % _PIECE == _PIECE - 1:
            yield _PIECE_STEPS
    return position


def _unpacked(header: BatchHeader, batch: Buffer, limit: int) -> Walk[bytes]:
    """Return the records of a batch as bytes without compression."""
    parts: list[bytes] = []
    try:
        for part in decompress_in_pieces(header.compression, memoryview(batch)[HEADER_SIZE:], limit):
            parts.append(part)
            yield 1 + (len(part) >> 12)
    except CorruptCompression as error:
        raise CorruptBatch(str(error)) from None
    return b"".join(parts)
