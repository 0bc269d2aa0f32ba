"""Answers to SyncGroup that are withheld until the members that must revoke have joined again (KIP-429)."""

from __future__ import annotations

from struct import pack, unpack

from tests.unit.wire.responses import encode_response

from kohort.gateway.gateway import Gateway
from kohort.gateway.policies.policies import EVERYTHING_PARKED
from kohort.gateway.relay.relay import READ_BYTES
from kohort.model.assignment import Assignment
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
    OffsetCommitRequest,
    OffsetCommitResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)

START_MS = 100_000
RELEASED_MS = START_MS + 500
"""When the member that must revoke has joined again."""


class Member:
    """A member of a cooperative group behind a gateway, and the broker's end of its connection."""

    def __init__(self, gateway: Gateway, member_id: str, software: str = "kohort") -> None:
        self.gateway, self.id = gateway, member_id
        self.now_ms = START_MS
        self.to_client: list[bytes] = []
        self.to_broker: list[bytes] = []
        self.relay = gateway.open(
            member_id, lambda data: self.to_client.append(bytes(data)), lambda data: self.to_broker.append(bytes(data))
        )
        self.sent = 0
        self.send(ApiVersionsRequest(client_software_name=software, client_software_version="1"), 3)

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

    def commit(self, generation: int) -> None:
        self.send(OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=generation, member_id=self.id), 7)

    def synced(self, *partitions: int, error: ErrorCode = ErrorCode.NONE) -> None:
        self.answered(SyncGroupResponse(error_code=error, assignment=b"" if error else assignment(*partitions)), 3)

    def last_answer(self) -> ErrorCode | None:
        """Return the error of the SyncGroup's answer if the client has got it."""
        number, message = decode_response(SyncGroupResponse, 3, self.to_client[-1][4:])
        return ErrorCode(message.error_code) if number == self.sent else None


def assignment(*partitions: int) -> bytes:
    return encode_assignment(Assignment([TopicPartition("t", each) for each in partitions]))


def members_of_two_rounds(*owned: int, software: str = "kohort", leads: str = "") -> tuple[Member, Member]:
    """Return the leader, which must revoke, and another member, which must if it `owned` any; both have synced."""
    gateway = Gateway(group_settings(Config()), lambda *_: None, policies=EVERYTHING_PARKED)
    leader, waiting = Member(gateway, "a", leads or software), Member(gateway, "b", software)
    leader.join()
    leader.joined(1, "a")
    leader.sync(1, a=(0, 1))
    leader.synced(0, 1)
    leader.commit(1)
    leader.answered(OffsetCommitResponse(), 7)
    waiting.join(*owned)
    leader.join(0, 1)
    waiting.joined(2)
    leader.joined(2, "a", "b")
    waiting.sync(2)
    leader.sync(2, a=(0,), b=())
    return leader, waiting


def member_with_withheld_sync() -> Member:
    """Return a member that need not revoke, when the one that must has just sent its JoinGroup."""
    leader, waiting = members_of_two_rounds()
    leader.synced(0)
    waiting.synced()
    assert waiting.last_answer() is None
    leader.now_ms = RELEASED_MS
    leader.join(0)
    return waiting


def test_a_member_of_librdkafka_revokes_when_the_others_would_join_again_at_once() -> None:
    leader, waiting = members_of_two_rounds(software="librdkafka")
    leader.synced(0)
    waiting.synced()
    waiting.gateway.tick(START_MS + 999)
    assert (leader.last_answer(), waiting.last_answer()) == (None, None)
    waiting.gateway.tick(START_MS + 1_000)
    assert (leader.last_answer(), waiting.last_answer()) == (ErrorCode.NONE, None)


def has_assignment(member: Member, number: int) -> bool:
    """Whether a member's client has the answer to a request of this number."""
    return any(unpack(">i", frame[4:8]) == (number,) for frame in member.to_client)


def test_a_program_that_waits_for_its_commit_waits_for_no_later_revocation() -> None:
    leader, waiting = members_of_two_rounds(software="librdkafka", leads="apache-kafka-java")
    leader.synced(0)
    waiting.synced()
    sync = leader.sent
    assert not has_assignment(leader, sync)
    leader.now_ms = START_MS + 100
    leader.commit(2)  # no timer is as fast
    assert has_assignment(leader, sync)


def test_a_commit_that_is_answered_ahead_of_a_withheld_sync_changes_nothing() -> None:
    leader, waiting = members_of_two_rounds(software="librdkafka")
    leader.synced(0)
    waiting.synced()
    syncs = leader.sent, waiting.sent
    for later_ms in (100, 200, 300):
        waiting.now_ms = START_MS + later_ms
        waiting.commit(2)
        waiting.answered(OffsetCommitResponse(), 7)
        assert has_assignment(waiting, waiting.sent)
    assert not has_assignment(leader, syncs[0])
    assert not has_assignment(waiting, syncs[1])


def test_a_withheld_sync_is_repeated_until_the_coordinator_has_seen_the_round() -> None:
    waiting = member_with_withheld_sync()
    waiting.gateway.tick(RELEASED_MS + 3)
    assert not waiting.to_broker, "the JoinGroup that opens the round is to arrive first"
    for now_ms in (10, 40):
        waiting.gateway.tick(RELEASED_MS + now_ms)
        assert waiting.to_broker, f"the SyncGroup is sent again by {now_ms} ms"
        waiting.synced(error=ErrorCode.NONE if now_ms == 10 else ErrorCode.REBALANCE_IN_PROGRESS)
    assert waiting.last_answer() is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_gets_its_assignment_where_the_coordinator_opens_no_round() -> None:
    waiting = member_with_withheld_sync()
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
