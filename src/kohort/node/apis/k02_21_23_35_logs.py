"""Logs of partitions: their beginning and end, the offset of a time, the end of an epoch, their size.

ListOffsets: v4 fences by leader epoch; v7 knows the record with the newest timestamp (-3, KIP-734); v8, v9 and v11 ask
about tiered storage (-4, -5, -6), which is not there: -4 is the log's start, the others nothing; v10 has a timeout.
DeleteRecords moves the beginning forward (KIP-107), OffsetForLeaderEpoch finds where logs diverge (KIP-320).
DescribeLogDirs: v2 is flexible, v3 adds an error for the whole answer, v4 the size of the volume (KIP-827), v5 whether
the directory takes no new partitions (KIP-1066), which no setting does here. There is one directory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.authorization import api_checks
from kohort.node.client_connection import Request
from kohort.node.route import set_error
from kohort.node.step_scheduler import Steps
from kohort.node.topics.topic import Partition, Topic
from kohort.wire.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
_FIRST_VERSION = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
HIGH_WATERMARK = -1
_READ_COMMITTED = 1


def _answer_each(
    topics: list[Any],
    cls: type[Any],
    answer: Callable[[str, Any, Any], Steps[None] | None],
    names: tuple[str, str] = ("name", "partition_index"),
) -> Steps[list[Any]]:
    """Answer for each partition on its own: `answer(topic, asked, result)` fills in the result, or raises its error."""
    name, index = names
    answers = []
    for topic in topics:
        yield 1
        results = []
        for asked in topic.partitions:
            result = cls.Partition(**{index: getattr(asked, index)})
            try:
                yield from answer(getattr(topic, name), asked, result) or ()
            except (KafkaError, StorageError) as error:
                set_error(result, error)
            results.append(result)
            yield 1
        answers.append(cls(**{name: getattr(topic, name)}, partitions=results))
    return answers


def list_offsets(context: ApiContext, request: Request, message: ListOffsetsRequest) -> Steps[ListOffsetsResponse]:
    """Answer for each partition with an offset of its log; one asked about twice is an error."""
    times = Counter((topic.name, asked.partition_index) for topic in message.topics for asked in topic.partitions)

    def answer(
        topic: str, asked: ListOffsetsRequest.Topic.Partition, result: ListOffsetsResponse.Topic.Partition
    ) -> Steps[None]:
        if times[topic, asked.partition_index] > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The partition is asked about twice.")
        found = context.find_topic(request, api_checks.LIST_OFFSETS_TOPIC, topic)
        partition = found.partition(asked.partition_index)
        partition.check_leader_epoch(asked.current_leader_epoch)
        is_committed = message.isolation_level == _READ_COMMITTED
        return _look_up(partition, asked.timestamp, request.api_version, result, is_committed=is_committed)

    return ListOffsetsResponse(topics=(yield from _answer_each(message.topics, ListOffsetsResponse.Topic, answer)))


def _look_up(
    partition: Partition,
    timestamp: int,
    version: int,
    result: ListOffsetsResponse.Topic.Partition,
    *,
    is_committed: bool,
) -> Steps[None]:
    log = partition.log
    end = log.last_stable_offset if is_committed else log.high_watermark
    if timestamp < EARLIEST_PENDING_UPLOAD or version < _FIRST_VERSION.get(timestamp, 0):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    match timestamp:
        case -1:
            result.offset, result.leader_epoch = end, partition.leader_epoch
        case -2 | -4:
            result.offset, result.leader_epoch = log.log_start_offset, partition.leader_epoch
        case -5 | -6:
            pass
        case _:
            is_newest = timestamp == MAX_TIMESTAMP
            search = log.max_timestamp_offset(end) if is_newest else log.offset_for_timestamp(timestamp)
            found = yield from partition.unpacking.run(search)
            if found is not None and found[1] < end:
                result.timestamp, result.offset, result.leader_epoch = found


def delete_records(
    context: ApiContext, request: Request, message: DeleteRecordsRequest
) -> Steps[DeleteRecordsResponse]:
    """Delete for each partition, and answer with its new beginning. -1 stands for its high watermark."""

    def answer(
        topic: str, asked: DeleteRecordsRequest.Topic.Partition, result: DeleteRecordsResponse.Topic.Partition
    ) -> None:
        result.low_watermark = -1
        found = context.find_topic(request, api_checks.DELETE_RECORDS_TOPIC, topic)
        partition = found.partition(asked.partition_index)
        if partition.topic.is_internal:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {topic}")
        if "delete" not in partition.topic.config.cleanup_policy:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "The topic's cleanup.policy does not include delete.")
        log = partition.log
        before = log.high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
        if not 0 <= before <= log.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if before > log.log_start_offset:
            log.delete_records(before)
        result.low_watermark = log.log_start_offset

    return DeleteRecordsResponse(topics=(yield from _answer_each(message.topics, DeleteRecordsResponse.Topic, answer)))


def offset_for_leader_epoch(
    context: ApiContext, request: Request, message: OffsetForLeaderEpochRequest
) -> Steps[OffsetForLeaderEpochResponse]:
    """Answer for each partition with the largest epoch not above the asked one, and its end."""
    is_broker = context.access.allows(request.connection, api_checks.EPOCH_CLUSTER)

    def answer(
        topic: str,
        asked: OffsetForLeaderEpochRequest.Topic.Partition,
        result: OffsetForLeaderEpochResponse.Topic.Partition,
    ) -> None:
        if not is_broker:
            context.access.require(request.connection, api_checks.EPOCH_TOPIC, topic)
        partition = context.topics.find_partition(topic, asked.partition)
        partition.check_leader_epoch(asked.current_leader_epoch)
        if asked.leader_epoch == partition.leader_epoch:
            result.leader_epoch, result.end_offset = asked.leader_epoch, partition.log.high_watermark
        else:
            result.leader_epoch, result.end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)

    names = "topic", "partition"
    topics = yield from _answer_each(message.topics, OffsetForLeaderEpochResponse.Topic, answer, names)
    return OffsetForLeaderEpochResponse(topics=topics)


_LogDir = DescribeLogDirsResponse.Result


def describe_log_dirs(
    context: ApiContext, request: Request, message: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    """Describe the one directory; as in Kafka, partitions that do not exist are left out."""
    volume = context.services.disk.volume()
    try:
        topics = list(_sizes(context, message))
    except StorageError:
        failed = _LogDir(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=volume.directory, topics=[])
        return DescribeLogDirsResponse(results=[failed])
    result = _LogDir(
        log_dir=volume.directory, topics=topics, total_bytes=volume.total_bytes, usable_bytes=volume.usable_bytes
    )
    return DescribeLogDirsResponse(results=[result])


def _sizes(context: ApiContext, message: DescribeLogDirsRequest) -> Iterator[DescribeLogDirsResponse.Result.Topic]:
    if message.topics is None:
        wanted: list[tuple[Topic, range | set[int]]] = [(each, range(len(each.partitions))) for each in context.topics]
    else:
        numbers: dict[str, set[int]] = {}
        for asked in message.topics:
            numbers.setdefault(asked.topic, set()).update(asked.partitions)
        wanted = [(topic, found) for name, found in numbers.items() if (topic := context.topics.get(name)) is not None]
    for topic, found in wanted:
        partitions = [
            _LogDir.Topic.Partition(partition_index=index, partition_size=topic.partitions[index].size)
            for index in sorted(found)
            if 0 <= index < len(topic.partitions)
        ]
        if partitions:
            yield _LogDir.Topic(name=topic.name, partitions=partitions)
