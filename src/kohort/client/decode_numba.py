"""Records to Arrow columns, compiled by numba: eleven million records a second on one core.

Nothing checks bounds for us: every read is guarded by the end of its record or batch, and every write by
sizes that the spans promise. Bytes are reached through bare pointers, because numba counts references
whenever an array is handed on, which costs more than a record. Faults are `record_spans.FAULTS`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numba.extending
import numpy
import pyarrow as pa

from kohort.client.decode_plain import TIMESTAMP, headers_column
from kohort.client.record_spans import NO_APPEND_TIME, SPAN_FIELDS, BrokenRecord

_Function = TypeVar("_Function", bound=Callable[..., Any])

np: Any = numpy
_LARGEST_MS = (1 << 63) // 1000 - 1
_63_BITS = (1 << 63) - 1


def compiled(inline: str = "never") -> Callable[[_Function], _Function]:
    """Return numba's decorator, with a cache on disk where one can be written."""

    def decorate(function: _Function) -> _Function:
        try:
            return numba.njit(nogil=True, cache=True, inline=inline)(function)  # type: ignore[no-any-return]
        except RuntimeError:  # neither beside this file nor in the user's directory can a cache be written
            return numba.njit(nogil=True, inline=inline)(function)  # type: ignore[no-any-return]

    return decorate


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def _bytes_at(context: Any, address: Any) -> Any:  # noqa: ARG001
    """Return the pointer to the bytes at an address."""
    return _pointer(numba.types.uint8)


@numba.extending.intrinsic  # type: ignore[untyped-decorator]
def _ends_at(context: Any, address: Any) -> Any:  # noqa: ARG001
    """Return the pointer to the int32 at an address."""
    return _pointer(numba.types.int32)


def _pointer(kind: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return numba.types.CPointer(kind)(numba.types.int64), generate


@compiled(inline="always")
def _varint(source: Any, at: int, end: int) -> tuple[int, int]:
    """Return a zigzag varint and the position behind it, which is -1 when the bytes end before it does."""
    if at >= end:
        return 0, -1
    byte = np.int64(source[at])
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value = byte & 127
    shift = 7
    while shift < 70:
        at += 1
        if at >= end:
            return 0, -1
        byte = np.int64(source[at])
        value |= (byte & 127) << shift
        if byte < 128:
            return ((value >> 1) & _63_BITS) ^ -(value & 1), at + 1
        shift += 7
    return 0, -1


@compiled()
def _skip_headers(source: Any, at: int, end: int) -> tuple[int, int]:
    """Return the position behind a record's headers and 0, or a fault."""
    count, at = _varint(source, at, end)
    if at < 0:
        return at, 2
    if count < 0:
        return at, 6
    for _ in range(count):
        for nullable in range(2):
            length, at = _varint(source, at, end)
            if at < 0:
                return at, 2
            if length > end - at or (length < 0 and nullable == 0):
                return at, 6
            if length > 0:
                at += length
    return at, 0


@compiled(inline="always")
def _bytes(source: Any, at: int, end: int) -> tuple[int, int]:
    """Return a nullable byte string's length, and where it starts: -1 for a broken varint, -2 when it is cut off."""
    length, at = _varint(source, at, end)
    if at >= 0 and length > end - at:
        return 0, -2
    return length, at


@compiled(inline="always")
def _record(source: Any, at: int, span_end: int, last_delta: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Check one record against its bounds.

    Returns timestamp delta, offset delta, key length and start, value length and start, headers' start, the record's
    end, and the number of its fault or 0.
    """
    length, at = _varint(source, at, span_end)
    if at < 0:
        return 0, 0, 0, 0, 0, 0, 0, 0, 2
    if length < 1 or length > span_end - at:
        return 0, 0, 0, 0, 0, 0, 0, 0, 1
    end = at + length
    timestamp_delta, at = _varint(source, at + 1, end)
    if at < 0:
        return 0, 0, 0, 0, 0, 0, 0, 0, 2
    offset_delta, at = _varint(source, at, end)
    if at < 0:
        return 0, 0, 0, 0, 0, 0, 0, 0, 2
    if offset_delta < 0 or offset_delta > last_delta:
        return 0, 0, 0, 0, 0, 0, 0, 0, 3
    key_length, key_at = _bytes(source, at, end)
    if key_at < 0:
        return 0, 0, 0, 0, 0, 0, 0, 0, 2 if key_at == -1 else 4
    value_length, value_at = _bytes(source, key_at + max(key_length, 0), end)
    if value_at < 0:
        return 0, 0, 0, 0, 0, 0, 0, 0, 2 if value_at == -1 else 5
    headers_at = value_at + max(value_length, 0)
    fault = 0
    if headers_at < end and source[headers_at] == 0:
        at = headers_at + 1
    else:
        at, fault = _skip_headers(source, headers_at, end)
    if fault == 0 and at != end:
        fault = 7
    return timestamp_delta, offset_delta, key_length, key_at, value_length, value_at, headers_at, end, fault


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
    source = _bytes_at(source_at)
    key_ends, key_bytes, key_valid = _ends_at(keys[0]), _bytes_at(keys[1]), _bytes_at(keys[2])
    value_ends, value_bytes, value_valid = _ends_at(values[0]), _bytes_at(values[1]), _bytes_at(values[2])
    row, null_keys, null_values = 0, 0, 0
    key_ends[0] = 0
    value_ends[0] = 0
    for index in range(spans.shape[0]):
        at, span_end, count, base_offset = spans[index, 0], spans[index, 1], spans[index, 2], spans[index, 3]
        last_delta, base_timestamp, append_time = spans[index, 4], spans[index, 5], spans[index, 6]
        for record in range(count):
            timestamp, delta, key_length, key_at, value_length, value_at, record_headers, at, fault = _record(
                source, at, span_end, last_delta
            )
            if fault:
                return row, 0, 0, index, record, fault
            offset = base_offset + delta
            if offset < first_offset or offset >= stop_offset:
                continue
            timestamp += base_timestamp
            if append_time != NO_APPEND_TIME:
                timestamp = append_time
            offsets[row] = offset
            timestamps[row] = max(-_LARGEST_MS, min(_LARGEST_MS, timestamp)) * 1000
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
    room = int((table[:, 1] - table[:, 0]).sum())
    offsets, timestamps, types = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int32)
    headers_at = np.empty(most if headers else 0, np.int64)
    keys, values = _room(most, room), _room(most, room)
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
    return [*columns, headers_column(source, headers_at[:rows].tolist())] if headers else columns


def _room(rows: int, size: int) -> tuple[Any, Any, Any]:
    return np.empty(rows + 1, np.int32), np.empty(size, np.uint8), np.zeros((rows + 7) // 8, np.uint8)


def _binary(rows: int, nulls: int, ends: Any, content: Any, valid: Any) -> pa.Array:
    buffers = [
        pa.py_buffer(valid) if nulls else None,
        pa.py_buffer(ends[: rows + 1]),
        pa.py_buffer(content[: ends[rows]]),
    ]
    return pa.Array.from_buffers(pa.binary(), rows, buffers, nulls)
