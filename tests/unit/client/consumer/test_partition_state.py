"""One partition as a consumer follows it."""

from __future__ import annotations

import pytest

from kohort.client import OffsetAndMetadata
from kohort.client.consumer.batch import Batch
from kohort.client.consumer.finished_offsets import FinishedOffsets
from kohort.client.consumer.partition_state import PartitionState, PartitionTable
from kohort.model.ids import TopicPartition
from kohort.model.lag import Lag, LagReason
from kohort.wire.record_batches import Record, encode_batch
from kohort.wire.visible_batches import VisibleBatches, visible_batches

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
NOW_MS = 5_000


def fetched(base_offset: int, count: int) -> Batch:
    whole = memoryview(encode_batch([Record(0, 1, None, b"v")] * count, base_offset=base_offset, leader_epoch=4))
    seen = visible_batches(whole, base_offset, None)
    return Batch(T0, seen, first_offset=base_offset, high_watermark=50)


def at(offset: int) -> PartitionState:
    entry = PartitionState(T0)
    entry.seek(offset)
    return entry


def test_the_position_follows_what_is_handed_out_and_the_fetch_offset_what_is_fetched() -> None:
    entry = at(10)
    entry.buffer_batch(fetched(10, 5))
    assert (entry.position, entry.fetch_offset) == (10, 15)
    batch = entry.pop_batch(None)
    assert batch is not None
    assert (entry.position, entry.leader_epoch) == (15, 4)
    assert entry.pop_batch(None) is None


def test_no_more_records_are_handed_out_than_asked_for() -> None:
    entry = at(10)
    entry.buffer_batch(fetched(10, 5))
    handed = [entry.pop_batch(2) for _ in range(4)]
    assert [batch.next_offset if batch else None for batch in handed] == [12, 14, 15, None]
    assert entry.buffered_bytes == 0


def test_only_what_the_user_finished_counts_as_consumed() -> None:
    entry = at(10)
    entry.buffer_batch(fetched(10, 5))
    entry.pop_batch(None)
    assert entry.consumed == 10
    entry.mark_consumed()
    assert (entry.consumed, entry.consumed_epoch) == (15, 4)


def test_a_move_forgets_what_was_fetched_and_what_is_on_its_way() -> None:
    entry = at(10)
    moves = entry.moves
    entry.buffer_batch(fetched(10, 5))
    entry.seek(3)
    assert (entry.position, entry.fetch_offset, entry.buffered_bytes, len(entry.buffered)) == (3, 3, 0, 0)
    assert entry.moves == moves + 1


def hidden(first_offset: int, next_offset: int) -> Batch:
    return Batch(T0, VisibleBatches([], None, next_offset), first_offset=first_offset, high_watermark=50)


def test_hidden_records_still_move_the_position() -> None:
    entry = at(10)
    entry.buffer_batch(hidden(10, 12))
    assert entry.pop_batch(None) is None
    assert entry.position == 12


def test_offsets_without_records_are_committed_once_all_before_them_has_finished() -> None:
    entry = at(10)
    entry.buffer_batch(fetched(10, 2))
    entry.buffer_batch(hidden(12, 13))
    entry.pop_batch(None)
    entry.pop_batch(None)
    assert entry.committable() == OffsetAndMetadata(10, "", -1)
    entry.mark_consumed()
    entry.buffer_batch(hidden(13, 14))
    entry.pop_batch(None)
    assert entry.committable() == OffsetAndMetadata(14, "", 4)


def test_offsets_without_records_are_committed_while_process_runs() -> None:
    entry = at(10)
    entry.finished = FinishedOffsets(10)
    entry.buffer_batch(hidden(10, 12))
    entry.pop_batch(None)
    assert entry.committable() == OffsetAndMetadata(12, "", -1)


def test_partitions_that_stay_are_read_on_where_they_are_and_new_ones_need_a_position() -> None:
    table = PartitionTable()
    table.add([T0, T1])
    kept = table[T1]
    table.position_wanted.clear()
    table.retain({T1})
    assert (table.partitions, table.position_wanted.is_set()) == ({T1}, False)
    table.retain({T1, T2})
    assert (next(iter(table)), table.partitions, table.position_wanted.is_set()) == (kept, {T1, T2}, True)
    with pytest.raises(KeyError, match="not assigned"):
        table[T0]


def test_auto_commit_takes_what_is_finished_and_not_committed_and_commit_every_position() -> None:
    table = PartitionTable()
    table.add([T0, T1, T2])
    for state in (table[T0], table[T1]):
        state.seek(10)
        state.buffer_batch(fetched(10, 5))
        state.pop_batch(None)
    table[T0].mark_consumed()
    table[T1].committed = 10
    assert table.finished() == {T0: OffsetAndMetadata(15, "", 4)}
    assert table.finished([T1]) == {}
    assert table.positions() == {T0: OffsetAndMetadata(15, "", 4), T1: OffsetAndMetadata(15, "", 4)}


def test_lag_is_known_once_a_fetch_has_shown_the_end() -> None:
    table = PartitionTable()
    table.add([T0, T1])
    table[T0].seek(10)
    assert table.lags(NOW_MS) == {T0: Lag(None, None, LagReason.NOT_FETCHED, offset=10)}
    table[T0].end = 50
    assert table.lags(NOW_MS) == {T0: Lag(40, None, LagReason.NOT_FETCHED, is_bound=True, offset=10, end=50)}
    table[T0].end = 10
    assert table.lags(NOW_MS) == {T0: Lag(0, 0.0, offset=10, end=10)}


def test_lag_in_seconds_is_the_age_of_the_next_record_that_poll_returns() -> None:
    state = PartitionState(T0)
    state.seek(10)
    state.end = 18
    state.buffer_batch(fetched(10, 5))
    state.buffer_batch(fetched(15, 3))
    for taken, (records, offset) in enumerate(((8, 10), (7, 11), (6, 12))):
        if taken:
            state.pop_batch(1)
        lag = state.time_lag(NOW_MS)
        assert lag is not None
        assert (lag.records, lag.is_bound, lag.reason) == (records, False, None)
        assert lag.oldest is not None
        assert (lag.oldest.offset, lag.seconds) == (offset, (NOW_MS - lag.oldest.timestamp_ms) / 1000)
