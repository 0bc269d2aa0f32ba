"""The wire format of Confluent's serializers: a zero byte, the id of the writer's schema in four bytes, the value."""

from __future__ import annotations

from typing import Any, Final

import numpy
import pyarrow as pa

np: Any = numpy

HEADER: Final = 5


def as_binary(values: pa.Array) -> pa.BinaryArray:
    """Return texts or bytes as a binary array. Raises TypeError."""
    if not (pa.types.is_binary(values.type) or pa.types.is_string(values.type) or _is_large(values.type)):
        raise TypeError(f"the column to decode is {values.type}: expected binary or string")
    return values.cast(pa.binary())


def spans(values: pa.BinaryArray) -> tuple[Any, Any]:
    """Return where each value begins and ends in the array's bytes."""
    ends = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    return ends[:-1].astype(np.int64), ends[1:].astype(np.int64)


def present(values: pa.BinaryArray) -> Any:
    """Return which values are not null."""
    return values.is_valid().to_numpy(zero_copy_only=False)


def schema_ids(values: pa.BinaryArray) -> Any:
    """Return the id of each value's schema; -1 where there is none, because it is null or in another format."""
    if not len(values):
        return np.zeros(0, np.int64)
    starts, ends = spans(values)
    there = np.flatnonzero(present(values) & (ends - starts >= HEADER))
    found = np.full(len(values), -1, np.int64)
    if len(there):
        content = np.frombuffer(values.buffers()[2], np.uint8)
        first = starts[there]
        ids = np.zeros(len(there), np.int64)
        for index in range(1, HEADER):
            ids = ids << 8 | content[first + index]
        found[there] = np.where((content[first] == 0) & (ids < 1 << 31), ids, -1)
    return found


def _is_large(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_binary(kind) or pa.types.is_large_string(kind))
