"""What a cleaner leaves of a batch, judged batch by batch."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kohort.log.compaction import Filter, LastOffsets
from kohort.wire.compression import Buffer, Compression
from kohort.wire.record_batches import (
    ControlType,
    CorruptBatch,
    Record,
    check_batch,
    control_record,
    decode_batch,
    encode_batch,
    read_header,
    stamp_append_time,
)

ENOUGH = 1 << 20
DAY_MS = 86_400_000


def batch(base_offset: int, *rows: tuple[bytes | None, bytes | None], time_ms: int = 1000, **header: object) -> bytes:
    """Return a batch of these keys and values as it lies in a log."""
    records = [Record(0, time_ms + at, key, value) for at, (key, value) in enumerate(rows)]
    return encode_batch(records, base_offset=base_offset, **header)  # type: ignore[arg-type]


def of_transaction(base_offset: int, *rows: tuple[bytes, bytes | None], producer_id: int = 7, at: int = 0) -> bytes:
    return batch(base_offset, *rows, producer_id=producer_id, producer_epoch=0, base_sequence=at, transactional=True)


def marker(offset: int, kind: ControlType, producer_id: int = 7) -> bytes:
    producer = {"producer_id": producer_id, "producer_epoch": 0}
    record = control_record(kind, 1000)
    return encode_batch([record], base_offset=offset, leader_epoch=0, transactional=True, control=True, **producer)


def known_of(*batches: Buffer, memory_bytes: int = ENOUGH, end: int = 1 << 40) -> LastOffsets:
    known = LastOffsets(memory_bytes, end)
    for each in batches:
        if not known.take(read_header(each), each):
            break
    return known


def cleaned(
    *batches: Buffer,
    now_ms: int = 0,
    known: LastOffsets | None = None,
    last: dict[int, tuple[int, int | None]] | None = None,
) -> list[Buffer | None]:
    judge = Filter(known or known_of(*batches), now_ms=now_ms, delete_retention_ms=DAY_MS)
    judge.last = last or {}
    found = [judge.retained(read_header(each), each) for each in batches]
    for each in found:
        if each is not None:
            check_batch(each)
    return found


def rows(batch: Buffer | None) -> list[tuple[int, bytes | None, bytes | None]] | None:
    return None if batch is None else [(each.offset, each.key, each.value) for each in decode_batch(batch)]


def all_rows(batches: Sequence[Buffer | None]) -> list[tuple[int, bytes | None, bytes | None]]:
    return [row for each in batches for row in rows(each) or []]


def test_last_record_of_a_key_stays_at_its_offset() -> None:
    found = cleaned(batch(0, (b"a", b"1"), (b"b", b"1"), (b"a", b"2")), batch(3, (b"c", b"1"), (b"b", b"2")))
    assert all_rows(found) == [(2, b"a", b"2"), (3, b"c", b"1"), (4, b"b", b"2")]


def test_batch_of_which_everything_stays_retains_its_bytes() -> None:
    whole = batch(5, (b"a", b"1"), (b"b", b"2"))
    assert cleaned(whole) == [whole]


def test_batch_with_remaining_records_retains_its_header() -> None:
    before = batch(
        10, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", b"4"), (b"x", None),
        compression=Compression.GZIP, leader_epoch=3, producer_id=9, producer_epoch=2, base_sequence=40,
    )  # fmt: skip
    (found,) = cleaned(before)
    assert found is not None
    old, new = read_header(before), read_header(found)
    assert (new.base_offset, new.last_offset, new.partition_leader_epoch) == (10, 14, 3)
    assert new[9:12] == old[9:12] == (9, 2, 40)
    assert new.compression is Compression.GZIP
    assert [(each.offset, each.timestamp_ms) for each in decode_batch(found)] == [(12, 1002), (13, 1003), (14, 1004)]
    assert new.max_timestamp == 1004


def test_batch_with_the_brokers_time_retains_it() -> None:
    first, second = batch(0, (b"a", b"1"), (b"b", b"1")), batch(2, (b"a", b"2"))
    (found, _) = cleaned(bytes(stamp_append_time(first, 777)), bytes(stamp_append_time(second, 778)))
    assert found is not None
    assert [each.timestamp_ms for each in decode_batch(found)] == [777]
    assert read_header(found).max_timestamp == 777


def test_batch_of_which_nothing_stays_goes() -> None:
    assert cleaned(batch(0, (b"a", b"1")), batch(1, (b"a", b"2")))[0] is None


def test_record_without_a_key_goes() -> None:
    assert rows(cleaned(batch(0, (None, b"1"), (b"a", b"2")))[0]) == [(1, b"a", b"2")]


def test_records_beyond_the_end_of_the_map_stay() -> None:
    batches = batch(0, (b"a", b"1")), batch(1, (b"a", b"2")), batch(2, (b"a", b"3"), (None, b"4"))
    assert all_rows(cleaned(*batches, known=known_of(*batches, end=2))) == [
        (1, b"a", b"2"), (2, b"a", b"3"), (3, None, b"4"),
    ]  # fmt: skip


def test_map_takes_whole_batches_as_long_as_there_is_room() -> None:
    batches = batch(0, (b"a", b"1"), (b"b", b"1")), batch(2, (b"c", b"1")), batch(3, (b"d", b"1"))
    known = known_of(*batches, memory_bytes=500)
    assert (sorted(known.offsets), known.end) == ([b"a", b"b", b"c"], 3)


def test_batch_that_is_larger_than_the_whole_room_is_taken_alone() -> None:
    batches = batch(0, (b"a", b"1"), (b"b", b"1")), batch(2, (b"c", b"1"))
    known = known_of(*batches, memory_bytes=1)
    assert (sorted(known.offsets), known.end) == ([b"a", b"b"], 2)


def test_tombstone_stays_until_its_time_has_come_and_the_batch_states_when_that_is() -> None:
    before = batch(0, (b"a", b"1")), batch(1, (b"a", None), (b"b", b"2"))
    _, first = cleaned(*before, now_ms=5_000)
    assert first is not None
    assert read_header(first).delete_horizon_ms == 5_000 + DAY_MS
    assert decode_batch(first) == decode_batch(before[1])
    (again,) = cleaned(first, now_ms=4_999 + DAY_MS)
    assert again is first
    (gone,) = cleaned(first, now_ms=5_000 + DAY_MS)
    assert rows(gone) == [(2, b"b", b"2")]


def test_batch_of_an_old_tombstone_goes_with_it() -> None:
    (first,) = cleaned(batch(0, (b"a", None)), now_ms=0)
    assert first is not None
    assert cleaned(first, now_ms=DAY_MS) == [None]


def test_last_batch_of_a_producer_stays_empty_so_that_its_sequence_is_known() -> None:
    first = batch(0, (b"a", b"1"), (b"b", b"1"), producer_id=9, producer_epoch=2, base_sequence=40)
    second = batch(2, (b"a", b"2"), (b"b", b"2"))
    empty, _ = cleaned(first, second, last={9: (2, 1)})
    assert empty is not None
    header = read_header(empty)
    assert (header.record_count, header.base_offset, header.last_offset) == (0, 0, 1)
    assert header[9:12] == (9, 2, 40)
    (again, _) = cleaned(empty, second, last={9: (2, 1)})
    assert again is empty
    assert cleaned(empty, second, last={9: (2, 8)})[0] is None


def test_records_of_an_aborted_transaction_go_and_supersede_nothing() -> None:
    log = batch(0, (b"a", b"1")), of_transaction(1, (b"a", b"2")), marker(2, ControlType.ABORT), batch(3, (b"b", b"1"))
    kept, gone, ended, _ = cleaned(*log)
    assert rows(kept) == [(0, b"a", b"1")]
    assert gone is None
    assert ended is log[2]


def test_records_of_a_committed_transaction_supersede_what_lies_before_them() -> None:
    log = (
        batch(0, (b"a", b"1"), (b"b", b"1")),
        of_transaction(2, (b"a", b"2"), (b"b", b"2")),
        batch(4, (b"b", b"3")),
        marker(5, ControlType.COMMIT),
    )
    assert all_rows(cleaned(*log)[:3]) == [(2, b"a", b"2"), (4, b"b", b"3")]


def test_transactions_of_a_producer_are_distinguished() -> None:
    log = (
        of_transaction(0, (b"a", b"1")),
        marker(1, ControlType.ABORT),
        of_transaction(2, (b"a", b"2"), at=1),
        marker(3, ControlType.COMMIT),
        of_transaction(4, (b"a", b"3"), at=2),
        marker(5, ControlType.ABORT),
    )
    found = cleaned(*log)
    assert [rows(each) for each in found if each is not None and not read_header(each).is_control] == [
        [(2, b"a", b"2")]
    ]


def test_marker_stays_as_long_as_its_transaction_has_a_batch_and_for_the_time_of_a_tombstone_after() -> None:
    log = of_transaction(0, (b"a", b"1")), marker(1, ControlType.COMMIT), batch(2, (b"a", b"2"))
    first = cleaned(*log, now_ms=0)
    assert first[:2] == [None, log[1]]
    (_, waiting) = cleaned(first[2], first[1], known=known_of(), now_ms=10)  # type: ignore[arg-type]
    assert waiting is not None
    assert read_header(waiting).delete_horizon_ms == 10 + DAY_MS
    assert cleaned(waiting, known=known_of(), now_ms=9 + DAY_MS) == [waiting]
    assert cleaned(waiting, known=known_of(), now_ms=10 + DAY_MS) == [None]


def test_marker_that_is_all_that_is_known_of_a_producer_stays_empty() -> None:
    (waiting,) = cleaned(marker(0, ControlType.COMMIT), now_ms=0)
    assert waiting is not None
    (found,) = cleaned(waiting, now_ms=DAY_MS, last={7: (0, None)})
    assert found is not None
    assert read_header(found).record_count == 0
    assert read_header(found).is_control


def test_transaction_without_an_end_states_where_it_began() -> None:
    log = (
        of_transaction(0, (b"a", b"1"), producer_id=1),
        of_transaction(1, (b"a", b"2")),
        marker(2, ControlType.COMMIT, 1),
    )
    assert known_of(*log).first_open == 1
    assert known_of(*log, marker(3, ControlType.ABORT)).first_open is None


def test_batch_with_a_wrong_crc_stops_the_cleaner() -> None:
    damaged = bytearray(batch(0, (b"a", b"1")))
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch):
        known_of(bytes(damaged))
    with pytest.raises(CorruptBatch):
        cleaned(bytes(damaged), known=known_of())


def test_last_batch_of_what_is_cleaned_stays_so_that_readers_come_to_its_end() -> None:
    log = batch(0, (b"a", b"1")), batch(1, (b"b", None))
    first = cleaned(*log, known=known_of(*log, end=2))
    assert first[1] is not None
    _, empty = cleaned(*log[:1], first[1], known=known_of(*log, end=2), now_ms=DAY_MS)
    assert empty is not None
    assert (read_header(empty).record_count, read_header(empty).last_offset) == (0, 1)
    assert cleaned(empty, batch(2, (b"c", b"1")), known=known_of(end=3)) == [None, batch(2, (b"c", b"1"))]
