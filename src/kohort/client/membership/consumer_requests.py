"""The heartbeats of a member of the consumer protocol over its link: `consumer_messages` says what they are."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from kohort.client.membership import consumer_messages as messages
from kohort.client.membership.coordinator_link import CoordinatorLink
from kohort.member import inputs
from kohort.member.effects import ConsumerHeartbeat
from kohort.member.inputs import ConsumerHeartbeatAnswered
from kohort.member.member_state import MemberConfig
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import NO_TOPIC_ID
from kohort.net.api_versions import api_versions_request
from kohort.net.connection import Connection
from kohort.wire.apis import Api
from kohort.wire.messages import ConsumerGroupHeartbeatRequest

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
                answer = messages.heartbeat_answered(effect, await connection.call(request, timeout_ms=timeout_ms))
        except TimeoutError:
            return ConsumerHeartbeatAnswered(effect.number, ErrorCode.REQUEST_TIMED_OUT)
        except KafkaError as error:
            return ConsumerHeartbeatAnswered(effect.number, self._link.code(error), error.text)
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
        return messages.heartbeat_request(
            self._link.group_id,
            self._config,
            effect,
            is_heard=self._link.has_feature(LAGS_FEATURE),
            topic_id=self._topic_id,
        )

    def _topic_id(self, topic: str) -> bytes | None:
        seen = self._link.cluster.view.topics.get(topic)
        return None if seen is None or seen.topic_id == NO_TOPIC_ID else seen.topic_id
