"""A member's requests to its group's coordinator, over a connection of its own, for both protocols.

A JoinGroup or heartbeat that the coordinator holds back holds back no other request. `member_messages` makes the
messages; here they are sent and awaited. Whatever goes wrong on the way is an answer too: the error's code.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from kohort.client.cluster.cluster import Cluster
from kohort.client.membership import member_messages as messages
from kohort.member import effects, inputs
from kohort.member.effects import ConsumerHeartbeat
from kohort.member.inputs import ConsumerHeartbeatAnswered
from kohort.member.member_state import MemberConfig
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import NO_TOPIC_ID
from kohort.net.api_versions import api_versions_request
from kohort.net.connection import Connection
from kohort.wire.apis import Api
from kohort.wire.message import Request
from kohort.wire.messages import ConsumerGroupHeartbeatRequest
from kohort.wire.primitives import MalformedMessage

FEATURE = "kohort.group"
"""What our brokers offer beside Kafka: 1, leaders' failures passed on; 2, lags and reasons in heartbeats."""


class CoordinatorLink:
    """A member's own connection, opened when first needed, and again wherever the coordinator has gone.

    `complaint` is the last error that says more than its code.
    """

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.cluster = cluster
        self.group_id = group_id
        self.complaint: KafkaError | None = None
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()

    async def open(self) -> Connection:
        """Return the open connection, connecting where need be. Raises `KafkaError`."""
        async with self._lock:
            if self._connection is None or self._connection.is_closed:
                coordinator = await self.cluster.coordinator(self.group_id, timeout_ms=self.cluster.request_timeout_ms)
                self._connection = await self.cluster.open_apart(coordinator)
            return self._connection

    def has_feature(self, version: int = 1) -> bool:
        """Return whether the coordinator is one of ours, as far as is known, with this version of the feature."""
        connection = self._connection
        return connection is not None and not connection.is_closed and connection.versions.has_feature(FEATURE, version)

    def rediscover(self) -> None:
        """Forget the coordinator; the next request looks it up."""
        self.cluster.forget_coordinator(self.group_id)
        self.drop()

    def drop(self) -> None:
        """Close the connection; what waits on it gets NETWORK_EXCEPTION."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def code(self, error: KafkaError) -> ErrorCode:
        """Return the code of an error, as an input of the member."""
        if error.code is ErrorCode.BROKER_NOT_AVAILABLE:
            return ErrorCode.NETWORK_EXCEPTION
        if not error.code.is_retriable:
            self.complaint = error
        return error.code


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


LAGS_FEATURE = 2


@dataclass(eq=False)
class ConsumerRequests:
    """Sends one member's heartbeats over its link."""

    _link: CoordinatorLink
    _config: MemberConfig
    _interval_ms: int = 5_000

    async def heartbeat(self, effect: ConsumerHeartbeat) -> ConsumerHeartbeatAnswered:
        """Send ConsumerGroupHeartbeat; a leave is given five seconds."""
        longest_ms = max(messages.SHORTEST_TIMEOUT_MS, 3 * self._interval_ms)
        timeout_ms = min(self._link.cluster.request_timeout_ms, longest_ms)
        if effect.is_leave:
            timeout_ms = messages.LEAVE_TIMEOUT_MS
        try:
            async with asyncio.timeout(2 * timeout_ms / 1000):
                connection = await self._link.open()
                request = self._request(effect, connection)
                response = await connection.call(request, timeout_ms=timeout_ms)
        except TimeoutError:
            return ConsumerHeartbeatAnswered(effect.number, ErrorCode.REQUEST_TIMED_OUT)
        except KafkaError as error:
            return ConsumerHeartbeatAnswered(effect.number, self._link.code(error), error.text)
        answer = messages.consumer_heartbeat_answered(effect, response)
        if answer.error is ErrorCode.NONE and answer.interval_ms > 0:
            self._interval_ms = answer.interval_ms
        return answer

    async def hurry(self) -> inputs.Tick:
        """Ask for anything: a broker that keeps the heartbeat under way answers it before any other request."""
        if self._link.has_feature():
            with suppress(KafkaError):  # the heartbeat under way learns of it too
                await (await self._link.open()).call(api_versions_request(), timeout_ms=messages.SHORTEST_TIMEOUT_MS)
        return inputs.Tick()

    def _request(self, effect: ConsumerHeartbeat, connection: Connection) -> ConsumerGroupHeartbeatRequest:
        """Return the message. Raises UNSUPPORTED_VERSION where the broker cannot take what it says."""
        if effect.regex and connection.versions.newest(Api.CONSUMER_GROUP_HEARTBEAT) < messages.REGEX_VERSION:
            text = f"{connection.address} resolves no expressions: name the topics, or use Kafka 4.1 or newer"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        return messages.consumer_heartbeat_request(
            self._link.group_id,
            self._config,
            effect,
            is_heard=self._link.has_feature(LAGS_FEATURE),
            topic_id=self._topic_id,
        )

    def _topic_id(self, topic: str) -> bytes | None:
        seen = self._link.cluster.view.topics.get(topic)
        return None if seen is None or seen.topic_id == NO_TOPIC_ID else seen.topic_id
