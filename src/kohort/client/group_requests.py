"""A classic member's requests on the wire: its effects become messages, the answers become its inputs.

A connection of the member's own carries them, so that a JoinGroup which the coordinator holds back holds back nothing
else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from kohort.assign.spec import MemberSpec
from kohort.client.coordinator_link import CoordinatorLink
from kohort.member import effects, inputs
from kohort.member.state import MemberConfig
from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.model.reason import MAX_REASON_LENGTH
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
_LEAVE_TIMEOUT_MS = 5000
_JOIN_MARGIN_MS = 5000


class GroupRequests:
    """Sends one member's group requests over its link."""

    def __init__(self, link: CoordinatorLink, config: MemberConfig) -> None:
        self._link = link
        self._group_id = link.group_id
        self._request_timeout_ms = link.cluster.request_timeout_ms
        self._config = config
        self._held_back = 0

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
        timeout_ms = max(self._request_timeout_ms, config.rebalance_timeout_ms + _JOIN_MARGIN_MS)
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
        timeout_ms = max(self._request_timeout_ms, self._config.rebalance_timeout_ms + _JOIN_MARGIN_MS)
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
        timeout_ms = min(self._request_timeout_ms, self._config.session_timeout_ms)
        try:
            answer = await (await self._link.open()).call(request, timeout_ms=timeout_ms)
        except KafkaError as error:
            return inputs.HeartbeatAnswered(effect.identity, self._code(error))
        return inputs.HeartbeatAnswered(effect.identity, error_for(answer.error_code))

    async def leave(self, effect: effects.Leave) -> inputs.LeaveAnswered:
        """Send LeaveGroup. Where a JoinGroup is still held back, on a new connection: brokers answer in order."""
        if self._held_back:
            self._link.drop()
        member = LeaveGroupRequest.Member(
            member_id=effect.identity.member_id,
            group_instance_id=self._config.instance_id,
            reason=effect.reason[:MAX_REASON_LENGTH],
        )
        request = LeaveGroupRequest(group_id=self._group_id, member_id=effect.identity.member_id, members=[member])
        try:
            async with asyncio.timeout(_LEAVE_TIMEOUT_MS / 1000):
                answer = await (await self._link.open()).call(request, timeout_ms=_LEAVE_TIMEOUT_MS)
        except (KafkaError, TimeoutError):
            return inputs.LeaveAnswered(effect.identity, ErrorCode.REQUEST_TIMED_OUT)
        return inputs.LeaveAnswered(effect.identity, error_for(answer.error_code))

    @property
    def is_failure_passed_on(self) -> bool:
        """Whether the coordinator passes a leader's failed assignment on to the other members."""
        return self._link.has_feature()

    async def _call_held_back(self, request: Request[ResponseT], timeout_ms: int) -> ResponseT:
        """Call what the coordinator may answer only when other members have come."""
        connection = await self._link.open()
        self._held_back += 1
        try:
            return await connection.call(request, timeout_ms=timeout_ms)
        finally:
            self._held_back -= 1

    def _code(self, error: KafkaError | MalformedMessage) -> ErrorCode:
        if not isinstance(error, KafkaError):
            error = KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"another member sent {error}")
        return self._link.code(error)


def _members(answer: JoinGroupResponse) -> Mapping[str, MemberSpec]:
    return {
        member.member_id: MemberSpec(decode_subscription(member.metadata), member.group_instance_id)
        for member in answer.members
    }
