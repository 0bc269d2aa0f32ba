"""OffsetCommit: store how far a group has read.

v2–v4 may name a retention, v6 adds the leader epoch (KIP-320), v7 GroupInstanceId (KIP-345), v8 is flexible, v9 has
the errors that members of the consumer protocol need (KIP-848), v10 names topics by id. Whether a partition exists is
decided here, before the group is asked.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from kohort.group.commands import CommitOffsets, OffsetToCommit
from kohort.group.results import CommitResult, Result
from kohort.model.errors import ErrorCode
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.step_scheduler import TURN_STEPS, Steps, result_of
from kohort.wire.apis import Api
from kohort.wire.messages import OffsetCommitRequest, OffsetCommitResponse

API = Api.OFFSET_COMMIT
_Topic = OffsetCommitResponse.Topic
_Partition = OffsetCommitResponse.Topic.Partition

MOST_OFFSETS = 1000
"""Of one command to a group; a request with more is carried out in several, each of which is decided alone."""


def handle(context: ApiContext, request: Request, message: OffsetCommitRequest) -> Steps[OffsetCommitResponse | None]:
    """Pass the offsets of existing partitions to the group, and answer for those of others."""
    version = request.api_version
    command, topics, answers = yield from _read(context, message, version)
    response = OffsetCommitResponse(topics=topics)
    offsets = command.offsets
    if not offsets:
        return response
    waiting = len(range(0, len(offsets), MOST_OFFSETS))

    def ticket(first: int, result: Result) -> None:
        nonlocal waiting
        waiting -= 1
        if result.error or result.too_large:  # type: ignore[union-attr]
            _mark(result, answers[first : first + MOST_OFFSETS], version)
        if not waiting:
            request.reply(response)

    for first in range(0, len(offsets), MOST_OFFSETS):
        if first:
            yield TURN_STEPS
        part = (
            command if len(offsets) <= MOST_OFFSETS else replace(command, offsets=offsets[first : first + MOST_OFFSETS])
        )
        context.coordinator.submit(part, partial(ticket, first), context.clock.now_ms)
    request.blocks = False  # if it waits at all it waits for the disk
    return None


def overtakes(context: ApiContext, blocker: Request, message: OffsetCommitRequest, version: int) -> bool:
    """Whether a member commits while its own JoinGroup or SyncGroup waits, and the group takes it now.

    When that is answered its generation will be over, and the commit would be refused.
    """
    if context.overtaken_member(blocker, message.group_id) is None:
        return False
    return context.coordinator.takes(result_of(_read(context, message, version))[0])


def _read(
    context: ApiContext, message: OffsetCommitRequest, version: int
) -> Steps[tuple[CommitOffsets, list[_Topic], list[tuple[_Partition, str]]]]:
    """Return the command about the partitions that exist, the answer for all, and the part of it about those."""
    offsets: list[OffsetToCommit] = []
    topics: list[_Topic] = []
    answers: list[tuple[_Partition, str]] = []
    for asked in message.topics:
        yield 1
        topic = context.topics.get(asked.name) if version < 10 else context.topics.by_id(asked.topic_id)
        partitions: list[_Partition] = []
        topics.append(_Topic(name=asked.name, topic_id=asked.topic_id, partitions=partitions))
        if topic is None:
            missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if version < 10 else ErrorCode.UNKNOWN_TOPIC_ID
            for each in asked.partitions:
                partitions.append(_Partition(partition_index=each.partition_index, error_code=missing))
                yield 1
            continue
        name, count, topic_id = topic.name, len(topic.partitions), topic.topic_id
        for each in asked.partitions:
            yield 1
            index = each.partition_index
            answer = _Partition(partition_index=index)
            partitions.append(answer)
            if 0 <= index < count:
                metadata = each.committed_metadata or ""
                offset = each.committed_offset
                offsets.append(OffsetToCommit(name, index, offset, each.committed_leader_epoch, metadata, topic_id))
                answers.append((answer, name))
            else:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    command = CommitOffsets(
        message.group_id,
        message.member_id,
        message.group_instance_id,
        message.generation_id_or_member_epoch,
        offsets,
        message.retention_time_ms,
        version >= 9,
    )
    return command, topics, answers


def _mark(result: Result, answers: list[tuple[_Partition, str]], version: int) -> None:
    """Write a result's errors into the answers of the partitions they are about."""
    assert isinstance(result, CommitResult), "a commit is answered by a commit's result"
    error = result.error
    if error is ErrorCode.GROUP_ID_NOT_FOUND and version < 9:
        error = ErrorCode.ILLEGAL_GENERATION
    for answer, topic in answers:
        if error:
            answer.error_code = error
        elif (topic, answer.partition_index) in result.too_large:
            answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
