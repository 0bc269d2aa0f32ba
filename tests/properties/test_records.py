"""Laws of record batches: what is written is read, and no bytes whatever do more harm than a CorruptBatch."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.depth import examples

from kohort.wire.compression import Compression, CorruptCompression, decompress
from kohort.wire.crc32c import crc32c, plain_crc32c
from kohort.wire.record_batches import (
    HEADER_SIZE,
    CorruptBatch,
    Record,
    check_batch,
    control_type,
    decode_batch,
    encode_batch,
    iter_batches,
    read_header,
    stamp_append_time,
)

pytest.importorskip("cramjam")
pytest.importorskip("lz4.frame")
pytest.importorskip("zstandard")

LIMIT = 1 << 20
codecs = st.sampled_from(list(Compression))
fields = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=8), fields), max_size=3).map(tuple)
records = st.builds(Record, st.just(0), st.integers(-(2**40), 2**62), fields, fields, headers)


@st.composite
def batches(draw: st.DrawFn) -> bytes:
    rows = draw(st.lists(records, min_size=1, max_size=12))
    return encode_batch(rows, base_offset=draw(st.integers(0, 2**62)), compression=draw(codecs))


@given(rows=st.lists(records, min_size=1, max_size=30), base=st.integers(0, 2**62), codec=codecs)
def test_records_survive_the_wire(rows: list[Record], base: int, codec: Compression) -> None:
    batch = encode_batch(rows, base_offset=base, compression=codec)
    header = check_batch(batch)
    assert header.size == len(batch)
    assert header.max_timestamp == max(row.timestamp_ms for row in rows)
    assert decode_batch(batch) == [row._replace(offset=base + n) for n, row in enumerate(rows)]


lengths = st.sampled_from([None, 0, 1, 63, 64, 100])
steps_ms = st.sampled_from([0, 0, 1, -1, 50, 70, 9_000, 2**40])


@st.composite
def runs(draw: st.DrawFn) -> list[Record]:
    """Records of few shapes, many of each, with what may end a run: gaps, other times, other lengths, headers."""
    rows: list[Record] = []
    offset, timestamp_ms = draw(st.sampled_from([0, 0, 60, 8_190, 2**20 - 50, 2**30])), 2**42
    for _ in range(draw(st.integers(1, 3))):
        sizes, step_ms, tail = [draw(lengths) for _ in range(2)], draw(steps_ms), draw(st.just(()) | headers)
        count = draw(st.sampled_from([1, 31, 33, 70, 150]))
        gap = draw(st.integers(0, 2 * count))
        for number in range(count):
            offset += number == gap
            key, value = (None if size is None else bytes([number % 256]) * size for size in sizes)
            rows.append(Record(offset, timestamp_ms, key, value, tail))
            offset, timestamp_ms = offset + 1, timestamp_ms + step_ms
        offset += draw(st.sampled_from([0, 0, 9_000]))
    return rows


@given(rows=runs(), has_append_time=st.booleans())
def test_runs_of_records_survive_the_wire(rows: list[Record], has_append_time: bool) -> None:
    batch = encode_batch(rows, own_offsets=True)
    if has_append_time:
        batch = bytes(stamp_append_time(batch, 7))
    assert decode_batch(batch) == [row._replace(timestamp_ms=7) if has_append_time else row for row in rows]


@given(parts=st.lists(batches(), max_size=4), cut=st.integers(0, 100))
def test_whole_batches_are_found_whatever_follows_them(parts: list[bytes], cut: int) -> None:
    content = b"".join(parts)
    partial = encode_batch([Record(0, 0, None, bytes(100))])[:cut]
    assert [bytes(view) for _, view in iter_batches(content + partial)] == parts


def read_everything(content: bytes) -> None:
    """Give bytes to every reader; only CorruptBatch may come out."""
    for reader in (
        read_header,
        check_batch,
        lambda batch: [control_type(row) for row in decode_batch(batch, limit=LIMIT)],
        lambda batch: [decode_batch(view, limit=LIMIT) for _, view in iter_batches(batch)],
        lambda batch: list(iter_batches(batch, strict=True)),
    ):
        with suppress(CorruptBatch):
            reader(content)


@given(content=st.binary(max_size=300))
@example(b"")
@example(bytes(HEADER_SIZE))
@example(bytes(16) + b"\x02" + bytes(60))
def test_random_bytes_are_at_worst_corrupt(content: bytes) -> None:
    read_everything(content)


@given(batch=batches(), flips=st.lists(st.integers(0, 1 << 16), min_size=1, max_size=4))
def test_flipped_bits_are_at_worst_corrupt(batch: bytes, flips: list[int]) -> None:
    damaged = bytearray(batch)
    for bit in flips:
        damaged[bit // 8 % len(damaged)] ^= 1 << bit % 8
    read_everything(bytes(damaged))


@given(batch=batches(), flips=st.lists(st.integers(0, 1 << 16), min_size=1, max_size=4))
def test_flipped_bits_behind_the_header_are_seen_by_the_crc(batch: bytes, flips: list[int]) -> None:
    damaged = bytearray(batch)
    for bit in flips:
        damaged[21 + bit // 8 % (len(damaged) - 21)] ^= 1 << bit % 8
    if damaged == batch:
        return
    with pytest.raises(CorruptBatch):
        check_batch(damaged)


@given(batch=batches(), cut=st.integers(1, 500))
def test_truncated_batches_are_corrupt(batch: bytes, cut: int) -> None:
    part = batch[: max(len(batch) - cut, 0)]
    read_everything(part)
    for reader in (check_batch, decode_batch):
        with pytest.raises(CorruptBatch):
            reader(part)


@given(codec=codecs, content=st.binary(max_size=200))
def test_random_bytes_are_at_worst_corrupt_compression(codec: Compression, content: bytes) -> None:
    with suppress(CorruptCompression):
        assert len(decompress(codec, content, LIMIT)) <= LIMIT


@given(content=st.binary(max_size=2000), split=st.integers(0, 2000))
@settings(max_examples=examples(30))
def test_the_two_crc32c_agree_in_one_piece_or_two(content: bytes, split: int) -> None:
    first, second = content[:split], content[split:]
    assert crc32c(content) == plain_crc32c(content) == plain_crc32c(second, crc32c(first))
