"""Records to Arrow columns, compiled by numba: eleven million records a second on one core.

Nothing checks bounds for us: every read is guarded by the end of its record or batch, and every write by
sizes that the spans promise. Faults are `record_spans.FAULTS`. Memory of columns is reused as soon as the columns
before are freed: new memory costs a page fault for every 4 KiB, which is more than the decoding of what is put there.
"""

from __future__ import annotations

import sys
import threading
from array import array
from collections.abc import Callable
from typing import Any

import numpy
import pyarrow as pa

from kohort.client.decode.numba_bytes import bytes_at, compiled, ends_at, record_frame, varint
from kohort.client.decode.plain_decoder import HEADERS, LARGEST_MS, TIMESTAMP, headers_column
from kohort.client.decode.record_spans import NO_APPEND_TIME, SPAN_FIELDS, BrokenRecord
from kohort.wire.record_batches import read_headers

np: Any = numpy

ALIGNED = 64
"""Arrow asks for columns that begin at multiples of this."""

_LARGEST = 16 << 20
_MOST_BLOCKS = 4
_SMALLEST = 1 << 16


class ColumnMemory(threading.local):
    """A few blocks for each thread; what is larger than 16 MiB is never reused."""

    def __init__(self) -> None:
        self._blocks: list[Any] = []

    def room(self, size: int) -> Callable[[int, Any], Any]:
        """Return a function that hands out aligned arrays `(bytes, type)`, `size` bytes in all."""
        block = self._block(size)
        begin = -block.ctypes.data % ALIGNED
        used = 0

        def take(length: int, kind: Any) -> Any:
            nonlocal used
            start = begin + used
            used = (used + length + ALIGNED - 1) & -ALIGNED
            part = block[start : start + length]
            assert part.nbytes == length, "a room has as many bytes as were requested"
            return part.view(kind)

        return take

    def _block(self, size: int) -> Any:
        for block, references in zip(self._blocks, _references(self._blocks), strict=True):
            # Not one that is much too large either: it would be occupied by a few rows.
            if size <= block.nbytes <= 4 * size + _SMALLEST and references == _NONE_BUT_OURS:
                return block
        if size > _LARGEST:
            return np.empty(size, np.uint8)
        block = np.empty(max(_SMALLEST, 1 << (size - 1).bit_length()), np.uint8)
        self._blocks.append(block)
        del self._blocks[:-_MOST_BLOCKS]
        return block


def _references(blocks: list[Any]) -> list[int]:
    """Return how many references there are to each block, with those that the counting itself takes."""
    return [sys.getrefcount(block) for block in blocks]


_NONE_BUT_OURS = _references([np.empty(1, np.uint8)])[0]
"""Measured, because interpreters differ in what they count of their own."""


_memory = ColumnMemory()


@compiled()
def _skip_headers(source: Any, at: int, end: int) -> tuple[int, int]:
    """Return the position behind a record's headers and 0, or a fault."""
    count, at = varint(source, at, end)
    if at < 0:
        return at, 2
    if count < 0:
        return at, 6
    for _ in range(count):
        for nullable in range(2):
            length, at = varint(source, at, end)
            if at < 0:
                return at, 2
            if length > end - at or (length < 0 and nullable == 0):
                return at, 6
            if length > 0:
                at += length
    return at, 0


@compiled(inline="always")
def _fault_of_headers(source: Any, at: int, end: int) -> int:
    """Check that a record's headers, which begin at a position, fill the rest of it; return the fault or 0."""
    if at < end and source[at] == 0:
        at += 1
    else:
        at, fault = _skip_headers(source, at, end)
        if fault:
            return fault
    return 0 if at == end else 7


@compiled(inline="always")
def _append(source: Any, at: int, length: int, ends: Any, content: Any, valid: Any, row: int) -> int:
    """Add a nullable byte string to a column; return 1 if it is null."""
    used = ends[row]
    if length < 0:
        ends[row + 1] = used
        return 1
    for index in range(length):
        content[used + index] = source[at + index]
    ends[row + 1] = used + length
    valid[row >> 3] |= np.uint8(1 << (row & 7))
    return 0


@compiled()
def _decode(
    source_at: int, spans: Any, first_offset: int, stop_offset: int, fixed: Any, keys: Any, values: Any
) -> tuple[int, int, int, int, int, int]:
    """Fill the columns; return rows, null keys, null values, and on a fault its span, record and number."""
    offsets, timestamps, types, headers_at = fixed
    source = bytes_at(source_at)
    key_ends, key_bytes, key_valid = ends_at(keys[0]), bytes_at(keys[1]), bytes_at(keys[2])
    value_ends, value_bytes, value_valid = ends_at(values[0]), bytes_at(values[1]), bytes_at(values[2])
    row, null_keys, null_values = 0, 0, 0
    key_ends[0] = 0
    value_ends[0] = 0
    for index in range(spans.shape[0]):
        at, span_end, count, base_offset = spans[index, 0], spans[index, 1], spans[index, 2], spans[index, 3]
        last_delta, base_timestamp, append_time = spans[index, 4], spans[index, 5], spans[index, 6]
        for record in range(count):
            timestamp, delta, key_length, key_at, value_length, value_at, end, fault = record_frame(
                source, at, span_end, last_delta
            )
            record_headers = value_at + max(value_length, 0)
            if fault == 0:
                fault = _fault_of_headers(source, record_headers, end)
            at = end
            if fault:
                return row, 0, 0, index, record, fault
            offset = base_offset + delta
            if offset < first_offset or offset >= stop_offset:
                continue
            timestamp += base_timestamp
            if append_time != NO_APPEND_TIME:
                timestamp = append_time
            offsets[row] = offset
            timestamps[row] = max(-LARGEST_MS, min(LARGEST_MS, timestamp)) * 1000
            types[row] = append_time != NO_APPEND_TIME
            if headers_at.shape[0]:
                headers_at[row] = record_headers
            null_keys += _append(source, key_at, key_length, key_ends, key_bytes, key_valid, row)
            null_values += _append(source, value_at, value_length, value_ends, value_bytes, value_valid, row)
            row += 1
        if at != span_end:
            return row, 0, 0, index, count - 1, 8
    return row, null_keys, null_values, 0, 0, 0


def decode(
    source: memoryview, spans: array[int], first_offset: int, stop_offset: int, *, headers: bool
) -> list[pa.Array]:
    """Return the columns offset, timestamp, key, value, timestamp type and, when asked for, headers.

    Only records with `first_offset` ≤ offset < `stop_offset` are returned. Raises BrokenRecord.
    """
    table = np.frombuffer(spans, np.int64).reshape(-1, SPAN_FIELDS)
    most = int(table[:, 2].sum())
    size = int((table[:, 1] - table[:, 0]).sum())
    take = _memory.room(20 * most + 2 * (size + 5 * most) + 16 * ALIGNED)
    offsets, timestamps, types = take(8 * most, np.int64), take(8 * most, np.int64), take(4 * most, np.int32)
    keys, values = _column(take, most, size), _column(take, most, size)
    headers_at = np.empty(most if headers else 0, np.int64)
    rows, null_keys, null_values, span, record, fault = _decode(
        np.frombuffer(source, np.uint8).ctypes.data,
        table,
        first_offset,
        stop_offset,
        (offsets, timestamps, types, headers_at),
        tuple(each.ctypes.data for each in keys),
        tuple(each.ctypes.data for each in values),
    )
    if fault:
        raise BrokenRecord(int(span), int(record), int(fault))
    columns = [
        pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(offsets[:rows])]),
        pa.Array.from_buffers(TIMESTAMP, rows, [None, pa.py_buffer(timestamps[:rows])]),
        _binary(rows, null_keys, *keys),
        _binary(rows, null_values, *values),
        pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(types[:rows])]),
    ]
    return [*columns, _headers_column(source, headers_at[:rows])] if headers else columns


def _column(take: Callable[..., Any], rows: int, size: int) -> tuple[Any, Any, Any]:
    """Return room for the ends, bytes and validity of a binary column."""
    ends, content, valid = take(4 * (rows + 1), np.int32), take(size, np.uint8), take((rows + 7) // 8, np.uint8)
    valid[:] = 0
    return ends, content, valid


def _binary(rows: int, nulls: int, ends: Any, content: Any, valid: Any) -> pa.Array:
    buffers = [
        pa.py_buffer(valid) if nulls else None,
        pa.py_buffer(ends[: rows + 1]),
        pa.py_buffer(content[: ends[rows]]),
    ]
    return pa.Array.from_buffers(pa.binary(), rows, buffers, nulls)


# Headers. The records were checked when they were decoded: here every varint is whole and every length fits.


@compiled()
def _count_headers(source_at: int, positions: Any, end: int) -> tuple[int, int, int]:
    """Return how many headers start at the positions, and the bytes of their keys and of their values."""
    source = bytes_at(source_at)
    headers, key_bytes, value_bytes = 0, 0, 0
    for row in range(positions.shape[0]):
        count, at = varint(source, positions[row], end)
        headers += count
        for _ in range(count):
            length, at = varint(source, at, end)
            key_bytes += length
            length, at = varint(source, at + length, end)
            length = max(length, 0)
            value_bytes += length
            at += length
    return headers, key_bytes, value_bytes


@compiled()
def _copy_headers(source_at: int, positions: Any, end: int, lists: Any, keys: Any, values: Any) -> tuple[int, int]:
    """Fill the columns; return how many rows have no headers, and how many headers no value."""
    source = bytes_at(source_at)
    (list_ends, list_valid), (key_ends, key_bytes), (value_ends, value_bytes, value_valid) = lists, keys, values
    header, without, nulls = 0, 0, 0
    list_ends[0] = key_ends[0] = value_ends[0] = 0
    for row in range(positions.shape[0]):
        count, at = varint(source, positions[row], end)
        if count:
            list_valid[row >> 3] |= np.uint8(1 << (row & 7))
        else:
            without += 1
        for _ in range(count):
            length, at = varint(source, at, end)
            used = key_ends[header]
            for index in range(length):
                key_bytes[used + index] = source[at + index]
            key_ends[header + 1] = used + length
            length, at = varint(source, at + length, end)
            used = value_ends[header]
            if length < 0:
                nulls += 1
                length = 0
            else:
                value_valid[header >> 3] |= np.uint8(1 << (header & 7))
            for index in range(length):
                value_bytes[used + index] = source[at + index]
            value_ends[header + 1] = used + length
            at += length
            header += 1
        list_ends[row + 1] = header
    return without, nulls


def _headers_column(source: memoryview, positions: Any) -> pa.Array:
    """Return the headers that start at each position as a column; no headers are null, as in Spark's own source."""
    rows = len(positions)
    source_at = np.frombuffer(source, np.uint8).ctypes.data
    headers, key_size, value_size = _count_headers(source_at, positions, len(source))
    lists = np.empty(rows + 1, np.int32), np.zeros((rows + 7) // 8, np.uint8)
    keys = np.empty(headers + 1, np.int32), np.empty(key_size, np.uint8)
    values = np.empty(headers + 1, np.int32), np.empty(value_size, np.uint8), np.zeros((headers + 7) // 8, np.uint8)
    without, nulls = _copy_headers(source_at, positions, len(source), lists, keys, values)
    names = pa.Array.from_buffers(pa.string(), headers, [None, *map(pa.py_buffer, keys)])
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:  # a key that is no UTF-8: others show it with replacements, and so does this
        content = bytes(source)
        return headers_column(read_headers(content, at, len(content))[0] for at in positions.tolist())
    value_ends, value_bytes, value_valid = map(pa.py_buffer, values)
    contents = pa.Array.from_buffers(pa.binary(), headers, [value_valid if nulls else None, value_ends, value_bytes])
    pairs = pa.StructArray.from_arrays([names, contents], fields=list(HEADERS.value_type))
    list_ends, list_valid = map(pa.py_buffer, lists)
    return pa.Array.from_buffers(HEADERS, rows, [list_valid if without else None, list_ends], without, children=[pairs])
