"""Rows to the records of a batch, compiled by numba: keys and values go from Arrow to the batch's bytes at once.

Partitions are chosen as the producer does: by murmur2 of the key as in Java, else one partition for a batch's worth of
bytes. Nothing checks bounds: the room is counted before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pyarrow as pa

from kohort.client.decode.numba_bytes import bytes_at, compiled, ends_at
from kohort.wire.record_batches import HEADER_SIZE, EncodedRecords

np: Any = numpy

BATCH_BYTES = 1 << 18
"""A batch is ended when it has so many bytes: larger ones are compressed better, smaller ones travel sooner."""

_MOST_BESIDE = 32
"""The bytes of a record beside its key and its value, at most."""

Column = tuple[int, int, int, int]
"""Addresses of a binary column's ends, bytes and validity (0: no nulls), and its offset in them."""


@compiled(inline="always")
def _is_null(valid: Any, has_nulls: int, at: int) -> bool:
    return has_nulls != 0 and (valid[at >> 3] >> np.uint8(at & 7)) & 1 == 0


@compiled(inline="always")
def _murmur2(content: Any, first: int, length: int) -> Any:
    """Return Java's `Utils.murmur2` (the same as `kohort.client.producer.partitioner.murmur2`)."""
    mask = np.uint64(0xFFFFFFFF)
    factor = np.uint64(0x5BD1E995)
    code = np.uint64(0x9747B28C) ^ np.uint64(length)
    whole = length & ~3
    for at in range(first, first + whole, 4):
        part = np.uint64(content[at]) | np.uint64(content[at + 1]) << np.uint64(8)
        part |= np.uint64(content[at + 2]) << np.uint64(16) | np.uint64(content[at + 3]) << np.uint64(24)
        part = (part * factor) & mask
        part = ((part ^ (part >> np.uint64(24))) * factor) & mask
        code = ((code * factor) & mask) ^ part
    if whole < length:
        part = np.uint64(0)
        for at in range(length - whole):
            part |= np.uint64(content[first + whole + at]) << np.uint64(8 * at)
        code = ((code ^ part) * factor) & mask
    code = ((code ^ (code >> np.uint64(13))) * factor) & mask
    return np.int64(code ^ (code >> np.uint64(15)))


@compiled()
def _choose(key: Column, value: Column, rows: int, partitions: int, first: int, limit: int, targets: Any) -> None:
    """Fill in the partitions of rows whose target is negative."""
    key_ends, keys, key_valid = ends_at(key[0]), bytes_at(key[1]), bytes_at(key[2])
    value_ends = ends_at(value[0])
    current, taken = first % partitions, 0
    for row in range(rows):
        if targets[row] >= 0:
            continue
        at = row + key[3]
        if _is_null(key_valid, key[2], at):
            size = value_ends[row + value[3] + 1] - value_ends[row + value[3]] + 16
            if taken >= limit:
                current, taken = (current + 1) % partitions, 0
            taken += size
            targets[row] = current
        else:
            code = _murmur2(keys, key_ends[at], key_ends[at + 1] - key_ends[at])
            targets[row] = (code & 0x7FFFFFFF) % partitions


@compiled(inline="always")
def _put(out: Any, at: int, number: int) -> int:
    """Write a zigzag varint of a number that is not negative, or of -1; return the position behind it."""
    left = number << 1 if number >= 0 else 1
    while left >= 128:
        out[at] = np.uint8(left & 127 | 128)
        left >>= 7
        at += 1
    out[at] = np.uint8(left)
    return at + 1


@compiled(inline="always")
def _width(number: int) -> int:
    """Return how many bytes `_put` takes."""
    left, width = (number << 1 if number >= 0 else 1), 1
    while left >= 128:
        left >>= 7
        width += 1
    return width


@compiled()
def _encode(key: Column, value: Column, order: Any, first: int, limit: int, out_at: int) -> tuple[int, int]:
    """Write rows of one batch, from a place in `order` on; return the place behind them, and the bytes they take."""
    key_ends, keys, key_valid = ends_at(key[0]), bytes_at(key[1]), bytes_at(key[2])
    value_ends, values, value_valid = ends_at(value[0]), bytes_at(value[1]), bytes_at(value[2])
    out = bytes_at(out_at)
    at, place = 0, first
    while place < order.shape[0]:
        key_row, value_row = order[place] + key[3], order[place] + value[3]
        key_length = -1 if _is_null(key_valid, key[2], key_row) else key_ends[key_row + 1] - key_ends[key_row]
        value_length = -1
        if not _is_null(value_valid, value[2], value_row):
            value_length = value_ends[value_row + 1] - value_ends[value_row]
        delta = place - first
        length = 3 + _width(delta) + _width(key_length) + _width(value_length)
        length += max(key_length, 0) + max(value_length, 0)
        if at > 0 and at + length + 5 > limit:
            break
        at = _put(out, at, length)
        out[at] = 0  # attributes
        out[at + 1] = 0  # the timestamp is the batch's
        at = _put(out, at + 2, delta)
        at = _put(out, at, key_length)
        start = key_ends[key_row]
        for index in range(key_length):
            out[at + index] = keys[start + index]
        at = _put(out, at + max(key_length, 0), value_length)
        start = value_ends[value_row]
        for index in range(value_length):
            out[at + index] = values[start + index]
        at += max(value_length, 0)
        out[at] = 0  # headers
        at += 1
        place += 1
    return place, at


class RowEncoder:
    """Encodes the columns key and value, binary or text, of one Arrow batch."""

    def __init__(self, key: pa.Array | None, value: pa.Array, timestamp_ms: int) -> None:
        self.rows = len(value)
        self._timestamp_ms = timestamp_ms
        self._key = pa.nulls(self.rows, pa.binary()) if key is None else key.cast(pa.binary())
        self._value = value.cast(pa.binary())
        self._columns = _column(self._key), _column(self._value)

    def targets(
        self, partitions: int, first: int, given: pa.Array | None = None, *, turn_bytes: int = BATCH_BYTES
    ) -> Any:
        """Return the partition of each row: the given one, else its key's.

        Rows without a key begin at `first`, and have the next partition after each `turn_bytes`. Raises ValueError for
        a partition that does not exist.
        """
        targets = np.full(self.rows, -1, np.int64)
        if given is not None:
            known = given.is_valid().to_numpy(zero_copy_only=False)
            targets[known] = given.drop_null().to_numpy(zero_copy_only=False)
            wrong = targets[known & ((targets < 0) | (targets >= partitions))]
            if wrong.size:
                last = partitions - 1
                raise ValueError(f"a row's partition is {wrong[0]}: the topic has partitions 0 to {last}")
        _choose(*self._columns, self.rows, partitions, first, turn_bytes, targets)
        return targets

    def batches(self, targets: Any, limit: int = BATCH_BYTES) -> Iterator[tuple[int, EncodedRecords]]:
        """Yield batches of about `limit` bytes at most, each with its partition; a record that is larger is alone."""
        order = np.argsort(targets, kind="stable")
        starts = np.flatnonzero(np.diff(targets[order], prepend=-1))
        largest = max(_longest(self._key) + _longest(self._value) + _MOST_BESIDE, limit) + _MOST_BESIDE
        content = self._key.nbytes + self._value.nbytes
        for at, start in enumerate(starts):
            mine = order[start : starts[at + 1] if at + 1 < len(starts) else self.rows]
            partition, place = int(targets[mine[0]]), 0
            while place < len(mine):
                # Memory of its own for each batch, from which it is sent: a copy costs more than the encoding.
                room = min(largest, content + _MOST_BESIDE * (len(mine) - place))
                out = np.empty(HEADER_SIZE + room, np.uint8)
                out[:HEADER_SIZE] = 0
                end, size = _encode(*self._columns, mine, place, limit, out.ctypes.data + HEADER_SIZE)
                batch = memoryview(out)[: HEADER_SIZE + size]
                yield partition, EncodedRecords(batch, end - place, self._timestamp_ms)
                place = end


def _column(column: pa.Array) -> Column:
    valid, ends, content = column.buffers()
    addresses = [0 if each is None else each.address for each in (ends, content)]
    return addresses[0], addresses[1], 0 if column.null_count == 0 or valid is None else valid.address, column.offset


def _longest(column: pa.Array) -> int:
    import pyarrow.compute as pc

    return int(pc.max(pc.binary_length(column)).as_py() or 0)
