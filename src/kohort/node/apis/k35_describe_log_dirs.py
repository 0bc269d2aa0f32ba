"""DescribeLogDirs: how many bytes each partition takes, and how much room the directory of the logs has.

v2 is flexible, v3 adds an error for the whole answer, v4 the size of the volume (KIP-827), v5 whether the directory
takes no new partitions (KIP-1066), which no setting does here. There is one directory.
"""

from __future__ import annotations

from collections.abc import Iterator

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.topics.topic import Topic
from kohort.wire.apis import Api
from kohort.wire.messages import DescribeLogDirsRequest, DescribeLogDirsResponse

API = Api.DESCRIBE_LOG_DIRS
_Result = DescribeLogDirsResponse.Result


def handle(context: ApiContext, request: Request, message: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Describe the one directory; as in Kafka, partitions that do not exist are left out."""
    volume = context.services.disk.volume()
    try:
        topics = list(_topics(context, message))
    except StorageError:
        failed = _Result(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=volume.directory, topics=[])
        return DescribeLogDirsResponse(results=[failed])
    result = _Result(
        log_dir=volume.directory, topics=topics, total_bytes=volume.total_bytes, usable_bytes=volume.usable_bytes
    )
    return DescribeLogDirsResponse(results=[result])


def _topics(context: ApiContext, message: DescribeLogDirsRequest) -> Iterator[DescribeLogDirsResponse.Result.Topic]:
    if message.topics is None:
        wanted: list[tuple[Topic, range | set[int]]] = [(each, range(len(each.partitions))) for each in context.topics]
    else:
        numbers: dict[str, set[int]] = {}
        for asked in message.topics:
            numbers.setdefault(asked.topic, set()).update(asked.partitions)
        wanted = [(topic, found) for name, found in numbers.items() if (topic := context.topics.get(name)) is not None]
    for topic, found in wanted:
        partitions = [
            _Result.Topic.Partition(partition_index=index, partition_size=topic.partitions[index].size)
            for index in sorted(found)
            if 0 <= index < len(topic.partitions)
        ]
        if partitions:
            yield _Result.Topic(name=topic.name, partitions=partitions)
