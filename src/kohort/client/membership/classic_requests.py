"""A classic member's requests over its link: `classic_messages` says what they are, here they are sent and awaited.

A connection of the member's own carries them, so that a JoinGroup which the coordinator holds back holds back nothing
else.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TypeVar

from kohort.client.membership import classic_messages as messages
from kohort.client.membership.coordinator_link import CoordinatorLink
from kohort.member import effects, inputs
from kohort.member.member_state import MemberConfig
from kohort.model.errors import ErrorCode, KafkaError
from kohort.wire.message import Request
from kohort.wire.primitives import MalformedMessage

ResponseT = TypeVar("ResponseT")


@dataclass(eq=False)
class ClassicRequests:
    """Sends one member's group requests over its link."""

    _link: CoordinatorLink
    _config: MemberConfig
    _held_back: int = 0

    async def join(self, effect: effects.Join) -> inputs.JoinAnswered:
        """Send JoinGroup; the answer may take as long as the group's rebalance."""
        request = messages.join_request(self._link.group_id, self._config, effect)
        try:
            return messages.join_answered(effect, await self._call_held_back(request))
        except (KafkaError, MalformedMessage) as error:
            return inputs.JoinAnswered(effect.identity, self._code(error))

    async def sync(self, effect: effects.Sync) -> inputs.SyncAnswered:
        """Send SyncGroup; the answer waits for the leader's assignment."""
        request = messages.sync_request(self._link.group_id, self._config, effect)
        try:
            return messages.sync_answered(effect, await self._call_held_back(request))
        except (KafkaError, MalformedMessage) as error:
            return inputs.SyncAnswered(effect.identity, self._code(error))

    async def heartbeat(self, effect: effects.Heartbeat) -> inputs.HeartbeatAnswered:
        """Send Heartbeat."""
        request = messages.heartbeat_request(self._link.group_id, self._config, effect)
        timeout_ms = messages.heartbeat_ms(self._link.cluster.request_timeout_ms, self._config)
        try:
            answer = await (await self._link.open()).call(request, timeout_ms=timeout_ms)
        except KafkaError as error:
            return inputs.HeartbeatAnswered(effect.identity, self._code(error))
        return messages.heartbeat_answered(effect, answer)

    async def leave(self, effect: effects.Leave) -> inputs.LeaveAnswered:
        """Send LeaveGroup. Where a JoinGroup is still held back, on a new connection: brokers answer in order."""
        if self._held_back:
            self._link.drop()
        request = messages.leave_request(self._link.group_id, self._config, effect)
        try:
            async with asyncio.timeout(messages.LEAVE_TIMEOUT_MS / 1000):
                answer = await (await self._link.open()).call(request, timeout_ms=messages.LEAVE_TIMEOUT_MS)
        except (KafkaError, TimeoutError):
            return inputs.LeaveAnswered(effect.identity, ErrorCode.REQUEST_TIMED_OUT)
        return messages.leave_answered(effect, answer)

    async def _call_held_back(self, request: Request[ResponseT]) -> ResponseT:
        """Call what the coordinator may answer only when other members have come."""
        connection = await self._link.open()
        self._held_back += 1
        try:
            timeout_ms = messages.held_back_ms(self._link.cluster.request_timeout_ms, self._config)
            return await connection.call(request, timeout_ms=timeout_ms)
        finally:
            self._held_back -= 1

    def _code(self, error: KafkaError | MalformedMessage) -> ErrorCode:
        if not isinstance(error, KafkaError):
            error = KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"another member sent {error}")
        return self._link.code(error)
