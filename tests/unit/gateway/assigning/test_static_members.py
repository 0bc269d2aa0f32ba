"""Clients without a group.instance.id are static members by their client id, and a restart of one is no round."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.unit.wire.responses import encode_response

from kohort.gateway.assigning.static_members import SHARED_MS
from kohort.gateway.gateway import Gateway
from kohort.gateway.policies.policies import Policy, PolicyTable, Treatment
from kohort.group.commands import Leave, Leaving
from kohort.group.coordinator_settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription
from kohort.wire.apis import request_class
from kohort.wire.codec import decode
from kohort.wire.consumer_protocol import encode_subscription
from kohort.wire.frames import decode_request_header, decode_response, encode_request
from kohort.wire.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

GROUP, SESSION_MS, DELAY_MS = "billing", 45_000, 20_000
RANGE = JoinGroupRequest.Protocol(name="range", metadata=encode_subscription(Subscription(["t"])))
BY_CLIENT_ID = Policy(treatment=Treatment.OBSERVE, static_members="client_id", leave_delay_ms=DELAY_MS)


class Scene:
    """A gateway, and the LeaveGroups that it sends itself."""

    def __init__(self, *policies: Policy) -> None:
        self.left: list[Leave] = []
        table = PolicyTable(policies or (BY_CLIENT_ID,))
        self.gateway = Gateway(GroupSettings(), lambda *_: None, policies=table, leave=self.left.append)


class Client:
    """A client's connection; its broker is this object too."""

    def __init__(self, scene: Scene, client_id: str = "pod-0") -> None:
        self.gateway, self.client_id = scene.gateway, client_id
        self.member_id, self.number = "", 0
        self.to_broker: list[bytes] = []
        self.to_client: list[bytes] = []
        self.relay = scene.gateway.open(
            "192.0.2.1",
            lambda data: self.to_client.append(bytes(data)),
            lambda data: self.to_broker.append(bytes(data)),
        )

    def send(self, message: Any, version: int, now_ms: int = 0) -> Any:
        """Send a request, and return it as it reaches the broker."""
        self.number += 1
        self.gateway.tick(now_ms)
        self.relay.from_client(encode_request(message, version, self.number, self.client_id), now_ms)
        body = memoryview(self.to_broker[-1])[4:]
        header, position = decode_request_header(body)
        return decode(request_class(header.api_key), header.api_version, body, position)[0]

    def get(self, answer: Any, version: int, now_ms: int = 0) -> Any:
        """Answer the last request, and return what the client gets."""
        self.relay.from_broker(b"".join(encode_response(answer, version, self.number)), now_ms)
        return decode_response(type(answer), version, memoryview(self.to_client[-1])[4:])[1]

    def join(self, now_ms: int = 0, version: int = 9, protocol_type: str = "consumer") -> str | None:
        """Send JoinGroup, and return the instance id that reaches the broker."""
        request = JoinGroupRequest(group_id=GROUP, member_id=self.member_id, protocol_type=protocol_type)
        request.session_timeout_ms, request.rebalance_timeout_ms = SESSION_MS, 60_000
        request.protocols = [RANGE]
        found: str | None = self.send(request, version, now_ms).group_instance_id
        return found

    def joined(self, member_id: str, now_ms: int = 0) -> None:
        """Let the member be in generation 1, alone."""
        self.member_id = member_id
        answer = JoinGroupResponse(generation_id=1, protocol_type="consumer", protocol_name="range", leader=member_id)
        answer.member_id = member_id
        answer.members = [JoinGroupResponse.Member(member_id=member_id, metadata=RANGE.metadata)]
        self.get(answer, 9, now_ms)
        sync = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id=member_id)
        sync.protocol_type, sync.protocol_name = "consumer", "range"
        self.send(sync, 5, now_ms)
        self.get(SyncGroupResponse(assignment=b"", protocol_type="consumer", protocol_name="range"), 5, now_ms)

    def leave(self, now_ms: int, version: int = 5, error: ErrorCode = ErrorCode.NONE) -> tuple[list[str], Any]:
        """Send LeaveGroup, and return the members that it names at the broker, and what the client gets."""
        leaving = LeaveGroupRequest.Member(member_id=self.member_id, reason="closes")
        request = LeaveGroupRequest(group_id=GROUP, member_id=self.member_id, members=[leaving])
        passed = self.send(request, version, now_ms)
        named = [each.member_id for each in passed.members] if version >= 3 else [passed.member_id]
        answer = LeaveGroupResponse(error_code=error)
        if version < 3 and not error and not named[0]:
            answer.error_code = ErrorCode.UNKNOWN_MEMBER_ID
        answer.members = [
            LeaveGroupResponse.Member(
                member_id=name, group_instance_id=None, error_code=0 if name else ErrorCode.UNKNOWN_MEMBER_ID
            )
            for name in named
        ]
        return named, self.get(answer, version, now_ms)


def static(scene: Scene, client_id: str = "pod-0", now_ms: int = 0) -> Client:
    client = Client(scene, client_id)
    assert client.join(now_ms) == f"static-{client_id}"
    client.joined(f"static-{client_id}-1", now_ms)
    return client


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (SyncGroupRequest, 3),
        (SyncGroupRequest, 5),
        (HeartbeatRequest, 3),
        (HeartbeatRequest, 4),
        (OffsetCommitRequest, 7),
        (OffsetCommitRequest, 9),
    ],
)
def test_requests_of_a_member_have_the_instance_id_and_nothing_else_changes(request_: Any, version: int) -> None:
    client = static(Scene())
    request = request_(group_id=GROUP, member_id=client.member_id)
    if version == 5:
        request.protocol_type, request.protocol_name = "consumer", "range"
    passed = client.send(request, version)
    assert passed.group_instance_id == "static-pod-0"
    passed.group_instance_id = None
    assert passed == request


@pytest.mark.parametrize("policy", [Policy(treatment=Treatment.PARK), Policy(treatment=Treatment.OBSERVE)])
def test_without_the_column_nothing_changes(policy: Policy) -> None:
    assert Client(Scene(policy)).join() is None


def test_software_that_is_not_parked_is_static_too() -> None:
    assert Client(Scene(Policy(treatment=Treatment.PARK, static_members="client_id"))).join() == "static-pod-0"


def test_members_that_were_dynamic_before_stay_so_until_they_join_anew() -> None:
    client = Client(Scene())
    client.member_id = "pod-0-7f3b"
    assert client.join() is None
    request = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=client.member_id)
    assert client.send(request, 4).group_instance_id is None
    client.member_id = ""
    assert client.join() == "static-pod-0"


def test_an_instance_id_of_the_client_stays() -> None:
    request = JoinGroupRequest(group_id=GROUP, group_instance_id="mine", protocol_type="consumer", protocols=[RANGE])
    assert Client(Scene()).send(request, 9).group_instance_id == "mine"


@pytest.mark.parametrize(
    ("client_id", "version", "protocol_type", "why"),
    [
        ("pod-0", 4, "consumer", "version 4 of JoinGroupRequest, and 5 is the first with an instance id"),
        ("", 9, "consumer", "its client id has other characters"),
        ("é/ü", 9, "consumer", "its client id has other characters"),
        ("x" * 243, 9, "consumer", "its client id has other characters"),
        ("connect-1", 9, "connect", "of the type connect"),
    ],
)
def test_clients_that_cannot_be_static_stay_dynamic_with_one_line_in_the_log(
    client_id: str, version: int, protocol_type: str, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(Scene(), client_id)
    for _ in range(3):
        assert client.join(version=version, protocol_type=protocol_type) is None
    assert [why in record.message for record in caplog.records] == [True]


@pytest.mark.parametrize("version", [0, 2, 3, 5])
def test_a_leave_is_delayed_and_sent_when_its_client_does_not_come_back(version: int) -> None:
    scene = Scene()
    client = static(scene)
    named, got = client.leave(1_000, version)
    assert named == [""], "the coordinator checks who sends it, and no member leaves"
    assert got.error_code == ErrorCode.NONE
    if version >= 3:
        assert [(each.member_id, each.group_instance_id, each.error_code) for each in got.members] == [
            ("static-pod-0-1", None, 0)
        ]
    client.relay.closed(1_001, is_by_client=True)
    scene.gateway.tick(1_000 + DELAY_MS - 1)
    assert scene.left == []
    scene.gateway.tick(1_000 + DELAY_MS)
    reason = "closes" if version == 5 else ""
    assert scene.left == [Leave(GROUP, (Leaving("static-pod-0-1", "static-pod-0", reason),))]


def test_a_client_that_is_back_in_time_does_not_leave(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    scene = Scene()
    client = static(scene)
    client.leave(1_000)
    client.relay.closed(1_001, is_by_client=True)
    assert Client(scene).join(4_000) == "static-pod-0"
    scene.gateway.tick(100_000)
    assert scene.left == []
    assert "client pod-0 is back after 3.0 s, with its partitions" in caplog.text


def test_a_round_does_not_wait_for_a_client_that_is_away() -> None:
    scene = Scene()
    client = static(scene)
    client.leave(1_000)
    client.relay.closed(1_001, is_by_client=True)
    Client(scene, "pod-1").join(2_000)
    assert [leave.members[0].member_id for leave in scene.left] == ["static-pod-0-1"]


def test_a_leave_that_the_coordinator_refuses_is_refused() -> None:
    scene = Scene()
    client = static(scene)
    _, got = client.leave(1_000, error=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert got.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    scene.gateway.tick(100_000)
    assert scene.left == []


def test_a_leave_passes_from_another_connection_and_while_a_round_runs() -> None:
    scene = Scene()
    client, other = static(scene), Client(scene)
    other.member_id = client.member_id
    assert other.leave(1_000)[0] == ["static-pod-0-1"]
    client = static(Scene())
    client.join(1_000)
    assert client.leave(1_001)[0] == ["static-pod-0-1"]


def test_clients_that_share_a_client_id_stay_dynamic(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    first, second = static(scene), Client(scene)
    assert [second.join(1_000), second.join(2_000)] == [None, None]
    assert ["two clients have the client id pod-0" in record.message for record in caplog.records] == [True]
    assert first.join(3_000) == "static-pod-0", "who is static already remains a member"
    assert Client(scene, "pod-1").join(4_000) == "static-pod-1"
    assert first.leave(5_000)[0] == ["static-pod-0-1"], "no leave is delayed of a client that is not alone"
    assert Client(scene).join(2_000 + SHARED_MS) == "static-pod-0"


@pytest.mark.parametrize("is_open", [False, True])
def test_a_client_that_was_killed_is_followed_by_its_successor(is_open: bool) -> None:
    scene = Scene()
    client = static(scene)
    if not is_open:
        client.relay.closed(1, is_by_client=True)
    assert Client(scene).join(SESSION_MS if is_open else 2) == "static-pod-0"


@pytest.mark.parametrize(
    ("request_", "answer", "version"),
    [
        (JoinGroupRequest, JoinGroupResponse, 5),
        (SyncGroupRequest, SyncGroupResponse, 3),
        (HeartbeatRequest, HeartbeatResponse, 4),
        (OffsetCommitRequest, OffsetCommitResponse, 8),
    ],
)
def test_a_client_that_is_fenced_learns_that_it_is_no_member(
    request_: Any, answer: Any, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    scene = Scene()
    client = static(scene)
    request, refused = request_(group_id=GROUP, member_id=client.member_id), answer()
    if request_ is JoinGroupRequest:
        request.protocol_type, request.protocols = "consumer", [RANGE]
    if answer is OffsetCommitResponse:
        partition = OffsetCommitResponse.Topic.Partition(error_code=ErrorCode.FENCED_INSTANCE_ID)
        refused.topics = [OffsetCommitResponse.Topic(name="t", partitions=[partition])]
    else:
        refused.error_code = ErrorCode.FENCED_INSTANCE_ID
    client.send(request, version, 1_000)
    got = client.get(refused, version, 1_000)
    error = got.topics[0].partitions[0].error_code if answer is OffsetCommitResponse else got.error_code
    assert error == ErrorCode.UNKNOWN_MEMBER_ID
    assert "two clients have the client id pod-0" in caplog.text
    client.member_id = ""
    assert client.join(2_000) is None, "they would fence each other for ever"


def test_a_client_may_use_several_connections(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    joining, beating = static(scene), Client(scene)
    beating.member_id = joining.member_id
    request = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=joining.member_id)
    beating.send(request, 4, 1_000)
    beating.get(HeartbeatResponse(), 4, 1_000)
    joining.member_id = ""
    assert joining.join(2_000) == "static-pod-0"
    joining.joined("static-pod-0-2", 2_000)
    assert not caplog.records
    beating.member_id = joining.member_id
    request.member_id = joining.member_id
    beating.send(request, 4, 3_000)
    beating.get(HeartbeatResponse(), 4, 3_000)
    assert beating.leave(4_000)[0] == [""]


def test_a_client_is_known_again_after_a_restart_of_the_gateway() -> None:
    scene = Scene()
    client = Client(scene)
    client.member_id = "static-pod-0-1"
    request = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=client.member_id)
    assert client.send(request, 4, 0).group_instance_id == "static-pod-0"
    client.get(HeartbeatResponse(), 4, 0)
    assert Client(scene).join(1_000) is None, "another client has its client id"
