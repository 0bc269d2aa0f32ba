"""CreatePartitions: give topics more partitions (KIP-195)."""

from __future__ import annotations

from collections import Counter

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.error_responses import set_error
from kohort.node.step_scheduler import Steps
from kohort.node.topics.topics import CREATION_STEPS, MAX_PARTITIONS
from kohort.wire.apis import Api
from kohort.wire.messages import CreatePartitionsRequest, CreatePartitionsResponse

API = Api.CREATE_PARTITIONS
_Result = CreatePartitionsResponse.Result


def handle(context: ApiContext, request: Request, message: CreatePartitionsRequest) -> Steps[CreatePartitionsResponse]:
    """Grow each topic on its own."""
    names = Counter(asked.name for asked in message.topics)
    results = {}
    for asked in message.topics:
        result = results[asked.name] = _Result(name=asked.name)
        yield 1
        try:
            if names[asked.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
            _grow(context, request, asked, message.validate_only)
            yield CREATION_STEPS
        except (KafkaError, StorageError) as error:
            set_error(result, error)
    return CreatePartitionsResponse(results=list(results.values()))


def _grow(context: ApiContext, request: Request, asked: CreatePartitionsRequest.Topic, validate_only: bool) -> None:
    topic = context.topics.find(asked.name)
    has = len(topic.partitions)
    if asked.count <= has or asked.count > MAX_PARTITIONS:
        text = f"The topic {asked.name} currently has {has} partition(s); {asked.count} would not be an increase."
        if asked.count > MAX_PARTITIONS:
            text = f"{asked.count} partitions are more than {MAX_PARTITIONS}."
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, text)
    if topic.is_internal:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Partitions of internal topic {asked.name} are fixed.")
    if asked.assignments is not None:
        if len(asked.assignments) != asked.count - has:
            text = f"Attempted to add {asked.count - has} partition(s), but {len(asked.assignments)} were assigned."
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        if any(assignment.broker_ids != [context.config.node_id] for assignment in asked.assignments):
            text = f"Replicas can only be on broker {context.config.node_id}."
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    if not validate_only:
        context.topics.grow(topic, asked.count, request.now_ms)
