"""OffsetCommit behind a parked heartbeat: its answer goes ahead, ends it, or is delayed if a timer sent it."""

from __future__ import annotations

from tests.unit.gateway.classic_members import Member, group, leave
from tests.unit.wire.responses import encode_response

from kohort.gateway.policies.policies import GroupProtocol, Policy, PolicyTable, Treatment
from kohort.model.errors import ErrorCode
from kohort.parking.client_software import JAVA
from kohort.wire.frames import decode_response
from kohort.wire.messages import HeartbeatResponse, OffsetCommitResponse


def committing_by_timer(commit_delay_ms: int) -> Member:
    """Return a member that has committed three times by its timer, each 5 s after the last one."""
    holding = PolicyTable((Policy(treatment=Treatment.PARK, commit_delay_ms=commit_delay_ms),))
    member = group("a", "b", software="kafka-python", policies=holding)["a"]
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


def test_the_answer_to_a_commit_of_kafka_python_s_timer_waits_without_a_policy_until_a_close_sends_another() -> None:
    member = committing_by_timer(-1)
    member.commit(20_000)
    assert not member.to_client
    member.commit(20_200)
    assert len(member.to_client) == 3
    leave(member, 20_201)
    assert len(member.to_client) == 4


def test_the_commit_of_a_member_that_closes_is_answered_at_once() -> None:
    for first_ms in (400, 3_500):  # its first one at all, too
        member = group("a", "b", policies=PolicyTable((Policy(treatment=Treatment.PARK, commit_delay_ms=5_000),)))["a"]
        member.heartbeat(3_000)
        member.to_client.clear()
        member.commit(3_000 + first_ms)
        assert len(member.to_client) == 2
    member = committing_by_timer(5_000)
    member.commit(18_300)
    assert len(member.to_client) == 2


def test_a_commit_ends_a_heartbeat_so_that_its_client_sends_it_again() -> None:
    members = group("a", "b", software=JAVA, session_timeout_ms=45_000)
    for now_ms in (3_000, 6_000):
        members["a"].heartbeat(now_ms)
    members["a"].errors()
    members["a"].commit(6_010)
    heartbeat, commit = members["a"].to_client
    assert decode_response(HeartbeatResponse, 3, heartbeat[4:])[1].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert commit
    members["a"].to_client.clear()
    members["a"].heartbeat(6_200)
    leave(members["b"], 6_300)
    members["a"].gateway.tick(6_310)
    members["a"].answered(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 3, 6_310)
    assert members["a"].errors() == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_commit_behind_a_heartbeat_that_is_repeated_for_a_round_waits_for_its_answer() -> None:
    """Answered as it was parked, without an error, Java learns of the round an interval later."""
    members = group("a", "b", software=JAVA, session_timeout_ms=45_000)
    member = members["a"]
    for now_ms in (3_000, 6_000):
        member.heartbeat(now_ms)
    member.errors()
    heartbeat = member.sent
    leave(members["b"], 6_300)
    member.commit(6_301)
    assert member.to_client == []
    member.gateway.tick(6_310)
    refused = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    member.relay.from_broker(b"".join(encode_response(refused, 3, heartbeat)), 6_311)
    first, second = member.to_client
    assert decode_response(HeartbeatResponse, 3, first[4:])[1].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert decode_response(OffsetCommitResponse, 2, second[4:])[0] == heartbeat + 1


def test_a_commit_is_answered_ahead_of_a_parked_heartbeat_where_the_client_matches_by_id() -> None:
    member = group("a", "b", software="librdkafka")["a"]
    for now_ms in (3_000, 6_000):
        member.heartbeat(now_ms)
    parked = member.sent
    member.to_client.clear()
    for now_ms in (6_010, 6_020):
        member.commit(now_ms)
    answers = [decode_response(OffsetCommitResponse, 2, frame[4:])[0] for frame in member.to_client]
    assert answers == [parked + 1, parked + 2]
    assert member.gateway.parked_heartbeats(GroupProtocol.CLASSIC) == 1


def test_a_member_of_kgo_with_a_short_session_that_commits_by_itself_is_not_parked() -> None:
    member = group("a", "b", software="kgo")["a"]
    for now_ms in range(1_000, 16_000, 5_000):
        member.commit(now_ms)
        member.to_client.clear()
        member.heartbeat(now_ms + 2_000)
        assert member.errors() == [ErrorCode.NONE]
