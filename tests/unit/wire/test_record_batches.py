"""Record batches v2: Java's bytes read and written, headers, control records, patches, and every kind of damage."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kohort.model.errors import ErrorCode
from kohort.wire.compression import Compression, compress
from kohort.wire.crc32c import crc32c
from kohort.wire.record_batches import (
    HEADER_SIZE,
    ControlType,
    CorruptBatch,
    Record,
    TimestampType,
    check_batch,
    control_record,
    control_type,
    decode_batch,
    encode_batch,
    iter_batches,
    read_header,
    stamp_append_time,
)

JAVA = {
    name: bytes.fromhex(text)
    for name, text in (
        line.split() for line in (Path(__file__).parent / "java_batches.txt").read_text().splitlines() if line
    )
}
"""Batches that `MemoryRecords` of kafka-clients 4.3.1 wrote, one of each compression, a control batch, and one with
LogAppendTime."""

CODECS = list(Compression)
ROWS = [
    Record(1000, 1700000000000, b"key", b"value", (("hé", b"\x01\x02"), ("none", None))),
    Record(1001, 1700000000123, None, b"x" * 300),
    Record(1002, 1699999999000, b"k", None),
]


def resealed(batch: bytearray) -> bytes:
    """Return a batch whose length and CRC are right again after something in it was changed."""
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return bytes(batch)


def with_payload(payload: bytes, count: int = 1, codec: Compression = Compression.NONE) -> bytes:
    """Return a sound batch around records of any content."""
    batch = bytearray(encode_batch([Record(0, 0, None, None)])[:HEADER_SIZE]) + compress(codec, payload)
    struct.pack_into(">h", batch, 21, codec)
    struct.pack_into(">i", batch, 23, max(count - 1, 0))
    struct.pack_into(">i", batch, 57, count)
    return resealed(batch)


# -- as Java has it


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
def test_javas_batches_are_read(codec: Compression) -> None:
    batch = JAVA[codec.name.lower()]
    header = check_batch(batch)
    assert header.compression is codec
    assert (header.base_offset, header.last_offset, header.record_count, header.size) == (1000, 1002, 3, len(batch))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4242, 3, 17)
    assert (header.partition_leader_epoch, header.magic) == (5, 2)
    assert (header.base_timestamp, header.max_timestamp) == (1700000000000, 1700000000123)
    assert not header.is_control
    assert not header.is_transactional
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert decode_batch(batch) == ROWS


def test_an_uncompressed_batch_is_byte_for_byte_javas() -> None:
    ours = encode_batch(ROWS, base_offset=1000, leader_epoch=5, producer_id=4242, producer_epoch=3, base_sequence=17)
    assert ours == JAVA["none"]


def test_a_control_batch_is_byte_for_byte_javas() -> None:
    marker = control_record(ControlType.ABORT, 1700000000000, coordinator_epoch=11)
    ours = encode_batch(
        [marker], base_offset=7, leader_epoch=2, producer_id=99, producer_epoch=1, transactional=True, control=True
    )
    assert ours == JAVA["control"]
    header = check_batch(ours)
    assert header.is_control
    assert header.is_transactional
    assert control_type(decode_batch(ours)[0]) is ControlType.ABORT


def test_log_append_time_is_every_records_time() -> None:
    batch = JAVA["appendtime"]
    assert check_batch(batch).timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp_ms for record in decode_batch(batch)] == [1700000009999]
    assert stamp_append_time(encode_batch([Record(0, 1700000000000, b"a", b"b")]), 1700000009999) == batch


def test_the_delete_horizon_changes_nothing_for_readers() -> None:
    batch = bytearray(JAVA["none"])
    batch[22] |= 0x40
    assert decode_batch(resealed(batch)) == ROWS


# -- round trips


@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
def test_records_come_back(codec: Compression) -> None:
    rows = [Record(50 + n, 1000 - n, b"%d" % n, bytes(n * 40), (("n", b"%d" % n),) * (n % 3)) for n in range(100)]
    batch = encode_batch(rows, base_offset=50, compression=codec)
    assert check_batch(batch).compression is codec
    assert decode_batch(memoryview(batch)) == rows


def test_offsets_count_from_the_base_unless_they_are_the_records_own() -> None:
    rows = [Record(9, 0, None, b"a"), Record(12, 0, None, b"b")]
    assert [row.offset for row in decode_batch(encode_batch(rows, base_offset=5))] == [5, 6]
    kept = encode_batch(rows, base_offset=5, own_offsets=True)
    assert [row.offset for row in decode_batch(kept)] == [9, 12]
    assert (check_batch(kept).last_offset, check_batch(kept).record_count) == (12, 2)


def test_the_max_timestamp_is_the_largest_not_the_last() -> None:
    header = read_header(encode_batch([Record(0, 5, None, None), Record(0, 9, None, None), Record(0, 7, None, None)]))
    assert (header.base_timestamp, header.max_timestamp) == (5, 9)


def test_null_and_empty_are_different() -> None:
    rows = [Record(0, 0, None, b""), Record(1, 0, b"", None), Record(2, 0, b"", b"", (("", b""), ("", None)))]
    assert decode_batch(encode_batch(rows)) == rows


def test_large_fields_and_far_timestamps() -> None:
    rows = [Record(0, 0, b"k" * 5000, b"v" * 300_000), Record(1, 2**62, None, None), Record(2, -(2**62), None, None)]
    assert decode_batch(encode_batch(rows)) == rows


def test_a_batch_without_records_is_not_written() -> None:
    with pytest.raises(ValueError, match="at least one record"):
        encode_batch([])


def test_a_header_key_that_is_not_utf8_is_read_as_java_reads_it() -> None:
    good = encode_batch([Record(0, 0, None, None, (("ab", None),))])
    batch = bytearray(good)
    at = good.index(b"ab", HEADER_SIZE)
    batch[at : at + 2] = b"\xff\xfe"
    assert decode_batch(resealed(batch))[0].headers == (("\ufffd\ufffd", None),)


# -- patches


def test_base_offset_and_leader_epoch_are_patched_outside_the_crc() -> None:
    batch = bytearray(encode_batch(ROWS))
    crc = read_header(batch).crc
    batch[:8], batch[12:16] = (1 << 40).to_bytes(8, "big"), (12).to_bytes(4, "big")
    header = check_batch(batch)
    assert (header.base_offset, header.partition_leader_epoch, header.crc) == (1 << 40, 12, crc)
    assert [row.offset for row in decode_batch(batch)] == [(1 << 40) + n for n in range(3)]


def test_the_brokers_time_is_stamped_with_a_new_crc() -> None:
    batch = encode_batch(ROWS, compression=Compression.GZIP)
    stamped = stamp_append_time(batch, 1800000000000)
    header = check_batch(stamped)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (header.max_timestamp, header.base_timestamp) == (1800000000000, 1700000000000)
    assert {row.timestamp_ms for row in decode_batch(stamped)} == {1800000000000}
    assert check_batch(batch).timestamp_type is TimestampType.CREATE_TIME, "the batch received stays as it was"


# -- several batches


def test_batches_are_split_and_a_partial_one_at_the_end_is_left_out() -> None:
    first, second = encode_batch(ROWS), encode_batch(ROWS[:1], base_offset=3)
    for cut in range(1, len(second)):
        found = list(iter_batches(first + second[:-cut]))
        assert [bytes(view) for _, view in found] == [first]
    assert [header.base_offset for header, _ in iter_batches(memoryview(first + second))] == [0, 3]
    assert list(iter_batches(b"")) == []


def test_strict_reading_refuses_a_partial_batch() -> None:
    batch = encode_batch(ROWS)
    assert len(list(iter_batches(batch, strict=True))) == 1
    for rest in (batch[:-1], batch + b"\x00", batch + batch[:30]):
        with pytest.raises(CorruptBatch):
            list(iter_batches(rest, strict=True))


# -- damage


def test_corruption_is_kafkas_error() -> None:
    with pytest.raises(CorruptBatch) as caught:
        read_header(b"")
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("size", [0, 1, 12, 60])
def test_fewer_bytes_than_a_header_are_no_batch(size: int) -> None:
    with pytest.raises(CorruptBatch):
        read_header(encode_batch(ROWS)[:size])


@pytest.mark.parametrize("magic", [0, 1, 3, -1])
def test_other_formats_are_refused(magic: int) -> None:
    batch = bytearray(encode_batch(ROWS))
    struct.pack_into(">b", batch, 16, magic)
    for reader in (read_header, check_batch, decode_batch, lambda content: list(iter_batches(content))):
        with pytest.raises(CorruptBatch, match="magic"):
            reader(batch)


@pytest.mark.parametrize("length", [48, 0, -1, -(2**31)])
def test_a_length_below_a_header_is_refused(length: int) -> None:
    batch = bytearray(encode_batch(ROWS))
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptBatch, match="length"):
        list(iter_batches(batch))


def test_a_batch_of_another_size_than_it_states_is_refused() -> None:
    batch = encode_batch(ROWS)
    for other in (batch[:-1], batch + b"\x00"):
        for reader in (check_batch, decode_batch):
            with pytest.raises(CorruptBatch, match="bytes"):
                reader(other)


def test_every_flipped_bit_under_the_crc_is_found() -> None:
    batch = encode_batch(ROWS[:1])
    for bit in range(17 * 8, len(batch) * 8):
        damaged = bytearray(batch)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptBatch):
            check_batch(damaged)


@pytest.mark.parametrize("count", [-1, 4, 2**31 - 1, -(2**31)])
def test_more_records_than_offsets_or_fewer_than_none_are_refused(count: int) -> None:
    batch = bytearray(encode_batch(ROWS))
    struct.pack_into(">i", batch, 57, count)
    with pytest.raises(CorruptBatch, match="records"):
        check_batch(resealed(batch))


def test_a_compacted_batch_may_be_empty() -> None:
    assert check_batch(with_payload(b"", count=0)).record_count == 0
    assert decode_batch(with_payload(b"", count=0)) == []


def test_an_unknown_compression_is_refused() -> None:
    batch = bytearray(encode_batch(ROWS))
    batch[22] |= 7
    for reader in (check_batch, decode_batch):
        with pytest.raises(CorruptBatch, match="compression 7"):
            reader(resealed(batch))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x80",
        b"\x80" * 20,
        b"\x0c\x00\x00\x00",  # ends within the record
        b"\x0e\x00\x00\x00\x01\x01\x00",  # six bytes in a record of seven
        b"\x0a\x00\x00\x00\x01\x01\x00",  # a record of five bytes, one too small
        b"\x0c\x00\x00\x00\x01\x01\x02",  # a header that is not there
        b"\x0c\x00\x00\x00\x7e\x01\x00",  # a key beyond the end
        b"\x0c\x00\x00\x00\x01\x7e\x00",  # a value beyond the end
        b"\x0c\x00\x00\x00\x01\x01\x00\x00",  # a byte too many
        b"\x10\x00\x00\x00\x01\x01\x02\x01\x00",  # a header with a null key
        b"\x0c\x00\x00\x00\x01\x01\x01",  # -1 headers
        b"\x01",  # a record of -1 bytes
        b"\x1e\x00" + b"\xff" * 9 + b"\x7f\x00\x01\x01\x00",  # a varint of more than 64 bits
    ],
)
@pytest.mark.parametrize("codec", CODECS, ids=lambda codec: codec.name.lower())
def test_malformed_records_are_refused(payload: bytes, codec: Compression) -> None:
    with pytest.raises(CorruptBatch):
        decode_batch(with_payload(payload, codec=codec))


def test_a_huge_record_count_costs_nothing() -> None:
    with pytest.raises(CorruptBatch):
        decode_batch(with_payload(b"\x0c\x00\x00\x00\x01\x01\x00", count=2**31 - 1))


def test_a_bomb_in_a_batch_is_bounded() -> None:
    bomb = with_payload(bytes(8 << 20), codec=Compression.GZIP)
    assert len(bomb) < 10_000
    with pytest.raises(CorruptBatch, match=r"limit|more than"):
        decode_batch(bomb, limit=1 << 20)


def test_a_control_record_of_a_newer_kind_is_unknown_and_one_without_key_corrupt() -> None:
    assert control_type(Record(0, 0, b"\x00\x00\x00\x01", None)) is ControlType.COMMIT
    assert control_type(Record(0, 0, b"\x00\x05\x00\x01new", None)) is ControlType.COMMIT
    assert control_type(Record(0, 0, b"\x00\x00\x00\x63", None)) is None
    for key in (None, b"", b"\x00\x00\x00"):
        with pytest.raises(CorruptBatch):
            control_type(Record(0, 0, key, None))
