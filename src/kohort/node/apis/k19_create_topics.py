"""CreateTopics: create topics by name.

v4 lets -1 stand for the broker's number of partitions and replication factor (KIP-464); v5 answers with what
was created (KIP-525); v7 with the topic's id.
"""

from __future__ import annotations

from collections import Counter

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.configuration.broker_settings import TOPIC, value_text
from kohort.node.error_responses import set_error
from kohort.node.step_scheduler import Steps
from kohort.node.topics.topic import INTERNAL
from kohort.node.topics.topics import CREATION_STEPS
from kohort.wire.apis import Api
from kohort.wire.messages import CreateTopicsRequest, CreateTopicsResponse

API = Api.CREATE_TOPICS


def handle(context: ApiContext, request: Request, message: CreateTopicsRequest) -> Steps[CreateTopicsResponse]:
    """Create each topic on its own; one that is refused does not hinder the others."""
    names = Counter(topic.name for topic in message.topics)
    results: list[CreateTopicsResponse.Topic] = []
    for topic in {topic.name: topic for topic in message.topics}.values():
        yield 1
        try:
            if names[topic.name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            results.append(_create(context, request, topic, message.validate_only))
            yield CREATION_STEPS
        except (KafkaError, StorageError) as error:
            result = CreateTopicsResponse.Topic(name=topic.name)
            set_error(result, error)
            results.append(result)
    return CreateTopicsResponse(topics=results)


def _create(
    context: ApiContext, request: Request, topic: CreateTopicsRequest.Topic, validate_only: bool
) -> CreateTopicsResponse.Topic:
    partitions = _partitions(context, topic)
    if topic.name in INTERNAL:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {topic.name} is prohibited.")
    configs = {config.name: config.value for config in topic.configs if config.value is not None}
    if len(configs) < len(topic.configs):
        names = ",".join(config.name for config in topic.configs if config.value is None)
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {names}")
    context.topics.check_new(topic.name, partitions, configs)
    result = CreateTopicsResponse.Topic(
        name=topic.name, error_message=None, num_partitions=partitions, replication_factor=1
    )
    if not validate_only:
        created = context.topics.create(topic.name, partitions, configs, request.now_ms)
        result.topic_id = created.topic_id
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
        if any(assignment.broker_ids != [context.config.node_id] for assignment in topic.assignments):
            text = f"Replicas can only be on broker {context.config.node_id}."
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
        return len(indexes)
    if topic.replication_factor not in (-1, 1):
        text = f"Unable to replicate the partition {topic.replication_factor} time(s): only 1 broker is registered."
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)
    return context.config.num_partitions if topic.num_partitions == -1 else topic.num_partitions
