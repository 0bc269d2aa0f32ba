"""What policies change in the traffic of a connection: which heartbeats of the consumer protocol are held."""

from __future__ import annotations

import logging

import pytest
from tests.unit.wire.responses import encode_response

from kohort.gateway.gateway import Gateway, GatewayLimits
from kohort.gateway.policies.policies import EVERYTHING_PARKED, OBSERVED, GroupProtocol, Policy, PolicyTable, Treatment
from kohort.group.coordinator_settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.wire.frames import decode_response, encode_request
from kohort.wire.message import Message
from kohort.wire.messages import (
    ApiVersionsRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)

BROKERS_INTERVAL_MS = 5_000
OFF = PolicyTable((Policy(treatment=Treatment.OFF),))


class Member:
    """A member of group `g` behind a gateway, and the coordinator's end of its connection."""

    def __init__(self, gateway: Gateway, member_id: str = "m1", software: str = "apache-kafka-java") -> None:
        self.gateway = gateway
        self.member_id = member_id
        self.to_client: list[bytes] = []
        self.to_broker: list[bytes] = []
        self.relay = gateway.open(
            "host", lambda data: self.to_client.append(bytes(data)), lambda data: self.to_broker.append(bytes(data))
        )
        self.sent = 0
        named = ApiVersionsRequest(client_software_name=software, client_software_version="1")
        self.send(named, 3, 0)

    def send(self, message: Message, version: int, now_ms: int) -> None:
        self.sent += 1
        self.gateway.tick(now_ms)
        self.relay.from_client(encode_request(message, version, self.sent, "c1"), now_ms)

    def heartbeat(self, epoch: int, now_ms: int) -> bool:
        """Send a heartbeat; return whether the coordinator has it."""
        before = len(self.to_broker)
        joining = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
        fields = joining if epoch == 0 else {}
        message = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=self.member_id,
            member_epoch=epoch,
            **fields,  # type: ignore[arg-type]
        )
        self.send(message, 1, now_ms)
        return len(self.to_broker) > before

    def answered(self, now_ms: int, epoch: int = 1, error: ErrorCode = ErrorCode.NONE) -> int:
        """Answer the last heartbeat; return the interval that the client gets."""
        answer = ConsumerGroupHeartbeatResponse(
            error_code=error,
            member_id=self.member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=BROKERS_INTERVAL_MS,
            assignment=None,
        )
        self.relay.from_broker(b"".join(encode_response(answer, 1, self.sent)), now_ms)
        _, message = decode_response(ConsumerGroupHeartbeatResponse, 1, self.to_client[-1][4:])
        return message.heartbeat_interval_ms

    def steady(self) -> int:
        """Join and send heartbeats until one is held; return when, or -1 where none is."""
        self.heartbeat(0, 0)
        self.answered(1)
        for now_ms in range(1_000, 20_000, 1_000):
            if not self.heartbeat(1, now_ms):
                return now_ms
            self.answered(now_ms + 1)
        return -1


def gateway(policies: PolicyTable) -> Gateway:
    return Gateway(
        GroupSettings(),
        lambda _shard, _event, _now_ms: None,
        policies=policies,
        limits=GatewayLimits(fallback_ms=60_000),
    )


def test_a_heartbeat_is_held_where_the_policy_parks() -> None:
    parking = gateway(EVERYTHING_PARKED)
    member = Member(parking)
    assert member.steady() > 0
    assert parking.parked_heartbeats(GroupProtocol.CONSUMER) == 1
    assert parking.policies.counters.heartbeats[GroupProtocol.CONSUMER] == 1


@pytest.mark.parametrize(("policies", "groups"), [(OBSERVED, 1), (OFF, 0)])
def test_nothing_is_held_or_changed_without_parking(policies: PolicyTable, groups: int) -> None:
    observing = gateway(policies)
    member = Member(observing)
    assert member.steady() == -1
    assert member.heartbeat(1, 30_000)
    assert member.answered(30_001) == BROKERS_INTERVAL_MS
    assert len(observing.groups.shard.groups) == groups


def test_a_client_without_a_name_is_observed_beside_one_that_is_parked() -> None:
    parking = gateway(EVERYTHING_PARKED)
    assert Member(parking, "m1", software="").steady() == -1
    assert Member(parking, "m2").steady() > 0


def test_nothing_is_held_that_could_arrive_when_its_sender_is_no_longer_authenticated() -> None:
    member = Member(gateway(EVERYTHING_PARKED))
    now_ms = member.steady()
    member.relay.release(now_ms)
    member.answered(now_ms + 1)

    def authenticate(lifetime_ms: int) -> None:
        member.send(SaslAuthenticateRequest(auth_bytes=b"x"), 2, now_ms + 2)
        answer = SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)
        member.relay.from_broker(b"".join(encode_response(answer, 2, member.sent)), now_ms + 2)

    authenticate(3_000)
    assert member.heartbeat(1, now_ms + 1_000)
    member.answered(now_ms + 1_001)
    authenticate(600_000)
    assert not member.heartbeat(1, now_ms + 2_000)


def test_what_is_held_passes_when_the_gateway_drains_and_nothing_is_held_any_more() -> None:
    parking = gateway(EVERYTHING_PARKED)
    member = Member(parking)
    now_ms = member.steady()
    before = len(member.to_broker)
    parking.policies.stop_parking()
    member.relay.release(now_ms)
    assert len(member.to_broker) == before + 1
    assert not member.relay.is_idle
    assert member.answered(now_ms + 1) == BROKERS_INTERVAL_MS
    assert member.relay.is_idle
    assert member.heartbeat(1, now_ms + 1_000)


def test_a_client_that_gives_its_connection_up_brings_its_group_back_to_observing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    parking = gateway(EVERYTHING_PARKED)
    member = Member(parking)
    now_ms = member.steady()
    member.relay.closed(now_ms + 500, is_by_client=True)
    again = Member(parking)
    with caplog.at_level(logging.WARNING, "kohort.gateway"):
        assert again.heartbeat(1, now_ms + 600)
    assert caplog.messages == [
        "group g is only observed for 60 s: member m1 abandoned its connection while its heartbeat was parked"
    ]
    assert again.answered(now_ms + 601) == BROKERS_INTERVAL_MS
    assert again.heartbeat(1, now_ms + 1_600)
    assert parking.policies.counters.fallbacks == 1


def test_a_connection_that_the_broker_ends_is_no_harm() -> None:
    parking = gateway(EVERYTHING_PARKED)
    member = Member(parking)
    now_ms = member.steady()
    member.relay.closed(now_ms + 500, is_by_client=False)
    Member(parking).heartbeat(1, now_ms + 600)
    assert parking.policies.counters.fallbacks == 0


def test_a_member_that_is_evicted_while_its_heartbeat_is_held_brings_its_group_back() -> None:
    parking = gateway(EVERYTHING_PARKED)
    member = Member(parking)
    now_ms = member.steady()
    member.relay.release(now_ms + 900)
    member.answered(now_ms + 901, error=ErrorCode.UNKNOWN_MEMBER_ID)
    assert parking.policies.fallbacks.is_fallen("g", now_ms + 901)
