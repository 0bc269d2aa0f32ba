"""Record batches to Arrow: what both decoders return, and which bytes both refuse."""

from __future__ import annotations

import pytest

pa = pytest.importorskip("pyarrow")

from kohort.client.decode import plain_decoder  # noqa: E402
from kohort.client.decode.arrow_decoder import default_decoder, iter_arrow, to_arrow, warm  # noqa: E402
from kohort.wire.compression import Compression  # noqa: E402
from kohort.wire.crc32c import crc32c  # noqa: E402
from kohort.wire.record_batches import HEADER_SIZE, CorruptBatch, Record, encode_batch, stamp_append_time  # noqa: E402

DECODERS = {"plain": plain_decoder.decode}
try:
    from kohort.client.decode import numba_decoder

    DECODERS["numba"] = numba_decoder.decode
except ImportError:
    pass

RECORDS = [
    Record(0, 1_700_000_000_000, b"k0", b"v0"),
    Record(0, 1_700_000_000_001, None, b"v1", (("trace", b"1"), ("empty", None))),
    Record(0, 1_700_000_000_002, b"", None),
    Record(0, 1_699_999_999_999, b"k3", b"x" * 300),
]


@pytest.fixture(params=DECODERS)
def decoder(request):
    return DECODERS[request.param]


def resealed(batch: bytearray) -> bytes:
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    return bytes(batch)


def test_every_field_of_a_record_arrives(decoder):
    batch = to_arrow(encode_batch(RECORDS, base_offset=40), "t", 0, timestamp_type=True, headers=True, decoder=decoder)
    assert batch["offset"].to_pylist() == [40, 41, 42, 43]
    assert batch["key"].to_pylist() == [b"k0", None, b"", b"k3"]
    assert batch["value"].to_pylist() == [b"v0", b"v1", None, b"x" * 300]
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [each.timestamp_ms * 1000 for each in RECORDS]
    assert batch["timestamp_type"].to_pylist() == [0] * 4
    trace = [{"key": "trace", "value": b"1"}, {"key": "empty", "value": None}]
    assert batch["headers"].to_pylist() == [None, trace, None, None]


def test_headers_of_a_part_of_a_batch_are_those_of_its_rows(decoder):
    some = [Record(0, 0, None, b"%d" % n, tuple((f"h{each}", b"%d" % n) for each in range(n))) for n in range(40)]
    batch = to_arrow(encode_batch(some), "t", 0, first_offset=9, stop_offset=31, headers=True, decoder=decoder)
    expected = [[{"key": f"h{each}", "value": b"%d" % n} for each in range(n)] for n in range(9, 31)]
    assert batch["headers"].to_pylist() == expected
    batch.validate(full=True)


def test_a_headers_key_that_is_no_utf8_is_shown_with_replacements(decoder):
    packed = bytearray(encode_batch([Record(0, 0, None, b"v", (("ab", b"1"),)), Record(0, 0, None, b"w")]))
    at = packed.index(b"ab")
    packed[at : at + 2] = b"a\xff"
    batch = to_arrow(resealed(packed), "t", 0, headers=True, decoder=decoder)
    assert batch["headers"].to_pylist() == [[{"key": "a\ufffd", "value": b"1"}], None]


def test_columns_have_the_types_that_spark_compares(decoder):
    schema = to_arrow(encode_batch(RECORDS), "t", 0, decoder=decoder).schema
    assert schema == pa.schema(
        [
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("us", tz="UTC")),
            ("key", pa.binary()),
            ("value", pa.binary()),
        ]
    )


@pytest.mark.parametrize("codec", list(Compression))
def test_every_codec_gives_the_same_rows(decoder, codec):
    plain = to_arrow(encode_batch(RECORDS), "t", 0, headers=True, decoder=decoder)
    assert to_arrow(encode_batch(RECORDS, compression=codec), "t", 0, headers=True, decoder=decoder).equals(plain)


def test_codecs_may_change_from_batch_to_batch(decoder):
    buffer = b"".join(encode_batch(RECORDS, base_offset=4 * codec, compression=codec) for codec in Compression)
    batch = to_arrow(buffer, "t", 0, headers=True, decoder=decoder)
    assert batch["offset"].to_pylist() == list(range(20))
    assert batch["value"].to_pylist() == [each.value for each in RECORDS] * 5
    assert batch["headers"].to_pylist()[17] == [{"key": "trace", "value": b"1"}, {"key": "empty", "value": None}]


def test_offsets_outside_the_range_are_left_out_inside_a_batch(decoder):
    buffer = b"".join(encode_batch(RECORDS, base_offset=base) for base in (0, 4, 8))
    batch = to_arrow(buffer, "t", 0, first_offset=2, stop_offset=9, decoder=decoder)
    assert batch["offset"].to_pylist() == list(range(2, 9))
    assert batch["key"].to_pylist() == ([b"k0", None, b"", b"k3"] * 3)[2:9]


def test_a_batch_outside_the_range_is_not_even_unpacked(decoder):
    broken = bytearray(encode_batch(RECORDS, compression=Compression.ZSTD))
    broken[HEADER_SIZE:] = bytes(len(broken) - HEADER_SIZE)
    buffer = resealed(broken) + encode_batch(RECORDS, base_offset=4)
    assert to_arrow(buffer, "t", 0, first_offset=4, decoder=decoder).num_rows == 4


def test_control_batches_are_dropped(decoder):
    marker = encode_batch([Record(0, 0, b"\0\0\0\1", b"\0" * 6)], base_offset=4, control=True, transactional=True)
    buffer = encode_batch(RECORDS) + marker + encode_batch(RECORDS, base_offset=5)
    assert to_arrow(buffer, "t", 0, decoder=decoder)["offset"].to_pylist() == [0, 1, 2, 3, 5, 6, 7, 8]


def test_append_time_replaces_the_timestamps_of_the_records(decoder):
    stamped = bytes(stamp_append_time(encode_batch(RECORDS), 5))
    batch = to_arrow(stamped, "t", 0, timestamp_type=True, decoder=decoder)
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [5000] * 4
    assert batch["timestamp_type"].to_pylist() == [1] * 4


def test_compacted_batches_keep_the_offsets_of_what_is_left(decoder):
    left = [Record(offset, 0, b"k", b"v") for offset in (11, 15, 19)]
    buffer = encode_batch(left, base_offset=10, own_offsets=True)
    assert to_arrow(buffer, "t", 0, decoder=decoder)["offset"].to_pylist() == [11, 15, 19]


def test_no_batches_are_no_rows(decoder):
    batch = to_arrow(b"", "t", 0, headers=True, decoder=decoder)
    assert (batch.num_rows, batch.schema.names) == (0, ["offset", "timestamp", "key", "value", "headers"])


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_more_than_one_column_can_hold_becomes_several_batches(decoder, codec):
    buffer = b"".join(encode_batch(RECORDS, base_offset=4 * n, compression=codec) for n in range(6))
    batches = list(iter_arrow(buffer, "t", 0, limit=800, decoder=decoder))
    assert [each.num_rows for each in batches] == [8, 8, 8]
    assert pa.Table.from_batches(batches)["offset"].to_pylist() == list(range(24))


def test_timestamps_beyond_microseconds_stop_at_the_edge(decoder):
    batch = to_arrow(encode_batch([Record(0, 1 << 62, None, b"")]), "t", 0, decoder=decoder)
    assert batch["timestamp"].cast(pa.int64()).to_pylist() == [((1 << 63) // 1000 - 1) * 1000]


def test_writable_buffers_are_read_too(decoder):
    assert to_arrow(bytearray(encode_batch(RECORDS)), "t", 0, decoder=decoder).num_rows == 4
    assert to_arrow(memoryview(bytearray(encode_batch(RECORDS))), "t", 0, decoder=decoder).num_rows == 4


def test_a_flipped_bit_is_a_wrong_crc(decoder):
    batch = bytearray(encode_batch(RECORDS))
    batch[-3] ^= 1
    with pytest.raises(CorruptBatch, match=r"flights-7: wrong CRC in the batch at offset 0"):
        to_arrow(batch, "flights", 7, decoder=decoder)


def test_a_buffer_that_ends_inside_a_batch_is_refused(decoder):
    with pytest.raises(CorruptBatch, match="after the last whole batch"):
        to_arrow(encode_batch(RECORDS)[:-1], "t", 0, decoder=decoder)


@pytest.mark.parametrize(
    ("place", "byte", "fault"),
    [
        (0, 0x7E, "its length reaches outside the batch"),
        (0, 0x01, "its length reaches outside the batch"),
        (3, 0x02, "its offset lies outside the batch"),
        (3, 0x01, "its offset lies outside the batch"),
        (4, 0x3E, "its key reaches outside the record"),
        (6, 0x3E, "its value reaches outside the record"),
        (9, 0x02, "a varint is cut off"),
        (9, 0x01, "its headers reach outside the record"),
        (6, 0x02, "its fields do not fill its length"),
        (0, 0x80, "a varint is cut off|its length reaches outside"),
    ],
)
def test_a_broken_record_is_named_with_its_fault(decoder, place, byte, fault):
    batch = bytearray(encode_batch([Record(0, 0, b"k", b"v\0")]))
    batch[HEADER_SIZE + place] = byte
    if decoder is plain_decoder.decode:  # which decodes whole records, not field by field
        fault = ""
    with pytest.raises(CorruptBatch, match=f"t-0: record 0 of the batch at offset 0 is broken: {fault}"):
        to_arrow(resealed(batch), "t", 0, decoder=decoder)


def test_a_varint_of_more_than_64_bits_is_refused(decoder):
    batch = bytearray(encode_batch([Record(0, 0, None, b"nine more")]))
    batch[HEADER_SIZE + 1 :] = b"\0" + b"\xff" * 9 + b"\x7f" + b"\0\1\1\0"
    with pytest.raises(CorruptBatch, match="record 0 of the batch at offset 0 is broken: a varint"):
        to_arrow(resealed(batch), "t", 0, decoder=decoder)


def test_bytes_after_the_last_record_are_refused(decoder):
    batch = bytearray(encode_batch(RECORDS) + b"\0")
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="bytes are left over"):
        to_arrow(resealed(batch), "t", 0, decoder=decoder)


def test_a_count_that_the_bytes_cannot_hold_reserves_no_memory(decoder):
    batch = bytearray(encode_batch(RECORDS))
    batch[23:27] = batch[57:61] = (0x7FFFFFF0).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match=r"cannot contain the 2147483632 records|impossible"):
        to_arrow(resealed(batch), "t", 0, decoder=decoder)


def test_the_default_decoder_is_ready_after_warming():
    warm()
    assert to_arrow(encode_batch(RECORDS), "t", 0).num_rows == 4
    assert default_decoder() in DECODERS.values()
