"""Produce: append record batches.

v3 is the first with format v2 only; v7 allows zstd; v8 names bad records; v10 hints at a new leader; v13 names
topics by id (KIP-516). The broker looks at a batch's header and CRC, never at its records.
"""

from __future__ import annotations

from functools import partial

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.appends import append_produced
from kohort.node.client_connection import NO_REPLY, Request, Silence
from kohort.node.step_scheduler import Steps
from kohort.node.topics.topic import Partition
from kohort.wire.apis import Api
from kohort.wire.messages import ProduceRequest, ProduceResponse

API = Api.PRODUCE
_Result = ProduceResponse.Response.PartitionResponse


def handle(context: ApiContext, request: Request, message: ProduceRequest) -> Steps[ProduceResponse | Silence | None]:
    """Append each partition's batch; the reply waits for the disk where the topic promises it."""
    if message.acks not in (-1, 0, 1):
        return refuse(message, ErrorCode.INVALID_REQUIRED_ACKS, "", request.api_version)
    if message.transactional_id is not None:
        text = "Transactions are not supported by this broker."
        return refuse(message, ErrorCode.INVALID_TXN_STATE, text, request.api_version)
    response = ProduceResponse(responses=[])
    waiting = _Waiting(request, response)
    for topic in message.topic_data:
        yield 1
        results = []
        for produced in topic.partition_data:
            result = _Result(index=produced.index, base_offset=-1)
            try:
                partition = _find(context, request, topic, produced.index)
                yield from _append(context, request, partition, produced, result)
                if message.acks:
                    waiting.add(context, partition, result)
            except KafkaError as error:
                result.error_code, result.error_message = error.code, error.text
            except StorageError as error:
                result.error_code, result.error_message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
            results.append(result)
            yield 1
        response.responses.append(
            ProduceResponse.Response(name=topic.name, topic_id=topic.topic_id, partition_responses=results)
        )
    if message.acks == 0:
        return _after_silence(context, request, response)
    return waiting.response()


def refuse(message: ProduceRequest, code: ErrorCode, text: str, version: int) -> ProduceResponse:
    """Say an error about every partition."""
    return ProduceResponse(
        responses=[
            ProduceResponse.Response(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    _Result(index=produced.index, error_code=code, base_offset=-1, error_message=text or None)
                    for produced in topic.partition_data
                ],
            )
            for topic in message.topic_data
        ]
    )


def _find(context: ApiContext, request: Request, asked: ProduceRequest.TopicData, index: int) -> Partition:
    if request.api_version >= 13:
        topic, missing = context.topics.by_id(asked.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic, missing = context.topics.get(asked.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        raise KafkaError(missing)
    if topic.is_internal:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
    if not 0 <= index < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic.partitions[index]


def _append(
    context: ApiContext,
    request: Request,
    partition: Partition,
    produced: ProduceRequest.TopicData.PartitionData,
    result: ProduceResponse.Response.PartitionResponse,
) -> Steps[None]:
    appended = yield from append_produced(
        partition, produced.records, request.now_ms, allows_zstd=request.api_version >= 7
    )
    result.base_offset = appended.base_offset
    result.log_append_time_ms = appended.append_time_ms
    result.log_start_offset = appended.log_start_offset


def _after_silence(context: ApiContext, request: Request, response: ProduceResponse) -> Silence:
    for topic in response.responses:
        for result in topic.partition_responses:
            if result.error_code:
                # As in Kafka: with acks=0 a closed connection is the only way to say that something is wrong.
                reason = f"Produce with acks=0 failed: {ErrorCode(result.error_code).name}: {result.error_message}"
                request.reject(reason)
                return NO_REPLY
    return NO_REPLY


class _Waiting:
    """The partitions of one request whose records are not as durable yet as their topics promise."""

    def __init__(self, request: Request, response: ProduceResponse) -> None:
        self._request = request
        self._response = response
        self._count = 1  # the request itself, until all of it was appended

    def add(self, context: ApiContext, partition: Partition, result: _Result) -> None:
        """Wait for what was appended to a partition, if it has to be flushed."""
        if context.durability.when_durable(partition, partial(self._release, result)):
            self._count += 1

    def response(self) -> ProduceResponse | None:
        """Return the response, or None if it leaves after a flush."""
        self._count -= 1
        if not self._count:
            return self._response
        self._request.blocks = False
        return None

    def _release(self, result: _Result, code: ErrorCode) -> None:
        self._count -= 1
        if code:
            result.error_code, result.base_offset = code, -1
        if not self._count:
            self._request.reply(self._response)
