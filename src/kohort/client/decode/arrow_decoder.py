"""Fetched record batches as Arrow: compiled by numba where it is installed, in plain Python elsewhere.

Both decoders give the same columns and refuse the same bytes. Every codec is read, control batches are
dropped, and the wanted offsets are honoured inside batches.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack

from kohort.client.decode.record_spans import (
    FAULTS,
    LARGEST_COLUMN,
    LARGEST_OFFSET,
    SPAN_FIELDS,
    BrokenRecord,
    read_spans,
)
from kohort.model.extras import install_command
from kohort.wire.compression import Buffer
from kohort.wire.record_batches import CorruptBatch

if TYPE_CHECKING:
    import pyarrow as pa


class Decoder(Protocol):
    """What turns spans of records into columns: `plain_decoder.decode` and `numba_decoder.decode`."""

    def __call__(
        self, source: memoryview, spans: array[int], first_offset: int, stop_offset: int, *, headers: bool
    ) -> list[Any]:
        """Return offset, timestamp, key, value, timestamp type and maybe headers. Raises BrokenRecord, CorruptBatch."""


class ArrowOptions(TypedDict, total=False):
    """What `to_arrow` and `iter_arrow` decode: the records of `first_offset` ≤ offset < `stop_offset`, by default all.

    `timestamp_type` adds a column int32 (0 is the producer's time, 1 the broker's), `headers` a list of (key string,
    value binary), null where there are none. `check_crcs` is on by default, `decoder` the fastest that is installed.
    """

    first_offset: int
    stop_offset: int | None
    timestamp_type: bool
    headers: bool
    check_crcs: bool
    decoder: Decoder | None


def to_arrow(buffer: Buffer, topic: str, partition: int, **options: Unpack[ArrowOptions]) -> pa.RecordBatch:
    """Return the records of whole batches as one Arrow record batch.

    Columns: offset int64, timestamp timestamp[us, UTC], key binary, value binary, and what the options add.
    Raises CorruptBatch, CompressionUnavailable, and OverflowError when the bytes exceed one record batch
    (`iter_arrow` can).
    """
    batches = list(iter_arrow(buffer, topic, partition, **options))
    if len(batches) > 1:
        raise OverflowError(f"{topic}-{partition}: {len(buffer)} bytes of batches do not fit one Arrow record batch")
    if batches:
        return batches[0]
    import pyarrow as pa

    return pa.RecordBatch.from_pylist([], schema=_schema(options))


def iter_arrow(
    buffer: Buffer, topic: str, partition: int, *, limit: int = LARGEST_COLUMN, **options: Unpack[ArrowOptions]
) -> Iterator[pa.RecordBatch]:
    """Yield what `to_arrow` returns, in record batches that each have at most `limit` bytes of records."""
    _require_pyarrow()
    import pyarrow as pa

    first_offset = options.get("first_offset", 0)
    stop_offset = options.get("stop_offset")
    stop = LARGEST_OFFSET if stop_offset is None else stop_offset
    headers = options.get("headers", False)
    decode = options.get("decoder") or default_decoder()
    schema = _schema(options)
    try:
        check_crcs = options.get("check_crcs", True)
        for source, spans in read_spans(buffer, first_offset, stop, check_crcs=check_crcs, limit=limit):
            columns = _columns(decode, source, spans, first_offset, stop, headers)
            if not options.get("timestamp_type"):
                del columns[4]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
    except CorruptBatch as corrupt:
        raise CorruptBatch(f"{topic}-{partition}: {corrupt.text}") from None


def _columns(
    decode: Decoder, source: memoryview, spans: array[int], first_offset: int, stop_offset: int, headers: bool
) -> list[Any]:
    try:
        return decode(source, spans, first_offset, stop_offset, headers=headers)
    except BrokenRecord as broken:
        batch = spans[broken.span * SPAN_FIELDS + 3]
        fault = FAULTS[broken.fault]
        raise CorruptBatch(f"record {broken.record} of the batch at offset {batch} is broken: {fault}") from None


@cache
def default_decoder() -> Decoder:
    """Return the compiled decoder where numba is installed, else the plain one."""
    try:
        from kohort.client.decode.numba_decoder import decode
    except ImportError:
        from kohort.client.decode.plain_decoder import decode
    return decode


def warm() -> None:
    """Load the decoder, and compile it where no cache has it yet, before the first fetch needs it."""
    span = array("q", (0, 7, 1, 0, 0, 0, 0))
    default_decoder()(memoryview(b"\x0c\x00\x00\x00\x01\x01\x00"), span, 0, 1, headers=False)


def _require_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ImportError(f"Arrow needs pyarrow: {install_command('spark')}") from None


def _schema(options: ArrowOptions) -> pa.Schema:
    return _schema_with(options.get("timestamp_type", False), options.get("headers", False))


@cache
def _schema_with(timestamp_type: bool, headers: bool) -> pa.Schema:
    import pyarrow as pa

    from kohort.client.decode.plain_decoder import HEADERS, TIMESTAMP

    fields = [("offset", pa.int64()), ("timestamp", TIMESTAMP), ("key", pa.binary()), ("value", pa.binary())]
    if timestamp_type:
        fields.append(("timestamp_type", pa.int32()))
    if headers:
        fields.append(("headers", HEADERS))
    return pa.schema(fields)
