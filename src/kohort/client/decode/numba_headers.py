"""Headers of records to an Arrow column, compiled by numba: one pass that counts, one that copies.

The records were checked when they were decoded, so that here every varint is whole and every length fits.
"""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow as pa

from kohort.client.decode.numba_bytes import bytes_at, compiled, varint
from kohort.client.decode.plain_decoder import HEADERS, headers_column

np: Any = numpy


@compiled()
def _count(source_at: int, positions: Any, end: int) -> tuple[int, int, int]:
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
def _copy(source_at: int, positions: Any, end: int, lists: Any, keys: Any, values: Any) -> tuple[int, int]:
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


def decode_headers(source: memoryview, positions: Any) -> pa.Array:
    """Return the headers that start at each position as a column; no headers are null, as in Spark's own source."""
    rows = len(positions)
    source_at = np.frombuffer(source, np.uint8).ctypes.data
    headers, key_size, value_size = _count(source_at, positions, len(source))
    lists = np.empty(rows + 1, np.int32), np.zeros((rows + 7) // 8, np.uint8)
    keys = np.empty(headers + 1, np.int32), np.empty(key_size, np.uint8)
    values = np.empty(headers + 1, np.int32), np.empty(value_size, np.uint8), np.zeros((headers + 7) // 8, np.uint8)
    without, nulls = _copy(source_at, positions, len(source), lists, keys, values)
    names = pa.Array.from_buffers(pa.string(), headers, [None, *map(pa.py_buffer, keys)])
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:  # a key that is no UTF-8: others show it with replacements, and so does this
        return headers_column(source, positions.tolist())
    value_ends, value_bytes, value_valid = map(pa.py_buffer, values)
    contents = pa.Array.from_buffers(pa.binary(), headers, [value_valid if nulls else None, value_ends, value_bytes])
    pairs = pa.StructArray.from_arrays([names, contents], fields=list(HEADERS.value_type))
    list_ends, list_valid = map(pa.py_buffer, lists)
    return pa.Array.from_buffers(HEADERS, rows, [list_valid if without else None, list_ends], without, children=[pairs])
