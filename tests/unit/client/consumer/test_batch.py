"""What a consumer yields of the bytes it fetched."""

from __future__ import annotations

import pytest

from kohort.client.consumer.batch import Batch
from kohort.model.ids import TopicPartition
from kohort.wire.record_batches import ControlType, CorruptBatch, Record, control_record, encode_batch
from kohort.wire.visible_batches import visible_batches

T0 = TopicPartition("t", 0)


def raw(base_offset: int, count: int, **fields: object) -> bytes:
    records = [Record(0, 1000 + at, None, b"%d" % (base_offset + at)) for at in range(count)]
    return encode_batch(records, base_offset=base_offset, **fields)  # type: ignore[arg-type]


def marker(offset: int, kind: ControlType, producer_id: int) -> bytes:
    return encode_batch(
        [control_record(kind, 0)],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
        control=True,
    )


def batch(*parts: bytes, first: int = 0, aborted: list[tuple[int, int]] | None = None) -> Batch:
    seen = visible_batches(memoryview(b"".join(parts)), first, aborted)
    return Batch(T0, seen, first_offset=first, high_watermark=99)


def offsets(found: Batch) -> list[int]:
    return [record.offset for record in found]


def test_records_come_in_order_from_all_raw_batches() -> None:
    found = batch(raw(0, 2), raw(2, 3))
    assert offsets(found) == [0, 1, 2, 3, 4]
    assert [record.value for record in found] == [b"0", b"1", b"2", b"3", b"4"]
    assert (found.next_offset, len(found)) == (5, 5)


def test_records_before_the_offset_asked_for_are_left_out() -> None:
    assert offsets(batch(raw(0, 5), first=3)) == [3, 4]


def test_a_batch_cut_short_at_the_end_is_left_for_the_next_fetch() -> None:
    found = batch(raw(0, 2), raw(2, 3)[:-1])
    assert offsets(found) == [0, 1]
    assert found.next_offset == 2


def test_control_batches_are_passed_over() -> None:
    found = batch(
        raw(0, 2, producer_id=7, producer_epoch=0, transactional=True), marker(2, ControlType.COMMIT, 7), raw(3, 1)
    )
    assert offsets(found) == [0, 1, 3]
    assert found.next_offset == 4


def test_uncommitted_readers_see_aborted_records() -> None:
    parts = raw(0, 2, producer_id=7, producer_epoch=0, transactional=True), marker(2, ControlType.ABORT, 7)
    assert offsets(batch(*parts)) == [0, 1]


def test_committed_readers_do_not_see_aborted_records() -> None:
    found = batch(
        raw(0, 2, producer_id=7, producer_epoch=0, transactional=True),
        raw(2, 1, producer_id=8, producer_epoch=0, transactional=True),
        marker(3, ControlType.ABORT, 7),
        raw(4, 1, producer_id=7, producer_epoch=0, transactional=True),
        aborted=[(7, 0)],
    )
    assert offsets(found) == [2, 4]
    assert found.next_offset == 5


def test_a_transaction_aborted_later_hides_only_its_own_records() -> None:
    found = batch(
        raw(0, 1, producer_id=7, producer_epoch=0, transactional=True),
        marker(1, ControlType.COMMIT, 7),
        raw(2, 1, producer_id=7, producer_epoch=0, transactional=True),
        marker(3, ControlType.ABORT, 7),
        aborted=[(7, 2)],
    )
    assert offsets(found) == [0]


def test_one_piece_of_memory_holds_the_raw_batches_without_a_copy() -> None:
    fetched = memoryview(raw(0, 2) + raw(2, 3))
    seen = visible_batches(fetched, 0, None)
    assert seen.whole is not None
    assert seen.whole.obj is fetched.obj


def test_raw_batches_around_a_hidden_one_are_joined() -> None:
    parts = raw(0, 1), marker(1, ControlType.COMMIT, 7), raw(2, 1)
    assert bytes(batch(*parts).buffer) == parts[0] + parts[2]


def test_a_split_gives_the_first_records_and_the_rest() -> None:
    first, rest = batch(raw(0, 2), raw(2, 3)).split(3)
    assert offsets(first) == [0, 1, 2]
    assert (first.next_offset, rest.first_offset) == (3, 3)
    assert offsets(rest) == [3, 4]
    assert rest.next_offset == 5


def test_a_split_beyond_the_end_leaves_nothing() -> None:
    first, rest = batch(raw(0, 2)).split(9)
    assert offsets(first) == [0, 1]
    assert offsets(rest) == []


def test_a_flipped_bit_is_found_when_the_records_are_looked_at() -> None:
    spoiled = bytearray(raw(0, 2))
    spoiled[-1] ^= 1
    with pytest.raises(CorruptBatch):
        _ = batch(bytes(spoiled)).records


def test_arrow_has_the_same_records() -> None:
    pytest.importorskip("pyarrow")
    table = batch(raw(0, 5), raw(5, 3), first=2).to_arrow()
    assert table.column("offset").to_pylist() == [2, 3, 4, 5, 6, 7]
    assert table.column("value").to_pylist()[0] == b"2"
