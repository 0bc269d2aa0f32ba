"""OffsetCommit: only one of a member's timer is delayed, and others end the parking of a heartbeat at once."""

from __future__ import annotations

from tests.unit.gateway.classic_members import Member, group

from kohort.gateway.policies.policies import Policy, PolicyTable, Treatment
from kohort.model.errors import ErrorCode


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


def test_a_member_of_kgo_that_commits_by_itself_is_not_parked() -> None:
    member = group("a", "b", software="kgo")["a"]
    for now_ms in range(1_000, 16_000, 5_000):
        member.commit(now_ms)
        member.to_client.clear()
        member.heartbeat(now_ms + 2_000)
        assert member.errors() == [ErrorCode.NONE]
