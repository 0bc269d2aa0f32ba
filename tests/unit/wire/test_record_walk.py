"""The walk through a batch's records: what it finds, what it refuses, and that it pauses."""

from __future__ import annotations

import gzip
from struct import pack_into

import pytest

from kohort.node.step_scheduler import result_of
from kohort.wire.compression import Compression
from kohort.wire.crc32c import crc32c
from kohort.wire.record_batches import (
    HEADER_SIZE,
    CorruptBatch,
    Record,
    encode_batch,
    encode_records,
    read_header,
    signed_varint,
)
from kohort.wire.record_walk import check_records, find_record

ROWS = [
    Record(0, 1000, b"a", b"x" * 300),
    Record(1, 990, b"b" * 70, None, (("name", b"value"), ("none", None))),
    Record(2, 1020, b"", b""),
]


def forged(payload: bytes, count: int, codec: Compression = Compression.NONE) -> bytes:
    """Return a batch with a right CRC that claims to hold `count` records."""
    batch = bytearray(encode_batch([Record(0, 1000, None, b"")])[:HEADER_SIZE])
    pack_into(">i", batch, 8, HEADER_SIZE - 12 + len(payload))
    pack_into(">hi", batch, 21, codec, count - 1)
    pack_into(">i", batch, 57, count)
    pack_into(">I", batch, 17, crc32c(payload, crc32c(bytes(batch[21:]))))
    return bytes(batch) + payload


def check(batch: bytes, **limits: int) -> bool:
    return result_of(check_records(read_header(batch), batch, **limits))


def record(*fields: int | bytes) -> bytes:
    """Return one record of numbers and bytes."""
    body = b"\0" + b"".join(signed_varint(field) if isinstance(field, int) else field for field in fields)
    return signed_varint(len(body)) + body


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_valid_records_are_found_valid_and_whether_all_have_keys(codec: Compression) -> None:
    assert check(encode_batch(ROWS, compression=codec))
    assert not check(encode_batch([*ROWS, Record(3, 0, None, b"no key")], compression=codec))


SOUND = encode_records(ROWS, None)[0]


@pytest.mark.parametrize(
    ("payload", "count", "why"),
    [
        (b"no record at all", 1, "impossible size"),
        (SOUND, 2, "after the last record"),
        (SOUND, 4, "beyond the batch"),
        (SOUND[:-1], 3, "impossible size"),
        (SOUND + b"\0", 3, "after the last record"),
        (record(0, 1, -1, -1, 0), 1, "another offset"),
        (record(0, 0, -1, -1, 0, b"more"), 1, "do not fill"),
        (record(0, 0, -1, 50, 0), 1, "beyond the batch"),
        (record(0, 0, -1, -1, 5, b"abcd"), 1, "number of headers"),
        (record(0, 0, -1, -1, -1, b"abcd"), 1, "number of headers"),
        (record(0, 0, -1, -1, 1, -1, b"abcd"), 1, "without a name"),
        (record(0, 0, -1, -1, 1, 9, 0), 1, "beyond the batch"),
        (record(0, 0, -1, -1, 0)[:-1] + b"\x80", 1, "beyond the batch"),
        (record(b"\xff" * 10, 0, -1, -1, 0), 1, "64 bits"),
    ],
)
def test_what_is_no_record_is_refused_with_the_reason(payload: bytes, count: int, why: str) -> None:
    with pytest.raises(CorruptBatch, match=why):
        check(forged(payload, count))


def test_more_headers_than_allowed_are_refused_before_they_are_read() -> None:
    batch = forged(record(0, 0, -1, -1, 1000, b"\0\1" * 1000), 1)
    assert not check(batch, most_headers=1000)
    with pytest.raises(CorruptBatch, match="more than 999 headers"):
        check(batch, most_headers=999)


@pytest.mark.parametrize(
    ("count", "payload"),
    [
        (1, record(0, 0, -1, -1, 10_000, b"\0\1" * 10_000)),
        (10_000, b"".join(record(0, at, -1, -1, 0) for at in range(10_000))),
    ],
    ids=["headers", "records"],
)
def test_a_long_walk_pauses(count: int, payload: bytes) -> None:
    batch = forged(payload, count)
    assert len(list(check_records(read_header(batch), batch))) > 10_000 // 128


def test_more_bytes_than_the_limit_are_refused_while_they_are_unpacked() -> None:
    batch = forged(gzip.compress(bytes(64 << 20)), 1, Compression.GZIP)
    walk = check_records(read_header(batch), batch, 1 << 20)
    for _ in range(4):  # a megabyte in pieces
        next(walk)
    with pytest.raises(CorruptBatch, match="more than 1048576 bytes when unpacked"):
        next(walk)


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_the_first_record_that_is_wanted_is_found(codec: Compression) -> None:
    batch = encode_batch(ROWS, compression=codec, base_offset=40)
    header = read_header(batch)
    found = [
        result_of(find_record(header, batch, lambda _, at_ms, least=least: at_ms >= least)) for least in (0, 1001, 1021)
    ]
    assert found == [(40, 1000), (42, 1020), None]
    assert result_of(find_record(header, batch, lambda offset, _: offset > 40)) == (41, 990)


def test_looking_for_a_record_among_what_is_none_is_refused() -> None:
    for payload, count in ((b"no record at all", 1), (SOUND, 4)):
        batch = forged(payload, count)
        with pytest.raises(CorruptBatch):
            result_of(find_record(read_header(batch), batch, lambda *_: False))
