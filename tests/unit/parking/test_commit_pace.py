"""Which commits of a member come by a timer, and which may have a program that waits for their answers."""

from __future__ import annotations

import pytest

from kohort.parking.commit_pace import CommitPace

PERIOD_MS = 5_000


def by_timer(count: int) -> CommitPace:
    """Return the pace of a member that got its assignment at 0 ms, after so many commits by its timer."""
    pace = CommitPace(0)
    for number in range(1, count + 1):
        pace.committed(number * PERIOD_MS)
    return pace


@pytest.mark.parametrize(("count", "is_on_time"), [(0, False), (1, False), (2, False), (3, True)])
def test_a_pace_is_known_after_two_gaps_alike(count: int, is_on_time: bool) -> None:
    assert by_timer(count).is_on_time((count + 1) * PERIOD_MS) is is_on_time


def test_a_closing_member_s_commit_is_none_of_the_timer_whenever_it_comes() -> None:
    last_ms = 3 * PERIOD_MS
    for after_ms in (*range(0, PERIOD_MS - 50, 50), *range(PERIOD_MS + 250, 2 * PERIOD_MS - 50, 50), 62_000):
        assert not by_timer(3).is_on_time(last_ms + after_ms), f"{after_ms} ms after the last commit"


def test_a_timer_whose_commits_had_nothing_to_commit_keeps_its_pace() -> None:
    assert by_timer(3).is_on_time(7 * PERIOD_MS + 40)


def test_a_commit_within_a_round_changes_no_pace() -> None:
    pace = by_timer(3)
    pace.committed(3 * PERIOD_MS + 1_700, is_in_round=True)
    assert not pace.is_on_time(3 * PERIOD_MS + 1_700 + PERIOD_MS)
    assert pace.is_on_time(4 * PERIOD_MS)


def test_a_timer_that_begins_anew_with_an_assignment_is_followed() -> None:
    pace = by_timer(3)
    pace.begun_ms = 3 * PERIOD_MS + 1_700
    assert pace.is_on_time(pace.begun_ms + PERIOD_MS + 30)


def test_programs_that_commit_each_batch_have_no_timer() -> None:
    pace = CommitPace(0)
    for now_ms in range(0, 10_000, 108):
        assert not pace.is_on_time(now_ms)
        assert pace.is_of_a_user(now_ms) is (now_ms > 0)
        pace.committed(now_ms)


def test_a_pace_is_forgotten_after_two_gaps_that_contradict_it() -> None:
    pace = by_timer(3)
    pace.committed(3 * PERIOD_MS + 3_300)
    assert pace.is_regular
    pace.committed(3 * PERIOD_MS + 5_700)
    assert not pace.is_regular


def test_a_timer_is_known_once_an_answer_that_waited_has_not_delayed_the_next_commit() -> None:
    pace = by_timer(3)
    assert pace.delay_ms(5_000) == 500
    pace.committed(4 * PERIOD_MS)
    pace.answered(4 * PERIOD_MS + 1_000)
    pace.committed(5 * PERIOD_MS)
    assert (pace.delay_ms(2_000), pace.delay_ms(5_000)) == (2_000, 3_000)


def test_a_program_that_waits_for_answers_is_found_out_and_left_alone() -> None:
    pace = by_timer(3)  # it works for five seconds and commits
    pace.committed(4 * PERIOD_MS)
    pace.answered(4 * PERIOD_MS + 1_000)
    now_ms = 5 * PERIOD_MS + 1_000
    for _ in range(10):
        assert not pace.is_on_time(now_ms)
        pace.committed(now_ms)
        now_ms += PERIOD_MS
    assert pace.is_waited_for
