"""DeleteRecords: move the beginning of a log forward. -1 stands for its high watermark (KIP-107)."""

from __future__ import annotations

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.error_responses import set_error
from kohort.node.step_scheduler import Steps
from kohort.wire.apis import Api
from kohort.wire.messages import DeleteRecordsRequest, DeleteRecordsResponse

API = Api.DELETE_RECORDS
HIGH_WATERMARK = -1
_Result = DeleteRecordsResponse.Topic.Partition


def handle(context: ApiContext, request: Request, message: DeleteRecordsRequest) -> Steps[DeleteRecordsResponse]:
    """Delete for each partition on its own, and answer with its new beginning."""
    topics = []
    for topic in message.topics:
        yield 1
        results = []
        for asked in topic.partitions:
            result = _Result(partition_index=asked.partition_index, low_watermark=-1)
            try:
                result.low_watermark = _delete(context, topic.name, asked)
            except (KafkaError, StorageError) as error:
                set_error(result, error)
            results.append(result)
            yield 1
        topics.append(DeleteRecordsResponse.Topic(name=topic.name, partitions=results))
    return DeleteRecordsResponse(topics=topics)


def _delete(context: ApiContext, name: str, asked: DeleteRecordsRequest.Topic.Partition) -> int:
    partition = context.topics.find_partition(name, asked.partition_index)
    if partition.topic.is_internal:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {name}")
    if "delete" not in partition.topic.config.cleanup_policy:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "The topic's cleanup.policy does not include delete.")
    log = partition.log
    before = log.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
    if not 0 <= before <= log.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if before > log.log_start_offset:
        log.delete_records(before)
    return log.log_start_offset
