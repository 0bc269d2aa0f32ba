"""Where the logs of partitions begin and end: ListOffsets, sent to each leader and merged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kohort.client.cluster import Cluster
from kohort.client.errors import PartitionErrors
from kohort.client.retry import retry
from kohort.client.view import Broker
from kohort.model.assignment import by_topic
from kohort.model.errors import ErrorCode, error_for
from kohort.model.ids import TopicPartition
from kohort.wire.messages import ListOffsetsRequest

_EARLIEST, _LATEST = -2, -1


async def beginning_offsets(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the first offset that each partition holds. Raises KafkaError."""
    return await _offsets(cluster, frozenset(partitions), _EARLIEST)


async def end_offsets(cluster: Cluster, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the offset that each partition's next record will get. Raises KafkaError."""
    return await _offsets(cluster, frozenset(partitions), _LATEST)


async def _offsets(
    cluster: Cluster, partitions: frozenset[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    async def attempt() -> dict[TopicPartition, int]:
        by_leader: dict[Broker, list[TopicPartition]] = {}
        for partition in partitions:
            by_leader.setdefault(await cluster.leader(partition), []).append(partition)
        asked = (_ask(cluster, leader, held, timestamp) for leader, held in by_leader.items())
        answers = await asyncio.gather(*asked)
        return {partition: offset for answer in answers for partition, offset in answer.items()}

    return await retry(attempt, waits=cluster.waits(), timeout_ms=cluster.request_timeout_ms)


async def _ask(
    cluster: Cluster, leader: Broker, partitions: list[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    request = ListOffsetsRequest(
        topics=[
            ListOffsetsRequest.Topic(
                name=topic,
                partitions=[
                    ListOffsetsRequest.Topic.Partition(partition_index=number, timestamp=timestamp)
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(partitions).items()
        ]
    )
    answer = await cluster.call(leader, request)
    found: dict[TopicPartition, int] = {}
    failed: dict[TopicPartition, ErrorCode] = {}
    for topic in answer.topics:
        for entry in topic.partitions:
            partition = TopicPartition(topic.name, entry.partition_index)
            if entry.error_code:
                failed[partition] = error_for(entry.error_code)
            else:
                found[partition] = entry.offset
    if failed:
        cluster.want_refresh()
        raise PartitionErrors("offsets could not be listed", failed)
    return found
