"""SyncGroup: the leader hands in the assignments, every member takes its own.

v1 adds throttling, v3 GroupInstanceId (KIP-345), v4 is flexible, v5 requires the protocol type and name (KIP-559).
From v4 on two tagged fields of ours carry a leader's failure to assign, and the error message for the members.
"""

from __future__ import annotations

from kohort.group.commands import Sync
from kohort.group.results import Result, SyncResult
from kohort.model.errors import ErrorCode
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.wire.apis import Api
from kohort.wire.messages import SyncGroupRequest, SyncGroupResponse

API = Api.SYNC_GROUP


def handle(context: ApiContext, request: Request, message: SyncGroupRequest) -> SyncGroupResponse | None:
    """Pass the sync to the group; the response comes when the leader's assignments are stored."""
    version = request.api_version
    if version >= 5 and (message.protocol_type is None or message.protocol_name is None):
        return refuse(message, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "", version)
    command = Sync(
        group_id=message.group_id,
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        generation=message.generation_id,
        protocol_type=message.protocol_type,
        protocol_name=message.protocol_name,
        assignments=tuple((entry.member_id, bytes(entry.assignment)) for entry in message.assignments),
        failure=message.assignment_error,
    )

    def ticket(result: Result) -> None:
        assert isinstance(result, SyncResult), "a sync is answered by a sync's result"
        # A version without the message gets a retriable error: aiokafka (v3) never joins again after an unexpected one.
        is_unsayable = result.error_message is not None and version < 4
        request.reply(
            SyncGroupResponse(
                error_code=ErrorCode.REBALANCE_IN_PROGRESS if is_unsayable else result.error,
                protocol_type=result.protocol_type,
                protocol_name=result.protocol_name,
                assignment=result.assignment,
                error_message=result.error_message,
            )
        )

    context.coordinator.submit(command, ticket, context.clock.now_ms)
    return None


def refuse(message: SyncGroupRequest, code: ErrorCode, text: str, version: int) -> SyncGroupResponse:
    """Return an error response."""
    return SyncGroupResponse(error_code=code)
