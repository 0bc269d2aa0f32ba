"""A member's requests on the wire: its effects become messages, the answers become its inputs.

One connection of the member's own carries them, so that a JoinGroup which the coordinator holds back holds back
nothing else. Whatever goes wrong on the way is an answer too: the error's code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from kohort.assign.spec import MemberSpec
from kohort.client.cluster import Cluster
from kohort.member import effects, inputs
from kohort.member.state import MemberConfig
from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.model.reason import MAX_REASON_LENGTH
from kohort.net.connection import Connection
from kohort.wire.codec import MalformedMessage
from kohort.wire.consumer_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.wire.message import Request
from kohort.wire.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)

ResponseT = TypeVar("ResponseT")

PROTOCOL_TYPE = "consumer"
_FEATURE = "kohort.group"
_LEAVE_TIMEOUT_MS = 5000
_JOIN_MARGIN_MS = 5000


class GroupRequests:
    """Sends one member's group requests. `complaint` is the text of the last error that had more than a code."""

    def __init__(self, cluster: Cluster, group_id: str, config: MemberConfig) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._config = config
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()
        self._held_back = 0
        self.complaint: KafkaError | None = None

    async def join(self, effect: effects.Join) -> inputs.JoinAnswered:
        """Send JoinGroup; the answer may take as long as the group's rebalance."""
        config = self._config
        request = JoinGroupRequest(
            group_id=self._group_id,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
            member_id=effect.identity.member_id,
            group_instance_id=config.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[
                JoinGroupRequest.Protocol(name=name, metadata=encode_subscription(subscription))
                for name, subscription in effect.protocols
            ],
            reason=effect.reason[:MAX_REASON_LENGTH] or None,
        )
        timeout_ms = max(self._cluster.request_timeout_ms, config.rebalance_timeout_ms + _JOIN_MARGIN_MS)
        try:
            answer = await self._call_held_back(request, timeout_ms)
            members = _members(answer)
        except (KafkaError, MalformedMessage) as error:
            return inputs.JoinAnswered(effect.identity, self._code(error))
        return inputs.JoinAnswered(
            effect.identity,
            error_for(answer.error_code),
            generation=answer.generation_id,
            member_id=answer.member_id,
            leader=answer.leader,
            protocol_name=answer.protocol_name or "",
            members=members,
            is_skip=answer.skip_assignment,
        )

    async def sync(self, effect: effects.Sync) -> inputs.SyncAnswered:
        """Send SyncGroup; the answer waits for the leader's assignment."""
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=effect.identity.generation,
            member_id=effect.identity.member_id,
            group_instance_id=self._config.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=effect.protocol_name,
            assignments=[
                SyncGroupRequest.Assignment(member_id=member, assignment=encode_assignment(assignment))
                for member, assignment in sorted(effect.assignments.items())
            ],
            assignment_error=effect.failure,
        )
        timeout_ms = max(self._cluster.request_timeout_ms, self._config.rebalance_timeout_ms + _JOIN_MARGIN_MS)
        try:
            answer = await self._call_held_back(request, timeout_ms)
            return inputs.SyncAnswered(
                effect.identity,
                error_for(answer.error_code),
                decode_assignment(answer.assignment),
                answer.error_message,
            )
        except (KafkaError, MalformedMessage) as error:
            return inputs.SyncAnswered(effect.identity, self._code(error))

    async def heartbeat(self, effect: effects.Heartbeat) -> inputs.HeartbeatAnswered:
        """Send Heartbeat."""
        request = HeartbeatRequest(
            group_id=self._group_id,
            generation_id=effect.identity.generation,
            member_id=effect.identity.member_id,
            group_instance_id=self._config.instance_id,
        )
        timeout_ms = min(self._cluster.request_timeout_ms, self._config.session_timeout_ms)
        try:
            answer = await (await self._open()).call(request, timeout_ms=timeout_ms)
        except KafkaError as error:
            return inputs.HeartbeatAnswered(effect.identity, self._code(error))
        return inputs.HeartbeatAnswered(effect.identity, error_for(answer.error_code))

    async def leave(self, effect: effects.Leave) -> inputs.LeaveAnswered:
        """Send LeaveGroup. Where a JoinGroup is still held back, on a new connection: brokers answer in order."""
        if self._held_back:
            self.drop()
        member = LeaveGroupRequest.Member(
            member_id=effect.identity.member_id,
            group_instance_id=self._config.instance_id,
            reason=effect.reason[:MAX_REASON_LENGTH],
        )
        request = LeaveGroupRequest(group_id=self._group_id, member_id=effect.identity.member_id, members=[member])
        try:
            async with asyncio.timeout(_LEAVE_TIMEOUT_MS / 1000):
                answer = await (await self._open()).call(request, timeout_ms=_LEAVE_TIMEOUT_MS)
        except (KafkaError, TimeoutError):
            return inputs.LeaveAnswered(effect.identity, ErrorCode.REQUEST_TIMED_OUT)
        return inputs.LeaveAnswered(effect.identity, error_for(answer.error_code))

    @property
    def is_failure_passed_on(self) -> bool:
        """Whether the coordinator passes a leader's failed assignment on to the other members."""
        connection = self._connection
        return connection is not None and not connection.is_closed and connection.has_feature(_FEATURE)

    def rediscover(self) -> None:
        """Forget the coordinator; the next request looks it up."""
        self._cluster.forget_coordinator(self._group_id)
        self.drop()

    def drop(self) -> None:
        """Close the member's connection; what waits on it gets NETWORK_EXCEPTION."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _open(self) -> Connection:
        async with self._lock:
            if self._connection is None or self._connection.is_closed:
                coordinator = await self._cluster.coordinator(
                    self._group_id, timeout_ms=self._cluster.request_timeout_ms
                )
                self._connection = await self._cluster.open_apart(coordinator)
            return self._connection

    async def _call_held_back(self, request: Request[ResponseT], timeout_ms: int) -> ResponseT:
        """Call what the coordinator may answer only when other members have come."""
        connection = await self._open()
        self._held_back += 1
        try:
            return await connection.call(request, timeout_ms=timeout_ms)
        finally:
            self._held_back -= 1

    def _code(self, error: Exception) -> ErrorCode:
        if not isinstance(error, KafkaError):
            self.complaint = KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"another member sent {error}")
            return self.complaint.code
        if error.code is ErrorCode.BROKER_NOT_AVAILABLE:
            return ErrorCode.NETWORK_EXCEPTION
        if not error.code.is_retriable:
            self.complaint = error
        return error.code


def _members(answer: JoinGroupResponse) -> Mapping[str, MemberSpec]:
    return {
        member.member_id: MemberSpec(decode_subscription(member.metadata), member.group_instance_id)
        for member in answer.members
    }
