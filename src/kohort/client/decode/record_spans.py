"""Spans of uncompressed records in fetched record batches, for the decoders that turn them into columns.

A span is where one batch's uncompressed records lie, and the fields of its header that decoders need. Control
batches and batches outside the wanted offsets never become spans. CRCs are checked here, codecs end
here; what lies inside a span is the decoders' matter.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Final

from kohort.wire.compression import Buffer, CorruptCompression, decompress
from kohort.wire.crc32c import crc32c
from kohort.wire.record_batches import HEADER_SIZE, MAX_UNPACKED_BYTES, BatchHeader, CorruptBatch, iter_batches

SPAN_FIELDS: Final = 7
"""A span is seven int64: start, end, record count, base offset, last offset delta, base timestamp, append time."""

NO_APPEND_TIME: Final = -(1 << 63)
"""The append time of a span whose records carry their own timestamps."""

LARGEST_COLUMN: Final = (1 << 31) - 1
"""Most bytes of one Arrow binary column behind its int32 offsets."""

LARGEST_OFFSET: Final = (1 << 63) - 1

_SMALLEST_RECORD: Final = 7
_CODEC: Final = 0x07
_APPEND_TIME: Final = 0x08
_CONTROL: Final = 0x20
_CRC_FROM: Final = 21


class BrokenRecord(Exception):
    """A decoder met bytes that are no record: the span's index, the record's index in it, and what is wrong."""

    def __init__(self, span: int, record: int, fault: int) -> None:
        super().__init__(span, record, fault)
        self.span, self.record, self.fault = span, record, fault


FAULTS: Final = {
    1: "its length reaches outside the batch",
    2: "a varint is cut off or too long",
    3: "its offset lies outside the batch",
    4: "its key reaches outside the record",
    5: "its value reaches outside the record",
    6: "its headers reach outside the record",
    7: "its fields do not fill its length",
    8: "bytes are left over after the last record",
}


class _ArrowBatch:
    """The spans collected for one record batch in Arrow, and where their bytes are."""

    def __init__(self, buffer: memoryview) -> None:
        self.buffer = buffer
        self.spans = array("q")
        self.pieces: list[Buffer] = []
        self.size = 0
        self.in_place = True

    def add(self, header: BatchHeader, start: int, records: Buffer) -> None:
        """Add a batch whose records lie at `start` of the buffer, or were unpacked from there."""
        base_offset, _, _, _, _, attributes, delta, base_timestamp, max_timestamp, _, _, _, count = header
        size = len(records)
        append_time = max_timestamp if attributes & _APPEND_TIME else NO_APPEND_TIME
        self.spans.extend((start, start + size, count, base_offset, delta, base_timestamp, append_time))
        self.pieces.append(records)
        self.size += size
        if attributes & _CODEC:
            self.in_place = False

    def sealed(self) -> tuple[memoryview, array[int]]:
        """Return the bytes and the spans; records are moved together when any batch had to be unpacked."""
        if self.in_place:
            return self.buffer, self.spans
        position = 0
        for index, piece in enumerate(self.pieces):
            self.spans[index * SPAN_FIELDS] = position
            position += len(piece)
            self.spans[index * SPAN_FIELDS + 1] = position
        return memoryview(b"".join(self.pieces)), self.spans


def read_spans(
    buffer: Buffer,
    first_offset: int,
    stop_offset: int,
    *,
    check_crcs: bool = True,
    limit: int = LARGEST_COLUMN,
) -> Iterator[tuple[memoryview, array[int]]]:
    """Yield `(source, spans)`: bytes, and the spans in them, flat, `SPAN_FIELDS` numbers each.

    One pair as long as the records stay below `limit` bytes, as many as needed beyond. Uncompressed batches are
    referred to in place. Raises CorruptBatch on anything that is not a whole, valid batch, and CompressionUnavailable.
    """
    view = memoryview(buffer).cast("B")
    limit = min(limit, LARGEST_COLUMN)
    group = _ArrowBatch(view)
    following = 0
    for header, batch in iter_batches(view, strict=True):
        start = following + HEADER_SIZE
        following += len(batch)
        # The fields are taken by their places: a property's call costs as much as the check it serves.
        base_offset, _, _, _, crc, attributes, delta, *_, count = header
        if base_offset < 0 or delta < 0 or base_offset > LARGEST_OFFSET - delta or not 0 <= count <= delta + 1:
            declared = f"base offset {base_offset}, last offset delta {delta}, {count} records"
            raise CorruptBatch(f"impossible batch header: {declared}")
        if base_offset + delta < first_offset or base_offset >= stop_offset:
            continue
        if check_crcs and crc32c(batch[_CRC_FROM:]) != crc:
            raise CorruptBatch(f"wrong CRC in the batch at offset {base_offset}")
        if attributes & _CONTROL or not count:
            continue
        records = _unpacked(header, batch[HEADER_SIZE:]) if attributes & _CODEC else batch[HEADER_SIZE:]
        if count * _SMALLEST_RECORD > len(records):
            raise CorruptBatch(f"the batch at offset {base_offset} cannot contain the {count} records it declares")
        if group.size + len(records) > limit and group.spans:
            yield group.sealed()
            group = _ArrowBatch(view)
        group.add(header, start, records)
    if group.spans:
        yield group.sealed()


def _unpacked(header: BatchHeader, records: memoryview) -> bytes:
    try:
        return decompress(header.compression, records, MAX_UNPACKED_BYTES)
    except CorruptCompression as corrupt:
        raise CorruptBatch(f"the batch at offset {header.base_offset} does not unpack: {corrupt}") from None
