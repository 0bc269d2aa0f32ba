"""FindCoordinator: where the coordinator of a group or a transactional id is. One node hosts them all: this one.

v1 adds key types, v3 is flexible, v4 asks for many keys (KIP-699), v6 knows share groups (KIP-932), whose coordinator
does not exist here.
"""

from __future__ import annotations

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.authorization import api_checks
from kohort.node.client_connection import Request
from kohort.node.step_scheduler import Steps
from kohort.wire.messages import FindCoordinatorRequest, FindCoordinatorResponse

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2


def find_coordinator(
    context: ApiContext, request: Request, message: FindCoordinatorRequest
) -> Steps[FindCoordinatorResponse]:
    """Answer with this node; the topic of groups, or of transactions, is created at the first request."""
    version = request.api_version
    if message.key_type not in (_GROUP, _TRANSACTION):
        kind = "share" if message.key_type == _SHARE else "unknown"
        text = f"This broker coordinates groups and transactions, not keys of type {message.key_type} ({kind})."
        return refuse_find_coordinator(message, ErrorCode.INVALID_REQUEST, text, version)
    check = api_checks.FIND_GROUP if message.key_type == _GROUP else api_checks.FIND_TRANSACTIONAL_ID
    access, sender = context.access, request.connection
    if version < 4:
        access.require(sender, check, message.key)
    try:
        (context.coordinator if message.key_type == _GROUP else context.transactions).ensure_topic()
    except (KafkaError, StorageError) as error:
        return refuse_find_coordinator(message, ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error), version)
    node_id, (host, port) = context.config.node_id, request.connection.listener.advertised
    if version < 4:
        return FindCoordinatorResponse(node_id=node_id, host=host, port=port)
    response = FindCoordinatorResponse(coordinators=[])
    for key in message.coordinator_keys:
        found = FindCoordinatorResponse.Coordinator(key=key, node_id=node_id, host=host, port=port)
        if not access.allows(sender, check, key):
            refused = access.refusal(sender, check, key)
            found = _refused(key, refused.code, refused.text)
        response.coordinators.append(found)
        yield 1
    return response


def refuse_find_coordinator(
    message: FindCoordinatorRequest, code: ErrorCode, text: str, version: int
) -> FindCoordinatorResponse:
    """Return a response with an error for every key."""
    if version < 4:
        return FindCoordinatorResponse(error_code=code, error_message=text, node_id=-1, port=-1)
    return FindCoordinatorResponse(coordinators=[_refused(key, code, text) for key in message.coordinator_keys])


def _refused(key: str, code: ErrorCode, text: str) -> FindCoordinatorResponse.Coordinator:
    return FindCoordinatorResponse.Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=text)
