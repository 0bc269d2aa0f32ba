"""Records to Arrow columns in plain Python: the rows of `wire.record_batches`, which reads every record once.

It returns the same columns as `numba_decoder` and refuses the same bytes, by a property test.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import pyarrow as pa

from kohort.client.decode.record_spans import NO_APPEND_TIME, SPAN_FIELDS, BrokenRecord
from kohort.wire.record_batches import Row, decode_rows

TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
LARGEST_MS = (1 << 63) // 1000 - 1
"""The largest timestamp in microseconds, in milliseconds."""

_Headers = tuple[tuple[str, bytes | None], ...]


def decode(
    source: memoryview, spans: array[int], first_offset: int, stop_offset: int, *, headers: bool
) -> list[pa.Array]:
    """Return the columns offset, timestamp, key, value, timestamp type and, when asked for, headers.

    Only records with `first_offset` ≤ offset < `stop_offset` are returned. Raises BrokenRecord and CorruptBatch.
    """
    rows: list[Row] = []
    types: list[int] = []
    for index in range(0, len(spans), SPAN_FIELDS):
        start, end, count, base_offset, last_delta, base_ms, append_ms = spans[index : index + SPAN_FIELDS]
        has_append_time = append_ms != NO_APPEND_TIME
        found = decode_rows(
            bytes(source[start:end]), count, base_offset, base_ms, append_ms if has_append_time else None
        )
        for record, row in enumerate(found):
            if not 0 <= row[0] - base_offset <= last_delta:
                raise BrokenRecord(index // SPAN_FIELDS, record, 3)
        before = len(rows)
        rows += [row for row in found if first_offset <= row[0] < stop_offset]
        types += [int(has_append_time)] * (len(rows) - before)
    offsets, timestamps, keys, values, headers_of = zip(*rows, strict=True) if rows else ((),) * 5
    columns = [
        pa.array(offsets, pa.int64()),
        pa.array(map(_microseconds, timestamps), pa.int64()).cast(TIMESTAMP),
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(types, pa.int32()),
    ]
    return [*columns, headers_column(headers_of)] if headers else columns


def headers_column(headers_of: Iterable[_Headers]) -> pa.Array:
    """Return headers as a column; no headers are null, as in Spark's own source."""
    return pa.array([headers or None for headers in headers_of], HEADERS)


def _microseconds(timestamp_ms: int) -> int:
    """Return a time as Arrow has it, after the overflow of a 64-bit sum, which the compiled decoder has."""
    wrapped = (timestamp_ms + (1 << 63)) % (1 << 64) - (1 << 63)
    return max(-LARGEST_MS, min(LARGEST_MS, wrapped)) * 1000
