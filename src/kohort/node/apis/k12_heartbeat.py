"""Heartbeat: a member shows that it lives, and learns that its group gathers.

v1 adds throttling, v3 GroupInstanceId (KIP-345), v4 is flexible.
"""

from __future__ import annotations

from kohort.group.commands import Heartbeat
from kohort.group.results import Result
from kohort.model.errors import ErrorCode
from kohort.node.client_connection import Request
from kohort.node.node import Node
from kohort.node.parking import Follower
from kohort.wire.apis import Api
from kohort.wire.messages import HeartbeatRequest, HeartbeatResponse, OffsetCommitRequest

API = Api.HEARTBEAT
JAVA = "apache-kafka-java"
_ALIVE = HeartbeatResponse()


def handle(node: Node, request: Request, message: HeartbeatRequest) -> HeartbeatResponse | None:
    """Pass the heartbeat to the member's group, which may keep it until there is something to say."""

    def ticket(result: Result) -> None:
        request.reply(HeartbeatResponse(error_code=result.error) if result.error else _ALIVE)

    command = Heartbeat(message.group_id, message.member_id, message.group_instance_id, message.generation_id)
    # Java's close waits for the answers to all that it has sent, and a static member sends no LeaveGroup that would
    # release a parked heartbeat.
    is_parked = message.group_instance_id is None or request.connection.client_software[0] != JAVA
    kept = node.coordinator.heartbeat(command, ticket, node.now_ms, is_parked=is_parked)
    if kept is not None:
        request.keep(lambda behind, now_ms: kept.followed(_follower(message, behind), now_ms), kept.drop)
    return None


def _follower(message: HeartbeatRequest, behind: object) -> Follower:
    """Return what has come behind a kept heartbeat."""
    if not isinstance(behind, HeartbeatRequest | OffsetCommitRequest):
        return Follower.OTHER
    if (behind.group_id, behind.member_id) != (message.group_id, message.member_id):
        return Follower.OTHER
    return Follower.HEARTBEAT if isinstance(behind, HeartbeatRequest) else Follower.COMMIT


def refuse(message: HeartbeatRequest, code: ErrorCode, text: str, version: int) -> HeartbeatResponse:
    """Say an error."""
    return HeartbeatResponse(error_code=code)
