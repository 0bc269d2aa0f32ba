"""Topics: create them by name, delete them with their records, give them more partitions (KIP-195).

CreateTopics: v4 lets -1 stand for the broker's number of partitions and replication factor (KIP-464); v5 answers with
what was created (KIP-525); v7 with the topic's id. DeleteTopics: v5 adds a message to each error; v6 may name topics by
id (KIP-516).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import NO_TOPIC_ID
from kohort.model.setting import value_text
from kohort.node.apis.context import ApiContext
from kohort.node.authorization import api_checks
from kohort.node.client_connection import Request
from kohort.node.configuration.broker_settings import TOPIC
from kohort.node.route import set_error
from kohort.node.step_scheduler import Steps
from kohort.node.topics.topic import INTERNAL, Topic
from kohort.node.topics.topics import CREATION_STEPS, MAX_PARTITIONS
from kohort.wire.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)


def create_topics(context: ApiContext, request: Request, message: CreateTopicsRequest) -> Steps[CreateTopicsResponse]:
    """Create each topic on its own; one that is refused does not hinder the others."""
    access, sender = context.access, request.connection
    may_create_all = access.allows(sender, api_checks.CREATE_TOPICS_CLUSTER)
    names = Counter(topic.name for topic in message.topics)
    results = {}
    budget = _Budget()
    for topic in message.topics:
        yield 1
        try:
            if names[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            if not may_create_all:
                access.require(sender, api_checks.CREATE_TOPICS_TOPIC, topic.name)
            results[topic.name] = _create(context, request, topic, budget, message.validate_only)
            yield CREATION_STEPS
        except (KafkaError, StorageError) as error:
            result = results[topic.name] = CreateTopicsResponse.Topic(name=topic.name)
            set_error(result, error)
    return CreateTopicsResponse(topics=list(results.values()))


class _Budget:
    """The partitions that one request may create, as many as in Kafka: they are made in one turn of the event loop."""

    def __init__(self) -> None:
        self._left = MOST_PARTITIONS

    def spend(self, partitions: int) -> None:
        """Take partitions. Raises KafkaError where there are not so many left."""
        if partitions > self._left:
            text = f"Excessively large number of partitions per request: more than {MOST_PARTITIONS}."
            raise KafkaError(ErrorCode.POLICY_VIOLATION, text)
        self._left -= partitions


MOST_PARTITIONS = 10_000
"""Partitions that one request may create (Kafka's MAX_RECORDS_PER_USER_OP)."""


def _create(
    context: ApiContext, request: Request, topic: CreateTopicsRequest.Topic, budget: _Budget, validate_only: bool
) -> CreateTopicsResponse.Topic:
    partitions = _partitions(context, topic)
    if topic.name in INTERNAL:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {topic.name} is prohibited.")
    configs = {config.name: config.value for config in topic.configs if config.value is not None}
    if len(configs) < len(topic.configs):
        names = ",".join(config.name for config in topic.configs if config.value is None)
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {names}")
    context.topics.check_new(topic.name, partitions, configs)
    budget.spend(partitions)
    result = CreateTopicsResponse.Topic(name=topic.name, error_message=None)
    may_see = context.access.allows(request.connection, api_checks.CREATE_TOPICS_CONFIGS, topic.name)
    if may_see:
        result.num_partitions, result.replication_factor = partitions, 1
    else:
        result.topic_config_error_code = api_checks.CREATE_TOPICS_CONFIGS.error
    if validate_only:
        return result
    created = context.topics.create(topic.name, partitions, configs, request.now_ms)
    result.topic_id = created.topic_id
    if may_see:
        result.configs = [
            CreateTopicsResponse.Topic.Config(
                name=name, value=value_text(created.config.get(name)), config_source=created.config.source(name)
            )
            for name in TOPIC
        ]
    return result


def _partitions(context: ApiContext, topic: CreateTopicsRequest.Topic) -> int:
    if topic.assignments:
        if topic.num_partitions != -1 or topic.replication_factor != -1:
            text = "Both numPartitions or replicationFactor and replicasAssignments were set."
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        indexes = sorted(assignment.partition_index for assignment in topic.assignments)
        if indexes != list(range(len(indexes))):
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Partitions must be numbered from 0 without gaps.")
        _check_replicas(context, topic.assignments)
        return len(indexes)
    if topic.replication_factor not in (-1, 1):
        text = f"Unable to replicate the partition {topic.replication_factor} time(s): only 1 broker is registered."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    return context.config.num_partitions if topic.num_partitions == -1 else topic.num_partitions


_Deleted = DeleteTopicsResponse.Response


def delete_topics(context: ApiContext, request: Request, message: DeleteTopicsRequest) -> Steps[DeleteTopicsResponse]:
    """Delete each topic on its own."""
    if not context.config.delete_topic_enable:
        text = "Topic deletion is disabled."
        code = ErrorCode.INVALID_REQUEST if request.api_version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
        raise KafkaError(code, text)
    response = DeleteTopicsResponse(responses=[])
    for name, topic_id in _asked(message, request.api_version):
        result = _delete(context, request, name, topic_id)
        response.responses.append(result)
        yield 1 if result.error_code else CREATION_STEPS
    return response


def refuse_delete_topics(
    message: DeleteTopicsRequest, code: ErrorCode, text: str, version: int
) -> DeleteTopicsResponse:
    """Return a response with an error for every topic."""
    return DeleteTopicsResponse(
        responses=[
            _Deleted(name=name, topic_id=topic_id, error_code=code, error_message=text)
            for name, topic_id in _asked(message, version)
        ]
    )


def _asked(message: DeleteTopicsRequest, version: int) -> list[tuple[str | None, bytes]]:
    if version >= 6:
        return [(topic.name, topic.topic_id) for topic in message.topics]
    return [(name, NO_TOPIC_ID) for name in message.topic_names]


def _delete(context: ApiContext, request: Request, name: str | None, topic_id: bytes) -> DeleteTopicsResponse.Response:
    result = _Deleted(name=name, topic_id=topic_id)
    try:
        if name is not None and topic_id != NO_TOPIC_ID:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
        if name is None and topic_id == NO_TOPIC_ID:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        topic = _find_to_delete(context, request, result)
        if topic.is_internal:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Deletion of internal topic {topic.name} is prohibited.")
        result.name, result.topic_id = topic.name, topic.topic_id
        context.topics.delete(topic, request.now_ms)
    except (KafkaError, StorageError) as error:
        set_error(result, error)
    return result


def _find_to_delete(context: ApiContext, request: Request, result: DeleteTopicsResponse.Response) -> Topic:
    """Return the topic of a name or an id; where it may not be described, neither name nor existence is answered."""
    access, sender = context.access, request.connection
    if access.allows(sender, api_checks.DELETE_TOPICS_CLUSTER):
        return context.topics.find(result.topic_id if result.name is None else result.name)
    if result.name is not None:
        topic = context.find_topic(request, api_checks.DELETE_TOPICS_DESCRIBE, result.name)
    else:
        topic = context.topics.find(result.topic_id)
        if access.allows(sender, api_checks.DELETE_TOPICS_DESCRIBE, topic.name):
            result.name = topic.name
    access.require(sender, api_checks.DELETE_TOPICS_TOPIC, topic.name)
    return topic


def create_partitions(
    context: ApiContext, request: Request, message: CreatePartitionsRequest
) -> Steps[CreatePartitionsResponse]:
    """Grow each topic on its own."""
    names = Counter(asked.name for asked in message.topics)
    results = {}
    budget = _Budget()
    for asked in message.topics:
        result = results[asked.name] = CreatePartitionsResponse.Result(name=asked.name)
        yield 1
        try:
            if names[asked.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
            topic = _growing(context, request, asked, budget)
            if not message.validate_only:
                if context.config.kohort_group_added_partitions_from_start:
                    yield from context.coordinator.add_partitions(topic, asked.count)
                    topic = _growing(context, request, asked, _Budget())  # other requests were carried out meanwhile
                context.topics.grow(topic, asked.count, request.now_ms)
            yield CREATION_STEPS
        except (KafkaError, StorageError) as error:
            set_error(result, error)
    return CreatePartitionsResponse(results=list(results.values()))


def _growing(context: ApiContext, request: Request, asked: CreatePartitionsRequest.Topic, budget: _Budget) -> Topic:
    """Return a topic that may grow as is asked for. Raises KafkaError."""
    topic = context.find_topic(request, api_checks.CREATE_PARTITIONS_TOPIC, asked.name)
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
        _check_replicas(context, asked.assignments)
    budget.spend(asked.count - has)
    context.topics.check_room(asked.count - has)
    return topic


def _check_replicas(context: ApiContext, assignments: Iterable[Any]) -> None:
    if any(assignment.broker_ids != [context.config.node_id] for assignment in assignments):
        text = f"Replicas can only be on broker {context.config.node_id}."
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
