"""Committed offsets: written and read at a group's coordinator, by members with their identity and by admins without.

OffsetCommit and OffsetFetch go up to version 9, which names topics. Members of the consumer protocol use topic ids
(version 10) where they know them, so that a topic made anew under its name is not read from the old one's offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kohort.client.cluster import Cluster
from kohort.client.errors import PartitionErrors
from kohort.member.identity import NOBODY, Identity
from kohort.model.assignment import by_topic
from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.model.ids import NO_TOPIC_ID, TopicPartition
from kohort.wire.messages import OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse

_NEWEST_BY_NAME = 9
_NEWEST = 10


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A position to commit: the next offset to read, a note of the user's, the leader epoch of the last record read."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


# Codes that say who may commit, not how one partition fared: the whole commit is refused with them.
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


async def commit_offsets(
    cluster: Cluster,
    group_id: str,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    identity: Identity = NOBODY,
    instance_id: str | None = None,
    topic_ids: Mapping[str, bytes] | None = None,
    timeout_ms: int | None = None,
) -> None:
    """Commit offsets, as a member or, with the default identity, as an admin of an empty group.

    With `topic_ids`, of all topics, they go by id where the coordinator takes that. Raises `KafkaError` with a code of
    `REFUSALS` where the group refuses, `PartitionErrors` where partitions fail.
    """
    if not offsets:
        return
    ids = topic_ids or {}
    names = {topic_id: topic for topic, topic_id in ids.items()}
    topics = [
        OffsetCommitRequest.Topic(
            name=topic,
            topic_id=ids.get(topic, NO_TOPIC_ID),
            partitions=[
                OffsetCommitRequest.Topic.Partition(
                    partition_index=partition,
                    committed_offset=(entry := offsets[TopicPartition(topic, partition)]).offset,
                    committed_leader_epoch=entry.leader_epoch,
                    committed_metadata=entry.metadata,
                )
                for partition in partitions
            ],
        )
        for topic, partitions in by_topic(offsets).items()
    ]
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=identity.generation,
        member_id=identity.member_id,
        group_instance_id=instance_id,
        topics=topics,
    )
    answer = await cluster.call_coordinator(
        group_id, request, _first_code, highest=_NEWEST if ids else _NEWEST_BY_NAME, timeout_ms=timeout_ms
    )
    failed = {
        TopicPartition(topic.name or names.get(topic.topic_id, ""), partition.partition_index): error_for(
            partition.error_code
        )
        for topic in answer.topics
        for partition in topic.partitions
        if partition.error_code
    }
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
    identity: Identity = NOBODY,
    topic_ids: Mapping[str, bytes] | None = None,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the committed offsets of a group, of all its partitions with None. What was never committed is left out.

    With an `identity` the coordinator checks that it is a member, in that member epoch (KIP-848). With `topic_ids`, of
    all topics, they go by id where the coordinator takes that. `is_stable` waits for open transactions' commits.
    Raises `KafkaError`, `PartitionErrors`.
    """
    wanted = None if partitions is None else by_topic(partitions)
    if wanted is not None and not wanted:
        return {}
    ids = topic_ids or {}
    names = {topic_id: topic for topic, topic_id in ids.items()}
    request = OffsetFetchRequest(
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
                    OffsetFetchRequest.Group.Topic(
                        name=topic, topic_id=ids.get(topic, NO_TOPIC_ID), partition_indexes=numbers
                    )
                    for topic, numbers in wanted.items()
                ],
            )
        ],
        require_stable=is_stable,
    )
    answer = await cluster.call_coordinator(
        group_id, request, _fetch_code, highest=_NEWEST if ids else _NEWEST_BY_NAME, timeout_ms=timeout_ms
    )
    group = answer.groups[0] if answer.groups else answer
    if (code := error_for(group.error_code)) is not ErrorCode.NONE:
        raise KafkaError(code, f"the offsets of group {group_id!r} could not be read: {code.text}")
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    failed: dict[TopicPartition, ErrorCode] = {}
    for topic in group.topics:
        name = topic.name
        if not name and isinstance(topic, OffsetFetchResponse.Group.Topic):
            name = names.get(topic.topic_id, "")
        for entry in topic.partitions:
            partition = TopicPartition(name, entry.partition_index)
            if entry.error_code:
                failed[partition] = error_for(entry.error_code)
            elif entry.committed_offset >= 0:
                found[partition] = OffsetAndMetadata(
                    entry.committed_offset, entry.metadata or "", entry.committed_leader_epoch
                )
    if failed:
        raise PartitionErrors(f"the offsets of group {group_id!r} could not be read", failed)
    return found


def _first_code(answer: OffsetCommitResponse) -> int:
    codes = (partition.error_code for topic in answer.topics for partition in topic.partitions)
    return next((code for code in codes if code), 0)


def _fetch_code(answer: OffsetFetchResponse) -> int:
    group = answer.groups[0] if answer.groups else answer
    if group.error_code:
        return group.error_code
    codes = [partition.error_code for topic in group.topics for partition in topic.partitions]
    # UNSTABLE_OFFSET_COMMIT: a transaction's end is on its way (KIP-447).
    is_unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT in codes
    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_unstable else 0
