"""The heartbeats of a member of the consumer protocol on the wire (KIP-848).

Lags and reasons are this project's extension, in tagged fields that other brokers ignore: only a broker that says it
understands them is sent any.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from kohort.client.coordinator_link import CoordinatorLink
from kohort.member import inputs
from kohort.member.consumer_effects import ConsumerHeartbeat, Lags
from kohort.member.consumer_inputs import ConsumerHeartbeatAnswered
from kohort.member.state import MemberConfig
from kohort.model.assignment import by_topic
from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.model.id_partitions import id_partitions
from kohort.model.ids import NO_TOPIC_ID
from kohort.net.connection import Connection
from kohort.net.versions import opening
from kohort.wire.apis import Api
from kohort.wire.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

LAGS_FEATURE = 2
_LEAVE_TIMEOUT_MS = 5_000
_SHORTEST_TIMEOUT_MS = 20_000
"""More than any interval of a group's (15 s at most), for which a broker may keep a heartbeat."""
_REGEX_VERSION = 1


class ConsumerRequests:
    """Sends one member's heartbeats over its link."""

    def __init__(self, link: CoordinatorLink, config: MemberConfig) -> None:
        self._link = link
        self._config = config
        self._interval_ms = 5_000

    async def heartbeat(self, effect: ConsumerHeartbeat) -> ConsumerHeartbeatAnswered:
        """Send ConsumerGroupHeartbeat; a leave is given five seconds."""
        timeout_ms = min(self._link.cluster.request_timeout_ms, max(_SHORTEST_TIMEOUT_MS, 3 * self._interval_ms))
        if effect.is_leave:
            timeout_ms = _LEAVE_TIMEOUT_MS
        try:
            async with asyncio.timeout(2 * timeout_ms / 1000):
                connection = await self._link.open()
                request = self._request(effect, connection)
                answer = await connection.call(request, timeout_ms=timeout_ms)
        except TimeoutError:
            return ConsumerHeartbeatAnswered(effect.number, ErrorCode.REQUEST_TIMED_OUT)
        except KafkaError as error:
            return ConsumerHeartbeatAnswered(effect.number, self._link.code(error), error.text)
        return self._answered(effect, answer)

    async def hurry(self) -> inputs.Tick:
        """Ask for anything: a broker that keeps the heartbeat under way answers it before any other request."""
        if self._link.has_feature():
            with suppress(KafkaError):  # the heartbeat under way learns of it too
                await (await self._link.open()).call(opening(), timeout_ms=_SHORTEST_TIMEOUT_MS)
        return inputs.Tick()

    def _request(self, effect: ConsumerHeartbeat, connection: Connection) -> ConsumerGroupHeartbeatRequest:
        """Return the message. Raises UNSUPPORTED_VERSION where the broker cannot take what it says."""
        if effect.regex and connection.version_of(Api.CONSUMER_GROUP_HEARTBEAT) < _REGEX_VERSION:
            text = f"{connection.address} resolves no expressions: name the topics, or use Kafka 4.1 or newer"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)
        is_heard = self._link.has_feature(LAGS_FEATURE)
        message = ConsumerGroupHeartbeatRequest
        return message(
            group_id=self._link.group_id,
            member_id=effect.member_id,
            member_epoch=effect.member_epoch,
            instance_id=self._config.instance_id,
            rack_id=effect.rack,
            rebalance_timeout_ms=effect.rebalance_timeout_ms,
            subscribed_topic_names=None if effect.topics is None else list(effect.topics),
            subscribed_topic_regex=effect.regex,
            server_assignor=effect.server_assignor,
            topic_partitions=None
            if effect.owned is None
            else [
                message.TopicPartition(topic_id=topic_id, partitions=list(partitions))
                for topic_id, partitions in effect.owned
            ],
            standby_lags=self._lags(effect.lags) if effect.lags is not None and is_heard else None,
            reason=effect.reason if effect.reason and is_heard else None,
        )

    def _lags(self, lags: Lags) -> list[ConsumerGroupHeartbeatRequest.StandbyLag]:
        """Return the lags by topic id; those of topics that the cluster has not shown are left out."""
        topic, by_partition = ConsumerGroupHeartbeatRequest.StandbyLag, dict(lags)
        found = []
        for name, partitions in by_topic(by_partition).items():
            seen = self._link.cluster.view.topics.get(name)
            if seen is None or seen.topic_id == NO_TOPIC_ID:
                continue
            entries = [
                topic.Partition(partition_index=partition, lag=by_partition[name, partition])  # type: ignore[index]
                for partition in partitions
            ]
            found.append(topic(topic_id=seen.topic_id, partitions=entries))
        return found

    def _answered(self, effect: ConsumerHeartbeat, answer: ConsumerGroupHeartbeatResponse) -> ConsumerHeartbeatAnswered:
        code = error_for(answer.error_code)
        if code is ErrorCode.NONE and answer.heartbeat_interval_ms > 0:
            self._interval_ms = answer.heartbeat_interval_ms
        assignment = answer.assignment
        return ConsumerHeartbeatAnswered(
            effect.number,
            code,
            answer.error_message,
            answer.member_epoch,
            answer.heartbeat_interval_ms,
            None
            if assignment is None
            else id_partitions((topic.topic_id, topic.partitions) for topic in assignment.topic_partitions),
        )
