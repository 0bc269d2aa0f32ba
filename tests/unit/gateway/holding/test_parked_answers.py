"""Members of an eager group learn of a round together, however the broker's answers come."""

from __future__ import annotations

import pytest
from tests.unit.gateway import epoch_members
from tests.unit.gateway.classic_members import SESSION_MS, Member, group, leave
from tests.unit.wire.responses import encode_response

from kohort.gateway.gateway import Gateway
from kohort.gateway.policies.policies import EVERYTHING_PARKED, GroupProtocol
from kohort.model.errors import ErrorCode
from kohort.node.configuration.config import Config
from kohort.node.groups.settings_from_config import group_settings
from kohort.wire.messages import HeartbeatResponse, OffsetCommitRequest


def test_an_answer_with_a_round_is_parked_until_every_member_can_learn_of_it() -> None:
    members = group("a", "b", "c")
    leave(members["c"], 1_000)
    members["a"].heartbeat(3_000, ErrorCode.REBALANCE_IN_PROGRESS)
    assert members["a"].errors() == []
    members["b"].heartbeat(3_100, ErrorCode.REBALANCE_IN_PROGRESS)
    assert members["b"].errors() == members["a"].errors() == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_member_whose_join_opened_the_round_unseen_is_not_waited_for() -> None:
    """A follower joins for a topic that has grown: seed 648 with a gateway."""
    members = group("a", "b", "c")
    members["c"].join(1_000)
    members["a"].heartbeat(3_000, ErrorCode.REBALANCE_IN_PROGRESS)
    assert members["a"].errors() == []
    members["b"].heartbeat(3_100, ErrorCode.REBALANCE_IN_PROGRESS)
    assert members["b"].errors() == members["a"].errors() == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_member_whose_commit_is_behind_learns_of_a_round_and_so_do_the_others() -> None:
    """No member awaits them: seed 930001031 with a gateway."""
    members = group("a", "b", "c")
    leave(members["c"], 1_000)
    members["a"].heartbeat(3_000, ErrorCode.REBALANCE_IN_PROGRESS)
    committing = members["b"]
    committing.send_heartbeat(3_100)
    number = committing.sent
    committing.send(OffsetCommitRequest(group_id="g", member_id="b", generation_id_or_member_epoch=1), 2, 3_101)
    answer = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    committing.relay.from_broker(b"".join(encode_response(answer, 3, number)), 3_102)
    assert committing.errors() == members["a"].errors() == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_member_that_cannot_wait_so_long_gets_no_error() -> None:
    members = group("a", "b", "c")
    leave(members["c"], 1_000)
    members["a"].heartbeat(3_000, ErrorCode.REBALANCE_IN_PROGRESS)
    members["a"].gateway.tick(8_000)
    assert members["a"].errors() == [ErrorCode.NONE]


def test_a_member_that_sends_nothing_for_its_session_is_not_waited_for() -> None:
    members = group("a", "b", "c")
    leave(members["c"], 1_000)
    for now_ms in range(3_000, SESSION_MS, 3_000):
        members["a"].heartbeat(now_ms, ErrorCode.REBALANCE_IN_PROGRESS)
    assert ErrorCode.REBALANCE_IN_PROGRESS not in members["a"].errors()
    members["a"].gateway.tick(SESSION_MS)
    assert members["a"].errors() == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_round_is_asked_for_at_a_coordinator_that_parks_heartbeats_itself() -> None:
    """It waits for `a`, whose heartbeat is parked here, and `a` would wait for `b`, whose heartbeat is parked there."""
    members = group("a", "b", "c")
    for now_ms in (3_000, 6_000):
        members["a"].heartbeat(now_ms)
    members["b"].send_heartbeat(6_600)
    assert members["a"].errors() == [ErrorCode.NONE], "the second one waits"
    leave(members["c"], 7_000)
    members["a"].to_broker.clear()
    members["a"].gateway.tick(7_010)
    assert not members["a"].to_broker, "b's may be on its way"
    members["a"].gateway.tick(7_250)
    members["a"].gateway.tick(7_260)
    assert len(members["a"].to_broker) == 1


def member_with_parked_heartbeat() -> Member:
    """Return a member of a group of two whose heartbeat is parked at 3,000 ms."""
    member = group("a", "b")["a"]
    member.heartbeat(3_000)
    assert member.gateway.parked_heartbeats(GroupProtocol.CLASSIC) == 1
    return member


def test_a_member_that_has_another_connection_is_parked_there_and_its_first_one_may_end() -> None:
    member = member_with_parked_heartbeat()
    moved = Member(member.gateway, "a", "apache-kafka-java")
    moved.heartbeat(6_000)
    member.relay.closed(6_100, is_by_client=True)
    assert member.errors() == [ErrorCode.NONE]
    leave(Member(member.gateway, "b", ""), 6_200)
    member.gateway.tick(6_210)
    moved.answered(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 3, 6_220)
    assert moved.errors() == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert member.gateway.policies.counters.fallbacks == 0, "the first connection had nothing parked any more"


@pytest.mark.parametrize("is_repeated", [False, True])
def test_nothing_is_sent_for_a_client_that_has_gone(is_repeated: bool) -> None:
    member = member_with_parked_heartbeat()
    if is_repeated:
        leave(Member(member.gateway, "b", ""), 3_100)
    member.to_broker.clear()
    member.relay.closed(3_101, is_by_client=True)
    for now_ms in (3_105, 6_250, SESSION_MS):
        member.gateway.tick(now_ms)
    assert member.to_client == member.to_broker == []
    assert member.gateway.parked_heartbeats(GroupProtocol.CLASSIC) == 0


@pytest.mark.parametrize("is_apart", [False, True])
def test_a_member_that_joins_has_its_parked_heartbeat_answered_without_an_error(is_apart: bool) -> None:
    """kgo sends JoinGroup by another connection."""
    member = member_with_parked_heartbeat()
    joining = Member(member.gateway, "a", "") if is_apart else member
    joining.join(4_000)
    assert member.errors() == [ErrorCode.NONE]


def test_two_members_on_one_connection_end_each_others_waits() -> None:
    shared = member_with_parked_heartbeat()
    for number in range(1, 6):
        shared.id = "ab"[number % 2]
        shared.heartbeat(3_000 + 1_500 * number)
        assert shared.errors() == [ErrorCode.NONE]
        assert shared.gateway.parked_heartbeats(GroupProtocol.CLASSIC) == 1


def test_a_group_that_becomes_another_one_has_its_parked_heartbeats_answered() -> None:
    """The next one of kgo comes an interval after the answer, and with it what the consumer group has to report."""
    member = group("a", "b", software="kgo")["a"]
    for now_ms in (3_000, 6_000):
        member.heartbeat(now_ms)
    assert len(member.errors()) == 1
    native = epoch_members.Member(member.gateway)
    native.heartbeat(0, 7_000)
    native.answered(7_010, epoch=2)
    assert member.errors() == [ErrorCode.NONE]
    assert member.gateway.parked_heartbeats(GroupProtocol.CLASSIC) == 0


def test_nothing_is_remembered_of_a_classic_member_that_leaves_a_consumer_group() -> None:
    """An online migration ends with each of them."""
    gateway = Gateway(group_settings(Config()), lambda *_: None, policies=EVERYTHING_PARKED)
    members = group("a", "b", gateway=gateway)
    native = epoch_members.Member(gateway)
    native.heartbeat(0, 4_000)
    native.answered(4_010, epoch=2)
    for member in members.values():
        leave(member, 5_000)
    assert gateway._answers is not None
    assert gateway._answers.parking.known_members == 0
