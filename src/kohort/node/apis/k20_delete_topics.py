"""DeleteTopics: delete topics and their records.

v5 adds a message to each error; v6 may name topics by id (KIP-516).
"""

from __future__ import annotations

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import NO_TOPIC_ID
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.error_responses import set_error
from kohort.node.step_scheduler import Steps
from kohort.node.topics.topics import CREATION_STEPS
from kohort.wire.apis import Api
from kohort.wire.messages import DeleteTopicsRequest, DeleteTopicsResponse

API = Api.DELETE_TOPICS
_Result = DeleteTopicsResponse.Response


def handle(context: ApiContext, request: Request, message: DeleteTopicsRequest) -> Steps[DeleteTopicsResponse]:
    """Delete each topic on its own."""
    if not context.config.delete_topic_enable:
        text = "Topic deletion is disabled."
        code = ErrorCode.INVALID_REQUEST if request.api_version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
        raise KafkaError(code, text)
    response = DeleteTopicsResponse(responses=[])
    for name, topic_id in _asked(message, request.api_version):
        result = _delete(context, request, name, topic_id)
        response.responses.append(result)
        yield 1 if result.error_code else CREATION_STEPS
    return response


def refuse(message: DeleteTopicsRequest, code: ErrorCode, text: str, version: int) -> DeleteTopicsResponse:
    """Return a response with an error for every topic."""
    return DeleteTopicsResponse(
        responses=[
            _Result(name=name, topic_id=topic_id, error_code=code, error_message=text)
            for name, topic_id in _asked(message, version)
        ]
    )


def _asked(message: DeleteTopicsRequest, version: int) -> list[tuple[str | None, bytes]]:
    if version >= 6:
        return [(topic.name, topic.topic_id) for topic in message.topics]
    return [(name, NO_TOPIC_ID) for name in message.topic_names]


def _delete(context: ApiContext, request: Request, name: str | None, topic_id: bytes) -> DeleteTopicsResponse.Response:
    result = _Result(name=name, topic_id=topic_id)
    try:
        if name is not None and topic_id != NO_TOPIC_ID:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
        if name is None and topic_id == NO_TOPIC_ID:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        topic = context.topics.find(topic_id if name is None else name)
        if topic.is_internal:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Deletion of internal topic {topic.name} is prohibited.")
        result.name, result.topic_id = topic.name, topic.topic_id
        context.topics.delete(topic, request.now_ms)
    except (KafkaError, StorageError) as error:
        set_error(result, error)
    return result
