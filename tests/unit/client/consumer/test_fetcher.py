"""Records leave the table of partitions in turn, and errors in their way are raised."""

from __future__ import annotations

import pytest

from kohort.client import Cluster
from kohort.client.consumer.batch import Batch
from kohort.client.consumer.consumer_membership import ConsumerMembership
from kohort.client.consumer.consumer_metrics import ConsumerMetrics
from kohort.client.consumer.consumer_settings import ConsumerConfig
from kohort.client.consumer.fetcher import FetchCollector, Fetcher
from kohort.client.consumer.partition_state import PartitionTable
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
    fetcher = Fetcher(cluster, config, partitions, changed, ConsumerMetrics(metrics))
    return FetchCollector(config, partitions, group, fetcher)


def test_partitions_are_served_in_turn(collector: FetchCollector) -> None:
    served = [(batch.partition, len(batch)) for _ in range(4) for batch in collector.collect(3, is_single=True)]
    assert served == [(T0, 3), (T1, 3), (T0, 2), (T1, 2)]


def test_no_more_records_are_returned_than_the_limit_of_all_partitions(collector: FetchCollector) -> None:
    assert [(batch.partition, len(batch)) for batch in collector.collect(7, is_single=False)] == [(T0, 5), (T1, 2)]


def test_a_paused_partition_and_one_that_is_revoked_are_not_served(
    collector: FetchCollector, partitions: PartitionTable
) -> None:
    partitions[T0].is_paused = True
    partitions.stop_serving([T1])
    assert collector.collect(None, is_single=False) == []


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
    assert [len(batch) for batch in collector.collect(None, is_single=False)] == [5, 5], "what comes before is returned"
    for _ in range(2):
        with pytest.raises(KafkaError):
            collector.collect(None, is_single=False)
    partitions[T1].is_paused = True
    assert collector.collect(None, is_single=False) == []
