"""DescribeTopicPartitions: topics page by page (KIP-966). A truncated answer has the cursor of the next page."""

from __future__ import annotations

from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import TOPIC_OPERATIONS, ApiContext
from kohort.node.client_connection import Request
from kohort.node.step_scheduler import Steps
from kohort.node.topics.topic import INTERNAL, Topic
from kohort.wire.apis import Api
from kohort.wire.messages import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse

API = Api.DESCRIBE_TOPIC_PARTITIONS
_Topic = DescribeTopicPartitionsResponse.Topic


def handle(
    context: ApiContext, request: Request, message: DescribeTopicPartitionsRequest
) -> Steps[DescribeTopicPartitionsResponse]:
    """Answer with topics by name from the cursor on, all of them when none is named."""
    limit = min(message.response_partition_limit, context.config.max_request_partition_size_limit)
    if limit <= 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition limit must be above 0.")
    names = sorted({topic.name for topic in message.topics}) or [topic.name for topic in context.topics]
    cursor = message.cursor
    if cursor is not None:
        if cursor.partition_index < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The cursor's partition must not be negative.")
        names = [name for name in names if name >= cursor.topic_name]
    response = DescribeTopicPartitionsResponse()
    for name in names:
        yield 1
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        topic = context.topics.get(name)
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            response.topics.append(_Topic(error_code=code, name=name, is_internal=name in INTERNAL))
            continue
        if limit <= 0:
            response.next_cursor = DescribeTopicPartitionsResponse.NextCursor(topic_name=name, partition_index=0)
            break
        described = _describe(topic, context.config.node_id, first, limit)
        response.topics.append(described)
        limit -= len(described.partitions)
        yield len(described.partitions)
        following = first + len(described.partitions)
        if following < len(topic.partitions):
            cut = DescribeTopicPartitionsResponse.NextCursor(topic_name=name, partition_index=following)
            response.next_cursor = cut
            break
    return response


def _describe(topic: Topic, node_id: int, first: int, limit: int) -> DescribeTopicPartitionsResponse.Topic:
    alone = [node_id]
    return _Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        topic_authorized_operations=TOPIC_OPERATIONS,
        partitions=[
            _Topic.Partition(
                partition_index=partition.index,
                leader_id=node_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=alone,
                isr_nodes=alone,
                eligible_leader_replicas=[],
                last_known_elr=[],
            )
            for partition in topic.partitions[first : first + limit]
        ],
    )
