"""Transactional ids, and the producers of partitions, as the admin client returns them (KIP-664)."""

from __future__ import annotations

from dataclasses import dataclass

from kohort.client.cluster.cluster import Cluster, CoordinatorType
from kohort.client.cluster.metadata import Broker
from kohort.client.errors import PartitionErrors, raise_refusal
from kohort.model.assignment import Partitions, by_topic
from kohort.model.errors import ErrorCode, error_for
from kohort.model.ids import TopicPartition
from kohort.wire.messages import DescribeProducersRequest, DescribeTransactionsRequest, WriteTxnMarkersRequest


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """One transactional id in a list; `state` is Kafka's name, such as "Ongoing" or "CompleteCommit"."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """One transactional id, as its coordinator has it.

    `start_ms` is when the transaction that runs began, None where none does; `partitions` are those in it.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class ProducerState:
    """What a partition's log has of an idempotent producer.

    `transaction_start` is the offset at which its open transaction begins, None where it has none; `last_timestamp_ms`
    is that of its last batch; -1 stands for what the log does not have.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start: int | None


async def describe_transaction(cluster: Cluster, transactional_id: str) -> TransactionDescription:
    """Return a transactional id from its coordinator. Raises TRANSACTIONAL_ID_NOT_FOUND."""
    response = await cluster.call_coordinator(
        transactional_id,
        DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        lambda found: found.transaction_states[0].error_code,
        kind=CoordinatorType.TRANSACTION,
    )
    [found] = response.transaction_states
    raise_refusal(found.error_code, f"transactional id {transactional_id!r} cannot be described")
    return TransactionDescription(
        transactional_id,
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        found.transaction_start_time_ms if found.transaction_start_time_ms >= 0 else None,
        frozenset(TopicPartition(each.topic, number) for each in found.topics for number in each.partitions),
    )


async def describe_producers(
    cluster: Cluster, partitions: list[TopicPartition]
) -> dict[TopicPartition, list[ProducerState]]:
    """Return the producers of partitions, from their leaders. Raises `PartitionErrors`."""
    by_leader: dict[Broker, list[TopicPartition]] = {}
    for partition in partitions:
        by_leader.setdefault(await cluster.leader(partition), []).append(partition)
    states: dict[TopicPartition, list[ProducerState]] = {}
    failed: dict[TopicPartition, ErrorCode] = {}
    for leader, several in by_leader.items():
        topics = [
            DescribeProducersRequest.Topic(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic(several).items()
        ]
        for result in (await cluster.call(leader, DescribeProducersRequest(topics=topics))).topics:
            for entry in result.partitions:
                partition = TopicPartition(result.name, entry.partition_index)
                if entry.error_code:
                    failed[partition] = error_for(entry.error_code)
                states[partition] = [
                    ProducerState(
                        each.producer_id,
                        each.producer_epoch,
                        each.last_sequence,
                        each.last_timestamp,
                        each.coordinator_epoch,
                        each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
                    )
                    for each in entry.active_producers
                ]
    if failed:
        raise PartitionErrors("producers cannot be described", failed)
    return states


async def abort_transaction(cluster: Cluster, partition: TopicPartition, producer: ProducerState) -> None:
    """Write the marker that aborts the open transaction of a producer in a partition. Raises `PartitionErrors`."""
    marker = WriteTxnMarkersRequest.Marker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[WriteTxnMarkersRequest.Marker.Topic(name=partition.topic, partition_indexes=[partition.partition])],
        coordinator_epoch=max(producer.coordinator_epoch, 0),
    )
    response = await cluster.call(await cluster.leader(partition), WriteTxnMarkersRequest(markers=[marker]))
    code = response.markers[0].topics[0].partitions[0].error_code
    if code:
        raise PartitionErrors("the transaction was not aborted", {partition: error_for(code)})
