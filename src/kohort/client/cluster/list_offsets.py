"""ListOffsets: the first offset, the next to be written, the first at or after a timestamp.

Requested from each partition's leader; a leader that moved is looked up, and the request sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.metadata import Broker
from kohort.client.cluster.offset_specs import LATEST, READ_UNCOMMITTED
from kohort.client.cluster.retry import is_worth_a_retry, remaining_ms
from kohort.client.errors import PartitionErrors, UnknownPartition, UnknownTopic
from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.model.ids import TopicPartition
from kohort.wire.messages import ListOffsetsRequest

UNKNOWN_MS = 5_000
"""How long a program that names a partition waits for one that the cluster does not have: it may be a moment old."""


class OffsetAndTimestamp(NamedTuple):
    """An offset found; `timestamp_ms` is -1 for the first and last offsets, `leader_epoch` -1 where not known."""

    offset: int
    timestamp_ms: int = -1
    leader_epoch: int = -1


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation: int = READ_UNCOMMITTED,
    gone: set[TopicPartition] | None = None,
    unknown_ms: int | None = None,
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Return the offset of each partition for a timestamp in milliseconds, or EARLIEST, LATEST, MAX_TIMESTAMP.

    None stands for a timestamp after the last record. With `gone`, partitions that the cluster does not have are put
    there and left out. For `unknown_ms`, by default as long as for everything else, one that it does not have may still
    be made. Raises `UnknownTopic`, `UnknownPartition`, `PartitionErrors`, or the `KafkaError` that lasted until time
    was up.
    """
    deleted: set[TopicPartition] = set() if gone is None else gone
    began_s = asyncio.get_running_loop().time()
    deadline_s = began_s + 2 * cluster.request_timeout_ms / 1000
    unknown_s = deadline_s if unknown_ms is None else began_s + unknown_ms / 1000
    waits = cluster.waits()
    found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    while left := {each: time_ms for each, time_ms in wanted.items() if each not in found and each not in deleted}:
        failed: dict[TopicPartition, ErrorCode] = {}
        by_leader: dict[Broker, dict[TopicPartition, int]] = {}
        for partition, timestamp in left.items():
            if gone is not None and await _is_gone(cluster, partition.topic):
                deleted.add(partition)
                continue
            try:
                leader = await cluster.leader(partition)
            except KafkaError as error:
                if gone is not None and isinstance(error, UnknownTopic | UnknownPartition):
                    deleted.add(partition)
                    continue
                is_unknown = isinstance(error, UnknownTopic | UnknownPartition)
                if not _may_pass(error.code, unknown_s if is_unknown else deadline_s):
                    raise
                failed[partition] = error.code
            else:
                by_leader.setdefault(leader, {})[partition] = timestamp
        requests = [offsets_at(cluster, leader, part, isolation, deadline_s) for leader, part in by_leader.items()]
        for response in await asyncio.gather(*requests):
            for partition, outcome in response.items():
                if isinstance(outcome, ErrorCode):
                    failed[partition] = outcome
                else:
                    found[partition] = outcome
        if failed:
            if not all(_may_pass(code, deadline_s) for code in failed.values()):
                raise PartitionErrors("offsets could not be listed", failed)
            cluster.request_refresh()
            await asyncio.sleep(waits.next_s())
    return found


async def list_ends(
    cluster: Cluster,
    partitions: Iterable[TopicPartition],
    which: int,
    isolation: int = 0,
    gone: set[TopicPartition] | None = None,
    unknown_ms: int | None = None,
) -> dict[TopicPartition, int]:
    """Return the first (EARLIEST) or next (LATEST) offset of each partition. Raises as `list_offsets` does."""
    found = await list_offsets(
        cluster, dict.fromkeys(partitions, which), isolation=isolation, gone=gone, unknown_ms=unknown_ms
    )
    return {partition: entry.offset for partition, entry in found.items() if entry is not None}


async def list_starts(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    isolation: int = READ_UNCOMMITTED,
    gone: set[TopicPartition] | None = None,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Return what `list_offsets` does, and for a timestamp after the last record the end of the log.

    The end is requested first: a record that is written meanwhile is behind it. Raises as `list_offsets` does.
    """
    by_time = [partition for partition, timestamp in wanted.items() if timestamp >= 0]
    ends = await list_offsets(cluster, dict.fromkeys(by_time, LATEST), isolation=isolation, gone=gone)
    found = await list_offsets(cluster, wanted, isolation=isolation, gone=gone)
    return {each: at for each in wanted if (at := found.get(each) or ends.get(each)) is not None}


async def _is_gone(cluster: Cluster, topic: str) -> bool:
    """Return whether fresh metadata too shows no such topic: a view may be older than the topic."""
    if not cluster.view.is_gone(topic):
        return False
    await cluster.refresh()
    return cluster.view.is_gone(topic)


def _may_pass(code: ErrorCode, deadline_s: float) -> bool:
    return is_worth_a_retry(KafkaError(code)) and asyncio.get_running_loop().time() < deadline_s


async def offsets_at(
    cluster: Cluster, leader: Broker, wanted: Mapping[TopicPartition, int], isolation: int, deadline_s: float
) -> dict[TopicPartition, OffsetAndTimestamp | ErrorCode | None]:
    """Return what one leader answers for each partition: an offset, None, or why there is none. Raises `KafkaError`."""
    topics: dict[str, ListOffsetsRequest.Topic] = {}
    for partition, timestamp in sorted(wanted.items()):
        topic = topics.setdefault(partition.topic, ListOffsetsRequest.Topic(name=partition.topic))
        topic.partitions.append(
            ListOffsetsRequest.Topic.Partition(partition_index=partition.partition, timestamp=timestamp)
        )
    timeout_ms = min(cluster.request_timeout_ms, remaining_ms(deadline_s))
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=list(topics.values()), timeout_ms=timeout_ms
    )
    try:
        response = await cluster.call(leader, request)
    except KafkaError as error:
        if not is_worth_a_retry(error):
            raise
        return dict.fromkeys(wanted, error.code)
    outcomes: dict[TopicPartition, OffsetAndTimestamp | ErrorCode | None] = {}
    for found in response.topics:
        for entry in found.partitions:
            partition = TopicPartition(found.name, entry.partition_index)
            if entry.error_code:
                outcomes[partition] = error_for(entry.error_code)
            elif entry.offset < 0:
                outcomes[partition] = None
            else:
                outcomes[partition] = OffsetAndTimestamp(entry.offset, entry.timestamp, entry.leader_epoch)
    return {partition: outcomes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR) for partition in wanted}
