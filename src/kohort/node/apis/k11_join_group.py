"""JoinGroup: become a member of the next generation; the answer waits until it forms.

v1 adds the rebalance timeout, v4 makes a new member come back with its id (KIP-394), v5 adds GroupInstanceId
(KIP-345), v6 is flexible, v7 returns the protocol type and may return no protocol, v8 adds Reason (KIP-800), v9
SkipAssignment (KIP-814).
"""

from __future__ import annotations

from kohort.group.commands import Join
from kohort.group.results import JoinResult, Result
from kohort.model.cause import MAX_REASON_LENGTH
from kohort.model.errors import ErrorCode
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.wire.apis import Api
from kohort.wire.messages import JoinGroupRequest, JoinGroupResponse

API = Api.JOIN_GROUP


def handle(context: ApiContext, request: Request, message: JoinGroupRequest) -> JoinGroupResponse | None:
    """Pass the join to the group; the response comes when its generation forms."""
    version = request.api_version
    client_id = request.client_id or ""
    session_timeout_ms = message.session_timeout_ms
    instance_id = message.group_instance_id
    command = Join(
        group_id=message.group_id,
        member_id=message.member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=f"/{request.peer_host}",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=message.rebalance_timeout_ms if version >= 1 else session_timeout_ms,
        protocol_type=message.protocol_type,
        protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in message.protocols),
        new_member_id="" if message.member_id else f"{instance_id or client_id}-{_uuid(context.random_bytes(16))}",
        reason=(message.reason or "")[:MAX_REASON_LENGTH],
        is_two_step=version >= 4,
        can_skip_assignment=version >= 9,
    )

    def ticket(result: Result) -> None:
        assert isinstance(result, JoinResult), "a join is answered by a join's result"
        request.reply(_response(result, version))

    context.coordinator.submit(command, ticket, context.clock.now_ms)
    return None


def refuse(message: JoinGroupRequest, code: ErrorCode, text: str, version: int) -> JoinGroupResponse:
    """Return an error response."""
    return _response(JoinResult(code, message.member_id), version)


def _response(result: JoinResult, version: int) -> JoinGroupResponse:
    # Before v7 no name is the empty string; from v7 on it is null.
    protocol_name = (result.protocol_name or None) if version >= 7 else (result.protocol_name or "")
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=protocol_name,
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponse.Member(member_id=member_id, group_instance_id=instance_id, metadata=metadata)
            for member_id, instance_id, metadata in result.members
        ],
    )


def _uuid(random: bytes) -> str:
    """Return 16 random bytes as a UUID of version 4."""
    octets = bytearray(random)
    octets[6] = octets[6] & 0x0F | 0x40
    octets[8] = octets[8] & 0x3F | 0x80
    text = octets.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
