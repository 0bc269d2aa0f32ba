"""Committed offsets: written and read at a group's coordinator, by members with their identity and by admins without.

OffsetCommit and OffsetFetch go up to version 9, which names topics. Members of the consumer protocol use topic ids
(version 10) where they know them, so that a topic made anew under its name is not read from the old one's offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.offset_messages import (
    NEWEST_BY_ID,
    NEWEST_BY_NAME,
    REFUSALS,
    OffsetAndMetadata,
    commit_errors,
    commit_request,
    fetch_request,
    fetched,
)
from kohort.client.errors import PartitionErrors
from kohort.member.identity import NOBODY, Identity
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.wire.messages import OffsetCommitResponse, OffsetFetchResponse

__all__ = ["REFUSALS", "OffsetAndMetadata", "commit_offsets", "fetch_committed"]


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
    request = commit_request(group_id, offsets, identity=identity, instance_id=instance_id, topic_ids=ids)
    answer = await cluster.call_coordinator(
        group_id, request, _first_code, highest=NEWEST_BY_ID if ids else NEWEST_BY_NAME, timeout_ms=timeout_ms
    )
    failed = commit_errors(answer, ids)
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
    wanted = None if partitions is None else list(partitions)
    if wanted is not None and not wanted:
        return {}
    ids = topic_ids or {}
    request = fetch_request(group_id, wanted, is_stable=is_stable, identity=identity, topic_ids=ids)
    answer = await cluster.call_coordinator(
        group_id, request, _fetch_code, highest=NEWEST_BY_ID if ids else NEWEST_BY_NAME, timeout_ms=timeout_ms
    )
    result = fetched(answer, ids)
    if result.error is not ErrorCode.NONE:
        raise KafkaError(result.error, f"the offsets of group {group_id!r} could not be read: {result.error.text}")
    if result.failed:
        raise PartitionErrors(f"the offsets of group {group_id!r} could not be read", result.failed)
    return result.found


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
