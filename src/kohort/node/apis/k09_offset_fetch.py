"""OffsetFetch: how far groups have read.

v2 may ask for all partitions and has an error for the whole answer, v5 adds the leader epoch, v6 is flexible, v7 adds
RequireStable (KIP-447; no transaction is ever open here, so it changes nothing), v8 asks for many groups (KIP-709),
v9 adds the member and its epoch (KIP-848), which a consumer group checks, v10 names topics by id.
"""

from __future__ import annotations

from typing import TypeVar

from kohort.group.events import OffsetCommitted
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.step_scheduler import Steps
from kohort.wire.apis import Api
from kohort.wire.messages import OffsetFetchRequest, OffsetFetchResponse

API = Api.OFFSET_FETCH
_Topic = OffsetFetchResponse.Topic
_Group = OffsetFetchResponse.Group
TopicT = TypeVar("TopicT", _Topic, _Group.Topic)
PartitionT = TypeVar("PartitionT", _Topic.Partition, _Group.Topic.Partition)


def handle(context: ApiContext, request: Request, message: OffsetFetchRequest) -> Steps[OffsetFetchResponse]:
    """Read the committed offsets of one group, or of several."""
    version = request.api_version
    if version >= 8:
        response = OffsetFetchResponse(groups=[])
        for group in message.groups:
            response.groups.append((yield from _fetch_group(context, group, version)))
        return response
    if error := context.coordinator.load_error(message.group_id):
        return refuse(message, error, "", version)
    if message.topics is None:
        return OffsetFetchResponse(topics=(yield from _all_topics(context, message.group_id, _Topic)))
    topics = []
    for topic in message.topics:
        partitions = []
        yield 1
        for index in topic.partition_indexes:
            committed = context.coordinator.offset(message.group_id, topic.name, index, NO_TOPIC_ID)
            partitions.append(_partition(_Topic.Partition, index, committed))
            yield 1
        topics.append(_Topic(name=topic.name, partitions=partitions))
    return OffsetFetchResponse(topics=topics)


def refuse(message: OffsetFetchRequest, code: ErrorCode, text: str, version: int) -> OffsetFetchResponse:
    """Return a response with an error for each group, the whole answer, or (v1) each partition."""
    if version >= 8:
        return OffsetFetchResponse(
            groups=[_Group(group_id=group.group_id, topics=[], error_code=code) for group in message.groups]
        )
    if version >= 2:
        return OffsetFetchResponse(topics=[], error_code=code)
    response = OffsetFetchResponse(topics=[])
    for topic in message.topics or ():
        partitions = [_missing(_Topic.Partition, index, code) for index in topic.partition_indexes]
        response.topics.append(_Topic(name=topic.name, partitions=partitions))
    return response


def _fetch_group(context: ApiContext, asked: OffsetFetchRequest.Group, version: int) -> Steps[_Group]:
    yield 1
    group_id = asked.group_id
    coordinator = context.coordinator
    error = coordinator.load_error(group_id) or coordinator.fetch_error(group_id, asked.member_id, asked.member_epoch)
    if error:
        return _Group(group_id=group_id, topics=[], error_code=error)
    answered = _Group(group_id=group_id, topics=[])
    if asked.topics is None:
        for topic in (yield from _all_topics(context, group_id, _Group.Topic)):
            found = context.topics.get(topic.name)
            if found is not None:
                topic.topic_id = found.topic_id
            if found is not None or version < 10:  # v10 has no way to name a topic that is gone
                answered.topics.append(topic)
        return answered
    for named in asked.topics:
        answered.topics.append((yield from _fetch_topic(context, group_id, named, version)))
    if version >= 10:
        # As Kafka orders them: topics whose id is unknown come last.
        answered.topics.sort(key=lambda topic: not topic.name)
    return answered


def _fetch_topic(
    context: ApiContext, group_id: str, asked: OffsetFetchRequest.Group.Topic, version: int
) -> Steps[_Group.Topic]:
    yield 1
    answered = _Group.Topic(name=asked.name, topic_id=asked.topic_id, partitions=[])
    is_known = True
    if version >= 10:
        topic = context.topics.by_id(asked.topic_id)
        is_known, answered.name = topic is not None, "" if topic is None else topic.name
    for index in asked.partition_indexes:
        if is_known:
            committed = context.coordinator.offset(group_id, answered.name, index, asked.topic_id)
            partition = _partition(_Group.Topic.Partition, index, committed)
        else:
            partition = _missing(_Group.Topic.Partition, index, ErrorCode.UNKNOWN_TOPIC_ID)
        answered.partitions.append(partition)
        yield 1
    return answered


def _all_topics(context: ApiContext, group_id: str, cls: type[TopicT]) -> Steps[list[TopicT]]:
    topics: dict[str, TopicT] = {}
    for committed in context.coordinator.offsets(group_id):
        topic = topics.get(committed.topic)
        if topic is None:
            topic = topics[committed.topic] = cls(name=committed.topic, partitions=[])
        topic.partitions.append(_partition(cls.Partition, committed.partition, committed))
        yield 1
    return list(topics.values())


def _partition(cls: type[PartitionT], index: int, committed: OffsetCommitted | None) -> PartitionT:
    if committed is None:
        return _missing(cls, index)
    return cls(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _missing(cls: type[PartitionT], index: int, error: ErrorCode = ErrorCode.NONE) -> PartitionT:
    return cls(partition_index=index, committed_offset=-1, metadata="", error_code=error)
