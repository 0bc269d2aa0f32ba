"""Clients that send requests under names of members and groups that do not exist: what they leave in a gateway."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.kept_memory import bytes_kept_by
from tests.unit.wire.responses import encode_response

from kohort.gateway.gateway import Gateway
from kohort.gateway.observing import member_locations
from kohort.gateway.peers.instance_messages import Hello, LiveGroup, LiveMembers, encode_message
from kohort.gateway.policies.policies import EVERYTHING_PARKED
from kohort.group.coordinator_settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.wire.frames import encode_request
from kohort.wire.messages import (
    ApiVersionsRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
METADATA = JoinGroupRequest.Protocol(name="range", metadata=b"")


def exchanges(group: str, member: str) -> list[tuple[Any, int, Any]]:
    """Return requests of an unknown member, with their answers."""
    join = JoinGroupRequest(
        group_id=group,
        member_id=member,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[METADATA],
    )
    refused = ConsumerGroupHeartbeatResponse(error_code=UNKNOWN, heartbeat_interval_ms=5000)
    return [
        (join, 5, JoinGroupResponse(error_code=UNKNOWN, member_id=member)),
        (SyncGroupRequest(group_id=group, member_id=member, generation_id=1), 3, SyncGroupResponse(error_code=UNKNOWN)),
        (HeartbeatRequest(group_id=group, member_id=member, generation_id=1), 3, HeartbeatResponse(error_code=UNKNOWN)),
        (ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=3), 0, refused),
        (
            ShareGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=3),
            1,
            ShareGroupHeartbeatResponse(error_code=UNKNOWN, heartbeat_interval_ms=5000),
        ),
    ]


class UnknownSenders:
    """Clients one after the other, each on a connection of its own."""

    def __init__(self) -> None:
        self.gateway = Gateway(GroupSettings(), lambda _shard, _event, _now_ms: None, policies=EVERYTHING_PARKED)

    def come_and_go(self, group: str, member: str, now_ms: int) -> None:
        relay = self.gateway.open("host", lambda _data: None, lambda _data: None)
        named = ApiVersionsRequest(client_software_name="apache-kafka-java", client_software_version="1")
        relay.from_client(encode_request(named, 3, 0, "c1"), now_ms)
        for number, (request, version, answer) in enumerate(exchanges(group, member), 1):
            self.gateway.tick(now_ms)
            relay.from_client(encode_request(request, version, number, "c1"), now_ms)
            relay.from_broker(b"".join(encode_response(answer, version, number)), now_ms)
        relay.closed(now_ms, is_by_client=True)


def kept_by(senders: UnknownSenders, count: int, group: str, member: str) -> int:
    """Return how many bytes are left of so many of them; `{}` in the names becomes a number."""
    senders.come_and_go(group.format(0), member.format(0), 0)

    def come_and_go() -> None:
        for number in range(1, count + 1):
            senders.come_and_go(group.format(number), member.format(number), number)

    return bytes_kept_by(come_and_go)


@pytest.mark.parametrize(
    ("group", "member"),
    [("g", "{:x<32767}"), ("{:x<32767}", "m"), ("{:x<32767}", "{:x<32767}")],
    ids=["members", "groups", "both"],
)
def test_long_names_are_not_remembered(group: str, member: str) -> None:
    assert kept_by(UnknownSenders(), 50, group, member) < 10 * 32_767


def test_unknown_members_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_locations, "MOST_MEMBERS", 100)
    assert kept_by(UnknownSenders(), 2_000, "g", "m-{}") < 100_000


def test_unknown_members_are_forgotten() -> None:
    senders = UnknownSenders()
    for number in range(100):
        senders.come_and_go("g", f"m-{number}", number)
    assert len(senders.gateway.instances.locations) > 0
    senders.gateway.tick(2 * member_locations.MEMBER_FORGOTTEN_MS)
    assert len(senders.gateway.instances.locations) == 0


def test_members_that_only_a_peer_has_seen_are_forgotten() -> None:
    gateway = Gateway(GroupSettings(), lambda _shard, _event, _now_ms: None, instance_id="a")
    gateway.instances.connected("b", lambda _: None, 0)
    for message in (Hello(), LiveMembers((LiveGroup("g", 1, 1, None, ("m",)),))):
        gateway.instances.received("b", encode_message(message), 0)
    assert len(gateway.instances.locations) == 1
    gateway.tick(2 * member_locations.MEMBER_FORGOTTEN_MS)
    assert len(gateway.instances.locations) == 0
