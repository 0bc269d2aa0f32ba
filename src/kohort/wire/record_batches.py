"""Record batches, format v2: the bytes that travel in Produce and Fetch and lie in log segments.

A batch is a 61-byte header and its records, which may be compressed. Reading raises `CorruptBatch` for
anything that is not a whole, valid batch, never another error. Base offset and leader epoch lie outside the CRC, so
a broker patches them in place. Source: Kafka's documentation, "Record Batch"; KIP-98; KIP-32 for the timestamp type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import NamedTuple

from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.wire.compression import (
    Buffer,
    Compression,
    CorruptCompression,
    compress,
    decompress,
)
from kohort.wire.crc32c import crc32c
from kohort.wire.primitives import varint
from kohort.wire.record_runs import LEAST, RunBases, read_run

HEADER_SIZE = 61
"""Bytes of a batch before its first record."""

MAX_UNPACKED_BYTES = 128 << 20
"""What a compressed batch may unpack to where the caller sets no limit of its own."""

NO_TIMESTAMP = -1

_HEADER = Struct(">qiibIhiqqqhii")
_HEAD, _TAIL = Struct(">qiibI"), Struct(">hiqqqhii")
"""The header up to its CRC, and what the CRC covers of it."""
_CRC = Struct(">I")
_LOG_OVERHEAD = 12  # base offset and length, which the length does not count
_SMALLEST_LENGTH = HEADER_SIZE - _LOG_OVERHEAD
_MAGIC = 2
_CRC_FROM = 21  # the CRC covers the attributes and all that follows
_CRC_AND_ATTRIBUTES = Struct(">Ih")
_MAX_TIMESTAMP = Struct(">q")
_COMPRESSION, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL, _DELETE_HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40


class CorruptBatch(KafkaError):
    """Bytes that are not a whole, valid record batch (CORRUPT_MESSAGE).

    A consumer names the `partition` and the `offset` that it cannot read. `next_offset` is the first one after the
    batch, None where its header cannot be read either; `batch` are its bytes, None where they are not whole.
    """

    batch: bytes | None = None

    def __init__(
        self,
        text: str,
        partition: TopicPartition | None = None,
        offset: int | None = None,
        next_offset: int | None = None,
    ) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, text)
        self.partition = partition
        self.offset = offset
        self.next_offset = next_offset


class Record(NamedTuple):
    """One record. A null key or value is None; header keys are text, header values bytes or None."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class EncodedRecords:
    """Records that are encoded already: their bytes, number, and the one timestamp that they all have.

    `batch` has room for the header of a batch before them, which is zero at first: a batch is made without a copy.
    """

    batch: memoryview
    count: int
    timestamp_ms: int

    @property
    def payload(self) -> memoryview:
        """The records alone."""
        return self.batch[HEADER_SIZE:]

    def __len__(self) -> int:
        return self.count


def _zigzag_varint(value: int) -> bytes:
    """Encode a signed integer of up to 64 bits as Protocol Buffers' zigzag varint."""
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


_SMALL_VARINTS = tuple(_zigzag_varint(value) for value in range(2048))
_ABSENT = _zigzag_varint(-1)


def signed_varint(value: int) -> bytes:
    """Return a number as it stands in records."""
    return _SMALL_VARINTS[value] if 0 <= value < 2048 else _zigzag_varint(value)


def _field(content: Buffer | None) -> bytes:
    return _ABSENT if content is None else signed_varint(len(content)) + content


def encode_records(
    records: Sequence[Record], base_offset: int | None, base_timestamp: int | None = None
) -> tuple[bytes, int, int]:
    """Return the bytes of records, the last one's offset delta, and the largest timestamp.

    Offsets are consecutive where `base_offset` is None, else the records' own, relative to it. Timestamps are relative
    to `base_timestamp`, or to that of the first record.
    """
    max_timestamp = records[0].timestamp_ms
    if base_timestamp is None:
        base_timestamp = max_timestamp
    delta = -1
    parts: list[bytes] = []
    for offset, timestamp, key, value, headers in records:
        delta = delta + 1 if base_offset is None else offset - base_offset
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        if headers:
            tail = [signed_varint(len(headers))]
            for name, content in headers:
                tail += (_field(name.encode()), _field(content))
            suffix = b"".join(tail)
        else:
            suffix = b"\x00"
        body = b"\x00%b%b%b%b%b" % (
            signed_varint(timestamp - base_timestamp),
            signed_varint(delta),
            _field(key),
            _field(value),
            suffix,
        )
        parts += (signed_varint(len(body)), body)
    return b"".join(parts), delta, max_timestamp


Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""The fields of a `Record`, for readers of millions: making a `Record` of them takes a sixth of the time."""


_MOST_WALKED = 256
"""After so many records that were no run, one is looked for again."""


def decode_rows(
    payload: bytes, count: int, base_offset: int, base_timestamp: int, append_time_ms: int | None
) -> list[Row]:
    """Decode `count` records, which must fill `payload`; they all bear `append_time_ms` where there is one.

    Raises CorruptBatch.
    """
    rows: list[Row] = []
    bases = base_offset, base_timestamp, append_time_ms
    try:
        fill = _fill if count < LEAST else _fill_by_runs
        if fill(rows, payload, 0, count, *bases) != len(payload):
            raise CorruptBatch("bytes are left over after the last record")
    except (CorruptBatch, IndexError) as error:
        fault = error.text if isinstance(error, CorruptBatch) else "it ends beyond the batch"
        number = min(len(rows), max(count - 1, 0))
        raise CorruptBatch(f"record {number} of the batch at offset {base_offset} is broken: {fault}") from None
    return rows


def _fill_by_runs(rows: list[Row], payload: bytes, at: int, count: int, *bases: *RunBases) -> int:
    """Do as `_fill`, by runs of records of one shape as far as there are such."""
    step = LEAST // 2
    while (left := count - len(rows)) > 0:
        before = at
        if left >= LEAST:
            try:
                at = read_run(rows, payload, at, left, bases, read_unsigned)
            except (CorruptBatch, IndexError):
                step = left  # the walk meets it too, and names it
        if at == before:
            at = _fill(rows, payload, at, min(step, left), *bases)
            step = min(2 * step, _MOST_WALKED)
        else:
            step = LEAST // 2
    return at


def _fill(
    rows: list[Row],
    payload: bytes,
    at: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time_ms: int | None,
) -> int:
    push, read = rows.append, read_unsigned
    end = len(payload)
    for _ in range(count):
        # Varints of one and two bytes are written out: nearly all are, and a call costs more than the rest of it.
        if (size := payload[at]) < 0x80:
            at += 1
        elif (high := payload[at + 1]) < 0x80:
            size, at = size & 0x7F | high << 7, at + 2
        else:
            size, at = read(payload, at)
        record_end = at + (size >> 1)
        if size & 1 or size < 12 or record_end > end:
            raise CorruptBatch("its length reaches outside the batch")
        at += 1  # the record's attributes are unused
        if (delta := payload[at]) < 0x80:
            at += 1
        elif (high := payload[at + 1]) < 0x80:
            delta, at = delta & 0x7F | high << 7, at + 2
        else:
            delta, at = read(payload, at)
        timestamp = base_timestamp + (delta >> 1 ^ -(delta & 1)) if append_time_ms is None else append_time_ms
        if (delta := payload[at]) < 0x80:
            at += 1
        elif (high := payload[at + 1]) < 0x80:
            delta, at = delta & 0x7F | high << 7, at + 2
        else:
            delta, at = read(payload, at)
        offset = base_offset + (delta >> 1 ^ -(delta & 1))
        if (size := payload[at]) < 0x80:
            at += 1
        elif (high := payload[at + 1]) < 0x80:
            size, at = size & 0x7F | high << 7, at + 2
        else:
            size, at = read(payload, at)
        key: bytes | None = None
        if not size & 1:  # any negative length is null, as in Java
            key = payload[at : (at := at + (size >> 1))]
        if (size := payload[at]) < 0x80:
            at += 1
        elif (high := payload[at + 1]) < 0x80:
            size, at = size & 0x7F | high << 7, at + 2
        else:
            size, at = read(payload, at)
        value: bytes | None = None
        if not size & 1:
            value = payload[at : (at := at + (size >> 1))]
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if payload[at]:
            headers, at = read_headers(payload, at, record_end)
        else:
            at += 1
        if at != record_end:
            raise CorruptBatch("its fields do not fill its length")
        push((offset, timestamp, key, value, headers))
    return at


def read_unsigned(payload: bytes, position: int) -> tuple[int, int]:
    """Read a varint of up to ten bytes. Raises CorruptBatch, and IndexError at the end of the bytes."""
    value = shift = 0
    while True:
        byte = payload[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80 and value < 1 << 64:
            return value, position
        shift += 7
        if shift > 63:
            raise CorruptBatch("a varint of more than 64 bits")


def read_varint(payload: bytes, position: int) -> tuple[int, int]:
    """Read a zigzag varint, as `read_unsigned` does one without sign."""
    value, position = read_unsigned(payload, position)
    return value >> 1 ^ -(value & 1), position


def read_headers(payload: bytes, position: int, end: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    """Read a record's headers, and return the position after them. Raises as `read_unsigned` does."""
    count, position = read_varint(payload, position)
    if not 0 <= count <= end - position:
        raise CorruptBatch(f"{count} headers in {end - position} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, position = read_varint(payload, position)
        if not 0 <= size <= end - position:
            raise CorruptBatch(f"a header key of {size} bytes")
        name = payload[position : position + size].decode("utf-8", "replace")  # as Java reads malformed text
        size, position = read_varint(payload, position + size)
        if size > end - position:
            raise CorruptBatch(f"a header value of {size} bytes")
        headers.append((name, None if size < 0 else payload[position : position + size]))
        position += max(size, 0)
    return tuple(headers), position


class TimestampType(IntEnum):
    """Who set the timestamps of a batch (KIP-32)."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class ControlType(IntEnum):
    """The type of a control record: how its transaction ended."""

    ABORT = 0
    COMMIT = 1


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, in their order on the wire."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, with the twelve that `batch_length` does not count."""
        return self.batch_length + _LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def compression(self) -> Compression:
        """Raises CorruptBatch when the attributes name a compression that does not exist."""
        try:
            return Compression(self.attributes & _COMPRESSION)
        except ValueError:
            raise CorruptBatch(f"unknown compression {self.attributes & _COMPRESSION}") from None

    @property
    def is_control(self) -> bool:
        return self.attributes & _CONTROL != 0

    @property
    def is_transactional(self) -> bool:
        return self.attributes & _TRANSACTIONAL != 0

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType(self.attributes >> 3 & 1)

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on a cleaner may remove the batch's tombstones and markers (KIP-534); None before one was set."""
        return self.base_timestamp if self.attributes & _DELETE_HORIZON else None


_new_tuple = tuple.__new__


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header at `position`; the records behind it are not looked at.

    Raises CorruptBatch when fewer than 61 bytes are there, or when they cannot be a header of format v2.
    """
    try:
        header = _new_tuple(BatchHeader, _HEADER.unpack_from(buffer, position))
    except StructError:
        raise CorruptBatch(f"{max(len(buffer) - position, 0)} bytes are too few for a batch header") from None
    if header[3] != _MAGIC:
        raise CorruptBatch(f"magic {header[3]}: only record batches of format v2 are understood")
    if header[1] < _SMALLEST_LENGTH:
        raise CorruptBatch(f"a batch length of {header[1]} is less than a header")
    return header


def iter_batches(buffer: Buffer, *, strict: bool = False) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Yield each whole batch of `buffer` with its header; CRCs are not checked.

    A fetch may end in the middle of a batch, so a partial one at the end is left out, unless `strict` makes
    it an error. Raises CorruptBatch where a header is none.
    """
    view = memoryview(buffer)
    position, end = 0, len(view)
    while end - position >= HEADER_SIZE:
        header = read_header(view, position)
        following = position + _LOG_OVERHEAD + header[1]
        if following > end:
            break
        yield header, view[position:following]
        position = following
    if strict and position != end:
        raise CorruptBatch(f"{end - position} bytes after the last whole batch")


def check_batch(batch: Buffer) -> BatchHeader:
    """Return the header of `batch`, which must be exactly one valid batch: sizes, counts and CRC.

    A compacted batch may have fewer records than its offsets span, even none. Raises CorruptBatch.
    """
    header = read_header(batch)
    _check(header, batch)
    return header


def check_crc(header: BatchHeader, batch: Buffer) -> None:
    """Raise CorruptBatch unless `batch` has the size and the CRC that its header states."""
    if header[1] + _LOG_OVERHEAD != len(batch):
        raise CorruptBatch(f"the batch states {header[1] + _LOG_OVERHEAD} bytes and has {len(batch)}")
    if crc32c(memoryview(batch)[_CRC_FROM:]) != header[4]:
        raise CorruptBatch(f"wrong CRC in the batch at offset {header[0]}")


def _check(header: BatchHeader, batch: Buffer) -> None:
    check_crc(header, batch)
    if not 0 <= header[12] <= header[6] + 1:
        raise CorruptBatch(f"{header[12]} records in {header[6] + 1} offsets")
    if header[5] & _COMPRESSION > Compression.ZSTD:
        raise CorruptBatch(f"unknown compression {header[5] & _COMPRESSION}")


def stamp_append_time(batch: Buffer, append_time_ms: int) -> bytearray:
    """Return a copy of `batch` whose records all bear the broker's time: attributes, max timestamp and CRC change."""
    stamped = bytearray(batch)
    (attributes,) = Struct(">h").unpack_from(stamped, _CRC_FROM)
    _MAX_TIMESTAMP.pack_into(stamped, 35, append_time_ms)
    _CRC_AND_ATTRIBUTES.pack_into(stamped, 17, 0, attributes | _LOG_APPEND_TIME)
    _CRC.pack_into(stamped, 17, crc32c(memoryview(stamped)[_CRC_FROM:]))
    return stamped


def encode_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    compression: Compression = Compression.NONE,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    own_offsets: bool = False,
) -> bytes:
    """Return one batch of `records`.

    Records get consecutive offsets from `base_offset`, whatever their own are, unless `own_offsets` (for compacted
    batches). Raises ValueError without records, and CompressionUnavailable.
    """
    rows: Sequence[Record] = records if isinstance(records, Sequence) else list(records)
    if not rows:
        raise ValueError("a batch has at least one record")
    count, base_timestamp = len(rows), rows[0].timestamp_ms
    payload, last_offset_delta, max_timestamp = encode_records(rows, base_offset if own_offsets else None)
    if compression:
        payload = compress(compression, payload)
    attributes = compression | (transactional and _TRANSACTIONAL) | (control and _CONTROL)
    fields = (attributes, last_offset_delta, base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence,
              count)  # fmt: skip
    return framed(payload, fields, base_offset, leader_epoch)


def frame_records(
    records: EncodedRecords,
    *,
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> Buffer:
    """Return one batch of records that are encoded already. Raises CompressionUnavailable."""
    payload = compress(compression, records.payload) if compression else records.payload
    count, now = records.count, records.timestamp_ms
    attributes = compression | (transactional and _TRANSACTIONAL)
    fields = attributes, count - 1, now, now, producer_id, producer_epoch, base_sequence, count
    if compression or any(records.batch[:HEADER_SIZE]):  # a second header: the first one may be on its way
        return framed(payload, fields)
    _HEADER.pack_into(records.batch, 0, 0, _SMALLEST_LENGTH + len(payload), -1, _MAGIC, 0, *fields)
    _CRC.pack_into(records.batch, 17, crc32c(records.batch[_CRC_FROM:]))
    return records.batch


def framed(payload: Buffer, fields: tuple[int, ...], base_offset: int = 0, leader_epoch: int = -1) -> bytes:
    """Return a batch of records that are bytes already; `fields` are those of its header from the attributes on."""
    tail = _TAIL.pack(*fields)
    crc = crc32c(payload, crc32c(tail))
    head = _HEAD.pack(base_offset, _SMALLEST_LENGTH + len(payload), leader_epoch, _MAGIC, crc)
    return b"".join((head, tail, payload))


def retain_records(header: BatchHeader, records: Sequence[Record], delete_horizon_ms: int | None = None) -> bytes:
    """Return what a cleaner leaves of a batch: some of its records, under its own header.

    Offsets, timestamps, producer and sequence stay; without records only the header is left. Raises
    CompressionUnavailable.
    """
    attributes, payload = header.attributes & ~(_COMPRESSION | _DELETE_HORIZON), b""
    base_timestamp, max_timestamp = NO_TIMESTAMP, header.max_timestamp
    if records:
        base_timestamp = records[0].timestamp_ms if delete_horizon_ms is None else delete_horizon_ms
        payload, _, largest = encode_records(records, header.base_offset, base_timestamp)
        max_timestamp = max_timestamp if attributes & _LOG_APPEND_TIME else largest
        attributes |= header.compression | (_DELETE_HORIZON if delete_horizon_ms is not None else 0)
        if header.compression:
            payload = compress(header.compression, payload)
    fields = attributes, header.last_offset_delta, base_timestamp, max_timestamp, *header[9:12], len(records)
    return framed(payload, fields, header.base_offset, header.partition_leader_epoch)


def decode_batch(batch: Buffer, *, limit: int = MAX_UNPACKED_BYTES) -> list[Record]:
    """Return the records of one whole batch; the CRC is not checked (`check_batch` does).

    Control batches are decoded like any other. A compressed batch may unpack to `limit` bytes. Raises CorruptBatch
    when anything is off, and CompressionUnavailable.
    """
    return [_new_tuple(Record, row) for row in decode_batch_rows(batch, limit=limit)]


def decode_batch_rows(batch: Buffer, *, limit: int = MAX_UNPACKED_BYTES) -> list[Row]:
    """Do as `decode_batch`, for plain rows."""
    header = read_header(batch)
    if header.size != len(batch):
        raise CorruptBatch(f"the batch states {header.size} bytes and has {len(batch)}")
    return _decode_rows(header, batch, limit)


def checked_records(header: BatchHeader, batch: Buffer) -> list[Record]:
    """Check a batch whose header was read already, and return its records; raises as both would."""
    return [_new_tuple(Record, row) for row in checked_rows(header, batch)]


def checked_rows(header: BatchHeader, batch: Buffer) -> list[Row]:
    """Do as `checked_records`, for plain rows."""
    _check(header, batch)
    return _decode_rows(header, batch, MAX_UNPACKED_BYTES)


def _decode_rows(header: BatchHeader, batch: Buffer, limit: int) -> list[Row]:
    payload = bytes(memoryview(batch)[HEADER_SIZE:])
    attributes = header[5]
    if attributes & _COMPRESSION:
        try:
            payload = decompress(header.compression, payload, limit)
        except CorruptCompression as error:
            raise CorruptBatch(f"batch at offset {header.base_offset}: {error}") from None
    append_time_ms = header[8] if attributes & _LOG_APPEND_TIME else None
    return decode_rows(payload, header[12], header[0], header[7], append_time_ms)


# --------------------------------------------------------------------------------------------------- control records

_CONTROL_KEY = Struct(">hh")
_CONTROL_VALUE = Struct(">hi")


def control_record(kind: ControlType, timestamp_ms: int, coordinator_epoch: int = 0) -> Record:
    """Return the one record of a control batch (KIP-98)."""
    return Record(0, timestamp_ms, _CONTROL_KEY.pack(0, kind), _CONTROL_VALUE.pack(0, coordinator_epoch))


class Marker(NamedTuple):
    """How a transaction ended, by which coordinator."""

    is_commit: bool
    coordinator_epoch: int


def read_marker(batch: Buffer) -> Marker | None:
    """Return the marker in a control batch, None for another control record. Raises CorruptBatch."""
    records = decode_batch(batch) if read_header(batch).record_count > 0 else []
    kind = control_type(records[0]) if records else None
    if kind is None:
        return None
    value = records[0].value
    if value is None or len(value) < _CONTROL_VALUE.size:
        raise CorruptBatch("the marker of a transaction without a coordinator epoch")
    return Marker(kind is ControlType.COMMIT, _CONTROL_VALUE.unpack_from(value)[1])


def encode_marker(producer_id: int, epoch: int, marker: Marker, timestamp_ms: int) -> bytes:
    """Return the control batch that ends a transaction (KIP-98)."""
    kind = ControlType.COMMIT if marker.is_commit else ControlType.ABORT
    record = control_record(kind, timestamp_ms, marker.coordinator_epoch)
    return encode_batch([record], producer_id=producer_id, producer_epoch=epoch, transactional=True, control=True)


def control_type(record: Record) -> ControlType | None:
    """Return the type of a control record, None for an unknown one. Raises CorruptBatch."""
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise CorruptBatch("a control record without a type")
    _version, kind = _CONTROL_KEY.unpack_from(record.key)  # newer versions only add fields
    return ControlType(kind) if kind in (0, 1) else None
