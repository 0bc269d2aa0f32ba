"""Committed offsets of a group: OffsetCommit and OffsetFetch, by members with their identity and by admins without.

Both go up to version 9, which names topics. Members of the consumer protocol use topic ids (version 10) where they
know them, so that a topic made anew under its name is not read from the old one's offsets: `topic_ids` are then those
of all topics. What makes messages and reads responses is pure, and the simulator uses it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kohort.client.arguments import by_partition, check_text, whole_number
from kohort.client.cluster.cluster import Cluster
from kohort.client.errors import PartitionErrors
from kohort.member.member_state import NO_IDENTITY, Identity
from kohort.model.assignment import by_topic
from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.model.ids import NO_TOPIC_ID, TopicPartition
from kohort.wire.messages import OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse


class GroupMetadata(NamedTuple):
    """Who a consumer is in its group; generation -1 before it has joined, in the consumer protocol the member epoch."""

    group_id: str
    generation: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


NEWEST_BY_NAME = 9
NEWEST_BY_ID = 10


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A position to commit: the next offset to read, a note of the user's, the leader epoch of the last record read."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


PartitionOffsets = Mapping[TopicPartition, OffsetAndMetadata]


def committable(offsets: Mapping[TopicPartition, OffsetAndMetadata | int]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return a program's offsets as they are committed. Raises TypeError, ValueError."""
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for partition, entry in by_partition("offsets", offsets).items():
        if not isinstance(entry, OffsetAndMetadata):
            entry = OffsetAndMetadata(entry)
        check_text("metadata", entry.metadata)
        offset = whole_number(f"the offset of {partition}", entry.offset, 0, 2**63 - 1)
        found[partition] = OffsetAndMetadata(
            offset, entry.metadata, whole_number("leader_epoch", entry.leader_epoch, -1)
        )
    return found


# Codes about the member, not about one partition: the whole commit is refused with them.
REFUSALS = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.NON_EMPTY_GROUP,
    }
)


def commit_request(
    group_id: str,
    offsets: PartitionOffsets,
    *,
    identity: Identity = NO_IDENTITY,
    instance_id: str | None = None,
    topic_ids: Mapping[str, bytes],
) -> OffsetCommitRequest:
    """Return OffsetCommit, as a member or, with the default identity, as an admin of an empty group."""
    topic = OffsetCommitRequest.Topic
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=identity.generation,
        member_id=identity.member_id,
        group_instance_id=instance_id,
        topics=[
            topic(
                name=name,
                topic_id=topic_ids.get(name, NO_TOPIC_ID),
                partitions=[
                    topic.Partition(
                        partition_index=partition,
                        committed_offset=(entry := offsets[TopicPartition(name, partition)]).offset,
                        committed_leader_epoch=entry.leader_epoch,
                        committed_metadata=entry.metadata,
                    )
                    for partition in partitions
                ],
            )
            for name, partitions in by_topic(offsets).items()
        ],
    )


def commit_errors(response: OffsetCommitResponse, topic_ids: Mapping[str, bytes]) -> dict[TopicPartition, ErrorCode]:
    """Return the partitions that were not committed, and why."""
    names = {topic_id: topic for topic, topic_id in topic_ids.items()}
    return {
        TopicPartition(topic.name or names.get(topic.topic_id, ""), partition.partition_index): error_for(
            partition.error_code
        )
        for topic in response.topics
        for partition in topic.partitions
        if partition.error_code
    }


def fetch_request(
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    is_stable: bool = True,
    identity: Identity = NO_IDENTITY,
    topic_ids: Mapping[str, bytes],
) -> OffsetFetchRequest:
    """Return OffsetFetch, for all partitions with None. With an `identity` the coordinator checks it (KIP-848)."""
    wanted = None if partitions is None else by_topic(partitions)
    by_group = OffsetFetchRequest.Group.Topic
    return OffsetFetchRequest(
        group_id=group_id,
        topics=None
        if wanted is None
        else [OffsetFetchRequest.Topic(name=topic, partition_indexes=numbers) for topic, numbers in wanted.items()],
        groups=[
            OffsetFetchRequest.Group(
                group_id=group_id,
                member_id=identity.member_id or None,
                member_epoch=identity.generation,
                topics=None
                if wanted is None
                else [
                    by_group(name=topic, topic_id=topic_ids.get(topic, NO_TOPIC_ID), partition_indexes=numbers)
                    for topic, numbers in wanted.items()
                ],
            )
        ],
        require_stable=is_stable,
    )


@dataclass(frozen=True, slots=True)
class FetchedOffsets:
    """What a group has committed. `error` is the whole response's, `failed` are single partitions'."""

    error: ErrorCode
    found: dict[TopicPartition, OffsetAndMetadata]
    failed: dict[TopicPartition, ErrorCode]


def fetched(response: OffsetFetchResponse, topic_ids: Mapping[str, bytes]) -> FetchedOffsets:
    """Return the offsets in the response for one group; what was never committed is left out."""
    names = {topic_id: topic for topic, topic_id in topic_ids.items()}
    group = response.groups[0] if response.groups else response
    result = FetchedOffsets(error_for(group.error_code), {}, {})
    for topic in group.topics:
        name = topic.name
        if not name and isinstance(topic, OffsetFetchResponse.Group.Topic):
            name = names.get(topic.topic_id, "")
        for entry in topic.partitions:
            partition = TopicPartition(name, entry.partition_index)
            if entry.error_code:
                result.failed[partition] = error_for(entry.error_code)
            elif entry.committed_offset >= 0:
                result.found[partition] = OffsetAndMetadata(
                    entry.committed_offset, entry.metadata or "", entry.committed_leader_epoch
                )
    return result


async def commit_offsets(
    cluster: Cluster,
    group_id: str,
    offsets: PartitionOffsets,
    *,
    identity: Identity = NO_IDENTITY,
    instance_id: str | None = None,
    topic_ids: Mapping[str, bytes] | None = None,
) -> None:
    """Commit offsets, as a member or, with the default identity, as an admin of an empty group.

    With `topic_ids`, of all topics, they go by id where the coordinator takes that. Raises `KafkaError` with a code of
    `REFUSALS` where the group refuses, `PartitionErrors` where partitions fail.
    """
    if not offsets:
        return
    ids = topic_ids or {}
    request = commit_request(group_id, offsets, identity=identity, instance_id=instance_id, topic_ids=ids)
    response = await cluster.call_coordinator(
        group_id, request, _first_code, highest=NEWEST_BY_ID if ids else NEWEST_BY_NAME
    )
    failed = commit_errors(response, ids)
    for code in failed.values():
        if code in REFUSALS:
            raise KafkaError(code, f"group {group_id!r} refused the commit: {code.text}")
    if failed:
        raise PartitionErrors(f"group {group_id!r} could not commit", failed)


async def fetch_committed(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    is_stable: bool = True,
    identity: Identity = NO_IDENTITY,
    topic_ids: Mapping[str, bytes] | None = None,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the committed offsets of a group, of all its partitions with None. What was never committed is left out.

    With an `identity` the coordinator checks that it is a member, in that member epoch (KIP-848). With `topic_ids`, of
    all topics, they go by id where the coordinator takes that. `is_stable` waits for open transactions' commits.
    Raises `KafkaError`, `PartitionErrors`.
    """
    wanted = None if partitions is None else list(partitions)
    if wanted is not None and not wanted:
        return {}
    ids = topic_ids or {}
    request = fetch_request(group_id, wanted, is_stable=is_stable, identity=identity, topic_ids=ids)
    response = await cluster.call_coordinator(
        group_id, request, _fetch_code, highest=NEWEST_BY_ID if ids else NEWEST_BY_NAME
    )
    result = fetched(response, ids)
    if result.error is not ErrorCode.NONE:
        raise KafkaError(result.error, f"the offsets of group {group_id!r} could not be read: {result.error.text}")
    if result.failed:
        raise PartitionErrors(f"the offsets of group {group_id!r} could not be read", result.failed)
    return result.found


async def offsets_of_recreated_topics(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, bytes]
) -> set[TopicPartition]:
    """Return which of these offsets, which a group has by name, are of topics with other ids than those of now.

    Such a topic was deleted and created again. None are found where the coordinator takes names alone, or where the
    commits were stored without ids. Raises `KafkaError`.
    """
    wanted = [each for each in partitions if topic_ids.get(each.topic, NO_TOPIC_ID) != NO_TOPIC_ID]
    if not wanted:
        return set()
    request = fetch_request(group_id, wanted, is_stable=False, topic_ids=topic_ids)
    found = fetched(await cluster.call_coordinator(group_id, request, _fetch_code), topic_ids)
    return (
        {each for each in wanted if each not in found.found and each not in found.failed} if not found.error else set()
    )


def _first_code(response: OffsetCommitResponse) -> int:
    codes = (partition.error_code for topic in response.topics for partition in topic.partitions)
    return next((code for code in codes if code), 0)


def _fetch_code(response: OffsetFetchResponse) -> int:
    group = response.groups[0] if response.groups else response
    if group.error_code:
        return group.error_code
    codes = [partition.error_code for topic in group.topics for partition in topic.partitions]
    # UNSTABLE_OFFSET_COMMIT: a transaction's end is on its way (KIP-447).
    is_unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT in codes
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_unstable else 0
