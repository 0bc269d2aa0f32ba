"""A member's deadlines."""

from __future__ import annotations

from kohort.member.deadlines import Backoff, Session
from kohort.member.member_state import MemberConfig


def session(random: float = 0.5) -> Session:
    config = MemberConfig(heartbeat_interval_ms=3_000, session_timeout_ms=10_000, max_poll_interval_ms=60_000)
    return Session(config, lambda: random)


def test_waits_double_up_to_a_second() -> None:
    backoff = Backoff(lambda: 0.5)
    assert [backoff.next_ms() for _ in range(6)] == [100, 200, 400, 800, 1000, 1000]
    backoff.reset()
    assert backoff.next_ms() == 100


def test_jitter_spreads_a_wait_by_a_fifth() -> None:
    assert Backoff(lambda: 0.0).next_ms() == 80
    assert 119 <= Backoff(lambda: 0.999).next_ms() <= 120


def test_a_generation_starts_heartbeats_and_the_session() -> None:
    deadlines = session()
    deadlines.open(1_000)
    assert (deadlines.heartbeat_ms, deadlines.session_ms) == (4_000, 11_000)
    assert not deadlines.is_heartbeat_due(3_999)
    assert deadlines.is_heartbeat_due(4_000)
    assert not deadlines.is_session_over(10_999)
    assert deadlines.is_session_over(11_000)
    deadlines.end()
    assert not deadlines.is_heartbeat_due(99_999)
    assert not deadlines.is_session_over(99_999)


def test_the_poll_deadline_runs_only_while_the_user_is_away() -> None:
    deadlines = session()
    deadlines.mark_poll_returned(1_000)
    assert deadlines.poll_ms == 61_000
    deadlines.mark_poll_entered()
    assert deadlines.poll_ms is None


def test_the_user_is_warned_once_when_two_thirds_of_the_poll_interval_have_passed() -> None:
    deadlines = session()
    deadlines.mark_poll_returned(1_000)
    assert not deadlines.is_poll_late(40_999)
    assert deadlines.is_poll_late(41_000)
    assert deadlines.mark_poll_late(41_000) == 20_000
    assert not deadlines.is_poll_late(60_999)


def test_rounds_that_end_badly_are_tried_ever_later_and_well_within_the_session() -> None:
    deadlines = session()
    assert [deadlines.wait_after_bad_round(0) for _ in range(7)] == [100, 200, 400, 800, 1600, 3200, 3333]
    deadlines.end_bad_rounds()
    assert deadlines.wait_after_bad_round(0) == 100


def test_a_stable_member_waits_between_bad_rounds_until_sessions_of_static_members_that_are_gone_end() -> None:
    """Each round renews them: seed 200694."""
    deadlines = session()
    assert [deadlines.wait_as_stable(0) for _ in range(10)][-4:] == [6400, 12800, 15000, None]
    deadlines.end_bad_rounds()
    assert deadlines.wait_as_stable(0) == 100


def test_a_first_failure_may_be_retried_at_once_and_the_second_waits() -> None:
    deadlines = session()
    deadlines.wait_to_retry(1_000, is_first_at_once=True)
    assert deadlines.retry_ms == 1_000
    deadlines.wait_to_retry(1_000, is_first_at_once=True)
    assert deadlines.retry_ms == 1_200


def test_an_answer_of_the_coordinator_ends_the_backoff() -> None:
    deadlines = session()
    deadlines.wait_to_retry(0)
    deadlines.wait_to_retry(0)
    deadlines.mark_answered(0)
    deadlines.wait_to_retry(0)
    assert deadlines.retry_ms == 100


def test_a_heartbeat_is_retried_no_later_than_the_next_would_be() -> None:
    deadlines = Session(MemberConfig(heartbeat_interval_ms=50, session_timeout_ms=10_000), lambda: 0.5)
    deadlines.retry_heartbeat(0)
    assert deadlines.heartbeat_ms == 50
    deadlines.mark_poll_returned(0)
    assert deadlines.poll_ms is None


def test_a_session_is_certain_from_when_the_answered_heartbeat_was_sent() -> None:
    deadlines = session()
    deadlines.open(1_000)
    assert deadlines.left_ms(1_000) == 0, "the answer to a JoinGroup may be old"
    deadlines.mark_answered(1_500)  # SyncGroup
    assert deadlines.left_ms(1_500) == 9_500
    deadlines.mark_heartbeat_sent(4_000)
    assert deadlines.left_ms(4_100) == 6_900, "one that is not answered proves nothing"
    deadlines.wait_for_answer(11_500)
    assert deadlines.left_ms(11_500) == 0
    deadlines.mark_answered(11_600)
    assert deadlines.left_ms(11_600) == 2_400
    deadlines.end()
    assert deadlines.left_ms(11_600) == 0
