"""Heartbeats of share groups and streams groups are held by the rule of consumer groups."""

from __future__ import annotations

import pytest
from tests.unit.wire.responses import encode_response

from kohort.gateway.gateway import Gateway
from kohort.gateway.policies.policies import EVERYTHING_PARKED, GroupProtocol, Policy, PolicyTable, Treatment
from kohort.group.coordinator_settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.parking.limits import SENDER_FORGOTTEN_MS
from kohort.wire.frames import decode_response, encode_request
from kohort.wire.message import Message, Request
from kohort.wire.messages import (
    ApiVersionsRequest,
    ShareFetchRequest,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

BROKERS_INTERVAL_MS = 5_000
TOPOLOGY = StreamsGroupHeartbeatRequest.Topology(epoch=0, subtopologies=[])
JOINING = {"topology": TOPOLOGY, "active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "rebalance_timeout_ms": 1}
TASK = StreamsGroupHeartbeatResponse.ActiveTask(subtopology_id="0", partitions=[0])
BOTH = pytest.mark.parametrize("protocol", [GroupProtocol.SHARE, GroupProtocol.STREAMS])


class Member:
    """A member of group `g` behind a gateway, and the coordinator's end of its connection."""

    def __init__(self, gateway: Gateway, protocol: GroupProtocol, member_id: str = "m1") -> None:
        self.gateway = gateway
        self.protocol = protocol
        self.member_id = member_id
        self.to_client: list[bytes] = []
        self.to_broker: list[bytes] = []
        self.relay = gateway.open(
            "host", lambda data: self.to_client.append(bytes(data)), lambda data: self.to_broker.append(bytes(data))
        )
        self.sent = 0
        named = ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="1")
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
        kind: type[Request] = ShareGroupHeartbeatRequest
        joining: dict[str, object] = {"subscribed_topic_names": ["t"]}
        if self.protocol is GroupProtocol.STREAMS:
            kind, joining = StreamsGroupHeartbeatRequest, JOINING
        fields |= joining if epoch == 0 else {}
        message = kind(group_id="g", member_id=self.member_id, member_epoch=epoch, **fields)
        return self.send(message, 1, now_ms)

    def answered(self, now_ms: int, epoch: int = 1, error: ErrorCode = ErrorCode.NONE, **fields: object) -> int:
        """Answer the last heartbeat; return the interval that the client gets."""
        kind = ShareGroupHeartbeatResponse if self.protocol is GroupProtocol.SHARE else StreamsGroupHeartbeatResponse
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
        """Join and send heartbeats until one is held; return when, or -1 where none is."""
        self.heartbeat(0, 0)
        self.answered(1)
        for now_ms in range(1_000, 20_000, 1_000):
            if not self.heartbeat(1, now_ms):
                return now_ms
            self.answered(now_ms + 1)
        return -1


def gateway(policies: PolicyTable = EVERYTHING_PARKED) -> Gateway:
    return Gateway(GroupSettings(), lambda _shard, _event, _now_ms: None, policies=policies)


@BOTH
def test_a_steady_heartbeat_is_held_no_longer_than_its_sender_can_wait(protocol: GroupProtocol) -> None:
    parking = gateway()
    member = Member(parking, protocol)
    now_ms = member.steady()
    assert parking.parked_heartbeats(protocol) == 1
    parking.tick(now_ms + int(0.9 * BROKERS_INTERVAL_MS))
    assert parking.parked_heartbeats(protocol) == 0
    assert member.answered(now_ms + BROKERS_INTERVAL_MS) < BROKERS_INTERVAL_MS
    assert parking.policies.counters.updates[protocol] == 0


@BOTH
def test_a_member_that_joins_lets_the_heartbeats_of_the_others_go_on(protocol: GroupProtocol) -> None:
    parking = gateway()
    member, other = Member(parking, protocol), Member(parking, protocol, "m2")
    now_ms = member.steady()
    assert other.heartbeat(0, now_ms + 20)
    assert parking.parked_heartbeats(protocol) == 1
    parking.tick(now_ms + 24)
    assert parking.parked_heartbeats(protocol) == 0
    assert parking.policies.counters.updates[protocol] == 1


@BOTH
def test_a_newer_epoch_lets_the_heartbeats_of_the_others_go_on(protocol: GroupProtocol) -> None:
    parking = gateway()
    member, other = Member(parking, protocol), Member(parking, protocol, "m2")
    now_ms = member.steady()
    assert other.heartbeat(3, now_ms + 20)
    other.answered(now_ms + 25, epoch=7)
    assert parking.parked_heartbeats(protocol) == 1
    parking.tick(now_ms + 29)
    assert parking.parked_heartbeats(protocol) == 0


@BOTH
def test_a_heartbeat_of_another_protocol_has_its_own_policy(protocol: GroupProtocol) -> None:
    consumer_only = PolicyTable((Policy(protocol="consumer", treatment=Treatment.PARK),))
    assert Member(gateway(consumer_only), protocol).steady() == -1
    assert Member(gateway(PolicyTable((Policy(protocol=protocol, treatment=Treatment.PARK),))), protocol).steady() > 0


def test_nothing_is_held_on_a_connection_that_has_carried_a_share_fetch() -> None:
    member = Member(gateway(), GroupProtocol.SHARE)
    member.send(ShareFetchRequest(group_id="g", member_id="m1"), 1, 0)
    assert member.steady() == -1


@pytest.mark.parametrize("change", [{"active_tasks": []}, {"shutdown_application": True}, {"process_id": "p"}])
def test_a_streams_heartbeat_that_says_something_is_not_held(change: dict[str, object]) -> None:
    member = Member(gateway(), GroupProtocol.STREAMS)
    now_ms = member.steady()
    member.gateway.tick(now_ms + 4_999)
    member.answered(now_ms + 5_000)
    assert member.heartbeat(1, now_ms + 6_000, **change)


def test_a_streams_member_that_has_tasks_to_acknowledge_is_not_held() -> None:
    member = Member(gateway(), GroupProtocol.STREAMS)
    now_ms = member.steady()
    member.gateway.tick(now_ms + 4_999)
    member.answered(now_ms + 5_000, epoch=2, active_tasks=[TASK])
    assert member.heartbeat(2, now_ms + 5_100)


@BOTH
def test_a_refused_and_a_silent_member_are_forgotten(protocol: GroupProtocol) -> None:
    parking = gateway()
    member, refused = Member(parking, protocol), Member(parking, protocol, "m2")
    now_ms = member.steady()
    refused.heartbeat(0, now_ms)
    refused.answered(now_ms, error=ErrorCode.GROUP_MAX_SIZE_REACHED)
    parking.tick(now_ms + 10_000)
    member.relay.closed(now_ms + 10_000, is_by_client=True)
    for passed_ms in range(SENDER_FORGOTTEN_MS, 9 * SENDER_FORGOTTEN_MS, SENDER_FORGOTTEN_MS):
        parking.tick(now_ms + passed_ms)
    assert parking.next_deadline_ms() is None
