"""Members of an eager group learn of a round together, however the broker's answers come."""

from __future__ import annotations

from tests.unit.gateway.classic_members import SESSION_MS, group, leave

from kohort.model.errors import ErrorCode


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
