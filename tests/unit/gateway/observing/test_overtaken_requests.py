"""Requests of two connections overtake each other on their way to the coordinator."""

from __future__ import annotations

from struct import pack

import pytest
from tests.unit.wire.responses import encode_response

from kohort.gateway.gateway import Gateway
from kohort.gateway.policies.policies import EVERYTHING_PARKED
from kohort.gateway.relay.relay import READ_BYTES
from kohort.group.classic.group import ClassicGroup, Phase
from kohort.group.commands import Heartbeat, Join, Leave, Leaving, Sync
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.events import Event, MemberRemoved, RoundOpened
from kohort.group.results import JoinedMember, JoinResult
from kohort.model.assignment import Assignment
from kohort.model.cause import CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.node.configuration.config import Config
from kohort.node.groups.settings_from_config import group_settings
from kohort.wire.consumer_protocol import encode_assignment, encode_subscription
from kohort.wire.frames import decode_response, encode_request
from kohort.wire.message import Message, Response
from kohort.wire.messages import (
    ApiVersionsRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)


class Course:
    """What a gateway derives of group `g`: its members `a`, which leads, and `b`."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.groups = Gateway(GroupSettings(), lambda _shard, event, _now_ms: self.events.append(event)).groups
        self.joins: dict[str, Join] = {}

    @property
    def group(self) -> ClassicGroup:
        group = self.groups.group("g")
        assert group is not None
        return group

    def ask_for_id(self, member_id: str) -> None:
        """A member sends JoinGroup without an id, and is answered with one (KIP-394)."""
        command = self._join("", b"")
        self.groups.join_sent(command, 0)
        self.groups.join_answered(command, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id), 0)

    def join(self, member_id: str, metadata: bytes = b"") -> None:
        self.joins[member_id] = self._join(member_id, metadata)
        self.groups.join_sent(self.joins[member_id], 0)

    def _join(self, member_id: str, metadata: bytes) -> Join:
        protocols = (("range", metadata),)
        return Join("g", member_id, None, "c", "h", 10_000, 60_000, "consumer", protocols, "", is_two_step=True)

    def joined(self, member_id: str, generation: int, *listed: str, now_ms: int = 0) -> None:
        members = tuple(JoinedMember(each, None, b"") for each in listed)
        result = JoinResult(ErrorCode.NONE, member_id, generation, "consumer", "range", "a", members)
        self.groups.join_answered(self.joins[member_id], result, now_ms)

    def sync(self, member_id: str, generation: int, error: ErrorCode = ErrorCode.NONE) -> None:
        command = Sync("g", member_id, None, generation, assignments=())
        self.groups.sync_sent(command, 0)
        self.groups.sync_answered(command, error, b"", 0)

    def causes(self) -> list[CauseKind]:
        """Return why each round was opened."""
        return [event.cause.kind for event in self.events if isinstance(event, RoundOpened)]


@pytest.fixture
def course() -> Course:
    """A group that is stable in generation 1."""
    course = Course()
    for member_id in ("a", "b"):
        course.ask_for_id(member_id)
    for member_id in ("a", "b"):
        course.join(member_id)
    course.joined("a", 1, "a", "b")
    course.joined("b", 1)
    course.sync("a", 1)
    course.sync("b", 1)
    assert course.group.phase is Phase.STABLE
    return course


def test_a_join_that_overtakes_the_one_that_opens_the_round_leaves_the_round_open(course: Course) -> None:
    course.join("a", b"less")
    course.join("b")
    course.joined("b", 1)  # the coordinator has not seen the leader's yet
    assert course.group.awaiting_join == {"a"}
    course.sync("b", 1, ErrorCode.REBALANCE_IN_PROGRESS)
    course.join("b")
    course.joined("a", 2, "a", "b")
    assert course.group.members.keys() == {"a", "b"}
    assert CauseKind.NOT_OBSERVED not in course.causes()


def test_a_predicted_round_is_none_when_every_join_is_answered_with_the_generation_before(course: Course) -> None:
    for member_id in ("a", "b"):
        course.join(member_id)
    course.joined("b", 1)
    course.joined("a", 1, "a", "b")
    assert course.group.phase is Phase.STABLE


def test_a_member_whose_join_came_after_the_generation_had_formed_opens_the_next_round() -> None:
    course = Course()
    for member_id in ("a", "b"):
        course.ask_for_id(member_id)
    for member_id in ("a", "b"):
        course.join(member_id)
    course.joined("a", 1, "a")
    assert course.group.awaiting_join == {"b"}
    course.sync("a", 1, ErrorCode.REBALANCE_IN_PROGRESS)
    course.join("a")
    course.joined("b", 2)
    course.joined("a", 2, "a", "b")
    assert course.group.members.keys() == {"a", "b"}
    assert course.causes() == [CauseKind.MEMBER_JOINED] * 2


def removals(course: Course) -> list[tuple[str, CauseKind]]:
    """Return who was removed, and why."""
    return [(each.member_id, each.cause.kind) for each in course.events if isinstance(each, MemberRemoved)]


def test_a_leave_whose_answer_is_overtaken_by_a_heartbeats_is_the_cause_of_the_round(course: Course) -> None:
    leave = Leave("g", (Leaving("b"),))
    course.groups.leave_sent(leave, 0)
    course.groups.heartbeat_answered(Heartbeat("g", "a", None, 1), ErrorCode.REBALANCE_IN_PROGRESS, 0)
    course.groups.left(leave, 0)
    assert course.causes()[1:] == [CauseKind.MEMBER_LEFT]
    assert removals(course) == [("b", CauseKind.MEMBER_LEFT)]


def test_a_leave_whose_answer_is_overtaken_by_the_generation_is_no_eviction(course: Course) -> None:
    course.join("a", b"less")
    course.groups.leave_sent(Leave("g", (Leaving("b"),)), 0)
    course.joined("a", 2, "a")
    assert removals(course) == [("b", CauseKind.MEMBER_LEFT)]


def test_a_group_whose_members_leave_together_is_empty(course: Course) -> None:
    for member_id in ("b", "a"):
        course.groups.left(Leave("g", (Leaving(member_id),)), 0)
    assert course.group.phase is Phase.EMPTY


def test_a_member_that_sends_something_after_its_leave_has_not_left(course: Course) -> None:
    course.groups.leave_sent(Leave("g", (Leaving("b"),)), 0)
    course.groups.heartbeat_sent(Heartbeat("g", "b", None, 1), 0)
    course.groups.heartbeat_answered(Heartbeat("g", "a", None, 1), ErrorCode.REBALANCE_IN_PROGRESS, 0)
    assert removals(course) == []


@pytest.mark.parametrize(
    ("now_ms", "kind"), [(100, CauseKind.NOT_OBSERVED), (60_000, CauseKind.REBALANCE_TIMEOUT)], ids=["at once", "late"]
)
def test_only_a_round_of_a_whole_rebalance_timeout_evicts(course: Course, now_ms: int, kind: CauseKind) -> None:
    course.join("a", b"less")
    course.groups.heartbeat_sent(Heartbeat("g", "b", None, 1), now_ms)
    course.joined("a", 2, "a", now_ms=now_ms)
    assert removals(course) == [("b", kind)]


START_MS = 100_000
RELEASED_MS = START_MS + 500
"""When the member that must revoke has joined again."""


class Member:
    """A member of a cooperative group behind a gateway, and the broker's end of its connection."""

    def __init__(self, gateway: Gateway, member_id: str) -> None:
        self.gateway, self.id = gateway, member_id
        self.now_ms = START_MS
        self.to_client: list[bytes] = []
        self.to_broker: list[bytes] = []
        self.relay = gateway.open(
            member_id, lambda data: self.to_client.append(bytes(data)), lambda data: self.to_broker.append(bytes(data))
        )
        self.sent = 0
        self.send(ApiVersionsRequest(client_software_name="librdkafka", client_software_version="1"), 3)

    def send(self, message: Message, version: int) -> None:
        self.sent += 1
        self.relay.from_client(encode_request(message, version, self.sent, "c1"), self.now_ms)

    def answered(self, answer: Response, version: int) -> None:
        self.to_broker.clear()
        self.relay.from_broker(b"".join(encode_response(answer, version, self.sent)), self.now_ms)

    def join(self, *owned: int) -> None:
        subscription = Subscription(["t"], owned=[TopicPartition("t", each) for each in owned])
        protocol = JoinGroupRequest.Protocol(name="cooperative-sticky", metadata=encode_subscription(subscription))
        request = JoinGroupRequest(group_id="g", member_id=self.id, protocol_type="consumer", protocols=[protocol])
        request.session_timeout_ms = request.rebalance_timeout_ms = 60_000
        self.send(request, 5)

    def joined(self, generation: int, *listed: str) -> None:
        answer = JoinGroupResponse(generation_id=generation, protocol_name="cooperative-sticky", leader="a")
        answer.member_id = self.id
        answer.members = [JoinGroupResponse.Member(member_id=each) for each in listed]
        self.answered(answer, 5)

    def sync(self, generation: int, **assigned: tuple[int, ...]) -> None:
        request = SyncGroupRequest(group_id="g", generation_id=generation, member_id=self.id)
        request.assignments = [
            SyncGroupRequest.Assignment(member_id=member_id, assignment=assignment(*partitions))
            for member_id, partitions in assigned.items()
        ]
        self.send(request, 3)

    def synced(self, *partitions: int, error: ErrorCode = ErrorCode.NONE) -> None:
        self.answered(SyncGroupResponse(error_code=error, assignment=b"" if error else assignment(*partitions)), 3)

    def last_answer(self) -> ErrorCode | None:
        """Return the error of the SyncGroup's answer if the client has got it."""
        number, message = decode_response(SyncGroupResponse, 3, self.to_client[-1][4:])
        return ErrorCode(message.error_code) if number == self.sent else None


def assignment(*partitions: int) -> bytes:
    return encode_assignment(Assignment([TopicPartition("t", each) for each in partitions]))


def members_of_two_rounds(*owned: int) -> tuple[Member, Member]:
    """Return the leader, which must revoke, and another member, which must if it `owned` any; both have synced."""
    gateway = Gateway(group_settings(Config()), lambda *_: None, policies=EVERYTHING_PARKED)
    leader, waiting = Member(gateway, "a"), Member(gateway, "b")
    leader.join()
    leader.joined(1, "a")
    leader.sync(1, a=(0, 1))
    leader.synced(0, 1)
    waiting.join(*owned)
    leader.join(0, 1)
    waiting.joined(2)
    leader.joined(2, "a", "b")
    waiting.sync(2)
    leader.sync(2, a=(0,), b=())
    return leader, waiting


def member_with_held_sync() -> Member:
    """Return a member that need not revoke, when the one that must has just sent its JoinGroup."""
    leader, waiting = members_of_two_rounds()
    leader.synced(0)
    waiting.synced()
    assert waiting.last_answer() is None
    leader.now_ms = RELEASED_MS
    leader.join(0)
    return waiting


def test_a_held_sync_is_repeated_until_the_coordinator_has_seen_the_round() -> None:
    waiting = member_with_held_sync()
    waiting.gateway.tick(RELEASED_MS + 3)
    assert not waiting.to_broker, "the JoinGroup that opens the round is to arrive first"
    for now_ms in (10, 40):
        waiting.gateway.tick(RELEASED_MS + now_ms)
        assert waiting.to_broker, f"the SyncGroup is sent again by {now_ms} ms"
        waiting.synced(error=ErrorCode.NONE if now_ms == 10 else ErrorCode.REBALANCE_IN_PROGRESS)
    assert waiting.last_answer() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_gets_its_assignment_where_the_coordinator_opens_no_round() -> None:
    waiting = member_with_held_sync()
    for now_ms in (10, 100, 1_000, 10_000):
        waiting.gateway.tick(RELEASED_MS + now_ms)
        waiting.synced()
    assert waiting.last_answer() is ErrorCode.NONE


def test_a_member_whose_assignment_comes_after_the_round_has_begun_joins_it_at_once() -> None:
    leader, waiting = members_of_two_rounds()
    leader.synced(0)
    leader.join(0)
    waiting.synced()
    waiting.gateway.tick(RELEASED_MS + 10)
    waiting.synced(error=ErrorCode.REBALANCE_IN_PROGRESS)
    assert waiting.last_answer() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_must_revoke_gets_its_assignment_also_when_the_round_has_begun() -> None:
    leader, other = members_of_two_rounds(2)
    leader.synced(0)
    leader.join(0)
    other.synced()
    assert other.last_answer() is ErrorCode.NONE


def test_a_join_whose_answer_is_not_read_awaits_none() -> None:
    gateway = Gateway(group_settings(Config()), lambda *_: None, policies=EVERYTHING_PARKED)
    leader, other = Member(gateway, "a"), Member(gateway, "b")
    leader.join()
    leader.joined(1, "a")
    leader.sync(1, a=(0,))
    leader.synced(0)
    other.join()
    leader.join(0)
    other.joined(2)
    leader.joined(2, "a", "b")
    leader.join()
    other.join()
    other.relay.from_broker(pack(">ii", READ_BYTES + 1, other.sent), START_MS)
    leader.joined(3, "a")
    group = gateway.groups.group("g")
    assert group is not None
    assert group.members.keys() == {"a"}, "the leader's answer lists who is in the group"
