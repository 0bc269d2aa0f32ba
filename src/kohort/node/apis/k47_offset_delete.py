"""OffsetDelete: forget committed offsets of topics that a group no longer reads (KIP-496)."""

from __future__ import annotations

from kohort.group.commands import DeleteOffsets
from kohort.group.results import DeleteOffsetsResult, Result
from kohort.model.errors import ErrorCode
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.step_scheduler import Steps
from kohort.wire.apis import Api
from kohort.wire.messages import OffsetDeleteRequest, OffsetDeleteResponse

API = Api.OFFSET_DELETE
_Topic = OffsetDeleteResponse.Topic
_Partition = OffsetDeleteResponse.Topic.Partition


def handle(context: ApiContext, request: Request, message: OffsetDeleteRequest) -> Steps[OffsetDeleteResponse | None]:
    """Pass the existing partitions to the group, and answer for the others."""
    topics = []
    partitions: list[tuple[str, int]] = []
    for asked in message.topics:
        yield 1
        found = context.topics.get(asked.name)
        count = 0 if found is None else len(found.partitions)
        answers = []
        for each in asked.partitions:
            answer = _Partition(partition_index=each.partition_index)
            if 0 <= each.partition_index < count:
                partitions.append((asked.name, each.partition_index))
            else:
                answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
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

    context.coordinator.submit(
        DeleteOffsets(message.group_id, tuple(dict.fromkeys(partitions))), ticket, context.clock.now_ms
    )
    return None
