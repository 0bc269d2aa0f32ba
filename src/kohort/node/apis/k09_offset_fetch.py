"""OffsetFetch: how far groups have read.

v2 may ask for all partitions and has an error for the whole answer, v5 adds the leader epoch, v6 is flexible, v7 adds
RequireStable (KIP-447; no transaction is ever open here, so it changes nothing), v8 asks for many groups (KIP-709),
v9 adds the member and its epoch (KIP-848), which a consumer group checks, v10 names topics by id.
"""

from __future__ import annotations

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
        return OffsetFetchResponse(topics=(yield from _all_topics(context, message.group_id)))
    topics = []
    for topic in message.topics:
        partitions = []
        yield 1
        for index in topic.partition_indexes:
            committed = context.coordinator.offset(message.group_id, topic.name, index, NO_TOPIC_ID)
            partitions.append(_partition(index, committed))
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
    topics = [
        _Topic(
            name=topic.name,
            partitions=[
                _Topic.Partition(partition_index=index, committed_offset=-1, metadata="", error_code=code)
                for index in topic.partition_indexes
            ],
        )
        for topic in message.topics or ()
    ]
    return OffsetFetchResponse(topics=topics)


def _all_topics(context: ApiContext, group_id: str) -> Steps[list[_Topic]]:
    topics: dict[str, _Topic] = {}
    for committed in context.coordinator.offsets(group_id):
        topic = topics.get(committed.topic)
        if topic is None:
            topic = topics[committed.topic] = _Topic(name=committed.topic, partitions=[])
        topic.partitions.append(_partition(committed.partition, committed))
        yield 1
    return list(topics.values())


def _partition(index: int, committed: OffsetCommitted | None) -> _Topic.Partition:
    if committed is None:
        return _Topic.Partition(partition_index=index, committed_offset=-1, metadata="")
    return _Topic.Partition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _fetch_group(context: ApiContext, asked: OffsetFetchRequest.Group, version: int) -> Steps[_Group]:
    yield 1
    group_id = asked.group_id
    if error := context.coordinator.load_error(group_id):
        return _Group(group_id=group_id, topics=[], error_code=error)
    if error := context.coordinator.fetch_error(group_id, asked.member_id, asked.member_epoch):
        return _Group(group_id=group_id, topics=[], error_code=error)
    if asked.topics is None:
        topics = [
            _Group.Topic(
                name=topic.name,
                topic_id=found.topic_id if found is not None else NO_TOPIC_ID,
                partitions=[_group_partition(each) for each in topic.partitions],
            )
            for topic in (yield from _all_topics(context, group_id))
            # v10 has no way to name a topic that is gone.
            if (found := context.topics.get(topic.name)) is not None or version < 10
        ]
        return _Group(group_id=group_id, topics=topics)
    answered = _Group(group_id=group_id, topics=[])
    for topic in asked.topics:
        answered.topics.append((yield from _fetch_topic(context, group_id, topic, version)))
    if version >= 10:
        # As Kafka orders them: topics whose id is unknown come last.
        answered.topics.sort(key=lambda topic: not topic.name)
    return answered


def _fetch_topic(
    context: ApiContext, group_id: str, asked: OffsetFetchRequest.Group.Topic, version: int
) -> Steps[_Group.Topic]:
    yield 1
    name = asked.name
    if version >= 10:
        topic = context.topics.by_id(asked.topic_id)
        if topic is None:
            unknown = []
            for index in asked.partition_indexes:
                unknown.append(
                    _Group.Topic.Partition(
                        partition_index=index,
                        committed_offset=-1,
                        metadata="",
                        error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                    )
                )
                yield 1
            return _Group.Topic(topic_id=asked.topic_id, partitions=unknown)
        name = topic.name
    partitions = []
    for index in asked.partition_indexes:
        committed = context.coordinator.offset(group_id, name, index, asked.topic_id)
        partitions.append(_group_partition(_partition(index, committed)))
        yield 1
    return _Group.Topic(name=name, topic_id=asked.topic_id, partitions=partitions)


def _group_partition(partition: _Topic.Partition) -> _Group.Topic.Partition:
    return _Group.Topic.Partition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
    )
