"""OffsetForLeaderEpoch: where an epoch ended, so that a client finds the point at which logs diverge (KIP-320)."""

from __future__ import annotations

from kohort.log.disk import StorageError
from kohort.model.errors import KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.error_responses import set_error
from kohort.node.step_scheduler import Steps
from kohort.wire.apis import Api
from kohort.wire.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

API = Api.OFFSET_FOR_LEADER_EPOCH
_Result = OffsetForLeaderEpochResponse.Topic.Partition


def handle(
    context: ApiContext, request: Request, message: OffsetForLeaderEpochRequest
) -> Steps[OffsetForLeaderEpochResponse]:
    """Answer for each partition with the largest epoch not above the asked one, and its end."""
    topics = []
    for topic in message.topics:
        yield 1
        results = []
        for asked in topic.partitions:
            result = _Result(partition=asked.partition)
            try:
                partition = context.topics.find_partition(topic.topic, asked.partition)
                partition.check_leader_epoch(asked.current_leader_epoch)
                if asked.leader_epoch == partition.leader_epoch:
                    result.leader_epoch, result.end_offset = asked.leader_epoch, partition.log.high_watermark
                else:
                    result.leader_epoch, result.end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
            except (KafkaError, StorageError) as error:
                set_error(result, error)
            results.append(result)
            yield 1
        topics.append(OffsetForLeaderEpochResponse.Topic(topic=topic.topic, partitions=results))
    return OffsetForLeaderEpochResponse(topics=topics)
