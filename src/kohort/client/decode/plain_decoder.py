"""Records to Arrow columns in plain Python: slow, complete, and the measure for the compiled decoder.

It keeps the same bounds and the same faults as `decode_numba`; a property test holds the two equal.
"""

from __future__ import annotations

from array import array

import pyarrow as pa

from kohort.client.decode.record_spans import NO_APPEND_TIME, SPAN_FIELDS, BrokenRecord

TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

_64_BITS = (1 << 64) - 1
_LARGEST_MS = (1 << 63) // 1000 - 1


class _Fault(Exception):
    """A fault inside the record that is being read; its number is the argument."""


def decode(
    source: memoryview, spans: array[int], first_offset: int, stop_offset: int, *, headers: bool
) -> list[pa.Array]:
    """Return the columns offset, timestamp, key, value, timestamp type and, when asked for, headers.

    Only records with `first_offset` ≤ offset < `stop_offset` are returned. Raises BrokenRecord.
    """
    rows: list[tuple[int, int, bytes | None, bytes | None, int, int]] = []
    for index in range(0, len(spans), SPAN_FIELDS):
        at, end, count = spans[index : index + 3]
        done = 0
        try:
            while done < count:
                row, at = _read_record(source, at, end, spans[index + 3 : index + SPAN_FIELDS])
                if first_offset <= row[0] < stop_offset:
                    rows.append(row)
                done += 1
            if at != end:
                done -= 1
                raise _Fault(8)
        except _Fault as fault:
            raise BrokenRecord(index // SPAN_FIELDS, done, fault.args[0]) from None
    offsets, timestamps, keys, values, types, headers_at = zip(*rows, strict=True) if rows else ((),) * 6
    columns = [
        pa.array(offsets, pa.int64()),
        pa.array(timestamps, pa.int64()).cast(TIMESTAMP),
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(types, pa.int32()),
    ]
    return [*columns, headers_column(source, headers_at)] if headers else columns


def headers_column(source: memoryview, positions: tuple[int, ...] | list[int]) -> pa.Array:
    """Return the headers that start at each position as a column; no headers are null, as in Spark's own source."""
    return pa.array([_read_headers(source, at) for at in positions], HEADERS)


def _read_record(
    source: memoryview, at: int, end: int, span: array[int]
) -> tuple[tuple[int, int, bytes | None, bytes | None, int, int], int]:
    base_offset, last_delta, base_timestamp, append_time = span
    length, at = _varint(source, at, end)
    if length < 1 or length > end - at:
        raise _Fault(1)
    end = at + length
    timestamp_delta, at = _varint(source, at + 1, end)
    offset_delta, at = _varint(source, at, end)
    if not 0 <= offset_delta <= last_delta:
        raise _Fault(3)
    key, at = _sized(source, at, end, 4)
    value, at = _sized(source, at, end, 5)
    headers_at = at
    headers, at = _varint(source, at, end)
    if headers < 0:
        raise _Fault(6)
    for _ in range(headers):
        name, at = _sized(source, at, end, 6)
        if name is None:
            raise _Fault(6)
        _, at = _sized(source, at, end, 6)
    if at != end:
        raise _Fault(7)
    own_time = append_time == NO_APPEND_TIME
    timestamp = _wrap(base_timestamp + timestamp_delta) if own_time else append_time
    timestamp_us = max(-_LARGEST_MS, min(_LARGEST_MS, timestamp)) * 1000
    return (base_offset + offset_delta, timestamp_us, key, value, int(not own_time), headers_at), end


def _sized(source: memoryview, at: int, end: int, fault: int) -> tuple[bytes | None, int]:
    length, at = _varint(source, at, end)
    if length < 0:
        return None, at
    if length > end - at:
        raise _Fault(fault)
    return bytes(source[at : at + length]), at + length


def _varint(source: memoryview, at: int, end: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise _Fault(2)
        byte = source[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= _64_BITS
            return (value >> 1) ^ -(value & 1), at
    raise _Fault(2)


def _read_headers(source: memoryview, at: int) -> list[dict[str, object]] | None:
    end = len(source)
    count, at = _varint(source, at, end)
    found: list[dict[str, object]] = []
    for _ in range(count):
        name, at = _sized(source, at, end, 6)
        value, at = _sized(source, at, end, 6)
        found.append({"key": (name or b"").decode("utf-8", "replace"), "value": value})
    return found or None


def _wrap(number: int) -> int:
    """Return what 64-bit arithmetic makes of a sum."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
