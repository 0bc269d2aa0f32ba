"""Averages, maxima and rates over two windows of thirty seconds, as Kafka's clients show them."""

from __future__ import annotations

from math import isnan

from kohort.model.metric import WINDOW_MS, Sampled


def test_nothing_recorded_has_no_average_no_maximum_and_a_rate_of_zero() -> None:
    series = Sampled()
    assert isnan(series.average(0))
    assert isnan(series.greatest(0))
    assert (series.rate(0), series.count, series.total) == (0.0, 0, 0.0)


def test_average_and_maximum_speak_of_two_windows() -> None:
    series = Sampled()
    series.record(100, 0)
    series.record(20, WINDOW_MS)
    series.record(30, WINDOW_MS + 1)
    assert (series.average(WINDOW_MS + 1), series.greatest(WINDOW_MS + 1)) == (50, 100)
    assert (series.average(2 * WINDOW_MS), series.greatest(2 * WINDOW_MS)) == (25, 30), "the first window is over"
    assert isnan(series.greatest(3 * WINDOW_MS))


def test_totals_forget_nothing() -> None:
    series = Sampled()
    for at in range(10):
        series.record(5, at * WINDOW_MS)
    assert (series.count, series.total) == (10, 50)


def test_a_rate_counts_the_window_that_has_just_begun_as_a_whole_one() -> None:
    series = Sampled()
    series.record(1, 1000)
    assert series.rate(1000) == 1000 / WINDOW_MS
    assert series.rate(1000, per_ms=3_600_000) == 120
    assert series.rate(1000 + WINDOW_MS) == 1000 / WINDOW_MS
    assert series.rate(1000 + WINDOW_MS + WINDOW_MS // 2) == 1000 / (1.5 * WINDOW_MS)


def test_a_reader_keeps_what_it_saw_while_another_records() -> None:
    series = Sampled()
    series.record(1, 0)
    seen = series._windows
    series.record(9, 1)
    assert seen[0].greatest == 1
