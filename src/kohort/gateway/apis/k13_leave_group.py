"""LeaveGroup: members leave, or are removed; below version 3 one alone. That of a static member may be delayed."""

from __future__ import annotations

from kohort.gateway.apis.api import GroupApi, RequestOrigin
from kohort.gateway.apis.connection_state import Connection
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.relay.relay import Exchange
from kohort.group.commands import Leave
from kohort.node.apis.k11_12_13_14_classic_members import leaving_members
from kohort.wire.codec import Buffer
from kohort.wire.messages import LeaveGroupRequest, LeaveGroupResponse


def command_of(message: LeaveGroupRequest, version: int, _origin: RequestOrigin, _client_id: str) -> Leave:
    """Return what a LeaveGroup requests."""
    return Leave(message.group_id, leaving_members(message, version))


def request(connection: Connection, exchange: Exchange, command: Leave, now_ms: int) -> bool:
    """Delay the leave of a client that the gateway has made a static member; else it passes."""
    policy, statics = connection.policy(command), connection.rooms.static_members
    is_delayed = policy.makes_static and statics.delays(
        connection, exchange, command, connection.client_id, policy.leave_delay_ms
    )
    if not is_delayed:
        connection.share_request(exchange, command)
        connection.rooms.groups.leave_sent(command, now_ms)
    return True


def answer(
    connection: Connection, exchange: Exchange, command: Leave, message: LeaveGroupResponse, frame: Buffer, now_ms: int
) -> Buffer:
    """Take who has left."""
    if exchange.static_key is not None:
        return connection.rooms.static_members.leave_answered(exchange, command, message) or frame
    connection.share_answer(exchange, command, frame)
    observe_answer(connection.rooms.groups, command, message, exchange.head.api_version, now_ms)
    return frame


def observe_answer(
    groups: ObservedGroups, command: Leave, message: LeaveGroupResponse, version: int, now_ms: int
) -> None:
    """Have an answer change the groups."""
    if message.error_code:
        return
    members = command.members
    if version >= 3:
        answers = zip(members, message.members, strict=False)
        members = tuple(leaving for leaving, answer in answers if not answer.error_code)
    if members:
        groups.left(Leave(command.group_id, members), now_ms)


API = GroupApi(
    request_type=LeaveGroupRequest,
    response_type=LeaveGroupResponse,
    command_of=command_of,
    request=request,
    answer=answer,
    observe_request=ObservedGroups.leave_sent,
    observe_answer=observe_answer,
)
