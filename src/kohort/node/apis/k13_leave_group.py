"""LeaveGroup: members go, or an administrator removes them.

v1 adds throttling, v3 is a batch with an error for each member (KIP-345), v4 is flexible, v5 adds a reason (KIP-800).
"""

from __future__ import annotations

from kohort.group.commands import Leave, Leaving
from kohort.group.results import LeaveResult, Result
from kohort.model.cause import MAX_REASON_LENGTH
from kohort.model.errors import ErrorCode
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.node.step_scheduler import TURN_STEPS, Steps
from kohort.wire.apis import Api
from kohort.wire.messages import LeaveGroupRequest, LeaveGroupResponse

API = Api.LEAVE_GROUP

MOST_MEMBERS = 1000
"""Of one command to a group; a larger batch is carried out in several."""


def handle(context: ApiContext, request: Request, message: LeaveGroupRequest) -> Steps[None]:
    """Pass the batch to the group."""
    is_batch = request.api_version >= 3
    if is_batch:
        members = tuple(
            Leaving(member.member_id, member.group_instance_id, (member.reason or "")[:MAX_REASON_LENGTH])
            for member in message.members
        )
    else:
        members = (Leaving(message.member_id),)
    parts = [members[first : first + MOST_MEMBERS] for first in range(0, len(members), MOST_MEMBERS)] or [()]
    results: list[LeaveResult] = []

    def ticket(result: Result) -> None:
        assert isinstance(result, LeaveResult), "a leave is answered by a leave's result"
        results.append(result)
        if len(results) == len(parts):
            request.reply(_batch_response(results) if is_batch else _single_response(result))

    for part in parts:
        context.coordinator.submit(Leave(message.group_id, part), ticket, context.clock.now_ms)
        yield TURN_STEPS if len(part) == MOST_MEMBERS else 1


def overtakes(context: ApiContext, blocker: Request, message: LeaveGroupRequest, version: int) -> bool:
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
