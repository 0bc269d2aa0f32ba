"""Messages of a producer's transactions: the requests that the state machine asks for, and their results.

Pure, and the simulator uses it too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kohort.client.producer.accumulator import ProducerId
from kohort.client.producer.transaction_machine import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    EndTxn,
    InitProducerId,
    TransactionMachine,
    TransactionRequest,
    TxnOffsetCommit,
)
from kohort.model.assignment import by_topic
from kohort.model.errors import ErrorCode, error_for
from kohort.model.ids import TopicPartition
from kohort.wire.message import Request
from kohort.wire.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

_NEWEST_ADD_PARTITIONS = 3  # v4 and v5 are for brokers
_NEWEST_END = {1: 4, 2: 5}
_NEWEST_COMMIT_OFFSETS = {1: 4, 2: 5}  # v6 names topics by id


class TransactionMessage(NamedTuple):
    """A request, and the newest version in which it may be sent; None is the newest of all."""

    request: Request[Any]
    highest: int | None = None


def message_of(machine: TransactionMachine, request: TransactionRequest, timeout_ms: int) -> TransactionMessage:
    """Return a request as a message; `timeout_ms` is that of the producer's transactions."""
    match request:
        case InitProducerId(current):
            return TransactionMessage(
                InitProducerIdRequest(
                    transactional_id=machine.transactional_id,
                    transaction_timeout_ms=timeout_ms,
                    producer_id=current.producer_id,
                    producer_epoch=current.epoch,
                )
            )
        case AddPartitionsToTxn(partitions):
            return TransactionMessage(_add_partitions(machine, partitions), _NEWEST_ADD_PARTITIONS)
        case AddOffsetsToTxn(group_id):
            return TransactionMessage(
                AddOffsetsToTxnRequest(
                    transactional_id=machine.transactional_id,
                    producer_id=machine.identity.producer_id,
                    producer_epoch=machine.identity.epoch,
                    group_id=group_id,
                )
            )
        case TxnOffsetCommit():
            return TransactionMessage(_commit_offsets(machine, request), _NEWEST_COMMIT_OFFSETS[machine.version])
        case EndTxn(is_commit):
            return TransactionMessage(
                EndTxnRequest(
                    transactional_id=machine.transactional_id,
                    producer_id=machine.identity.producer_id,
                    producer_epoch=machine.identity.epoch,
                    committed=is_commit,
                ),
                _NEWEST_END[machine.version],
            )


def _add_partitions(machine: TransactionMachine, partitions: frozenset[TopicPartition]) -> AddPartitionsToTxnRequest:
    topic = AddPartitionsToTxnRequest.V3AndBelowTopic
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=machine.transactional_id,
        v3_and_below_producer_id=machine.identity.producer_id,
        v3_and_below_producer_epoch=machine.identity.epoch,
        v3_and_below_topics=[topic(name=name, partitions=numbers) for name, numbers in by_topic(partitions).items()],
    )


def _commit_offsets(machine: TransactionMachine, request: TxnOffsetCommit) -> TxnOffsetCommitRequest:
    topic, group, offsets = TxnOffsetCommitRequest.Topic, request.group, request.offsets
    return TxnOffsetCommitRequest(
        transactional_id=machine.transactional_id,
        group_id=group.group_id,
        producer_id=machine.identity.producer_id,
        producer_epoch=machine.identity.epoch,
        generation_id_or_member_epoch=group.generation,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[
            topic(
                name=name,
                partitions=[
                    topic.Partition(
                        partition_index=number,
                        committed_offset=(entry := offsets[TopicPartition(name, number)]).offset,
                        committed_leader_epoch=entry.leader_epoch,
                        committed_metadata=entry.metadata,
                    )
                    for number in numbers
                ],
            )
            for name, numbers in by_topic(offsets).items()
        ],
    )


def code_of(answer: Any) -> ErrorCode:
    """Return why a request failed: its own error, or the first of its partitions' errors."""
    if hasattr(answer, "results_by_topic_v3_and_below"):
        codes = [
            partition.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        ]
    elif hasattr(answer, "topics"):
        codes = [partition.error_code for topic in answer.topics for partition in topic.partitions]
    else:
        codes = [answer.error_code]
    failed = sorted((code for code in codes if code), key=lambda code: code == ErrorCode.OPERATION_NOT_ATTEMPTED)
    return error_for(next(iter(failed), 0))


def identity_of(answer: Any) -> ProducerId:
    """Return the producer id and epoch in an answer; `NO_PRODUCER_ID` where it has none."""
    return ProducerId(getattr(answer, "producer_id", -1), getattr(answer, "producer_epoch", -1))
