"""LeaveGroup: members leave, or are removed; below version 3 one alone."""

from __future__ import annotations

from kohort.gateway.apis.api import GroupApi, RequestOrigin
from kohort.gateway.observing.observed_groups import ObservedGroups
from kohort.group.commands import Leave
from kohort.node.apis.k11_12_13_14_classic_members import leaving_members
from kohort.wire.messages import LeaveGroupRequest, LeaveGroupResponse


def command_of(message: LeaveGroupRequest, version: int, _origin: RequestOrigin, _client_id: str) -> Leave:
    """Return what a LeaveGroup requests."""
    return Leave(message.group_id, leaving_members(message, version))


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
    observe_request=ObservedGroups.leave_sent,
    observe_answer=observe_answer,
)
