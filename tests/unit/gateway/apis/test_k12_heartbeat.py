"""Heartbeat of a classic member: whether its answer is parked depends on client, group and coordinator."""

from __future__ import annotations

import pytest
from tests.unit.gateway.classic_members import group, leave

from kohort.gateway.policies.policies import GroupProtocol
from kohort.model.errors import ErrorCode
from kohort.wire.messages import HeartbeatRequest, HeartbeatResponse


def test_a_member_of_kgo_that_does_not_commit_learns_of_a_round_at_once() -> None:
    members = group("a", "b", software="kgo")
    for now_ms in (3_000, 6_000):
        members["a"].heartbeat(now_ms)
    assert len(members["a"].errors()) == 1
    leave(members["b"], 7_000)
    members["a"].gateway.tick(7_010)
    members["a"].answered(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 3, 7_020)
    assert members["a"].errors() == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_static_java_member_closes_without_waiting_for_a_parked_heartbeat() -> None:
    member = group("a", "b")["a"]
    member.instance_id = "i"
    for now_ms in (3_000, 6_000, 9_000):
        member.heartbeat(now_ms)
        assert member.errors() == [ErrorCode.NONE]


def test_a_heartbeat_that_the_coordinator_parked_is_not_parked_again() -> None:
    """Its session would be over before the next one, an interval after the answer: seed 304701."""
    member = group("a")["a"]
    member.heartbeat(3_000)
    assert member.errors() == []
    member.heartbeat(6_000)
    assert member.errors() == [ErrorCode.NONE], "the first one is answered, the second one parked"
    member.heartbeat(9_000, answered_after_ms=2_000)
    assert member.errors() == [ErrorCode.NONE, ErrorCode.NONE]


@pytest.mark.parametrize(("version", "is_parked"), [(1, True), (3, False)])
def test_aiokafka_is_parked_by_what_its_requests_show_and_kafkajs_is_not(version: int, is_parked: bool) -> None:
    """Both send JoinGroup 5 and name no software."""
    member = group("a", "b", software="")["a"]
    for now_ms in (3_000, 6_000):
        member.send(HeartbeatRequest(group_id="g", generation_id=1, member_id="a"), version, now_ms)
        member.answered(HeartbeatResponse(), version, now_ms)
    assert member.gateway.parked_heartbeats(GroupProtocol.CLASSIC) == is_parked
