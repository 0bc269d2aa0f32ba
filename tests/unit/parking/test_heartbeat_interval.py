"""What a member's heartbeats show of its interval, and for how long one of them may wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kohort.model.errors import ErrorCode
from kohort.parking.client_software import software_named
from kohort.parking.heartbeat_interval import HeartbeatInterval
from kohort.parking.limits import ANSWER_MARGIN_MS, FAST_INTERVAL_MS, LONGEST_PARKED_MS

SESSION_MS = 45_000


class Sender:
    """A client that sends heartbeats at its `next_ms`, and the answers of the coordinator."""

    def __init__(self, interval_ms: int, next_ms: Callable[[int, int, int], int], session_ms: int = SESSION_MS) -> None:
        self.interval_ms = interval_ms
        self.session_ms = session_ms
        self.interval = HeartbeatInterval(0)
        self.now_ms = 0
        self._next_ms = next_ms
        self.waits: list[int] = []
        self.gaps: list[int] = []
        self.uncovered_ms: list[int] = []

    def begin(self, first_ms: int) -> None:
        """Take an assignment, and send the first heartbeat so much later."""
        self.interval.begin(self.now_ms)
        self._beat_at(self.now_ms + first_ms)

    def beat(self, count: int) -> None:
        """Send so many heartbeats more."""
        for _ in range(count):
            answer_ms = self.now_ms + self.waits[-1]
            next_ms = self._next_ms(self.now_ms, answer_ms, self.interval_ms)
            self.interval.answered_ms = min(answer_ms, next_ms)
            self.uncovered_ms.append(max(0, next_ms - answer_ms))
            self._beat_at(next_ms)

    def late(self, by_ms: int) -> None:
        """Send the next heartbeat so much later than usual."""
        interval_ms, self.interval_ms = self.interval_ms, self.interval_ms + by_ms
        self.beat(1)
        self.interval_ms = interval_ms

    def _beat_at(self, now_ms: int) -> None:
        self.gaps.append(now_ms - self.now_ms)
        self.now_ms = now_ms
        self.waits.append(self.interval.beat(now_ms, self.session_ms))


def overlapping(sent_ms: int, answer_ms: int, interval_ms: int) -> int:
    """Send the next on time, answered or not, as the Java client does."""
    del answer_ms
    return sent_ms + interval_ms


def waiting(sent_ms: int, answer_ms: int, interval_ms: int) -> int:
    """Send the next on time, or when the answer comes, as kafka-python, aiokafka and our members do."""
    return max(sent_ms + interval_ms, answer_ms + 1)


def skipping(sent_ms: int, answer_ms: int, interval_ms: int) -> int:
    """Skip what is due while the last is unanswered, as librdkafka does."""
    due_ms = sent_ms + interval_ms
    return due_ms + interval_ms * -(-max(0, answer_ms + 1 - due_ms) // interval_ms)


def test_java_member_always_has_a_heartbeat_here_from_its_first_on() -> None:
    java = Sender(3_000, overlapping)
    java.begin(3_000)
    java.beat(20)
    assert java.uncovered_ms == [0] * 20
    assert set(java.gaps) == {3_000}


def test_member_that_waits_for_its_answer_is_late_once_and_then_never_again() -> None:
    ours = Sender(3_000, waiting)
    ours.begin(3_000)
    ours.beat(20)
    assert sum(gap > 3_000 for gap in ours.gaps) == 1
    assert set(ours.uncovered_ms[1:]) == {ANSWER_MARGIN_MS}


def test_librdkafka_misses_one_heartbeat_and_then_never_again() -> None:
    librdkafka = Sender(3_000, skipping)
    librdkafka.begin(3_000)
    librdkafka.beat(40)
    assert sum(gap > 3_000 for gap in librdkafka.gaps) <= 2
    assert set(librdkafka.gaps[6:]) == {3_000}
    assert set(librdkafka.uncovered_ms[6:]) == {ANSWER_MARGIN_MS}


def test_librdkafka_that_sends_its_first_heartbeat_at_once_is_parked_from_the_second_on() -> None:
    librdkafka = Sender(3_000, skipping)
    librdkafka.begin(20)
    librdkafka.beat(10)
    assert librdkafka.waits[1:3] == [3_250, 3_000 - ANSWER_MARGIN_MS]
    assert librdkafka.gaps[:4] == [20, 3_000, 6_000, 3_000]


def test_first_heartbeat_of_librdkafka_does_not_show_its_interval() -> None:
    for first_ms in (1, 50, 400, 1_700, 2_950):
        librdkafka = Sender(3_000, skipping)
        librdkafka.begin(first_ms)
        librdkafka.beat(40)
        assert set(librdkafka.gaps[10:]) == {3_000}
        assert set(librdkafka.uncovered_ms[10:]) == {ANSWER_MARGIN_MS}


def test_what_was_learnt_outlives_a_rebalance() -> None:
    librdkafka = Sender(3_000, skipping)
    librdkafka.begin(3_000)
    librdkafka.beat(10)
    librdkafka.begin(1_200)
    librdkafka.beat(10)
    assert set(librdkafka.gaps[12:]) == {3_000}
    assert set(librdkafka.uncovered_ms[11:]) == {ANSWER_MARGIN_MS}


def test_short_session_is_never_put_at_risk_by_finding_out() -> None:
    librdkafka = Sender(3_000, skipping, session_ms=6_000)
    librdkafka.begin(3_000)
    librdkafka.beat(20)
    assert set(librdkafka.gaps) == {3_000}
    assert max(librdkafka.waits) <= 2_000


def test_no_heartbeat_waits_for_more_than_a_third_of_its_session() -> None:
    member = Sender(3_000, waiting, session_ms=9_000)
    member.begin(3_000)
    member.beat(20)
    assert max(member.waits) == 3_000


@pytest.mark.parametrize("software", ["", "kgo"])
def test_a_member_whose_interval_is_nearly_its_session_is_not_evicted_for_an_answer_that_waits(software: str) -> None:
    """Its next heartbeat may come an interval after the answer."""
    member = Sender(5_000, lambda _sent_ms, answer_ms, interval_ms: answer_ms + interval_ms, session_ms=6_000)
    member.interval.note_software(software_named(software, "9"))
    member.begin(5_000)
    member.beat(5)
    member.waits.append(member.interval.await_round(member.now_ms + 5_000, member.session_ms))
    assert max(member.gaps) < member.session_ms
    assert member.waits[-1] + 5_000 < member.session_ms


def test_no_heartbeat_waits_longer_than_a_client_waits_for_an_answer() -> None:
    member = Sender(60_000, overlapping, session_ms=600_000)
    member.begin(60_000)
    member.beat(5)
    assert max(member.waits) == LONGEST_PARKED_MS


def test_heartbeats_by_the_thousand_are_answered_at_once() -> None:
    flood = Sender(1, waiting)
    flood.begin(3)
    flood.beat(1_000)
    assert set(flood.waits) == {0}


def test_pause_in_a_flood_of_heartbeats_keeps_none_of_them() -> None:
    flood = Sender(1, waiting)
    flood.begin(3)
    flood.beat(10)
    flood.begin(5_000)
    flood.beat(10)
    flood.interval_ms = 2_000
    flood.beat(1)
    flood.interval_ms = 1
    flood.beat(10)
    assert set(flood.waits) == {0}


@pytest.mark.parametrize(("before_ms", "after_ms"), [(1_000, 3_000), (3_000, 1_000)])
def test_member_that_begins_to_send_less_or_more_often_is_followed(before_ms: int, after_ms: int) -> None:
    member = Sender(before_ms, overlapping)
    member.begin(before_ms)
    member.beat(5)
    member.interval_ms = after_ms
    member.beat(10)
    assert set(member.uncovered_ms[10:]) == {0}
    assert member.interval.interval_ms == after_ms


def test_heartbeat_answered_early_for_a_commit_does_not_change_the_interval() -> None:
    interval = HeartbeatInterval(0)
    interval.begin(0)
    assert interval.beat(3_000, SESSION_MS) == 3_250
    interval.answered_ms = 4_000
    assert interval.beat(6_000, SESSION_MS) == 3_250


def test_member_whose_first_heartbeat_a_new_coordinator_answered_is_parked_from_the_second_on() -> None:
    assert HeartbeatInterval(3_000).beat(6_000, SESSION_MS) == 3_250


def test_kgo_whose_next_heartbeat_follows_the_answer_waits_for_whole_intervals() -> None:
    kgo = Sender(3_010, lambda _sent_ms, answer_ms, interval_ms: answer_ms + interval_ms)
    kgo.interval.note_software(software_named("kgo", "v1.22.2"))
    kgo.begin(3_010)
    kgo.beat(3)
    assert kgo.waits == [6_020] * 4


@pytest.mark.parametrize("late_ms", [1_000, 600_000])
@pytest.mark.parametrize("next_ms", [overlapping, waiting, skipping])
def test_one_late_heartbeat_keeps_the_interval_and_the_next_ones_wait_as_before(
    next_ms: Callable[[int, int, int], int], late_ms: int
) -> None:
    """A machine that is suspended is late by minutes."""
    member = Sender(3_000, next_ms)
    member.begin(3_000)
    member.beat(12)
    usual_ms = member.waits[-1]
    member.late(late_ms)
    member.beat(3)
    assert member.waits[-4:] == [usual_ms] * 4


def test_a_late_heartbeat_and_an_early_one_behind_it_keep_the_interval() -> None:
    member = Sender(3_000, waiting)
    member.begin(3_000)
    member.beat(12)
    usual_ms = member.waits[-1]
    member.late(1_000)
    member.late(-1_000)
    member.beat(2)
    assert min(member.waits[-4:]) >= usual_ms - ANSWER_MARGIN_MS


def first_at_once(interval_ms: int) -> Sender:
    """Return a member of kohort, whose first heartbeat comes with its assignment."""
    sender = Sender(interval_ms, waiting)
    sender.interval.note_software(software_named("kohort", ""))
    sender.begin(2)
    return sender


def test_a_member_whose_first_heartbeat_waits_for_longer_than_its_interval_always_has_one_here() -> None:
    sender = first_at_once(2_000)
    sender.beat(15)
    assert max(sender.uncovered_ms) <= ANSWER_MARGIN_MS
    assert sender.waits[-1] == sender.interval.interval_ms - ANSWER_MARGIN_MS == 1_900


def test_a_first_heartbeat_that_comes_with_the_assignment_is_parked_in_each_generation() -> None:
    sender = first_at_once(3_000)
    sender.beat(2)
    sender.begin(2)
    assert sender.waits == [2_900, 2_900, 2_900, 2_900]


def test_a_first_heartbeat_that_waits_in_a_round_shows_the_interval_all_the_same() -> None:
    interval = HeartbeatInterval(0)
    interval.note_software(software_named("kohort", ""))
    interval.begin(0)
    assert interval.await_round(2, SESSION_MS) == 2_900
    interval.answered_ms = 2_902
    assert interval.beat(3_002, SESSION_MS) == 2_900
    assert interval.is_known


def test_a_member_of_kgo_whose_first_heartbeat_awaits_a_round_has_no_interval_yet() -> None:
    interval = HeartbeatInterval(0)
    interval.note_software(software_named("kgo", "v1.22.2"))
    interval.await_round(0, SESSION_MS)
    assert interval.beat(FAST_INTERVAL_MS, SESSION_MS) == 0


def test_a_client_that_would_repeat_later_than_its_next_heartbeat_comes_gets_a_success() -> None:
    interval = HeartbeatInterval(0)
    interval.note_software(software_named("kgo", "v1.22.2"))
    interval.begin(0)
    interval.beat(3_000, SESSION_MS)
    errors = []
    for now_ms in range(3_200, 4_200, 200):  # kgo waits twice as long after each error in a row: 4 s after the fifth
        errors.append(interval.error_for_repeat(now_ms))
        interval.answered(now_ms, is_for_repeat=bool(errors[-1]))
    assert errors == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 4 + [ErrorCode.NONE]
    assert interval.error_for_repeat(7_000) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize(("gap_ms", "is_cut_short"), [(200, True), (5_000, False)])
def test_kgo_that_commits_each_batch_keeps_the_time_of_its_heartbeats(gap_ms: int, *, is_cut_short: bool) -> None:
    interval = HeartbeatInterval(0)
    interval.note_software(software_named("kgo", "v1.22.2"))
    interval.begin(0)
    interval.beat(3_000, SESSION_MS)
    interval.committed(4_000)
    interval.committed(4_000 + gap_ms)
    assert interval.is_cut_short(6_000 + gap_ms, SESSION_MS) is is_cut_short


def test_a_success_is_due_in_whole_intervals_since_the_generation_began() -> None:
    """So that kgo's next heartbeat, an interval later, comes when it would have come without parking."""
    interval = HeartbeatInterval(0)
    interval.note_software(software_named("kgo", "v1.22.2"))
    interval.begin(700)
    interval.beat(2_700, 14_000)
    assert interval.repeat_until_ms(14_000) == 700 + 4_000
    interval.answered(4_701)
    assert interval.repeat_until_ms(14_000) == 700 + 8_000


@pytest.mark.parametrize("late_ms", [0, 3, 100])
def test_a_success_is_due_no_interval_earlier_where_heartbeats_come_a_little_late(late_ms: int) -> None:
    """By default each third of a session has five; with four, a deploy at a pace of 12 s found no member in reach."""
    interval = HeartbeatInterval(0)
    interval.note_software(software_named("kgo", "v1.22.2"))
    interval.begin(0)
    interval.beat(3_000 + late_ms, SESSION_MS)
    assert interval.repeat_until_ms(SESSION_MS) == 5 * (3_000 + late_ms)


def test_a_heartbeat_that_succeeds_by_itself_makes_another_success_unnecessary() -> None:
    interval = HeartbeatInterval(0)
    interval.note_software(software_named("apache-kafka-java", "4.3.1"))
    interval.begin(0)
    interval.beat(3_000, SESSION_MS)
    interval.answered(9_999)
    assert interval.repeat_until_ms(SESSION_MS) == 15_000
    interval.answered(10_000)
    assert interval.repeat_until_ms(SESSION_MS) == 30_000


def test_the_next_heartbeat_of_a_client_that_sends_one_again_is_expected_then() -> None:
    interval = HeartbeatInterval(0)
    interval.note_software(software_named("apache-kafka-java", "4.3.1"))
    interval.begin(0)
    interval.beat(3_000, SESSION_MS)
    interval.answered(3_500, is_for_repeat=True)
    assert interval.next_ms(3_510, is_parked=False) == 3_500 + 120


def test_kgo_that_commits_is_not_parked_when_a_success_is_due_as_no_error_may_end_that_wait() -> None:
    interval = HeartbeatInterval(0)
    interval.note_software(software_named("kgo", "v1.22.2"))
    interval.begin(0)
    interval.beat(3_000, SESSION_MS)
    interval.committed(9_000)
    interval.committed(14_000)
    assert interval.repeat_until_ms(SESSION_MS) == 15_000
    assert not interval.is_cut_short(14_900, SESSION_MS)
    assert interval.is_cut_short(15_000, SESSION_MS)
