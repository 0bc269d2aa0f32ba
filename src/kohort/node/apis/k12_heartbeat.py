"""Heartbeat: a member shows that it lives, and learns that its group gathers.

v1 adds throttling, v3 GroupInstanceId (KIP-345), v4 is flexible.
"""

from __future__ import annotations

from kohort.group.commands import Heartbeat
from kohort.group.results import Result
from kohort.node.apis.context import ApiContext
from kohort.node.client_connection import Request
from kohort.parking.parked_heartbeat import can_static_member_wait, follower_of
from kohort.wire.apis import Api
from kohort.wire.messages import HeartbeatRequest, HeartbeatResponse

API = Api.HEARTBEAT
_ALIVE = HeartbeatResponse()


def handle(context: ApiContext, request: Request, message: HeartbeatRequest) -> HeartbeatResponse | None:
    """Pass the heartbeat to the member's group, where it may wait for news."""

    def ticket(result: Result) -> None:
        request.reply(HeartbeatResponse(error_code=result.error) if result.error else _ALIVE)

    command = Heartbeat(message.group_id, message.member_id, message.group_instance_id, message.generation_id)
    can_wait = message.group_instance_id is None or can_static_member_wait(request.connection.client_software[0])
    parked = context.coordinator.heartbeat(command, ticket, context.clock.now_ms, can_wait=can_wait)
    if parked is not None:
        request.keep(lambda behind, now_ms: parked.followed(follower_of(message, behind), now_ms), parked.drop)
    return None
