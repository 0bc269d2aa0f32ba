"""Produce: append record batches; InitProducerId: an id for an idempotent or a transactional producer.

Produce: v3 is the first with format v2 only; v7 allows zstd; v8 names bad records; v10 hints at a new leader; v12 adds
its partitions to the transaction itself (KIP-890), below that they must be in it; v13 names topics by id (KIP-516). The
checks of a batch are in `node.topics.produced_batch`. InitProducerId: v3 lets a
producer raise its own epoch (KIP-360), v4 has PRODUCER_FENCED (KIP-588); v6, two-phase commit, is unstable in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from kohort.log.disk import StorageError
from kohort.log.partition_log import Appended
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext, when_answered
from kohort.node.authorization import api_checks
from kohort.node.client_connection import NO_REPLY, NoReply, Request
from kohort.node.route import set_error
from kohort.node.step_scheduler import Steps
from kohort.node.topics.produced_batch import check_content, check_header, one_batch
from kohort.node.topics.topic import Partition
from kohort.transaction.commands import AddPartitions
from kohort.transaction.effects import TransactionResult
from kohort.transaction.transaction import TopicPartition
from kohort.wire.codec import Buffer
from kohort.wire.messages import InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse
from kohort.wire.record_batches import BatchHeader, CorruptBatch, read_header

_Result = ProduceResponse.Response.PartitionResponse


def produce(context: ApiContext, request: Request, message: ProduceRequest) -> Steps[ProduceResponse | NoReply | None]:
    """Append each partition's batch; the response waits for the disk where the topic promises it."""
    if message.acks not in (-1, 0, 1):
        raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
    added = _transaction(context, request, message)
    if added is None:
        return (yield from _append_all(context, request, message, _Membership(context, request, message)))

    def ask(ticket: Callable[[TransactionResult], None]) -> None:
        context.transactions.add_partitions(added, ticket)

    def proceed(result: TransactionResult) -> Steps[ProduceResponse | NoReply | None]:
        membership = _Membership(context, request, message, dict.fromkeys(added.partitions, result.error))
        return _append_all(context, request, message, membership)

    return (yield from when_answered(request, ask, proceed))


class _Membership:
    """Refuses transactional batches whose partition is not in the open transaction of their producer.

    It is asked right before the append: what was found before may have ended meanwhile. A partition that could not be
    looked up before, as where its disk failed, was not added: then the producer sends the batch again.
    """

    def __init__(
        self,
        context: ApiContext,
        request: Request,
        message: ProduceRequest,
        added: Mapping[TopicPartition, ErrorCode] | None = None,
    ) -> None:
        self._transactions = context.transactions
        self._version = request.api_version
        self._transactional_id = message.transactional_id
        self._added = added or {}

    def check(self, partition: Partition, header: BatchHeader) -> None:
        """Raise KafkaError where a batch must not be appended."""
        producer = header.producer_id, header.producer_epoch
        if not header.is_transactional or partition.log.producers.is_open(*producer):
            return
        place = partition.topic.name, partition.index
        error = ErrorCode.NONE
        if self._version >= _ADDS_FROM:
            error = self._added.get(place, ErrorCode.CONCURRENT_TRANSACTIONS)
        if not error:
            command = AddPartitions(self._transactional_id or "", *producer, frozenset({place}), self._version)
            error = self._transactions.verify(command)
        if error:
            if error in _COMING_BACK:
                partition.log.producers.await_again(header)
            raise KafkaError(_produce_error(error, self._version))


def _append_all(
    context: ApiContext, request: Request, message: ProduceRequest, membership: _Membership
) -> Steps[ProduceResponse | NoReply | None]:
    """Append to every partition but those that are not in their transaction."""
    response = ProduceResponse(responses=[])
    waiting = _WaitingAppends(context, request, response, message.timeout_ms)
    for topic in message.topic_data:
        yield 1
        results = []
        for produced in topic.partition_data:
            result = _Result(index=produced.index, base_offset=-1)
            try:
                partition = _find(context, request, topic, produced.index)
                records, allows_zstd = produced.records, request.api_version >= 7
                appended = yield from append_produced(
                    partition,
                    records,
                    request.now_ms,
                    allows_zstd=allows_zstd,
                    membership=None if message.transactional_id is None else membership,
                )
                result.base_offset, result.log_append_time_ms = appended.base_offset, appended.append_time_ms
                result.log_start_offset = appended.log_start_offset
                if message.acks:
                    waiting.add(partition, result)
            except (KafkaError, StorageError) as error:
                set_error(result, error)
            results.append(result)
            yield 1
        response.responses.append(
            ProduceResponse.Response(name=topic.name, topic_id=topic.topic_id, partition_responses=results)
        )
    if message.acks == 0:
        return _without_reply(request, response)
    return waiting.response()


def _transaction(context: ApiContext, request: Request, message: ProduceRequest) -> AddPartitions | None:
    """Return what a request adds to its transaction: the partitions that it writes and that have nothing of it yet."""
    transactional_id = message.transactional_id
    if transactional_id is None or request.api_version < _ADDS_FROM:
        return None
    producer: tuple[int, int] | None = None
    missing: set[TopicPartition] = set()
    for topic in message.topic_data:
        for produced in topic.partition_data:
            try:
                partition = _find(context, request, topic, produced.index)
                header = read_header(produced.records or b"")
                is_open = partition.log.producers.is_open(header.producer_id, header.producer_epoch)
            except (KafkaError, CorruptBatch, StorageError):
                continue  # `_Membership` refuses it
            if not header.is_transactional or header.is_control:
                continue
            if producer not in (None, (header.producer_id, header.producer_epoch)):
                raise KafkaError(ErrorCode.INVALID_RECORD, "One request has batches of several producers.")
            producer = header.producer_id, header.producer_epoch
            if not is_open:
                missing.add((partition.topic.name, partition.index))
    if producer is None or not missing:
        return None
    return AddPartitions(transactional_id, *producer, frozenset(missing), 2)


_ADDS_FROM = 12
"""From this version on a write adds its partition to the transaction (version 2 of transactions)."""

_COMING_BACK = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def _produce_error(error: ErrorCode, version: int) -> ErrorCode:
    """Return why a transactional write is refused, as producers of a version know it (KIP-890)."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and version >= _ADDS_FROM:
        return error
    if error in _COMING_BACK:
        return ErrorCode.NOT_ENOUGH_REPLICAS  # older producers repeat the write after this one
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _ADDS_FROM - 1:
        return ErrorCode.INVALID_TXN_STATE
    return error


def _find(context: ApiContext, request: Request, asked: ProduceRequest.TopicData, index: int) -> Partition:
    key = asked.topic_id if request.api_version >= 13 else asked.name
    topic = context.find_topic(request, api_checks.PRODUCE_TOPIC, key)
    if topic.is_internal:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
    return topic.partition(index)


def _without_reply(request: Request, response: ProduceResponse) -> NoReply:
    results = (result for topic in response.responses for result in topic.partition_responses)
    if failed := next((result for result in results if result.error_code), None):
        # As in Kafka: with acks=0 a closed connection is the only way to report an error.
        reason = f"Produce with acks=0 failed: {ErrorCode(failed.error_code).name}: {failed.error_message}"
        request.server.reject(request.connection, reason)
    return NO_REPLY


class _WaitingAppends:
    """The partitions of one request whose records are not as durable yet as their topics promise.

    As in Kafka, where replicas do not answer, a disk that does not answer costs a partition REQUEST_TIMED_OUT.
    """

    def __init__(self, context: ApiContext, request: Request, response: ProduceResponse, timeout_ms: int) -> None:
        self._durability = context.durability
        self._timers = context.timers
        self._request = request
        self._response = response
        self._timeout_ms = timeout_ms
        self._results: dict[int, _Result] = {}
        """By their identity, the results that wait for a flush."""
        self._is_whole = False
        """Whether all of the request was appended."""

    def add(self, partition: Partition, result: _Result) -> None:
        """Wait for what was appended to a partition, if it has to be flushed."""
        if self._durability.when_durable(partition, partial(self._release, result)):
            self._results[id(result)] = result

    def response(self) -> ProduceResponse | None:
        """Return the response, or None if it leaves after a flush."""
        self._is_whole = True
        if not self._results:
            return self._response
        self._request.blocks = False
        self._timers.arm(self, self._request.now_ms + self._timeout_ms, self._time_out)
        return None

    def _release(self, result: _Result, code: ErrorCode) -> None:
        if self._results.pop(id(result), None) is None:
            return  # it has timed out
        if code:
            result.error_code, result.base_offset = code, -1
        if self._is_whole and not self._results:
            self._timers.disarm(self)
            self._request.reply(self._response)

    def _time_out(self, _: int) -> None:
        for result in list(self._results.values()):
            self._release(result, ErrorCode.REQUEST_TIMED_OUT)


def append_produced(
    partition: Partition,
    records: Buffer | None,
    now_ms: int,
    *,
    allows_zstd: bool,
    membership: _Membership | None = None,
) -> Steps[Appended]:
    """Check in steps what a client produced, and append it. Raises KafkaError with Kafka's code, and StorageError.

    Without `membership`, which a request with a transactional id has, it may not be transactional.

    A batch that an idempotent producer repeats is not appended again: the answer names the first one's offset.
    """
    header = one_batch(records)
    assert records is not None
    check_header(partition, header, records, now_ms, allows_zstd=allows_zstd, is_transactional=membership is not None)
    if partition.log.config.compacts or partition.checks_records:
        yield from check_content(partition, header, records)
    if membership is not None:
        membership.check(partition, header)
    if header.producer_id >= 0:
        duplicate = partition.log.producers.check(header)
        if duplicate is not None:
            partition.log.require_no_failure()
            return Appended(*duplicate, partition.log.log_start_offset)
    return partition.append([records], now_ms)


def init_producer_id(
    context: ApiContext, request: Request, message: InitProducerIdRequest
) -> InitProducerIdResponse | None:
    """Answer with an id that was never given before; for a transactional id with its own, at a larger epoch."""
    if message.transactional_id is None:
        return InitProducerIdResponse(producer_id=context.state.next_producer_id(request.now_ms), producer_epoch=0)
    expected = message.producer_id, message.producer_epoch
    if (expected[0] < 0) != (expected[1] < 0):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "ProducerId and ProducerEpoch are given together, or neither.")

    def initialized(result: TransactionResult) -> None:
        is_unknown = result.error is ErrorCode.PRODUCER_FENCED and request.api_version < _FENCED_FROM
        error = ErrorCode.INVALID_PRODUCER_EPOCH if is_unknown else result.error
        response = InitProducerIdResponse(error_code=error, producer_id=result.producer_id, producer_epoch=result.epoch)
        request.reply(response)

    context.transactions.init_producer(
        message.transactional_id,
        message.transaction_timeout_ms,
        None if expected[0] < 0 else expected,
        initialized,
    )
    return None


_FENCED_FROM = 4
"""From this version of InitProducerId on clients know PRODUCER_FENCED (KIP-588)."""
