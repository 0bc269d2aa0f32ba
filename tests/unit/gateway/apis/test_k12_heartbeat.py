"""Heartbeat of a classic member: whether its answer is parked depends on client, group and coordinator."""

from __future__ import annotations

from tests.unit.gateway.classic_members import group, leave

from kohort.model.errors import ErrorCode
from kohort.wire.messages import HeartbeatResponse


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
