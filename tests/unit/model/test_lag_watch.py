"""When a lag is worth a heartbeat of its own: it falls to the threshold, or keeps growing."""

from __future__ import annotations

from kohort.model.cause import HeartbeatReason
from kohort.model.ids import TopicPartition
from kohort.model.lag_watch import LagWatch

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)
CAUGHT_UP, BEHIND = HeartbeatReason.STANDBY_CAUGHT_UP, HeartbeatReason.STANDBY_FALLING_BEHIND


def watch() -> LagWatch[TopicPartition]:
    return LagWatch(acceptable_recovery_lag=100, growth_ms=1_000)


def test_a_lag_that_falls_to_the_threshold_is_reported_once() -> None:
    lags = watch()
    assert lags.report({P: 500}, 0) is None
    assert lags.report({P: 101}, 10) is None
    assert lags.report({P: 100}, 20) is CAUGHT_UP
    assert lags.report({P: 0}, 30) is None
    assert lags.report({P: 99}, 40) is None, "within the threshold it may come and go"


def test_a_copy_that_is_close_when_it_is_first_reported_has_caught_up() -> None:
    assert watch().report({P: 7}, 0) is CAUGHT_UP


def test_a_lag_that_keeps_growing_is_reported_once_per_interval() -> None:
    lags = watch()
    reports = [lags.report({P: 200 + at_ms}, at_ms) for at_ms in range(0, 2_600, 500)]
    assert reports == [None, None, BEHIND, None, BEHIND, None]
    assert not lags.falling_behind
    lags.report({P: 9_000, Q: 9_000}, 3_000)
    assert lags.falling_behind == {P}


def test_a_lag_that_comes_back_between_has_not_grown_for_a_while() -> None:
    lags = watch()
    for at_ms, lag in ((0, 500), (500, 600), (900, 550), (1_500, 700), (1_800, 800)):
        assert lags.report({P: lag}, at_ms) is None


def test_a_lag_that_grows_within_the_threshold_is_no_reason() -> None:
    lags = watch()
    lags.report({P: 0}, 0)
    assert [lags.report({P: at_ms // 100}, at_ms) for at_ms in range(100, 5_000, 100)] == [None] * 49


def test_one_copy_that_catches_up_outweighs_another_that_falls_behind() -> None:
    lags = watch()
    lags.report({P: 500, Q: 500}, 0)
    assert lags.report({P: 600, Q: 50}, 2_000) is CAUGHT_UP
    assert lags.lags == ((P, 600), (Q, 50))


def test_a_copy_that_is_gone_is_forgotten() -> None:
    lags = watch()
    lags.report({P: 5, Q: 500}, 0)
    assert lags.report({Q: 500}, 10) is None
    assert lags.lags == ((Q, 500),)
    assert lags.report({P: 5, Q: 500}, 20) is CAUGHT_UP
