"""What a round reads: shares of partitions, pieces for executors, and ranges as text."""

from __future__ import annotations

import pytest

from kohort.model.ids import TopicPartition
from kohort.spark.rows.rounds import OffsetRange, Round, pieces, plan, ranges_from_json, ranges_to_json, tasks

A, B, C = (TopicPartition("t", number) for number in range(3))


def test_everything_is_taken_when_it_fits():
    assert plan({B: (5, 9), A: (0, 3)}, 7) == (OffsetRange(A, 0, 3), OffsetRange(B, 5, 9))


def test_partitions_get_shares_in_proportion_to_their_lag():
    assert plan({A: (0, 600), B: (100, 400), C: (50, 150)}, 100) == (
        OffsetRange(A, 0, 60),
        OffsetRange(B, 100, 130),
        OffsetRange(C, 50, 60),
    )


def test_shares_add_up_to_the_limit_exactly():
    ranges = plan({A: (0, 10), B: (0, 10), C: (0, 10)}, 10)
    assert [each.size for each in ranges] == [4, 3, 3]


def test_few_rows_do_not_wait_for_another_partitions_many():
    sizes = {each.partition: each.size for each in plan({A: (0, 10_000_000), B: (0, 5), C: (0, 1)}, 1000)}
    assert sizes == {A: 998, B: 1, C: 1}


def test_a_limit_below_the_number_of_partitions_still_makes_progress():
    assert plan({A: (0, 10), B: (0, 10), C: (0, 11)}, 1) == (OffsetRange(C, 0, 1),)


def test_a_partition_without_lag_has_no_range():
    assert plan({A: (7, 7), B: (9, 8), C: (0, 1)}, 10) == (OffsetRange(C, 0, 1),)


def test_a_round_commits_where_its_ranges_stop():
    ranges = (OffsetRange(A, 0, 3), OffsetRange(B, 5, 9))
    assert Round(0, 4, ranges).next_offsets == {A: 3, B: 9}
    assert Round(0, 4, ranges).size == 7


def test_pieces_cover_their_ranges_without_gap_or_overlap():
    cut = pieces([OffsetRange(A, 0, 100_003), OffsetRange(B, 7, 30_007)], 4)
    assert [each.size for each in cut] == [25000, 25001, 25001, 25001, 30000]
    assert [each.start for each in cut[1:4]] == [each.stop for each in cut[:3]]


def test_small_ranges_are_not_cut():
    assert pieces([OffsetRange(A, 0, 9_000)], 8) == [OffsetRange(A, 0, 9_000)]


def test_small_ranges_share_a_task():
    ranges = [OffsetRange(A, 0, 300), OffsetRange(B, 0, 200), OffsetRange(C, 5, 105)]
    assert tasks(ranges, 2) == [(ranges[0],), (ranges[1], ranges[2])]
    assert tasks(ranges, 1) == [tuple(ranges)]
    assert tasks([], 4) == []


def test_a_task_reads_a_partition_once_and_there_are_as_many_as_asked_for():
    cut = pieces([OffsetRange(A, 0, 40_000), OffsetRange(B, 0, 500)], 4)
    made = tasks(cut, 4)
    assert len(made) >= 4
    assert sorted(each for ranges in made for each in ranges) == sorted(cut)
    assert all(len({each.partition for each in ranges}) == len(ranges) for ranges in made)


def test_ranges_survive_their_text():
    ranges = [OffsetRange(A, 0, 3), OffsetRange(TopicPartition("a b", 7), 1 << 40, 1 << 41)]
    assert ranges_from_json(ranges_to_json(ranges)) == ranges


@pytest.mark.parametrize("text", ["", "3", "[[1, 0, 0, 1]]", '[["t", 0, 5, 4]]', '[["t", 0, 0]]', '[["t", 0, 0, "9"]]'])
def test_text_that_is_no_ranges_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match=r'such as \[\["flights", 0, 0, 500\]\]'):
        ranges_from_json(text)
