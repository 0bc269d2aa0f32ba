"""Members of classic groups: join the next generation, synchronize its assignments, send heartbeats, leave.

JoinGroup: v1 adds the rebalance timeout, v4 makes a new member come back with its id (KIP-394), v5 adds GroupInstanceId
(KIP-345), v6 is flexible, v7 returns the protocol type and may return no protocol, v8 adds Reason (KIP-800), v9
SkipAssignment (KIP-814). SyncGroup: v3 adds GroupInstanceId, v5 requires the protocol type and name (KIP-559); from v4
on two tagged fields of ours carry a leader's failure to assign, and the error message for the members. Heartbeat: v3
adds GroupInstanceId. LeaveGroup: v3 is a batch with an error for each member (KIP-345), v5 adds a reason (KIP-800).
"""

from __future__ import annotations

from kohort.group.commands import Heartbeat, Join, Leave, Leaving, Sync
from kohort.group.results import JoinResult, LeaveResult, Result, SyncResult
from kohort.model.cause import MAX_REASON_LENGTH
from kohort.model.errors import ErrorCode
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.step_scheduler import TURN_STEPS, Steps
from kohort.parking.client_software import ClientSoftware, software_that_beats, software_that_joins
from kohort.parking.parked_heartbeat import follower_of
from kohort.wire.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kohort.wire.primitives import MOST_TEXT


def join_group(context: ApiContext, request: Request, message: JoinGroupRequest) -> JoinGroupResponse | None:
    """Pass the join to the group; the response comes when its generation forms."""
    version, client_id = request.api_version, request.client_id or ""
    new_member_id = ""
    if not message.member_id:
        new_member_id = f"{message.group_instance_id or client_id}-{_uuid(context.random_bytes(16))}"
        if len(new_member_id.encode()) > MOST_TEXT:  # no record could have it, nor an answer below version 6
            return refuse_join_group(message, ErrorCode.UNKNOWN_SERVER_ERROR, "", version)
    connection, assignors = request.connection, [protocol.name for protocol in message.protocols]
    software = connection.client_software = software_that_joins(connection.client_software, version, assignors)
    command = join_command(message, version, client_id, request.peer_host, software, new_member_id)

    def ticket(result: Result) -> None:
        assert isinstance(result, JoinResult), "a join is answered by a join's result"
        request.reply(_joined(result, version))

    context.coordinator.submit(command, ticket)
    return None


def join_command(
    message: JoinGroupRequest,
    version: int,
    client_id: str,
    peer_host: str,
    software: ClientSoftware,
    new_member_id: str = "",
) -> Join:
    """Return what a JoinGroup requests of its group; `new_member_id` is the id for a sender without one."""
    return Join(
        group_id=message.group_id,
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        client_id=client_id,
        client_host=f"/{peer_host}",
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=message.rebalance_timeout_ms if version >= 1 else message.session_timeout_ms,
        protocol_type=message.protocol_type,
        protocols=tuple((protocol.name, bytes(protocol.metadata)) for protocol in message.protocols),
        new_member_id=new_member_id,
        reason=(message.reason or "")[:MAX_REASON_LENGTH],
        is_two_step=version >= 4,
        can_skip_assignment=version >= 9,
        pause_ms=software.habits.join_pause_ms,
    )


def refuse_join_group(message: JoinGroupRequest, code: ErrorCode, text: str, version: int) -> JoinGroupResponse:
    """Return an error response."""
    return _joined(JoinResult(code, message.member_id), version)


def _joined(result: JoinResult, version: int) -> JoinGroupResponse:
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


def sync_group(context: ApiContext, request: Request, message: SyncGroupRequest) -> SyncGroupResponse | None:
    """Pass the sync to the group; the response comes when the leader's assignments are stored."""
    version = request.api_version
    if version >= 5 and (message.protocol_type is None or message.protocol_name is None):
        return refuse_sync_group(message, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "", version)
    command = sync_command(message, message.assignment_error)

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

    context.coordinator.submit(command, ticket)
    return None


def sync_command(message: SyncGroupRequest, failure: str | None = None) -> Sync:
    """Return what a SyncGroup requests of its group; `failure` is why its sender could not assign."""
    return Sync(
        group_id=message.group_id,
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        generation=message.generation_id,
        protocol_type=message.protocol_type,
        protocol_name=message.protocol_name,
        assignments=tuple((entry.member_id, bytes(entry.assignment)) for entry in message.assignments),
        failure=failure,
    )


def refuse_sync_group(message: SyncGroupRequest, code: ErrorCode, text: str, version: int) -> SyncGroupResponse:
    """Return an error response."""
    return SyncGroupResponse(error_code=code)


_ALIVE = HeartbeatResponse()


def heartbeat(context: ApiContext, request: Request, message: HeartbeatRequest) -> HeartbeatResponse | None:
    """Pass the heartbeat to the member's group, where it may be parked."""

    def ticket(result: Result) -> None:
        request.reply(HeartbeatResponse(error_code=result.error) if result.error else _ALIVE)

    command = Heartbeat(message.group_id, message.member_id, message.group_instance_id, message.generation_id)
    connection = request.connection
    connection.client_software = software_that_beats(connection.client_software, request.api_version)
    parked = context.coordinator.heartbeat(command, ticket, connection.client_software)
    if parked is not None:
        request.park(
            lambda behind, now_ms: parked.followed(follower_of(message, behind, OffsetCommitRequest), now_ms),
            parked.drop,
        )
    return None


MOST_MEMBERS = 1000
"""Of one command to a group; a larger batch is carried out in several."""


def leave_group(context: ApiContext, request: Request, message: LeaveGroupRequest) -> Steps[None]:
    """Pass the batch to the group."""
    is_batch = request.api_version >= 3
    members = leaving_members(message, request.api_version)
    parts = [members[first : first + MOST_MEMBERS] for first in range(0, len(members), MOST_MEMBERS)] or [()]
    results: list[LeaveResult] = []

    def ticket(result: Result) -> None:
        assert isinstance(result, LeaveResult), "a leave is answered by a leave's result"
        results.append(result)
        if len(results) == len(parts):
            request.reply(_batch_response(results) if is_batch else _single_response(result))

    for part in parts:
        context.coordinator.submit(Leave(message.group_id, part), ticket)
        yield TURN_STEPS if len(part) == MOST_MEMBERS else 1


def leaving_members(message: LeaveGroupRequest, version: int) -> tuple[Leaving, ...]:
    """Return the members that a LeaveGroup names: one before v3."""
    if version < 3:
        return (Leaving(message.member_id),)
    return tuple(
        Leaving(member.member_id, member.group_instance_id, (member.reason or "")[:MAX_REASON_LENGTH])
        for member in message.members
    )


def leave_group_overtakes(context: ApiContext, blocker: Request, message: LeaveGroupRequest, version: int) -> bool:
    """Whether a member leaves whose own JoinGroup or SyncGroup waits: the group need not wait for it any longer."""
    leaving = {member.member_id for member in message.members} if version >= 3 else {message.member_id}
    return leaving == {context.overtaken_member(blocker, message.group_id)}


def _single_response(result: LeaveResult) -> LeaveGroupResponse:
    first = result.members[0].error if result.members else ErrorCode.NONE
    return LeaveGroupResponse(error_code=result.error or first)


def _batch_response(results: list[LeaveResult]) -> LeaveGroupResponse:
    return LeaveGroupResponse(
        error_code=next((result.error for result in results if result.error), ErrorCode.NONE),
        members=[
            LeaveGroupResponse.Member(member_id=member_id, group_instance_id=instance_id, error_code=error)
            for result in results
            for member_id, instance_id, error in result.members
        ],
    )
