"""The records inside a batch: zigzag varints, keys, values and headers, uncompressed.

It knows no batch header; `records` does. Source: Kafka's documentation, "Record".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.wire.compression import Buffer


class CorruptBatch(KafkaError):
    """Bytes that are not a whole, sound record batch (CORRUPT_MESSAGE).

    A consumer names the `partition` and the `offset` that it cannot read. `next_offset` is the first one after the
    batch, None where its header cannot be read either.
    """

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


def _zigzag_varint(value: int) -> bytes:
    """Encode a signed integer of up to 64 bits as Protocol Buffers' zigzag varint."""
    value = value << 1 if value >= 0 else (-value << 1) - 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


_SMALL_VARINTS = tuple(_zigzag_varint(value) for value in range(2048))
_ABSENT = _zigzag_varint(-1)


def _varint(value: int) -> bytes:
    return _SMALL_VARINTS[value] if 0 <= value < 2048 else _zigzag_varint(value)


def _field(content: Buffer | None) -> bytes:
    return _ABSENT if content is None else _varint(len(content)) + content


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
            tail = [_varint(len(headers))]
            for name, content in headers:
                tail += (_field(name.encode()), _field(content))
            suffix = b"".join(tail)
        else:
            suffix = b"\x00"
        body = b"\x00%b%b%b%b%b" % (
            _varint(timestamp - base_timestamp),
            _varint(delta),
            _field(key),
            _field(value),
            suffix,
        )
        parts += (_varint(len(body)), body)
    return b"".join(parts), delta, max_timestamp


Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""The fields of a `Record`, for those who read millions: to make a record of it takes a sixth of the time."""


def decode_rows(
    payload: bytes, count: int, base_offset: int, base_timestamp: int, append_time_ms: int | None
) -> list[Row]:
    """Decode `count` records, which must fill `payload`; they all bear `append_time_ms` where there is one.

    Raises CorruptBatch, and IndexError when the bytes end too early.
    """
    rows, at = _decode_from(payload, 0, count, base_offset, base_timestamp, append_time_ms)
    _require_end(payload, at, base_offset)
    return rows


def decode_rows_in_pieces(
    payload: bytes, count: int, base_offset: int, base_timestamp: int, append_time_ms: int | None, size: int
) -> Iterator[list[Row]]:
    """Do as `decode_rows`, `size` records at a time; what is wrong with the last of them shows at the end."""
    at = 0
    for first in range(0, count, size):
        number = min(size, count - first)
        rows, at = _decode_from(payload, at, number, base_offset, base_timestamp, append_time_ms)
        yield rows
    _require_end(payload, at, base_offset)


def _require_end(payload: bytes, at: int, base_offset: int) -> None:
    if at != len(payload):
        raise CorruptBatch(f"batch at offset {base_offset}: {len(payload) - at} bytes after the last record")


def _decode_from(
    payload: bytes, at: int, count: int, base_offset: int, base_timestamp: int, append_time_ms: int | None
) -> tuple[list[Row], int]:
    """Decode `count` records from a position on; return them and the position behind them."""
    rows: list[Row] = []
    push, read = rows.append, _read_unsigned
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
            raise CorruptBatch(f"batch at offset {base_offset}: a record of no possible size")
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
            headers, at = _read_headers(payload, at, record_end)
        else:
            at += 1
        if at != record_end:
            raise CorruptBatch(f"batch at offset {base_offset}: a record's fields do not fill it")
        push((offset, timestamp, key, value, headers))
    return rows, at


def _read_unsigned(payload: bytes, position: int) -> tuple[int, int]:
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


def _read_varint(payload: bytes, position: int) -> tuple[int, int]:
    """Read a zigzag varint, as `_read_unsigned` reads one without sign."""
    value, position = _read_unsigned(payload, position)
    return value >> 1 ^ -(value & 1), position


def _read_headers(payload: bytes, position: int, end: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, position = _read_varint(payload, position)
    if not 0 <= count <= end - position:
        raise CorruptBatch(f"{count} headers in {end - position} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, position = _read_varint(payload, position)
        if not 0 <= size <= end - position:
            raise CorruptBatch(f"a header key of {size} bytes")
        name = payload[position : position + size].decode("utf-8", "replace")  # as Java reads malformed text
        size, position = _read_varint(payload, position + size)
        if size > end - position:
            raise CorruptBatch(f"a header value of {size} bytes")
        headers.append((name, None if size < 0 else payload[position : position + size]))
        position += max(size, 0)
    return tuple(headers), position
