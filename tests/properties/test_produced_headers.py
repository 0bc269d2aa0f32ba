"""Every single-bit change of a batch's header is refused with Kafka's error, or does no harm."""

from __future__ import annotations

from struct import pack_into

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.unit.node.desk import Desk, fetch, only, produce

from kohort.model.errors import ErrorCode
from kohort.wire.compression import Compression
from kohort.wire.crc32c import crc32c
from kohort.wire.messages import ListOffsetsRequest
from kohort.wire.record_batches import HEADER_SIZE, Record, decode_batch, encode_batch, iter_batches, read_header

ROWS = [Record(at, 1_700_000_000_000 + at, b"k%d" % at, b"v" * 20, (("trace", b"x"),)) for at in range(3)]
SEEDS = {
    "plain": encode_batch(ROWS),
    "gzip": encode_batch(ROWS, compression=Compression.GZIP),
    "idempotent": encode_batch(ROWS, producer_id=5, producer_epoch=0, base_sequence=0),
}
REFUSALS = {
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.INVALID_TIMESTAMP,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
}
CRC_FROM = 21
COMPRESSION = range(CRC_FROM * 8 + 8, CRC_FROM * 8 + 11)
"""The bits that name the compression: only a walk through the records shows that it is another one."""


def flipped(batch: bytes, bit: int, *, is_signed: bool) -> bytes:
    """Return a batch with one bit of it changed, and the CRC that goes with it if it `is_signed`."""
    changed = bytearray(batch)
    changed[bit // 8] ^= 1 << bit % 8
    if is_signed and bit // 8 >= CRC_FROM:
        pack_into(">I", changed, 17, crc32c(bytes(changed[CRC_FROM:])))
    return bytes(changed)


def check_harmless(desk: Desk, batch: bytes) -> None:
    """Produce a batch between two sound ones: it is refused, or all three are read and found as they were sent."""
    desk.create("orders")
    peer = desk.connect()
    for records in (SEEDS["plain"], batch, SEEDS["plain"]):
        result = only(peer.call(produce("orders", records), 9))
        if records is batch:
            error = result.error_code
        else:
            assert result.error_code == ErrorCode.NONE
    assert error == ErrorCode.NONE or error in REFUSALS, ErrorCode(error)
    expected = 2 * len(ROWS) if error else 3 * len(ROWS)
    partition = ListOffsetsRequest.Topic.Partition
    for timestamp in (-1, -2, -3, ROWS[0].timestamp_ms, ROWS[0].timestamp_ms + 1):
        asked = ListOffsetsRequest.Topic(name="orders", partitions=[partition(timestamp=timestamp)])
        found = peer.call(ListOffsetsRequest(topics=[asked]), 7).topics[0].partitions[0]
        assert found.error_code == ErrorCode.NONE
        assert timestamp != -1 or found.offset == expected
    desk = desk.restart(clean=False)
    stored = only(desk.connect().call(fetch("orders"), 11)).records
    rows = [row for _, view in iter_batches(stored) for row in decode_batch(view)]
    assert [(row.offset, row.key, row.value, row.headers) for row in rows] == [
        (offset, *ROWS[offset % len(ROWS)][2:]) for offset in range(expected)
    ]


@pytest.mark.parametrize("name", SEEDS)
@settings(max_examples=examples(300), deadline=None)
@given(bit=st.integers(0, HEADER_SIZE * 8 - 1), is_signed=st.booleans(), checks_records=st.booleans())
def test_a_changed_bit_of_a_header_is_refused_or_harmless(
    name: str, bit: int, is_signed: bool, checks_records: bool
) -> None:
    if is_signed and bit in COMPRESSION:
        checks_records = True
    check_harmless(Desk(kohort_produce_check_records=checks_records), flipped(SEEDS[name], bit, is_signed=is_signed))


@pytest.mark.parametrize("name", SEEDS)
def test_every_bit_that_is_changed_on_the_way_is_refused_so_that_it_is_sent_again(name: str) -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    for bit in range(16 * 8, HEADER_SIZE * 8):
        result = only(peer.call(produce("orders", flipped(SEEDS[name], bit, is_signed=False)), 9))
        assert result.error_code == ErrorCode.CORRUPT_MESSAGE, f"bit {bit} of byte {bit // 8}"


@pytest.mark.parametrize("name", SEEDS)
def test_a_batch_claims_no_other_number_of_records_than_it_has_offsets_and_bytes_for(name: str) -> None:
    """Both counts of a header lie together, so that only the size of the batch contradicts them."""
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    size = read_header(SEEDS[name]).size - HEADER_SIZE
    for count in (size * 1032 // 7 + 1, 1 << 24, (1 << 31) - 1):
        changed = bytearray(SEEDS[name])
        pack_into(">i", changed, 23, count - 1)
        pack_into(">i", changed, 57, count)
        pack_into(">I", changed, 17, crc32c(bytes(changed[CRC_FROM:])))
        result = only(peer.call(produce("orders", bytes(changed)), 9))
        assert result.error_code == ErrorCode.INVALID_RECORD
    assert desk.disk.list("orders-0") == []
