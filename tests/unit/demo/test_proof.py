"""The demo's accounts: each kind of wrong is found and named with its rows."""

from __future__ import annotations

import pytest

pytest.importorskip("polars")
pytest.importorskip("deltalake")

from demo.flights import Group, Totals
from demo.journal import Entry
from demo.proof import count_deliveries, prove, uncovered
from demo.result import Result

from kohort.model.ids import TopicPartition
from kohort.spark.rows.rounds import OffsetRange

JFK = Group("JFK", "B6", 1)
LGA = Group("LGA", "DL", 2)


def entry(kind, number, *ranges, worker="a", run=1):
    spans = tuple(OffsetRange(TopicPartition("flights", partition), start, stop) for partition, start, stop in ranges)
    return Entry(0, worker, run, kind, 1, number, frozenset(), spans)


def totals(flights):
    return Totals(flights, 0, flights, 10, flights, -5)


def placed(*ends):
    return {
        partition: {offset: 100 * partition + offset for offset in range(end)} for partition, end in enumerate(ends)
    }


def stored(*ends):
    return {partition: list(offsets.items()) for partition, offsets in placed(*ends).items()}


def proof(*, entries=None, rows=None, found=None, sent=(4, 2), ends=(4, 2)):
    """A proof of six rows in two partitions, of which one thing is given otherwise."""
    whole = [entry("began", 0, (0, 0, 4), (1, 0, 2)), entry("committed", 0, (0, 0, 4), (1, 0, 2))]
    expected = {JFK: totals(4), LGA: totals(2)}
    return prove(
        placed=placed(*sent),
        ends=ends,
        deliveries=count_deliveries(whole if entries is None else entries, ends),
        result=Result(expected if found is None else found, stored(4, 2) if rows is None else rows),
        expected=expected,
    )


def test_equal_accounts_hold():
    outcome = proof()
    assert outcome.holds
    assert (outcome.sent_rows, outcome.lost_rows, outcome.doubled_rows, outcome.groups) == (6, 0, 0, 2)
    assert outcome.deliveries.repeated_rows == 0


def test_rows_that_the_table_lacks_are_lost_and_named_by_their_numbers():
    outcome = proof(rows=stored(4, 2) | {0: [(0, 0)]})
    assert outcome.lost_rows == 3
    assert outcome.differences == ("the table lacks partition 0, offsets 1 to 3: rows 1, 2, 3 of the source file",)


def test_a_row_that_is_there_twice_is_counted_and_named():
    outcome = proof(rows=stored(4, 2) | {1: [(0, 100), (1, 101), (1, 101)]})
    assert (outcome.lost_rows, outcome.doubled_rows, outcome.holds) == (0, 1, False)
    assert outcome.differences == (
        "the table has more than once partition 1, offsets 1 to 1: rows 101 of the source file",
    )


def test_a_row_in_the_place_of_another_is_found():
    outcome = proof(rows=stored(4, 2) | {1: [(0, 100), (1, 7)]})
    assert outcome.differences == (
        "the table has other rows for partition 1, offsets 1 to 1: rows 101 of the source file",
    )


def test_rows_that_no_worker_was_handed_are_named():
    outcome = proof(entries=[entry("began", 0, (0, 0, 4))])
    assert outcome.differences == (
        "no worker was handed partition 1, offsets 0 to 1: rows 100, 101 of the source file",
    )


def test_a_total_that_differs_is_shown_beside_the_right_one():
    outcome = proof(found={JFK: totals(4), LGA: totals(2)._replace(arrival_delay_min=-4)})
    assert len(outcome.differences) == 1
    assert outcome.differences[0].startswith("origin LGA, carrier DL, month 2: the source file gives flights 2")
    assert outcome.differences[0].endswith("arrival_delay_min -4")


def test_a_topic_that_holds_more_than_was_acknowledged_is_found():
    outcome = proof(sent=(4, 1))
    assert outcome.differences[-1] == "partition 1 ends at 2, 1 rows were acknowledged"


def test_rows_of_a_round_cut_off_are_counted_once_as_open_and_once_as_read_again():
    entries = [
        entry("began", 0, (0, 0, 2)),
        entry("committed", 0, (0, 0, 2)),
        entry("began", 1, (0, 2, 4)),
        entry("began", 0, (0, 2, 4), worker="b"),
        entry("committed", 0, (0, 2, 4), worker="b"),
    ]
    deliveries = count_deliveries(entries, [4])
    assert (deliveries.rows, deliveries.distinct_rows, deliveries.repeated_rows) == (6, 4, 2)
    assert (deliveries.open_rows, deliveries.refused_rows, deliveries.rounds) == (2, 0, 3)


def test_a_restarted_workers_rounds_are_not_those_of_its_former_run():
    entries = [entry("began", 0, (0, 0, 4)), entry("committed", 0, (0, 0, 4), run=2)]
    assert count_deliveries(entries, [4]).open_rows == 4


def test_uncovered_parts_are_found_at_both_ends_and_between():
    assert uncovered([(5, 7), (2, 4), (3, 5)], 9) == [(0, 2), (7, 9)]
    assert uncovered([], 3) == [(0, 3)]
    assert uncovered([(0, 9)], 3) == []
