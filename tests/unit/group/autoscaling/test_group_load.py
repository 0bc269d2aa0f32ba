from __future__ import annotations

from collections.abc import Sequence

import pytest

from kohort.group.autoscaling.group_load import STUCK_MS, GroupSample, LoadHistory
from kohort.model.ids import TopicPartition

STEP_MS = 5_000


def places(count: int) -> list[TopicPartition]:
    return [TopicPartition("t", number) for number in range(count)]


def sample(
    at_ms: int, ends: Sequence[int], committed: Sequence[int | None], members: int = 1, *, is_stable: bool = True
) -> GroupSample:
    partitions = places(len(ends))
    offsets = {each: offset for each, offset in zip(partitions, committed, strict=True) if offset is not None}
    owned = tuple(frozenset(partitions[number::members]) for number in range(members))
    return GroupSample(at_ms, dict(zip(partitions, ends, strict=True)), offsets, owned, is_stable)


def history(*samples: GroupSample) -> LoadHistory:
    found = LoadHistory(lag_seconds=10)
    for each in samples:
        found.add(each)
    return found


def steady(seconds: int, written: float, consumed: float, begin: int = 0, members: int = 1) -> LoadHistory:
    """A group of four partitions, to each of which as much is written, with `begin` records of lag in each."""
    return history(
        *(
            sample(at_ms, [begin + int(written * at_ms / 4000)] * 4, [int(consumed * at_ms / 4000)] * 4, members)
            for at_ms in range(0, seconds * 1000 + 1, STEP_MS)
        )
    )


def test_rate_is_that_of_the_last_fifteen_seconds() -> None:
    found = history(
        sample(0, [0], [0]),
        sample(5_000, [100_000], [0]),
        *(sample(at_ms, [100_000 + at_ms], [0]) for at_ms in range(10_000, 30_000, STEP_MS)),
    )
    assert found.load(30).rate == 1000


def test_nothing_is_known_before_there_is_a_window() -> None:
    assert not history().is_known
    assert not history(sample(0, [0], [0]), sample(10_000, [10], [0])).is_known
    assert history(sample(0, [0], [0]), sample(15_000, [10], [0])).is_known


def test_lag_counts_committed_partitions_only() -> None:
    load = history(sample(0, [100, 50], [40, None]), sample(20_000, [100, 50], [40, None])).load(30)
    assert load.lag == 60
    assert load.partitions == 2


@pytest.mark.parametrize("ends", [[0, 10], [90, 10]])
def test_topic_that_was_made_anew_has_no_negative_rate_and_no_negative_lag(ends: list[int]) -> None:
    load = history(sample(0, [100, 10], [95, 10]), sample(15_000, ends, [95, 10])).load(30)
    assert (load.rate, load.lag) == (0, 0)


def test_partition_that_is_new_counts_from_its_first_sample() -> None:
    load = history(sample(0, [100], [100]), sample(15_000, [100, 5_000], [100, 5_000])).load(30)
    assert load.rate == 0


def test_rising_rate_is_expected_to_rise_on_and_a_falling_one_to_stay() -> None:
    def course(rates: Sequence[float]) -> LoadHistory:
        end, found = 0.0, []
        for number, rate in enumerate(rates):
            end += rate * STEP_MS / 1000
            found.append(sample(number * STEP_MS, [int(end)], [int(end)]))
        return history(*found)

    rising = course([100.0 + number * 5 for number in range(60)]).load(horizon_s=30)
    assert rising.rate * 1.05 < rising.forecast < rising.rate * 1.15
    falling = course([400.0 - number * 5 for number in range(60)]).load(horizon_s=30)
    assert falling.forecast == falling.rate
    jumped = course([10.0] * 57 + [1000.0] * 3).load(horizon_s=3600)
    assert jumped.forecast == jumped.rate * 1.5


def test_saturated_member_shows_what_it_consumes() -> None:
    load = steady(60, written=2000, consumed=500, begin=50_000).load(30)
    assert load.is_measured
    assert load.member_rate == pytest.approx(500, rel=0.01)


def test_member_that_is_not_saturated_shows_a_lower_bound() -> None:
    load = steady(60, written=300, consumed=300).load(30)
    assert not load.is_measured
    assert load.member_rate == pytest.approx(300, rel=0.01)


def test_rate_of_a_member_is_not_measured_across_a_rebalance() -> None:
    before = [sample(at_ms, [10**6] * 4, [at_ms // 8] * 4, members=1) for at_ms in range(0, 20_001, STEP_MS)]
    after = [sample(at_ms, [10**6] * 4, [at_ms // 8] * 4, members=2) for at_ms in range(25_000, 40_001, STEP_MS)]
    assert not history(*before, *after).load(30).is_measured
    moving = [sample(at_ms, [10**6] * 4, [at_ms // 8] * 4, is_stable=False) for at_ms in range(0, 60_001, STEP_MS)]
    assert not history(*moving).load(30).is_measured


def test_lag_of_a_partition_whose_offset_does_not_move_does_not_count() -> None:
    found = history(
        *(
            sample(at_ms, [1_000, 500 + at_ms // 10], [400, at_ms // 10])
            for at_ms in range(0, STUCK_MS + 10_001, STEP_MS)
        )
    )
    load = found.load(30)
    assert load.unhelped == {TopicPartition("t", 0)}
    assert (load.lag, load.whole_lag) == (500, 1100)


def test_partition_into_which_more_is_written_than_one_member_reads_does_not_count() -> None:
    found = history(
        *(
            sample(at_ms, [at_ms, at_ms // 20, at_ms // 20], [0, at_ms // 20, at_ms // 20])
            for at_ms in range(0, 20_001, STEP_MS)
        )
    )
    load = found.load(30, given_rate=500)
    assert load.unhelped == {TopicPartition("t", 0)}
    assert (load.rate, load.hottest, load.lag, load.whole_lag) == (100, 50, 0, 20_000)


def test_peak_of_most_partitions_counts_as_a_whole() -> None:
    found = history(*(sample(at_ms, [at_ms, at_ms], [0, at_ms]) for at_ms in range(0, 20_001, STEP_MS)))
    load = found.load(30, given_rate=500)
    assert (load.rate, load.hottest, load.unhelped) == (2000, 1000, frozenset())


def test_lag_of_one_partition_counts_as_far_as_one_member_can_consume_it() -> None:
    found = history(*(sample(at_ms, [10**9, 7], [at_ms, 0]) for at_ms in range(0, 20_001, STEP_MS)))
    assert found.load(30, given_rate=500).lag == 150_007


def test_group_without_members_has_no_stuck_partition() -> None:
    empty = [
        GroupSample(at_ms, {TopicPartition("t", 0): 9}, {TopicPartition("t", 0): 0}, ())
        for at_ms in range(0, STUCK_MS + 10_001, STEP_MS)
    ]
    load = history(*empty).load(30)
    assert (load.lag, load.members, load.unhelped) == (9, 0, frozenset())


def test_samples_of_five_minutes_are_some_twenty() -> None:
    found = steady(3600, written=100, consumed=100)
    assert len(found.recent) + len(found.past) < 25
