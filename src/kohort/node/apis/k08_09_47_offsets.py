"""Committed offsets of groups: commit, fetch, delete (KIP-496). Which partitions exist is not known to the groups.

OffsetCommit: v2–v4 may name a retention, v6 adds the leader epoch (KIP-320), v7 GroupInstanceId (KIP-345), v8 is
flexible, v9 has the errors that members of the consumer protocol need (KIP-848), v10 names topics by id.
OffsetFetch: v2 may ask for all partitions and has an error for the whole answer, v5 adds the leader epoch, v6 is
flexible, v7 adds RequireStable (KIP-447): what an open transaction commits is UNSTABLE_OFFSET_COMMIT; v8 asks for many
groups (KIP-709), v9 adds the member and its epoch (KIP-848), which a consumer group checks, v10 names topics by id.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from kohort.group.commands import CommitOffsets, DeleteOffsets, OffsetToCommit
from kohort.group.events import OffsetCommitted
from kohort.group.results import CommitResult, DeleteOffsetsResult, Result
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID
from kohort.node.apis.context import ApiContext
from kohort.node.authorization import api_checks
from kohort.node.authorization.api_checks import Check
from kohort.node.client_connection import Request
from kohort.node.step_scheduler import TURN_STEPS, Steps, result_of
from kohort.wire.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TxnOffsetCommitResponse,
)

_CommittedTopic = OffsetCommitResponse.Topic
CommittedT = TypeVar("CommittedT", OffsetCommitResponse.Topic, TxnOffsetCommitResponse.Topic)
ResponseT = TypeVar("ResponseT", OffsetCommitResponse, TxnOffsetCommitResponse)

MOST_OFFSETS = 1000
"""Of one command to a group; a request with more is carried out in several, each of which is decided alone."""


def offset_commit(
    context: ApiContext, request: Request, message: OffsetCommitRequest
) -> Steps[OffsetCommitResponse | None]:
    """Pass the offsets of existing partitions to the group, and answer for those of others."""
    version = request.api_version
    command, topics, answers = yield from _read_commit(context, request, message, version)
    response = OffsetCommitResponse(topics=topics)

    def error_of(result: Result) -> ErrorCode:
        is_unknown = result.error is ErrorCode.GROUP_ID_NOT_FOUND and version < 9
        return ErrorCode.ILLEGAL_GENERATION if is_unknown else result.error

    return (yield from commit_offsets(context, request, command, answers, response, error_of))


def commit_offsets(
    context: ApiContext,
    request: Request,
    command: CommitOffsets,
    answers: list[tuple[Any, str]],
    response: ResponseT,
    error_of: Callable[[Result], ErrorCode],
) -> Steps[ResponseT | None]:
    """Pass offsets to the group; `answers` are the partitions of the response with their topic, in the same order.

    Return the response, None if it comes later. `error_of` returns the error as the request's version knows it.
    """
    offsets = command.offsets
    if not offsets:
        return response
    waiting = len(range(0, len(offsets), MOST_OFFSETS))

    def ticket(first: int, result: Result) -> None:
        nonlocal waiting
        waiting -= 1
        if result.error or result.too_large:  # type: ignore[attr-defined]
            _mark(result, answers[first : first + MOST_OFFSETS], error_of(result))
        if not waiting:
            request.reply(response)

    for first in range(0, len(offsets), MOST_OFFSETS):
        if first:
            yield TURN_STEPS
        chunk = offsets[first : first + MOST_OFFSETS]
        part = replace(command, offsets=chunk) if len(chunk) < len(offsets) else command
        context.coordinator.submit(part, partial(ticket, first))
    request.blocks = False  # if it waits at all it waits for the disk
    return None


def offset_commit_overtakes(context: ApiContext, blocker: Request, message: OffsetCommitRequest, version: int) -> bool:
    """Whether a member commits while its own JoinGroup or SyncGroup waits, and the group takes it now.

    When that is answered its generation will be over, and the commit would be refused.
    """
    if context.overtaken_member(blocker, message.group_id) is None:
        return False
    return context.coordinator.takes(result_of(_read_commit(context, blocker, message, version))[0])


def _read_commit(
    context: ApiContext, request: Request, message: OffsetCommitRequest, version: int
) -> Steps[tuple[CommitOffsets, list[_CommittedTopic], list[tuple[Any, str]]]]:
    """Return the command about the partitions that exist, the answer for all, and the part of it about those."""
    offsets, topics, answers = yield from read_offsets(
        context, request, api_checks.COMMIT_TOPIC, message.topics, _CommittedTopic, is_by_id=version >= 10
    )
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


def read_offsets(
    context: ApiContext,
    request: Request,
    check: Check,
    asked_topics: list[Any],
    cls: type[CommittedT],
    *,
    is_by_id: bool,
) -> Steps[tuple[list[OffsetToCommit], list[CommittedT], list[tuple[Any, str]]]]:
    """Return the offsets to commit for partitions that exist, the answer for all, and the part of it about those."""
    offsets: list[OffsetToCommit] = []
    topics: list[CommittedT] = []
    answers: list[tuple[Any, str]] = []
    for asked in asked_topics:
        yield 1
        topic = context.topics.by_id(asked.topic_id) if is_by_id else context.topics.get(asked.name)
        partitions: list[Any] = []
        topics.append(cls(name=asked.name, topic_id=asked.topic_id, partitions=partitions))
        name, count, topic_id, missing = asked.name, 0, asked.topic_id, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic is not None:
            name, count, topic_id = topic.name, len(topic.partitions), topic.topic_id
        elif is_by_id:
            missing = ErrorCode.UNKNOWN_TOPIC_ID
        if (topic is not None or not is_by_id) and not context.access.allows(request.connection, check, name):
            count, missing = 0, check.error
        for each in asked.partitions:
            yield 1
            index = each.partition_index
            answer = cls.Partition(partition_index=index)
            partitions.append(answer)
            if 0 <= index < count:
                metadata = each.committed_metadata or ""
                offset = each.committed_offset
                offsets.append(OffsetToCommit(name, index, offset, each.committed_leader_epoch, metadata, topic_id))
                answers.append((answer, name))
            else:
                answer.error_code = missing
    return offsets, topics, answers


def _mark(result: Result, answers: list[tuple[Any, str]], error: ErrorCode) -> None:
    """Write a result's errors into the answers of the partitions they are about."""
    assert isinstance(result, CommitResult), "a commit is answered by a commit's result"
    for answer, topic in answers:
        if error:
            answer.error_code = error
        elif (topic, answer.partition_index) in result.too_large:
            answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE


_FetchedTopic = OffsetFetchResponse.Topic
_FetchedGroup = OffsetFetchResponse.Group
TopicT = TypeVar("TopicT", _FetchedTopic, _FetchedGroup.Topic)
PartitionT = TypeVar("PartitionT", _FetchedTopic.Partition, _FetchedGroup.Topic.Partition)


def offset_fetch(context: ApiContext, request: Request, message: OffsetFetchRequest) -> Steps[OffsetFetchResponse]:
    """Read the committed offsets of one group, or of several."""
    version = request.api_version
    if version >= 8:
        response = OffsetFetchResponse(groups=[])
        for group in message.groups:
            is_stable = message.require_stable
            response.groups.append((yield from _fetch_group(context, request, group, is_stable=is_stable)))
        return response
    context.access.require(request.connection, api_checks.OFFSETS_GROUP, message.group_id)
    if error := context.coordinator.load_error(message.group_id):
        return refuse_offset_fetch(message, error, "", version)
    topics = yield from _fetch_topics(
        context, request, message.group_id, message.topics, _FetchedTopic, is_stable=message.require_stable
    )
    return OffsetFetchResponse(topics=topics)


def refuse_offset_fetch(message: OffsetFetchRequest, code: ErrorCode, text: str, version: int) -> OffsetFetchResponse:
    """Return a response with an error for each group, the whole answer, or (v1) each partition."""
    if version >= 8:
        return OffsetFetchResponse(
            groups=[_FetchedGroup(group_id=group.group_id, topics=[], error_code=code) for group in message.groups]
        )
    if version >= 2:
        return OffsetFetchResponse(topics=[], error_code=code)
    response = OffsetFetchResponse(topics=[])
    for topic in message.topics or ():
        partitions = [_fetched(_FetchedTopic.Partition, index, None, code) for index in topic.partition_indexes]
        response.topics.append(_FetchedTopic(name=topic.name, partitions=partitions))
    return response


def _fetch_group(
    context: ApiContext, request: Request, asked: OffsetFetchRequest.Group, *, is_stable: bool
) -> Steps[_FetchedGroup]:
    yield 1
    group_id, version = asked.group_id, request.api_version
    if not context.access.allows(request.connection, api_checks.OFFSETS_GROUP, group_id):
        return _FetchedGroup(group_id=group_id, topics=[], error_code=api_checks.OFFSETS_GROUP.error)
    coordinator = context.coordinator
    error = coordinator.load_error(group_id) or coordinator.fetch_error(group_id, asked.member_id, asked.member_epoch)
    if error:
        return _FetchedGroup(group_id=group_id, topics=[], error_code=error)
    topics = yield from _fetch_topics(
        context, request, group_id, asked.topics, _FetchedGroup.Topic, is_stable=is_stable
    )
    if asked.topics is None:
        for topic in topics:
            found = context.topics.get(topic.name)
            topic.topic_id = NO_TOPIC_ID if found is None else found.topic_id
        if version >= 10:  # it has no way to name a topic that is gone
            topics = [topic for topic in topics if topic.topic_id != NO_TOPIC_ID]
    return _FetchedGroup(group_id=group_id, topics=topics)


def _fetch_topics(
    context: ApiContext,
    request: Request,
    group_id: str,
    asked: list[Any] | None,
    cls: type[TopicT],
    *,
    is_stable: bool,
) -> Steps[list[TopicT]]:
    """Return the offsets of the topics that are asked for, of all topics where none is named.

    With `is_stable` one that an open transaction commits is an error, after which its reader asks again.
    """
    if asked is None:
        return (yield from _all_topics(context, request, group_id, cls, is_stable=is_stable))
    version = request.api_version
    topics: list[TopicT] = []
    refused: list[TopicT] = []
    for each in asked:
        yield 1
        name, topic_id, is_known = each.name, NO_TOPIC_ID, True
        answered = cls(name=name, partitions=[])
        if version >= 10:
            topic_id, topic = each.topic_id, context.topics.by_id(each.topic_id)
            is_known, name = topic is not None, "" if topic is None else topic.name
            answered = cls(name=name, topic_id=topic_id, partitions=[])  # type: ignore[call-arg]
        error = ErrorCode.NONE if is_known else ErrorCode.UNKNOWN_TOPIC_ID
        if is_known and not context.access.allows(request.connection, api_checks.OFFSETS_TOPIC, name):
            is_known, error = False, api_checks.OFFSETS_TOPIC.error
        for index in each.partition_indexes:
            committed = context.coordinator.offset(group_id, name, index, topic_id) if is_known else None
            if is_stable and is_known and context.coordinator.is_pending(group_id, name, index):
                unstable = _fetched(cls.Partition, index, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
                answered.partitions.append(unstable)
            else:
                answered.partitions.append(_fetched(cls.Partition, index, committed, error))
            yield 1
        (topics if is_known else refused).append(answered)
    return topics + refused  # in Kafka's order


def _all_topics(
    context: ApiContext, request: Request, group_id: str, cls: type[TopicT], *, is_stable: bool
) -> Steps[list[TopicT]]:
    topics: dict[str, TopicT] = {}
    for committed in context.coordinator.offsets(group_id):
        if not context.access.allows(request.connection, api_checks.OFFSETS_TOPIC, committed.topic):
            continue
        topic = topics.get(committed.topic)
        if topic is None:
            topic = topics[committed.topic] = cls(name=committed.topic, partitions=[])
        if is_stable and context.coordinator.is_pending(group_id, committed.topic, committed.partition):
            error = ErrorCode.UNSTABLE_OFFSET_COMMIT
            topic.partitions.append(_fetched(cls.Partition, committed.partition, None, error))
        else:
            topic.partitions.append(_fetched(cls.Partition, committed.partition, committed))
        yield 1
    return list(topics.values())


def _fetched(
    cls: type[PartitionT], index: int, committed: OffsetCommitted | None, error: ErrorCode = ErrorCode.NONE
) -> PartitionT:
    if committed is None:
        return cls(partition_index=index, committed_offset=-1, metadata="", error_code=error)
    return cls(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


_Topic = OffsetDeleteResponse.Topic
_Partition = OffsetDeleteResponse.Topic.Partition


def offset_delete(
    context: ApiContext, request: Request, message: OffsetDeleteRequest
) -> Steps[OffsetDeleteResponse | None]:
    """Pass the existing partitions to the group, and answer for the others."""
    check = api_checks.DELETE_OFFSETS_TOPIC
    topics = []
    partitions: list[tuple[str, int]] = []
    for asked in message.topics:
        yield 1
        found, missing = context.topics.get(asked.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        count = 0 if found is None else len(found.partitions)
        if not context.access.allows(request.connection, check, asked.name):
            count, missing = 0, check.error
        answers = []
        for each in asked.partitions:
            answer = _Partition(partition_index=each.partition_index)
            if 0 <= each.partition_index < count:
                partitions.append((asked.name, each.partition_index))
            else:
                answer.error_code = missing
            answers.append(answer)
            yield 1
        topics.append(_Topic(name=asked.name, partitions=answers))

    def ticket(result: Result) -> None:
        assert isinstance(result, DeleteOffsetsResult), "an offset deletion is answered by its result"
        if result.error:
            request.reply(OffsetDeleteResponse(error_code=result.error, topics=[]))
            return
        for topic in topics:
            if topic.name in result.subscribed:
                for answer in topic.partitions:
                    answer.error_code = answer.error_code or ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        request.reply(OffsetDeleteResponse(topics=topics))

    context.coordinator.submit(DeleteOffsets(message.group_id, tuple(dict.fromkeys(partitions))), ticket)
    return None
