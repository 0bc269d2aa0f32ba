"""ListOffsets: where a partition begins and ends, and which offset a time has.

v4 fences by leader epoch; v7 knows the record with the newest timestamp (-3, KIP-734); v8, v9 and v11 ask about
tiered storage (-4, -5, -6), which is not there: -4 is the log's start, the others nothing; v10 has a timeout.
"""

from __future__ import annotations

from collections import Counter

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.error_responses import set_error
from kohort.node.step_scheduler import Steps
from kohort.node.topics.topic import Partition
from kohort.wire.apis import Api
from kohort.wire.messages import ListOffsetsRequest, ListOffsetsResponse

API = Api.LIST_OFFSETS
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_Result = ListOffsetsResponse.Topic.Partition


def handle(context: ApiContext, request: Request, message: ListOffsetsRequest) -> Steps[ListOffsetsResponse]:
    """Answer for each partition on its own; one asked about twice is an error."""
    times = Counter((topic.name, asked.partition_index) for topic in message.topics for asked in topic.partitions)
    topics = []
    for topic in message.topics:
        yield 1
        results = []
        for asked in topic.partitions:
            result = _Result(partition_index=asked.partition_index)
            try:
                if times[topic.name, asked.partition_index] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition is asked about twice.")
                partition = context.topics.find_partition(topic.name, asked.partition_index)
                partition.check_leader_epoch(asked.current_leader_epoch)
                yield from _look_up(partition, asked.timestamp, request.api_version, result)
            except (KafkaError, StorageError) as error:
                set_error(result, error)
            results.append(result)
            yield 1
        topics.append(ListOffsetsResponse.Topic(name=topic.name, partitions=results))
    return ListOffsetsResponse(topics=topics)


def _look_up(
    partition: Partition, timestamp: int, version: int, result: ListOffsetsResponse.Topic.Partition
) -> Steps[None]:
    log = partition.log
    if timestamp < EARLIEST_PENDING_UPLOAD or version < _FIRST_VERSION.get(timestamp, 0):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    match timestamp:
        case -1:
            result.offset, result.leader_epoch = log.high_watermark, partition.leader_epoch
        case -2 | -4:
            result.offset, result.leader_epoch = log.log_start_offset, partition.leader_epoch
        case -5 | -6:
            pass
        case _:
            is_newest = timestamp == MAX_TIMESTAMP
            found = yield from log.max_timestamp_offset() if is_newest else log.offset_for_timestamp(timestamp)
            if found is not None and found[1] < log.high_watermark:
                result.timestamp, result.offset, result.leader_epoch = found
