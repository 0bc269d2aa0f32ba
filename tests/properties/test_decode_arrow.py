"""The compiled decoder and the plain one: equal on every batch, refusing the same damaged record."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numba")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.depth import examples

from kohort.client.decode import numba_decoder, plain_decoder
from kohort.client.decode.arrow_decoder import to_arrow
from kohort.wire.compression import Compression
from kohort.wire.crc32c import crc32c
from kohort.wire.record_batches import (
    HEADER_SIZE,
    CorruptBatch,
    Record,
    decode_batch,
    encode_batch,
    iter_batches,
    stamp_append_time,
)

CONTENT = st.one_of(st.none(), st.binary(max_size=6), st.integers(60, 20_000).map(lambda size: b"\x81" * size))
HEADERS = st.lists(st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=3))), max_size=2).map(tuple)
TIMESTAMPS = st.one_of(st.integers(-1, 1 << 42), st.sampled_from([-(1 << 61), 1 << 61, 0]))
RECORDS = st.lists(st.builds(Record, st.just(0), TIMESTAMPS, CONTENT, CONTENT, HEADERS), min_size=1, max_size=12)
BATCHES = st.lists(
    st.tuples(RECORDS, st.sampled_from(Compression), st.booleans(), st.sampled_from([None, 0, 1 << 41])),
    min_size=1,
    max_size=4,
)
SLOW_MACHINES = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=examples(60))


def wire_bytes(batches):
    buffer, offset = b"", 5
    for records, codec, control, append_time in batches:
        batch = encode_batch(records, base_offset=offset, compression=codec, control=control)
        buffer += batch if append_time is None else stamp_append_time(batch, append_time)
        offset += len(records)
    return buffer


def outcome(decoder, buffer, **offsets):
    """What a decoder makes of the bytes: a record batch, or the words it refuses them with."""
    try:
        return to_arrow(buffer, "t", 0, timestamp_type=True, headers=True, decoder=decoder, **offsets)
    except CorruptBatch as refused:
        return str(refused)


@SLOW_MACHINES
@given(BATCHES, st.integers(0, 40), st.integers(0, 40))
def test_both_decoders_return_the_same_rows(batches, first, stop):
    buffer = wire_bytes(batches)
    compiled = outcome(numba_decoder.decode, buffer, first_offset=first, stop_offset=stop)
    assert compiled.equals(outcome(plain_decoder.decode, buffer, first_offset=first, stop_offset=stop))


@SLOW_MACHINES
@given(BATCHES)
def test_rows_are_the_records_of_the_wire_codec(batches):
    buffer = wire_bytes(batches)
    expected = [
        record for header, batch in iter_batches(buffer) if not header.is_control for record in decode_batch(batch)
    ]
    rows = outcome(numba_decoder.decode, buffer)
    assert rows["offset"].to_pylist() == [each.offset for each in expected]
    assert rows["key"].to_pylist() == [each.key for each in expected]
    assert rows["value"].to_pylist() == [each.value for each in expected]
    found = [tuple((header["key"], header["value"]) for header in row or ()) for row in rows["headers"].to_pylist()]
    assert found == [each.headers for each in expected]


@settings(SLOW_MACHINES, max_examples=examples(200))
@given(RECORDS, st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), min_size=1, max_size=3))
def test_both_decoders_refuse_the_same_damage(records, damage):
    batch = bytearray(encode_batch(records, base_offset=5))
    for place, byte in damage:
        batch[HEADER_SIZE + place % (len(batch) - HEADER_SIZE)] = byte
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    compiled, plain = outcome(numba_decoder.decode, batch), outcome(plain_decoder.decode, batch)
    if isinstance(plain, str):  # only the compiled one names the field, where a record is broken
        assert compiled.partition(" is broken: ")[0] == plain.partition(" is broken: ")[0]
    else:
        assert compiled.equals(plain)
