"""Members of an eager group learn of a round together, however the broker's answers come."""

from __future__ import annotations

from typing import Any

from tests.unit.wire.responses import encode_response

from kohort.gateway.gateway import Gateway
from kohort.gateway.policies.policies import EVERYTHING_PARKED, GroupProtocol, Policy, PolicyTable, Treatment
from kohort.group.coordinator_settings import GroupSettings
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription
from kohort.wire.consumer_protocol import encode_subscription
from kohort.wire.frames import decode_response, encode_request
from kohort.wire.message import Message, Response
from kohort.wire.messages import (
    ApiVersionsRequest,
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

SESSION_MS = 10_000
RANGE = JoinGroupRequest.Protocol(name="range", metadata=encode_subscription(Subscription(["t"])))


class Member:
    """A member of group `g` behind a gateway, and the broker's end of its connection."""

    def __init__(self, gateway: Gateway, member_id: str, software: str) -> None:
        self.gateway = gateway
        self.id = member_id
        self.to_client: list[bytes] = []
        self.relay = gateway.open(member_id, lambda data: self.to_client.append(bytes(data)), lambda _: None)
        self.sent = 0
        self.instance_id: str | None = None
        if software:
            self.send(ApiVersionsRequest(client_software_name=software, client_software_version="1"), 3, 0)

    def send(self, message: Message, version: int, now_ms: int) -> None:
        self.sent += 1
        self.gateway.tick(now_ms)
        self.relay.from_client(encode_request(message, version, self.sent, "c1"), now_ms)

    def answered(self, answer: Response, version: int, now_ms: int) -> None:
        self.relay.from_broker(b"".join(encode_response(answer, version, self.sent)), now_ms)

    def join(self, now_ms: int) -> None:
        request = JoinGroupRequest(group_id="g", member_id=self.id, protocol_type="consumer", protocols=[RANGE])
        request.session_timeout_ms, request.rebalance_timeout_ms = SESSION_MS, 300_000
        self.send(request, 5, now_ms)

    def heartbeat(self, now_ms: int, error: ErrorCode = ErrorCode.NONE, *, answered_after_ms: int = 0) -> None:
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id=self.id)
        request.group_instance_id = self.instance_id
        self.send(request, 3, now_ms)
        self.answered(HeartbeatResponse(error_code=error), 3, now_ms + answered_after_ms)

    def commit(self, now_ms: int) -> None:
        request = OffsetCommitRequest(group_id="g", member_id=self.id, generation_id_or_member_epoch=1)
        self.send(request, 2, now_ms)
        self.answered(OffsetCommitResponse(), 2, now_ms)

    def errors(self) -> list[int]:
        """Return the errors of the answers to heartbeats that the client got since the last call."""
        frames, self.to_client[:] = list(self.to_client), []
        return [decode_response(HeartbeatResponse, 3, frame[4:])[1].error_code for frame in frames]


def group(
    *names: str,
    software: str = "apache-kafka-java",
    policies: PolicyTable = EVERYTHING_PARKED,
    gateway: Gateway | None = None,
) -> dict[str, Member]:
    """Return the members of a group that is stable at 0 ms, the first of which leads it."""
    gateway = gateway or Gateway(GroupSettings(), lambda *_: None, policies=policies)
    members = {name: Member(gateway, name, software) for name in names}
    everyone: list[Any] = [JoinGroupResponse.Member(member_id=name, metadata=RANGE.metadata) for name in names]
    for member in members.values():
        member.join(0)
    for name, member in members.items():
        listed = everyone if name == names[0] else []
        joined = JoinGroupResponse(generation_id=1, protocol_name="range", leader=names[0], member_id=name)
        joined.members = listed
        member.answered(joined, 5, 0)
    for member in members.values():
        member.send(SyncGroupRequest(group_id="g", generation_id=1, member_id=member.id), 3, 0)
        member.answered(SyncGroupResponse(assignment=b""), 3, 0)
        member.to_client.clear()
    return members


def leave(member: Member, now_ms: int) -> None:
    member.send(LeaveGroupRequest(group_id="g", member_id=member.id), 2, now_ms)
    member.answered(LeaveGroupResponse(), 2, now_ms)


def test_an_answer_that_says_so_waits_until_every_member_can_learn_of_a_round() -> None:
    members = group("a", "b", "c")
    leave(members["c"], 1_000)
    members["a"].heartbeat(3_000, ErrorCode.REBALANCE_IN_PROGRESS)
    assert members["a"].errors() == []
    members["b"].heartbeat(3_100, ErrorCode.REBALANCE_IN_PROGRESS)
    assert members["b"].errors() == members["a"].errors() == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_member_that_cannot_wait_so_long_goes_on_as_before() -> None:
    members = group("a", "b", "c")
    leave(members["c"], 1_000)
    members["a"].heartbeat(3_000, ErrorCode.REBALANCE_IN_PROGRESS)
    members["a"].gateway.tick(8_000)
    assert members["a"].errors() == [ErrorCode.NONE]


def test_a_member_that_is_silent_for_its_session_is_not_waited_for() -> None:
    members = group("a", "b", "c")
    leave(members["c"], 1_000)
    for now_ms in range(3_000, SESSION_MS, 3_000):
        members["a"].heartbeat(now_ms, ErrorCode.REBALANCE_IN_PROGRESS)
    assert ErrorCode.REBALANCE_IN_PROGRESS not in members["a"].errors()
    members["a"].gateway.tick(SESSION_MS)
    assert members["a"].errors() == [ErrorCode.REBALANCE_IN_PROGRESS]


def committing_by_timer(commit_hold_ms: int) -> Member:
    """Return a member that has committed three times by its timer, each 5 s after the last one."""
    holding = PolicyTable((Policy(treatment=Treatment.PARK, commit_hold_ms=commit_hold_ms),))
    member = group("a", "b", policies=holding)["a"]
    for now_ms in range(2_000, 15_001, 1_000):
        if now_ms % 3_000 == 0:
            member.heartbeat(now_ms)
        if now_ms % 5_000 == 0:
            member.commit(now_ms)
    member.heartbeat(18_000)
    member.to_client.clear()
    return member


def test_the_answer_to_a_commit_of_a_timer_waits_where_the_policy_has_it() -> None:
    member = committing_by_timer(1_000)
    member.commit(20_000)
    assert not member.to_client
    member.gateway.tick(21_000)
    assert len(member.to_client) == 2
    at_once = committing_by_timer(0)
    at_once.commit(20_000)
    assert len(at_once.to_client) == 2


def test_the_commit_of_a_member_that_closes_is_answered_at_once() -> None:
    for first_ms in (400, 3_500):  # its first one at all, too
        member = group("a", "b", policies=PolicyTable((Policy(treatment=Treatment.PARK, commit_hold_ms=5_000),)))["a"]
        member.heartbeat(3_000)
        member.to_client.clear()
        member.commit(3_000 + first_ms)
        assert len(member.to_client) == 2
    member = committing_by_timer(5_000)
    member.commit(18_300)
    assert len(member.to_client) == 2


def test_a_client_that_names_its_software_on_another_connection_is_parked_by_it() -> None:
    for named_at, is_parked in (("c", True), ("elsewhere", False)):
        gateway = Gateway(GroupSettings(), lambda *_: None, policies=EVERYTHING_PARKED)
        member = group("c", gateway=gateway, software="")["c"]
        other = gateway.open(named_at, lambda _: None, lambda _: None)
        versions = ApiVersionsRequest(client_software_name="platformatic-kafka", client_software_version="1")
        other.from_client(encode_request(versions, 3, 1, "c1"), 0)
        for now_ms in (3_000, 6_000):
            member.heartbeat(now_ms)
        assert bool(gateway.parked_heartbeats(GroupProtocol.CLASSIC)) is is_parked


def test_a_member_of_kgo_that_commits_by_itself_keeps_the_times_of_its_heartbeats() -> None:
    member = group("a", "b", software="kgo")["a"]
    for now_ms in range(1_000, 16_000, 5_000):
        member.commit(now_ms)
        member.to_client.clear()
        member.heartbeat(now_ms + 2_000)
        assert member.errors() == [ErrorCode.NONE]


def test_a_member_of_kgo_that_does_not_commit_learns_of_a_round_at_once() -> None:
    members = group("a", "b", software="kgo")
    for now_ms in (3_000, 6_000):
        members["a"].heartbeat(now_ms)
    assert len(members["a"].errors()) == 1
    leave(members["b"], 7_000)
    members["a"].gateway.tick(7_010)
    members["a"].answered(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 3, 7_020)
    assert members["a"].errors() == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_static_java_member_closes_without_waiting_for_a_held_heartbeat() -> None:
    member = group("a", "b")["a"]
    member.instance_id = "i"
    for now_ms in (3_000, 6_000, 9_000):
        member.heartbeat(now_ms)
        assert member.errors() == [ErrorCode.NONE]


def test_a_heartbeat_that_the_coordinator_holds_is_not_held_again() -> None:
    """Its session would be over before the next one, an interval after the answer: seed 304701."""
    member = group("a")["a"]
    member.heartbeat(3_000)
    assert member.errors() == []
    member.heartbeat(6_000)
    assert member.errors() == [ErrorCode.NONE], "the first one is answered, the second one held"
    member.heartbeat(9_000, answered_after_ms=2_000)
    assert member.errors() == [ErrorCode.NONE, ErrorCode.NONE]
