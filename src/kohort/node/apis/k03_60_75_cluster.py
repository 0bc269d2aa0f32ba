"""The cluster as clients see it: its one broker, its topics and the leaders of their partitions.

Metadata: v0 asks for all topics with an empty list, v1+ with null. v4 lets the client forbid auto-creation; v10 asks by
topic id, v12 by id alone (KIP-516); v8-10 carry the cluster's authorized operations, v8+ the topics'.
DescribeCluster: v1 adds the endpoint type (KIP-919), brokers only here; v2 fenced brokers, of which there are none.
DescribeTopicPartitions lists topics page by page (KIP-966); a truncated answer has the cursor of the next page.
"""

from __future__ import annotations

from typing import TypeVar

from kohort.log.disk import StorageError
from kohort.model.acl import ResourceType
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import NO_TOPIC_ID
from kohort.node.apis.context import ApiContext
from kohort.node.authorization import api_checks
from kohort.node.client_connection import Request
from kohort.node.step_scheduler import Steps
from kohort.node.topics.topic import INTERNAL, Partition, Topic
from kohort.node.topics.topics import CREATION_STEPS
from kohort.wire.messages import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    MetadataRequest,
    MetadataResponse,
)

_DescribedTopic = DescribeTopicPartitionsResponse.Topic
PartitionT = TypeVar("PartitionT", MetadataResponse.Topic.Partition, _DescribedTopic.Partition)


def metadata(context: ApiContext, request: Request, message: MetadataRequest) -> Steps[MetadataResponse]:
    """Answer with the topics that were asked for, each once; an unknown one is created where that is allowed."""
    host, port = request.connection.listener.advertised
    node_id = context.config.node_id
    response = MetadataResponse(
        brokers=[MetadataResponse.Broker(node_id=node_id, host=host, port=port, rack=context.config.broker_rack)],
        cluster_id=context.state.cluster_id,
        controller_id=node_id,
    )
    access, sender = context.access, request.connection
    asked = message.topics
    if asked is None or (request.api_version == 0 and not asked):
        for each in context.topics:
            if not access.allows(sender, api_checks.METADATA_TOPIC, each.name):
                continue
            response.topics.append((yield from _describe(each, node_id)))
    else:
        for wanted in {(topic.name, topic.topic_id): topic for topic in asked}.values():
            response.topics.append((yield from _find(context, request, message, wanted)))
    if message.include_topic_authorized_operations:
        for described in response.topics:
            if described.error_code == ErrorCode.NONE:
                described.topic_authorized_operations = access.operations(
                    sender, ResourceType.TOPIC, described.name or ""
                )
    if message.include_cluster_authorized_operations:
        response.cluster_authorized_operations = _cluster_operations(context, request, api_checks.METADATA_CLUSTER)
    return response


def _cluster_operations(context: ApiContext, request: Request, check: api_checks.Check) -> int:
    if not context.access.allows(request.connection, check):
        return 0
    return context.access.operations(request.connection, ResourceType.CLUSTER)


def refuse_metadata(message: MetadataRequest, code: ErrorCode, text: str, version: int) -> MetadataResponse:
    """Return an error for every topic that was asked for, and at the top from v13 on."""
    topics = [
        MetadataResponse.Topic(error_code=code, name=topic.name or "", topic_id=topic.topic_id)
        for topic in message.topics or ()
    ]
    return MetadataResponse(topics=topics, error_code=code)


def _describe(topic: Topic, node_id: int) -> Steps[MetadataResponse.Topic]:
    described = MetadataResponse.Topic(
        name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_internal, partitions=[]
    )
    for partition in topic.partitions:
        described.partitions.append(_replicas(MetadataResponse.Topic.Partition, partition, node_id))
        yield 1
    return described


def _replicas(cls: type[PartitionT], partition: Partition, node_id: int) -> PartitionT:
    alone = [node_id]
    return cls(
        partition_index=partition.index,
        leader_id=node_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=alone,
        isr_nodes=alone,
    )


def _find(
    context: ApiContext, request: Request, message: MetadataRequest, asked: MetadataRequest.Topic
) -> Steps[MetadataResponse.Topic]:
    yield 1
    name = asked.name
    if name is None or (request.api_version >= 10 and asked.topic_id != NO_TOPIC_ID):
        topic = context.topics.by_id(asked.topic_id)
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            return MetadataResponse.Topic(
                error_code=code, name=None if request.api_version >= 12 else "", topic_id=asked.topic_id
            )
        if not context.access.allows(request.connection, api_checks.METADATA_TOPIC, topic.name):
            error = api_checks.METADATA_TOPIC.error
            return MetadataResponse.Topic(error_code=error, name=None, topic_id=asked.topic_id)
        return (yield from _describe(topic, context.config.node_id))
    try:
        context.access.require(request.connection, api_checks.METADATA_TOPIC, name)
    except KafkaError as error:
        return MetadataResponse.Topic(error_code=error.code, name=name)
    topic = context.topics.get(name)
    try:
        if topic is None:
            topic = _create(context, request, message, name)
            yield CREATION_STEPS
    except KafkaError as error:
        return MetadataResponse.Topic(error_code=error.code, name=name, is_internal=name in INTERNAL)
    except StorageError:
        return MetadataResponse.Topic(error_code=ErrorCode.KAFKA_STORAGE_ERROR, name=name)
    return (yield from _describe(topic, context.config.node_id))


def _create(context: ApiContext, request: Request, message: MetadataRequest, name: str) -> Topic:
    allowed = message.allow_auto_topic_creation or request.api_version < 4
    access, sender = context.access, request.connection
    is_created = allowed and (context.config.auto_create_topics_enable or name == "__consumer_offsets")
    if is_created and not access.allows(sender, api_checks.AUTO_CREATE_CLUSTER):
        access.require(sender, api_checks.AUTO_CREATE_TOPIC, name)
    if name == "__consumer_offsets" and allowed:
        return context.coordinator.ensure_topic()
    if not (allowed and context.config.auto_create_topics_enable) or name in INTERNAL:
        context.topics.check_new(name, 1, {})
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    context.topics.check_automatic(name)
    # Kafka answers LEADER_NOT_AVAILABLE while its controller works; here the topic is there at once.
    return context.topics.create(name, context.config.num_partitions, {}, request.now_ms)


_BROKERS, _CONTROLLERS = 1, 2


def describe_cluster(context: ApiContext, request: Request, message: DescribeClusterRequest) -> DescribeClusterResponse:
    """Answer with the one broker there is."""
    if message.endpoint_type == _CONTROLLERS:
        raise KafkaError(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "The request was sent to an endpoint of type BROKER.")
    if message.endpoint_type != _BROKERS:
        text = f"Unsupported endpoint type {message.endpoint_type}"
        raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, text)
    host, port = request.connection.listener.advertised
    node_id = context.config.node_id
    response = DescribeClusterResponse(
        cluster_id=context.state.cluster_id,
        controller_id=node_id,
        brokers=[
            DescribeClusterResponse.Broker(broker_id=node_id, host=host, port=port, rack=context.config.broker_rack)
        ],
    )
    if message.include_cluster_authorized_operations:
        response.cluster_authorized_operations = _cluster_operations(context, request, api_checks.DESCRIBE_CLUSTER)
    return response


def describe_topic_partitions(
    context: ApiContext, request: Request, message: DescribeTopicPartitionsRequest
) -> Steps[DescribeTopicPartitionsResponse]:
    """Answer with topics by name from the cursor on, all of them when none is named."""
    limit = min(message.response_partition_limit, context.config.max_request_partition_size_limit)
    if limit <= 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition limit must be above 0.")
    access, sender, check = context.access, request.connection, api_checks.PARTITIONS_TOPIC
    names = sorted({topic.name for topic in message.topics})
    if not names:
        names = [topic.name for topic in context.topics if access.allows(sender, check, topic.name)]
    cursor = message.cursor
    if cursor is not None:
        if cursor.partition_index < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The cursor's partition must not be negative.")
        names = [name for name in names if name >= cursor.topic_name]
    response = DescribeTopicPartitionsResponse()
    for name in names:
        yield 1
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if not access.allows(sender, check, name):
            response.topics.append(_DescribedTopic(error_code=check.error, name=name))
            continue
        topic = context.topics.get(name)
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            response.topics.append(_DescribedTopic(error_code=code, name=name, is_internal=name in INTERNAL))
            continue
        if limit <= 0:
            response.next_cursor = DescribeTopicPartitionsResponse.NextCursor(topic_name=name, partition_index=0)
            break
        described = _DescribedTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            topic_authorized_operations=access.operations(sender, ResourceType.TOPIC, topic.name),
            partitions=[],
        )
        response.topics.append(described)
        for partition in topic.partitions[first : first + limit]:
            replicas = _replicas(_DescribedTopic.Partition, partition, context.config.node_id)
            replicas.eligible_leader_replicas, replicas.last_known_elr = [], []
            described.partitions.append(replicas)
        limit -= len(described.partitions)
        yield len(described.partitions)
        following = first + len(described.partitions)
        if following < len(topic.partitions):
            cut = DescribeTopicPartitionsResponse.NextCursor(topic_name=name, partition_index=following)
            response.next_cursor = cut
            break
    return response
