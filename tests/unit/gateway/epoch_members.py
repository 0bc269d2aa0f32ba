"""Members with an epoch behind a gateway, of consumer, share and streams groups, and the coordinator's end."""

from __future__ import annotations

from typing import Any

from tests.unit.wire.responses import encode_response

from kohort.gateway.gateway import Gateway, GatewayLimits
from kohort.gateway.policies.policies import EVERYTHING_PARKED, GroupProtocol, PolicyTable
from kohort.group.coordinator_settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.wire.frames import decode_response, encode_request
from kohort.wire.message import Message, Request
from kohort.wire.messages import (
    ApiVersionsRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

BROKERS_INTERVAL_MS = 5_000
TOPOLOGY = StreamsGroupHeartbeatRequest.Topology(epoch=0, subtopologies=[])
STREAMS_JOINING = {
    "topology": TOPOLOGY,
    "active_tasks": [],
    "standby_tasks": [],
    "warmup_tasks": [],
    "rebalance_timeout_ms": 1,
}
KINDS: dict[GroupProtocol, tuple[type[Request], Any, dict[str, Any]]] = {
    GroupProtocol.CONSUMER: (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
        {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []},
    ),
    GroupProtocol.SHARE: (ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse, {"subscribed_topic_names": ["t"]}),
    GroupProtocol.STREAMS: (StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, STREAMS_JOINING),
}
"""By protocol, request, answer, and the fields of the first request."""

TASK = StreamsGroupHeartbeatResponse.ActiveTask(subtopology_id="0", partitions=[0])


class Member:
    """A member of group `g` behind a gateway, and the coordinator's end of its connection."""

    def __init__(
        self,
        gateway: Gateway,
        protocol: GroupProtocol = GroupProtocol.CONSUMER,
        member_id: str = "m1",
        software: str = "apache-kafka-java",
    ) -> None:
        self.gateway = gateway
        self.protocol = protocol
        self.member_id = member_id
        self.to_client: list[bytes] = []
        self.to_broker: list[bytes] = []
        self.relay = gateway.open(
            "host", lambda data: self.to_client.append(bytes(data)), lambda data: self.to_broker.append(bytes(data))
        )
        self.sent = 0
        named = ApiVersionsRequest(client_software_name=software, client_software_version="1")
        self.send(named, 3, 0)

    def send(self, message: Message, version: int, now_ms: int) -> bool:
        """Send a request; return whether the coordinator has it."""
        self.sent += 1
        before = len(self.to_broker)
        self.gateway.tick(now_ms)
        self.relay.from_client(encode_request(message, version, self.sent, "c1"), now_ms)
        return len(self.to_broker) > before

    def heartbeat(self, epoch: int, now_ms: int, **fields: object) -> bool:
        """Send a heartbeat; return whether the coordinator has it."""
        kind, _, joining = KINDS[self.protocol]
        fields |= joining if epoch == 0 else {}
        message = kind(group_id="g", member_id=self.member_id, member_epoch=epoch, **fields)
        return self.send(message, 1, now_ms)

    def answered(self, now_ms: int, epoch: int = 1, error: ErrorCode = ErrorCode.NONE, **fields: object) -> int:
        """Answer the last heartbeat; return the interval that the client gets."""
        _, kind, _ = KINDS[self.protocol]
        answer = kind(
            error_code=error,
            member_id=self.member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=BROKERS_INTERVAL_MS,
            **fields,
        )
        self.relay.from_broker(b"".join(encode_response(answer, 1, self.sent)), now_ms)
        _, message = decode_response(kind, 1, self.to_client[-1][4:])
        interval_ms = message.heartbeat_interval_ms
        message.heartbeat_interval_ms = BROKERS_INTERVAL_MS
        assert message == answer, "only the interval changes"
        return interval_ms

    def steady(self) -> int:
        """Join and send heartbeats until one is parked; return when, or -1 where none is."""
        self.heartbeat(0, 0)
        self.answered(1)
        for now_ms in range(1_000, 20_000, 1_000):
            if not self.heartbeat(1, now_ms):
                return now_ms
            self.answered(now_ms + 1)
        return -1


def gateway(policies: PolicyTable = EVERYTHING_PARKED) -> Gateway:
    """Return a gateway that falls back for a minute."""
    limits = GatewayLimits(fallback_ms=60_000)
    return Gateway(GroupSettings(), lambda _shard, _event, _now_ms: None, policies=policies, limits=limits)
