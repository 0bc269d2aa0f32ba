"""Records leave the table of partitions in turn, and errors in their way are raised."""

from __future__ import annotations

import pytest

from kohort.client import Cluster
from kohort.client.consumer.batch import Batch
from kohort.client.consumer.consumer_membership import ConsumerMembership
from kohort.client.consumer.consumer_metrics import ConsumerMetrics
from kohort.client.consumer.consumer_settings import ConsumerConfig
from kohort.client.consumer.fetcher import FetchCollector, Fetcher
from kohort.client.consumer.partition_state import PartitionState, PartitionTable
from kohort.client.consumer.rebalance_callbacks import CallbackGate
from kohort.client.consumer.record_iteration import RecordIteration
from kohort.client.synchronization import BroadcastEvent
from kohort.member.rebalance_metrics import RebalanceMetrics
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.wire.record_batches import Record, encode_batch
from kohort.wire.visible_batches import visible_batches

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def partitions() -> PartitionTable:
    """Two partitions with five records each."""
    table = PartitionTable()
    table.add([T0, T1])
    for state in table:
        whole = memoryview(encode_batch([Record(0, 1, None, b"v")] * 5))
        seen = visible_batches(whole, 0, None)
        state.seek(0)
        state.buffer_batch(Batch(state.partition, seen, first_offset=0, high_watermark=5))
    return table


@pytest.fixture
def collector(partitions: PartitionTable) -> FetchCollector:
    """A collector of a consumer that is in no group and was never started."""
    config = ConsumerConfig(bootstrap_servers="127.0.0.1:1")
    cluster, changed = config.cluster(), BroadcastEvent()
    assert isinstance(cluster, Cluster)
    metrics = RebalanceMetrics(None)
    group = ConsumerMembership(cluster, config, metrics, changed)
    measured = ConsumerMetrics(metrics)
    fetcher = Fetcher(cluster, config, partitions, changed, measured)
    return FetchCollector(config, partitions, group, fetcher, measured)


def test_partitions_are_served_in_turn(collector: FetchCollector) -> None:
    served = [(batch.partition, len(batch)) for _ in range(4) for batch in collector.collect(3)]
    assert served == [(T0, 3), (T1, 3), (T0, 2), (T1, 1), (T1, 1)]


def test_no_more_records_are_returned_than_the_limit_of_all_partitions(collector: FetchCollector) -> None:
    assert [(batch.partition, len(batch)) for batch in collector.collect(7)] == [(T0, 5), (T1, 2)]


def test_single_records_come_batch_after_batch_of_the_partitions_in_turn(
    collector: FetchCollector, partitions: PartitionTable
) -> None:
    singly = [collector.collect_record()[0] for _ in range(6)]
    assert [record[:3] for record in singly] == [*(("t", 0, offset) for offset in range(5)), ("t", 1, 0)]
    assert [partitions[each].position for each in (T0, T1)] == [5, 1]
    (rest,) = collector.collect(500)
    assert (rest.partition, rest.first_offset, len(rest)) == (T1, 1, 4), "a poll returns what is left of the batch"
    assert collector.collect_record() == []


def test_records_are_returned_at_once_until_their_batch_or_the_time_ends_or_a_callback_waits(
    collector: FetchCollector, partitions: PartitionTable
) -> None:
    gate, now_s = CallbackGate(BroadcastEvent()), 0.0
    iteration = RecordIteration(collector, gate)
    assert iteration.next_at_once() is None, "the first record takes a poll"

    def polled() -> PartitionState:
        collector.collect_record()
        iteration.begin(lambda: now_s)
        return partitions[T0]

    state = polled()
    assert [iteration.next_at_once() is not None for _ in range(2)] == [True] * 2
    assert (state.consumed, state.position) == (2, 3), "the record before counts as finished, and this one does not"
    now_s = 1.0
    assert iteration.next_at_once() is None
    polled()
    state.is_paused = True
    assert iteration.next_at_once() is None
    state.is_paused = False
    gate._callbacks = 1
    assert iteration.next_at_once() is None
    gate._callbacks = 0
    assert iteration.next_at_once() is not None
    assert iteration.next_at_once() is None, "the batch has ended"
    assert state.position == 5


def test_a_seek_ends_the_batch_whose_records_are_returned_singly(
    collector: FetchCollector, partitions: PartitionTable
) -> None:
    iteration = RecordIteration(collector, CallbackGate(BroadcastEvent()))
    collector.collect_record()
    iteration.begin(lambda: 0.0)
    partitions[T0].seek(3)
    assert iteration.next_at_once() is None
    assert partitions[T0].position == 3


def test_a_paused_partition_and_one_that_is_revoked_are_not_served(
    collector: FetchCollector, partitions: PartitionTable
) -> None:
    partitions[T0].is_paused = True
    partitions.stop_serving([T1])
    assert collector.collect(500) == []


def test_an_error_is_raised_once_and_its_position_looked_up_again(
    collector: FetchCollector, partitions: PartitionTable
) -> None:
    partitions[T1].error = KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    with pytest.raises(KafkaError):
        collector.raise_errors()
    assert partitions.position_wanted.is_set()
    collector.raise_errors()


def test_what_cannot_be_read_is_raised_by_every_poll_until_it_is_paused(
    collector: FetchCollector, partitions: PartitionTable
) -> None:
    partitions[T1].stop_at(5, KafkaError(ErrorCode.CORRUPT_MESSAGE))
    assert [len(batch) for batch in collector.collect(500)] == [5, 5], "what comes before is returned"
    for _ in range(2):
        with pytest.raises(KafkaError):
            collector.collect(500)
    partitions[T1].is_paused = True
    assert collector.collect(500) == []
