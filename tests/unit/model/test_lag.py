"""Lag of a reader, from where a log begins and ends and what was read of it; docs/lag-vectors.json has the rest."""

from __future__ import annotations

from kohort.model.lag import CLOCK_SKEW_MS, Lag, LagReason, LogEnds, OldestRecord, UnreadRecords, group_lag, lag_of

NOW_MS = 1_000_000
LOG = LogEnds(0, 10, 10)


def behind(timestamp_ms: int) -> Lag:
    unread = UnreadRecords(4, 10, 10, 6, OldestRecord(4, timestamp_ms, is_append_time=False))
    return lag_of(4, LOG, unread, NOW_MS)


def test_no_timestamp_makes_a_lag_negative() -> None:
    for ahead_ms in (-NOW_MS, -1, 0, 1, CLOCK_SKEW_MS):
        seconds = behind(NOW_MS + ahead_ms).seconds
        assert seconds == max(0, -ahead_ms) / 1000
    for ahead_ms in (CLOCK_SKEW_MS + 1, 1 << 62):
        lag = behind(NOW_MS + ahead_ms)
        assert (lag.records, lag.seconds, lag.reason) == (6, None, LagReason.CLOCK_AHEAD)


def test_records_that_were_not_read_count_as_one_for_each_offset() -> None:
    unread = UnreadRecords(2, 6, 6, 1, OldestRecord(5, 999_000, is_append_time=True))
    lag = lag_of(2, LOG, unread, NOW_MS)
    assert (lag.records, lag.is_bound, lag.seconds) == (1 + 4, True, 1.0)


def test_nothing_that_was_read_is_no_zero() -> None:
    lag = lag_of(2, LOG, UnreadRecords.at(2), NOW_MS)
    assert (lag.records, lag.is_bound, lag.seconds, lag.reason) == (8, True, None, LagReason.NO_RECORD_YET)


def test_every_reason_has_a_sentence() -> None:
    assert all(reason.text and reason.text == reason.text.strip(". ") for reason in LagReason)


def test_a_group_whose_known_lags_are_none_is_behind_by_what_is_unknown() -> None:
    unknown = Lag(None, None, LagReason.NOT_COMMITTED)
    assert group_lag([Lag(0, 0.0), unknown]) == (None, None, 1)
    assert group_lag([Lag(0, 0.0), Lag(25, 3.5), unknown]) == (25, 3.5, 1), "at least"
    assert group_lag([Lag(25, None, LagReason.NO_TIMESTAMP), Lag(0, 0.0)]) == (25, None, 1)
    assert group_lag([Lag(0, 0.0), Lag(0, 0.0)]) == (0, 0.0, 0)
    assert group_lag([]) == (None, None, 0)
