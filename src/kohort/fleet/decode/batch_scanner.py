"""Scanning log bytes for record batches, compiled by numba. Broken bytes never raise.

A valid batch becomes a row of numbers; at a broken one the walk stops and returns the reason, and the caller decides
where to continue. Functions called from outside take an address, and the bytes up to `end` must be readable. CRCs are
computed here: in a log of commits each commit is a batch, and a call into another library would dominate. Every read
is guarded by the end that the caller passed.
"""

from __future__ import annotations

from typing import Any, Final

import numpy

from kohort.client.decode.numba_bytes import bytes_at, compiled, record_frame
from kohort.client.decode.record_spans import NO_APPEND_TIME

np: Any = numpy

BATCH_FIELDS: Final = 11
"""Start and end of the records, their count, base offset, last delta, base timestamp, append time or NO_APPEND_TIME,
producer id, producer epoch, attributes, and where the batch begins."""

START, END, COUNT, BASE, DELTA, BASE_MS, APPEND_MS, PRODUCER, EPOCH, ATTRIBUTES, AT = range(BATCH_FIELDS)

HEADER: Final = 61
_CRC_FROM: Final = 21
_OVERHEAD: Final = 12
_LARGEST: Final = 128 << 20
LEAST_RECORD: Final = 7
"""Bytes of the smallest record."""
_CRC_BUDGET: Final = 8
"""How often, on average, a byte may be checked as part of bytes that only look like a batch."""

CODEC: Final = 0x07
_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20

DONE, SHORT, OLD_MAGIC, NO_MAGIC, NO_LENGTH, CUT_OFF, TOO_LARGE, WRONG_CRC, WRONG_COUNT, WRONG_OFFSET, WRONG_CODEC = (
    range(11)
)
"""Why a walk stopped. From TOO_LARGE on the length leads to the end of the batch, if it is right."""


def _crc_tables() -> Any:
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        tables[0, byte] = crc
    for index in range(1, 8):
        tables[index] = tables[0][tables[index - 1] & 0xFF] ^ (tables[index - 1] >> 8)
    return tables


_TABLES = _crc_tables()


@compiled()
def crc_of(source: Any, at: int, end: int) -> int:
    """Return the CRC32C of some bytes."""
    crc = np.uint32(0xFFFFFFFF)
    eight = np.uint32(8)
    while at + 8 <= end:
        low = crc ^ (
            np.uint32(source[at])
            | np.uint32(source[at + 1]) << eight
            | np.uint32(source[at + 2]) << np.uint32(16)
            | np.uint32(source[at + 3]) << np.uint32(24)
        )
        crc = (
            _TABLES[7, low & np.uint32(0xFF)]
            ^ _TABLES[6, low >> eight & np.uint32(0xFF)]
            ^ _TABLES[5, low >> np.uint32(16) & np.uint32(0xFF)]
            ^ _TABLES[4, low >> np.uint32(24)]
            ^ _TABLES[3, source[at + 4]]
            ^ _TABLES[2, source[at + 5]]
            ^ _TABLES[1, source[at + 6]]
            ^ _TABLES[0, source[at + 7]]
        )
        at += 8
    while at < end:
        crc = _TABLES[0, (crc ^ source[at]) & np.uint32(0xFF)] ^ (crc >> eight)
        at += 1
    return np.int64(crc ^ np.uint32(0xFFFFFFFF))  # type: ignore[no-any-return]


@compiled()
def i16_at(source: Any, at: int) -> int:
    """Return a big-endian int16."""
    number = np.int64(source[at]) << 8 | np.int64(source[at + 1])
    return number - 65536 if number > 32767 else number  # type: ignore[no-any-return]


@compiled()
def i32_at(source: Any, at: int) -> int:
    """Return a big-endian int32."""
    number = (
        np.int64(source[at]) << 24
        | np.int64(source[at + 1]) << 16
        | np.int64(source[at + 2]) << 8
        | np.int64(source[at + 3])
    )
    return number - 4294967296 if number > 2147483647 else number  # type: ignore[no-any-return]


@compiled()
def i64_at(source: Any, at: int) -> int:
    """Return a big-endian int64."""
    return i32_at(source, at) << 32 | (i32_at(source, at + 4) & 0xFFFFFFFF)


@compiled()
def _fault_of(source: Any, at: int, end: int) -> int:
    """Return what is wrong with the header at a position, as far as no CRC is needed."""
    if end - at < HEADER:
        if end - at >= 17 and source[at + 16] < 2:
            return OLD_MAGIC
        return SHORT
    if source[at + 16] != 2:
        return OLD_MAGIC if source[at + 16] < 2 else NO_MAGIC
    length = i32_at(source, at + 8)
    if length < HEADER - _OVERHEAD:
        return NO_LENGTH
    if length > end - at - _OVERHEAD:
        return CUT_OFF
    if length > _LARGEST:
        return TOO_LARGE
    delta = i32_at(source, at + 23)
    count = i32_at(source, at + 57)
    if delta < 0 or count < 0 or count > delta + 1:
        return WRONG_COUNT
    base = i64_at(source, at)
    if base < 0 or base > (1 << 62):
        return WRONG_OFFSET
    attributes = i16_at(source, at + 21)
    if attributes & CODEC > 4:
        return WRONG_CODEC
    if attributes & CODEC == 0 and count * LEAST_RECORD > length - (HEADER - _OVERHEAD):
        return WRONG_COUNT
    return DONE


@compiled()
def walk(
    source_at: int, at: int, end: int, wanted: Any, batches: Any, most_bytes: int, check_crcs: bool
) -> tuple[int, int, int]:
    """Fill rows of `batches` until they are full or `most_bytes` were walked; return their number, the position, why.

    `wanted` is the range of requested offsets (first, end); batches outside are skipped.
    """
    source = bytes_at(source_at)
    first_offset, stop_offset = wanted
    begun = at
    row = 0
    while at < end and row < batches.shape[0] and (row == 0 or at - begun < most_bytes):
        fault = _fault_of(source, at, end)
        if fault:
            return row, at, fault
        following = at + _OVERHEAD + i32_at(source, at + 8)
        base = i64_at(source, at)
        delta = i32_at(source, at + 23)
        if base + delta >= first_offset and base < stop_offset:
            if check_crcs and crc_of(source, at + _CRC_FROM, following) != i32_at(source, at + 17) & 0xFFFFFFFF:
                return row, at, WRONG_CRC
            attributes = i16_at(source, at + 21)
            batches[row, START] = at + HEADER
            batches[row, END] = following
            batches[row, COUNT] = i32_at(source, at + 57)
            batches[row, BASE] = base
            batches[row, DELTA] = delta
            batches[row, BASE_MS] = i64_at(source, at + 27)
            batches[row, APPEND_MS] = i64_at(source, at + 35) if attributes & _APPEND_TIME else NO_APPEND_TIME
            batches[row, PRODUCER] = i64_at(source, at + 43)
            batches[row, EPOCH] = i16_at(source, at + 51)
            batches[row, ATTRIBUTES] = attributes
            batches[row, AT] = at
            row += 1
        at = following
    return row, at, DONE


@compiled()
def next_batch(source_at: int, at: int, end: int, least_offset: int) -> int:
    """Return where the next valid batch begins at or after a position, or `end`, after a broken one.

    Bytes may be made so that everything looks like a batch until its CRC is known: there is a limit to that.
    """
    source = bytes_at(source_at)
    budget = _CRC_BUDGET * (end - at) + (1 << 20)
    while at + HEADER <= end and budget > 0:
        if source[at + 16] == 2 and _fault_of(source, at, end) == DONE and i64_at(source, at) >= least_offset:
            following = at + _OVERHEAD + i32_at(source, at + 8)
            budget -= following - at
            if crc_of(source, at + _CRC_FROM, following) == i32_at(source, at + 17) & 0xFFFFFFFF:
                return at
        at += 1
    return end


@compiled()
def behind(source_at: int, at: int, end: int) -> int:
    """Return where the broken batch at a position ends by its length, or `at` when no batch begins there."""
    source = bytes_at(source_at)
    following = at + _OVERHEAD + i32_at(source, at + 8)
    return following if following == end or _fault_of(source, following, end) == DONE else at


@compiled()
def old_end(source_at: int, at: int, end: int) -> int:
    """Return the end of an entry of message format v0 or v1, or `at` when its size is implausible."""
    source = bytes_at(source_at)
    size = i32_at(source, at + 8)
    if size < 14 or size > end - at - _OVERHEAD:
        return at
    return at + _OVERHEAD + size


@compiled()
def is_zero(source_at: int, at: int, end: int) -> bool:
    """Whether only zeros follow: the tail of a preallocated file."""
    source = bytes_at(source_at)
    while at < end:
        if source[at] != 0:
            return False
        at += 1
    return True


@compiled()
def marker_kind(source: Any, at: int, end: int, last_delta: int) -> int:
    """Return the type of the control record at a position: 0 is ABORT, 1 is COMMIT, -1 is anything else."""
    _, _, length, at, _, _, _, fault = record_frame(source, at, end, last_delta)
    if fault or length < 4:
        return -1
    kind = i16_at(source, at + 2)
    return kind if kind == 0 or kind == 1 else -1


@compiled()
def markers(source_at: int, at: int, end: int, found: Any) -> tuple[int, int, int]:
    """Fill rows of `found` with producer id, offset and whether it commits, for each control batch; return how many.

    Returns the position too, less than `end` when `found` is full or a header is broken, and the reason as `walk` does.
    Only headers and the key of each marker are read.
    """
    source = bytes_at(source_at)
    row = 0
    while at < end and row < found.shape[0]:
        fault = _fault_of(source, at, end)
        if fault:
            return row, at, fault
        following = at + _OVERHEAD + i32_at(source, at + 8)
        attributes = i16_at(source, at + 21)
        if attributes & CONTROL and attributes & CODEC == 0 and i32_at(source, at + 57) > 0:
            kind = marker_kind(source, at + HEADER, following, i32_at(source, at + 23))
            if kind >= 0:
                found[row, 0] = i64_at(source, at + 43)
                found[row, 1] = i64_at(source, at)
                found[row, 2] = kind
                row += 1
        at = following
    return row, at, DONE
