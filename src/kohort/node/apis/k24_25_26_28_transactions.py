"""What transactional producers ask: add partitions or a group's offsets to a transaction, commit offsets in it, end it.

AddPartitionsToTxn: v3 is flexible; v4, v5 have many transactions, for brokers, and may only verify (KIP-890).
AddOffsetsToTxn adds the group's partition of `__consumer_offsets`; v4 is for version 2 of transactions.
TxnOffsetCommit: v3 has the member and its generation (KIP-447), v5 adds the group's partition itself (version 2), v6
names topics by id. EndTxn: v5 raises the producer's epoch and answers with the next one (version 2).

Below v2 of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn a fenced producer gets INVALID_PRODUCER_EPOCH (KIP-588).
"""

from __future__ import annotations

import logging
from typing import Any

from kohort.group.commands import CommitOffsets
from kohort.group.results import Result
from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext, when_answered
from kohort.node.apis.k08_09_47_offsets import commit_offsets, read_offsets
from kohort.node.authorization import api_checks
from kohort.node.client_connection import Request
from kohort.node.groups.coordinator import OFFSETS_TOPIC
from kohort.node.step_scheduler import Steps
from kohort.transaction.commands import AddPartitions
from kohort.transaction.effects import TransactionResult
from kohort.transaction.transaction import TopicPartition
from kohort.wire.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

log = logging.getLogger("kohort.node")

_FENCED_FROM = 2
"""From this version on clients know PRODUCER_FENCED."""

_BATCHED_FROM = 4

_TopicResult = AddPartitionsToTxnResponse.ResultByTransaction.TopicResult
_TopicResultV3 = AddPartitionsToTxnResponse.ResultByTopicV3AndBelow
_Results = list[_TopicResult] | list[_TopicResultV3]
_Topics = list[AddPartitionsToTxnRequest.V3AndBelowTopic] | list[AddPartitionsToTxnRequest.Transaction.Topic]


def fenced_error(error: ErrorCode, version: int) -> ErrorCode:
    """Return the error as clients of a version know it."""
    is_unknown = error is ErrorCode.PRODUCER_FENCED and version < _FENCED_FROM
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_unknown else error


def add_partitions_to_txn(
    context: ApiContext, request: Request, message: AddPartitionsToTxnRequest
) -> Steps[AddPartitionsToTxnResponse | None]:
    """Add the partitions of each transaction, all of them or none."""
    version = request.api_version
    if version < _BATCHED_FROM:
        response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[])
        results = response.results_by_topic_v3_and_below
        waiting = _WaitingTransactions(request, response)
        producer = message.v3_and_below_producer_id, message.v3_and_below_producer_epoch
        topics = message.v3_and_below_topics
        yield from _add(context, request, message.v3_and_below_transactional_id, producer, topics, results, waiting)
        return (yield from waiting.response())
    response = AddPartitionsToTxnResponse(results_by_transaction=[])
    waiting = _WaitingTransactions(request, response)
    for asked in message.transactions:
        yield 1
        result = AddPartitionsToTxnResponse.ResultByTransaction(
            transactional_id=asked.transactional_id, topic_results=[]
        )
        response.results_by_transaction.append(result)
        producer = asked.producer_id, asked.producer_epoch
        if asked.verify_only:
            yield from _verify(context, asked, result.topic_results)
        else:
            yield from _add(
                context, request, asked.transactional_id, producer, asked.topics, result.topic_results, waiting
            )
    return (yield from waiting.response())


def refuse_add_partitions_to_txn(
    message: AddPartitionsToTxnRequest, code: ErrorCode, text: str, version: int
) -> AddPartitionsToTxnResponse:
    """Return an error response."""
    del text
    if version >= _BATCHED_FROM:
        return AddPartitionsToTxnResponse(error_code=code, results_by_transaction=[])
    response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[])
    for topic in message.v3_and_below_topics:
        _answer(response.results_by_topic_v3_and_below, topic.name, topic.partitions, code, _TopicResultV3)
    return response


class _WaitingTransactions:
    """The transactions of one request whose record is not durable yet; its response is written when none is left."""

    def __init__(self, request: Request, response: AddPartitionsToTxnResponse) -> None:
        self._request = request
        self._response = response
        self._count = 1  # the request itself, until all of it was asked
        self._answered: list[tuple[_Topics, _Results, ErrorCode]] = []

    def asked(self) -> None:
        self._count += 1

    def answered(self, topics: _Topics, results: _Results, error: ErrorCode) -> None:
        self._answered.append((topics, results, error))
        self._count -= 1
        if not self._count:
            self._request.server.proceed(self._request, self._written())

    def response(self) -> Steps[AddPartitionsToTxnResponse | None]:
        self._count -= 1
        if self._count:
            return None
        return (yield from self._written())

    def _written(self) -> Steps[AddPartitionsToTxnResponse]:
        cls = _TopicResult if self._request.api_version >= _BATCHED_FROM else _TopicResultV3
        for topics, results, error in self._answered:
            for topic in topics:
                _answer(results, topic.name, topic.partitions, error, cls)
                yield 1 + len(topic.partitions) // 8
        return self._response


def _add(
    context: ApiContext,
    request: Request,
    transactional_id: str,
    producer: tuple[int, int],
    topics: _Topics,
    results: _Results,
    waiting: _WaitingTransactions,
) -> Steps[None]:
    """Add partitions to one transaction; where one does not exist, none is added, as in Kafka."""
    version = request.api_version
    cls = _TopicResult if version >= _BATCHED_FROM else _TopicResultV3
    partitions, missing = yield from _partitions(context, request, topics)
    if missing:
        for topic in topics:
            yield 1
            for index in topic.partitions:
                error = missing.get((topic.name, index), ErrorCode.OPERATION_NOT_ATTEMPTED)
                _answer(results, topic.name, [index], error, cls)
                yield 1
        return

    def added(result: TransactionResult) -> None:
        waiting.answered(topics, results, fenced_error(result.error, version))

    waiting.asked()
    transaction_version = 2 if version >= _BATCHED_FROM else 0
    command = AddPartitions(transactional_id, *producer, frozenset(partitions), transaction_version)
    context.transactions.add_partitions(command, added)


def _verify(
    context: ApiContext, asked: AddPartitionsToTxnRequest.Transaction, results: list[_TopicResult]
) -> Steps[None]:
    for topic in asked.topics:
        yield 1
        for index in topic.partitions:
            partition = frozenset({(topic.name, index)})
            command = AddPartitions(asked.transactional_id, asked.producer_id, asked.producer_epoch, partition, 0)
            _answer(results, topic.name, [index], context.transactions.verify(command))
            yield 1


def _partitions(
    context: ApiContext, request: Request, topics: _Topics
) -> Steps[tuple[list[TopicPartition], dict[TopicPartition, ErrorCode]]]:
    """Return the partitions, and those that cannot be written to with the error."""
    partitions: list[TopicPartition] = []
    missing: dict[TopicPartition, ErrorCode] = {}
    for topic in topics:
        yield 1
        found, check = context.topics.get(topic.name), api_checks.ADD_PARTITIONS_TOPIC
        is_allowed = request.api_version >= _BATCHED_FROM or context.access.allows(
            request.connection, check, topic.name
        )
        for index in topic.partitions:
            if not is_allowed:
                missing[topic.name, index] = check.error
            elif found is None or not 0 <= index < len(found.partitions):
                missing[topic.name, index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif found.is_internal:
                missing[topic.name, index] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            partitions.append((topic.name, index))
            yield 1
    return partitions, missing


def _answer(
    results: list[Any], topic: str, partitions: list[int], error: ErrorCode, cls: type[Any] = _TopicResult
) -> None:
    """Add partitions of a topic to the results, which have the form of the request's version."""
    if not results or results[-1].name != topic:
        results.append(cls(name=topic, results_by_partition=[]))
    answer = cls.ResultByPartition
    results[-1].results_by_partition += [
        answer(partition_index=each, partition_error_code=error) for each in partitions
    ]


def add_offsets_to_txn(
    context: ApiContext, request: Request, message: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | None:
    """Add the partition of a group's offsets."""
    partition = _offsets_partition(context, message.group_id)
    command = AddPartitions(
        message.transactional_id, message.producer_id, message.producer_epoch, frozenset({partition}), 0
    )

    def added(result: TransactionResult) -> None:
        request.reply(AddOffsetsToTxnResponse(error_code=fenced_error(result.error, request.api_version)))

    context.transactions.add_partitions(command, added)
    return None


def _offsets_partition(context: ApiContext, group_id: str) -> TopicPartition:
    """Return a group's partition of `__consumer_offsets`. Raises KafkaError."""
    try:
        context.coordinator.ensure_topic()
    except StorageError as error:
        log.error("%s cannot be created: %s", OFFSETS_TOPIC, error)
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error  # Java's producers ask again
    return OFFSETS_TOPIC, context.coordinator.partition_of(group_id)


def end_txn(context: ApiContext, request: Request, message: EndTxnRequest) -> EndTxnResponse | None:
    """Commit or abort; from v5 on the answer has the producer's next id and epoch."""
    version = request.api_version

    def ended(result: TransactionResult) -> None:
        error = fenced_error(result.error, version)
        request.reply(EndTxnResponse(error_code=error, producer_id=result.producer_id, producer_epoch=result.epoch))

    context.transactions.end(
        message.transactional_id,
        (message.producer_id, message.producer_epoch),
        ended,
        is_commit=message.committed,
        version=2 if version >= 5 else 0,
    )
    return None


def txn_offset_commit(
    context: ApiContext, request: Request, message: TxnOffsetCommitRequest
) -> Steps[TxnOffsetCommitResponse | None]:
    """Commit offsets that count once the transaction commits."""
    version = request.api_version
    offsets, topics, answers = yield from read_offsets(
        context,
        request,
        api_checks.TXN_COMMIT_TOPIC,
        message.topics,
        TxnOffsetCommitResponse.Topic,
        is_by_id=version >= 6,
    )
    response = TxnOffsetCommitResponse(topics=topics)
    if not offsets:
        return response
    if not message.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID, "Offsets of a transaction need a group's name.")
    producer = message.producer_id, message.producer_epoch
    command = CommitOffsets(
        message.group_id,
        message.member_id,
        message.group_instance_id,
        message.generation_id_or_member_epoch,
        offsets,
        producer=producer,
    )
    partition = _offsets_partition(context, message.group_id)
    add = AddPartitions(message.transactional_id, *producer, frozenset({partition}), 2)

    def error_of(result: Result) -> ErrorCode:
        is_unknown = result.error in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.STALE_MEMBER_EPOCH)
        return ErrorCode.ILLEGAL_GENERATION if is_unknown else result.error

    def commit(result: TransactionResult) -> Steps[TxnOffsetCommitResponse | None]:
        if result.error:
            for answer, _ in answers:
                answer.error_code = _commit_error(result.error, version)
            return response
        return (yield from commit_offsets(context, request, command, answers, response, error_of))

    if version >= 5 and not context.transactions.has(add):
        return (
            yield from when_answered(request, lambda ticket: context.transactions.add_partitions(add, ticket), commit)
        )
    if version < 5 and (error := context.transactions.verify(add)):
        return (yield from commit(TransactionResult(error)))
    return (yield from commit_offsets(context, request, command, answers, response, error_of))


def _commit_error(error: ErrorCode, version: int) -> ErrorCode:
    """Return why offsets cannot be committed in a transaction, as clients of a version know it."""
    match error:
        case ErrorCode.PRODUCER_FENCED:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        case ErrorCode.TRANSACTION_ABORTABLE if version < 4:
            return ErrorCode.INVALID_TXN_STATE
        case ErrorCode.CONCURRENT_TRANSACTIONS if version < 5:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        case _:
            return error
