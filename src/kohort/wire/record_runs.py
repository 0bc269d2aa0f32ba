"""Runs of records of one shape in a batch, decoded by columns: no Python step for each record and each of its varints.

Most records of a batch have the same lengths and no headers, so each field is at the same place behind the one of the
record before. A run is as many of them as have the same bytes for each length, and consecutive offsets. What is no run
is left to the walk in `record_batches`, which also names what is wrong with it: the rows are those of the walk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import repeat
from struct import Struct

LEAST = 32
"""Shorter runs are not worth their search."""

_WIDEST = 3
"""Bytes of the offsets' varints in a run: up to a million records in a batch. Of wider ones a column takes too long."""

_EVEN = bytes(range(0x80, 0x100, 2))
"""The first byte of varints of more than one byte of consecutive offsets, again and again."""

RunBases = tuple[int, int, int | None]
"""Base offset, base timestamp, and the append time of all records, if they have one."""


def read_run(
    rows: list[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
    payload: bytes,
    at: int,
    count: int,
    bases: RunBases,
    read: Callable[[bytes, int], tuple[int, int]],
) -> int:
    """Add the run of at most `count` records that begins at `at`, if there is one; return the position behind it.

    Raises what `read` does, for a record that is broken.
    """
    base_offset, base_timestamp, append_time_ms = bases
    size, attributes_at = read(payload, at)
    stride = attributes_at - at + (size >> 1)
    count = min(count, (len(payload) - at) // stride)
    sizes = payload[at : at + count * stride : stride]
    count -= len(sizes.lstrip(sizes[:1]))
    if count < LEAST:
        return at
    timestamp, offset_at = read(payload, attributes_at + 1)
    delta, key_at = read(payload, offset_at)
    size, key_from = read(payload, key_at)
    key_size = None if size & 1 else size >> 1
    size, value_from = read(payload, value_at := key_from + (key_size or 0))
    value_size = None if size & 1 else size >> 1
    end = value_from + (value_size or 0)
    width = key_at - offset_at
    if end + 1 != at + stride or payload[end] or delta & 1 or width > _WIDEST:
        return at
    # All other lengths, and the number of headers, as far as they stay what they are.
    for place in (*range(at + 1, attributes_at), *range(key_at, key_from), *range(value_at, value_from), end):
        column = payload[place : at + count * stride : stride]
        count -= len(column.lstrip(column[:1]))
    first = delta >> 1
    count = min(count, (1 << 7 * width - 1) - first)
    stop = at + count * stride
    columns = (payload[place:stop:stride] for place in range(offset_at, key_at))
    if count < LEAST or any(map(bytes.__ne__, columns, _offset_columns(first, count, width))):
        return at
    deltas = [payload[place:stop:stride] for place in range(attributes_at + 1, offset_at)]
    timestamps: Iterable[int]
    if all(column.count(column[0]) == count for column in deltas):
        timestamps = repeat(base_timestamp + (timestamp >> 1 ^ -(timestamp & 1)))
    elif len(deltas) == 1 and deltas[0].isascii():
        timestamps = [base_timestamp + (each >> 1 ^ -(each & 1)) for each in deltas[0]]
    elif len(deltas) == 2 and min(deltas[0]) > 0x7F and deltas[1].isascii():
        wide = [low & 0x7F | high << 7 for low, high in zip(*deltas, strict=True)]
        timestamps = [base_timestamp + (each >> 1 ^ -(each & 1)) for each in wide]
    else:
        return at
    if append_time_ms is not None:
        timestamps = repeat(append_time_ms)
    layout = Struct(f"{key_from - at}x{_field(key_size)}{value_from - value_at}x{_field(value_size)}x")
    contents = iter(zip(*layout.iter_unpack(memoryview(payload)[at:stop]), strict=True))
    keys = repeat(None) if key_size is None else next(contents)
    values = repeat(None) if value_size is None else next(contents)
    offsets = range(base_offset + first, base_offset + first + count)
    rows += zip(offsets, timestamps, keys, values, repeat(()))
    return stop


def _field(size: int | None) -> str:
    return "" if size is None else f"{size}s"


def _offset_columns(first: int, count: int, width: int) -> Iterable[bytes]:
    """Yield each byte of the varints of consecutive offsets, all of one width, as a column."""
    if width == 1:
        yield bytes(range(2 * first, 2 * (first + count), 2))
        return
    yield (_EVEN * (count // 64 + 2))[first % 64 :][:count]
    for place in range(1, width):
        shift, more = 7 * place - 1, 0x80 if place < width - 1 else 0
        numbers = range(first >> shift, (first + count - 1 >> shift) + 1)
        column = b"".join([bytes((number & 0x7F | more,)) * (1 << shift) for number in numbers])
        yield column[first % (1 << shift) :][:count]
