"""Members of a classic group behind a gateway, and the broker's end of their connections."""

from __future__ import annotations

from typing import Any

from tests.unit.wire.responses import encode_response

from kohort.gateway.gateway import Gateway
from kohort.gateway.policies.policies import EVERYTHING_PARKED, PolicyTable
from kohort.group.coordinator_settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription
from kohort.wire.consumer_protocol import encode_subscription
from kohort.wire.frames import decode_response, encode_request
from kohort.wire.message import Message, Response
from kohort.wire.messages import (
    ApiVersionsRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

SESSION_MS = 10_000
RANGE = JoinGroupRequest.Protocol(name="range", metadata=encode_subscription(Subscription(["t"])))


class Member:
    """A member of group `g` behind a gateway, and the broker's end of its connection."""

    def __init__(self, gateway: Gateway, member_id: str, software: str) -> None:
        self.gateway = gateway
        self.id = member_id
        self.to_client: list[bytes] = []
        self.to_broker: list[bytes] = []
        self.relay = gateway.open(
            member_id,
            lambda data: self.to_client.append(bytes(data)),
            lambda data: self.to_broker.append(bytes(data)),
        )
        self.sent = 0
        self.instance_id: str | None = None
        if software:
            self.send(ApiVersionsRequest(client_software_name=software, client_software_version="9"), 3, 0)

    def send(self, message: Message, version: int, now_ms: int) -> None:
        self.sent += 1
        self.gateway.tick(now_ms)
        self.relay.from_client(encode_request(message, version, self.sent, "c1"), now_ms)

    def answered(self, answer: Response, version: int, now_ms: int) -> None:
        self.relay.from_broker(b"".join(encode_response(answer, version, self.sent)), now_ms)

    def join(self, now_ms: int, session_timeout_ms: int = SESSION_MS) -> None:
        request = JoinGroupRequest(group_id="g", member_id=self.id, protocol_type="consumer", protocols=[RANGE])
        request.session_timeout_ms, request.rebalance_timeout_ms = session_timeout_ms, 300_000
        self.send(request, 5, now_ms)

    def send_heartbeat(self, now_ms: int) -> None:
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id=self.id)
        request.group_instance_id = self.instance_id
        self.send(request, 3, now_ms)

    def heartbeat(self, now_ms: int, error: ErrorCode = ErrorCode.NONE, *, answered_after_ms: int = 0) -> None:
        self.send_heartbeat(now_ms)
        self.answered(HeartbeatResponse(error_code=error), 3, now_ms + answered_after_ms)

    def commit(self, now_ms: int) -> None:
        request = OffsetCommitRequest(group_id="g", member_id=self.id, generation_id_or_member_epoch=1)
        self.send(request, 2, now_ms)
        self.answered(OffsetCommitResponse(), 2, now_ms)

    def errors(self) -> list[int]:
        """Return the errors of the answers to heartbeats that the client got since the last call."""
        frames, self.to_client[:] = list(self.to_client), []
        return [decode_response(HeartbeatResponse, 3, frame[4:])[1].error_code for frame in frames]


def group(
    *names: str,
    software: str = "apache-kafka-java",
    policies: PolicyTable = EVERYTHING_PARKED,
    gateway: Gateway | None = None,
    session_timeout_ms: int = SESSION_MS,
) -> dict[str, Member]:
    """Return the members of a group that is stable at 0 ms, the first of which leads it."""
    gateway = gateway or Gateway(GroupSettings(), lambda *_: None, policies=policies)
    members = {name: Member(gateway, name, software) for name in names}
    everyone: list[Any] = [JoinGroupResponse.Member(member_id=name, metadata=RANGE.metadata) for name in names]
    for member in members.values():
        member.join(0, session_timeout_ms)
    for name, member in members.items():
        listed = everyone if name == names[0] else []
        joined = JoinGroupResponse(generation_id=1, protocol_name="range", leader=names[0], member_id=name)
        joined.members = listed
        member.answered(joined, 5, 0)
    for member in members.values():
        member.send(SyncGroupRequest(group_id="g", generation_id=1, member_id=member.id), 3, 0)
        member.answered(SyncGroupResponse(assignment=b""), 3, 0)
        member.to_client.clear()
    return members


def leave(member: Member, now_ms: int) -> None:
    member.send(LeaveGroupRequest(group_id="g", member_id=member.id), 2, now_ms)
    member.answered(LeaveGroupResponse(), 2, now_ms)
