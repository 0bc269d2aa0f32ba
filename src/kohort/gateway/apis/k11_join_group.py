"""JoinGroup: it opens a round, or joins it; its answer names the generation, and to a leader the members."""

from __future__ import annotations

from kohort.gateway.apis.api import GroupApi, RequestOrigin
from kohort.gateway.apis.connection_state import Connection
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.gateway.relay.relay import Exchange
from kohort.group.commands import Join
from kohort.group.results import JoinedMember, JoinResult
from kohort.model.errors import error_for
from kohort.node.apis.k11_12_13_14_classic_members import join_command
from kohort.parking.client_software import software_named
from kohort.wire.codec import Buffer
from kohort.wire.messages import JoinGroupRequest, JoinGroupResponse


def command_of(message: JoinGroupRequest, version: int, origin: RequestOrigin, client_id: str) -> Join:
    """Return what a JoinGroup requests."""
    return join_command(message, version, client_id, origin.client_host, software_named(origin.software_name, ""))


def answer(
    connection: Connection, exchange: Exchange, command: Join, message: JoinGroupResponse, frame: Buffer, now_ms: int
) -> Buffer:
    """Take what the coordinator decided. A leader's answer is remembered until it assigns."""
    connection.share_answer(exchange, command, frame)
    result = _result(message)
    connection.rooms.groups.joins.answered(command, result, now_ms)
    connection.rooms.edge.join_answered(command.group_id, result)
    return frame


def observe_answer(
    groups: ObservedGroups, command: Join, message: JoinGroupResponse, _version: int, now_ms: int
) -> None:
    """Have an answer change the groups."""
    groups.joins.answered(command, _result(message), now_ms)


def _result(message: JoinGroupResponse) -> JoinResult:
    return JoinResult(
        error=error_for(message.error_code),
        member_id=message.member_id,
        generation=message.generation_id,
        protocol_type=message.protocol_type,
        protocol_name=message.protocol_name,
        leader=message.leader,
        members=tuple(
            JoinedMember(member.member_id, member.group_instance_id, bytes(member.metadata))
            for member in message.members
        ),
        skip_assignment=message.skip_assignment,
    )


API = GroupApi(
    request_type=JoinGroupRequest,
    response_type=JoinGroupResponse,
    command_of=command_of,
    answer=answer,
    observe_request=lambda groups, command, now_ms: groups.joins.sent(command, now_ms),
    observe_answer=observe_answer,
    abandon=lambda groups, command, now_ms: groups.joins.abandoned(command, now_ms),
)
