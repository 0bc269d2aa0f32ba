"""Records on their way out: batches, order, and the numbers that idempotence gives them."""

from __future__ import annotations

import asyncio

import pytest

from kohort.client.producer.accumulator import Delivery, OutgoingPartition, ProducerId, RecordMetadata, sequence_after
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.wire.record_batches import Record

T0 = TopicPartition("t", 0)
RECORD = Record(0, 5, None, bytes(84))  # 100 bytes as they are counted


def filled(records: int, batch_bytes: int = 200) -> OutgoingPartition:
    partition = OutgoingPartition(T0)
    partition.identity = ProducerId(9, 0)
    for at in range(records):
        partition.append(RECORD, 100, lambda at=at: float(at), batch_bytes)  # type: ignore[misc]
    return partition


def test_a_batch_takes_records_until_it_is_full() -> None:
    assert [len(batch.records) for batch in filled(5).queue] == [2, 2, 1]


def test_a_record_larger_than_a_batch_gets_one_of_its_own() -> None:
    assert [len(batch.records) for batch in filled(2, batch_bytes=10).queue] == [1, 1]


def test_a_batch_is_ready_when_it_is_full_or_has_waited() -> None:
    partition = filled(1)
    assert partition.ready_at(linger_s=5, batch_bytes=200) == 5.0
    partition.append(RECORD, 100, lambda: 1.0, 200)
    assert partition.ready_at(linger_s=5, batch_bytes=200) == 0.0


def test_sequence_numbers_count_records() -> None:
    partition = filled(5)
    assert [partition.pop_oldest().sequence for _ in range(3)] == [0, 2, 4]
    assert partition.next_sequence == 5


def test_sequence_numbers_wrap_at_two_to_the_31() -> None:
    partition = filled(3)
    partition.next_sequence = (1 << 31) - 2
    assert [partition.pop_oldest().sequence, partition.pop_oldest().sequence] == [(1 << 31) - 2, 0]


def test_a_batch_that_goes_back_keeps_its_place_and_its_number() -> None:
    partition = filled(6)
    first, second = partition.pop_oldest(), partition.pop_oldest()
    partition.put_back(second)
    partition.put_back(first)
    assert [batch.sequence for batch in partition.queue] == [0, 2, -1]
    assert partition.is_recovering
    assert [partition.pop_oldest().sequence for _ in range(3)] == [0, 2, 4]


def test_nothing_is_added_to_a_batch_that_was_sent() -> None:
    partition = filled(1)
    partition.put_back(partition.pop_oldest())
    partition.append(RECORD, 100, lambda: 1.0, 200)
    assert [len(batch.records) for batch in partition.queue] == [1, 1]


def test_a_new_identity_numbers_from_zero() -> None:
    partition = filled(4)
    partition.pop_oldest()
    partition.put_back(partition.pop_oldest())
    partition.reset(ProducerId(10, 0))
    batch = partition.pop_oldest()
    assert (batch.sequence, batch.identity) == (0, ProducerId(10, 0))


def test_an_identity_that_another_process_has_written_under_goes_on_with_its_numbers() -> None:
    """Each round of a Spark job has new tasks under the same producer epoch, where transactions are of version 1."""
    partition = filled(4)
    partition.reset(ProducerId(9, 1), sequence_after(2**31 - 3, 2))
    assert [partition.pop_oldest().sequence for _ in range(2)] == [2**31 - 1, 1]


def test_a_delivery_knows_its_offset_within_the_batch() -> None:
    batch = filled(2).pop_oldest()
    delivery = Delivery(batch, 1, 5)
    assert not delivery.done()
    with pytest.raises(asyncio.InvalidStateError):
        delivery.result()
    batch.finish(base_offset=40)
    assert delivery.result() == RecordMetadata(*T0, 41, 5)


def test_the_broker_s_time_wins_where_it_gives_one() -> None:
    batch = filled(1).pop_oldest()
    batch.finish(base_offset=40, log_append_time_ms=77)
    assert Delivery(batch, 0, 5).result().timestamp_ms == 77


def test_every_waiter_of_a_failed_batch_gets_its_error() -> None:
    async def scenario() -> None:
        batch = filled(2).pop_oldest()
        waiters = [asyncio.ensure_future(_result(Delivery(batch, at, 5))) for at in range(2)]
        await asyncio.sleep(0)
        waiters[0].cancel()
        batch.finish(error=KafkaError(ErrorCode.MESSAGE_TOO_LARGE))
        with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
            await waiters[1]

    asyncio.run(scenario())


async def _result(delivery: Delivery) -> RecordMetadata:
    return await delivery


def test_the_first_batch_of_a_producer_id_is_alone_on_its_way_until_it_is_written() -> None:
    """A full disk refused it once and took the smaller one behind it, whose number was the first that the log met."""
    partition = filled(6)
    first = partition.pop_oldest()
    assert not partition.has_room(5)
    partition.put_back(first)
    assert partition.has_room(5)
    partition.remove_written(partition.pop_oldest())
    partition.pop_oldest()
    assert partition.has_room(5)
    assert not partition.has_room(1)


def test_only_another_producer_id_begins_alone_again_not_another_epoch() -> None:
    partition = filled(6)
    partition.remove_written(partition.pop_oldest())
    partition.reset(ProducerId(9, 1))
    partition.pop_oldest()
    assert partition.has_room(5)
    partition.reset(ProducerId(10, 0))
    assert not partition.has_room(5)
