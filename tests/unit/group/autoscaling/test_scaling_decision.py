from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kohort.group.autoscaling.group_load import GroupLoad
from kohort.group.autoscaling.scaling_decision import (
    LATE_S,
    ScalingPhase,
    ScalingSettings,
    ScalingState,
    decide,
    lag_area,
    lag_saved,
    levels,
    needed,
)
from kohort.testing import ManualClock

SETTINGS = ScalingSettings("g", records_per_second=500.0)


def load(rate: float, members: int, lag: int = 0, partitions: int = 24, **changes: Any) -> GroupLoad:
    found = GroupLoad(members, partitions, True, rate, rate, rate / partitions, lag, lag, frozenset(), 500.0, True)
    return replace(found, **changes)


class Group:
    """A group whose members come and go as they are wanted, with a clock that the test turns."""

    def __init__(self, members: int, settings: ScalingSettings = SETTINGS, price: float | None = 10.0) -> None:
        self.settings, self.price = settings, price
        self.clock = ManualClock()
        self.state = ScalingState(members, self.clock.now_ms())
        self.members = members
        self.causes: list[str] = []
        self.asked: list[tuple[int, int]] = []
        self.is_drained = False

    def price_of(self, before: int, after: int) -> float | None:
        self.asked.append((before, after))
        return self.price

    def step(self, found: GroupLoad) -> int:
        self.clock.advance(5_000)
        now_ms = self.clock.now_ms()
        self.state, cause = decide(self.state, found, self.settings, self.price_of, now_ms, is_drained=self.is_drained)
        if cause:
            self.causes.append(cause)
        return self.state.members

    def run(self, seconds: float, rate: float, lag: int = 0, **changes: Any) -> int:
        for _ in range(int(seconds / 5)):
            self.step(load(rate, self.members, lag, **{"member_rate": self.settings.records_per_second, **changes}))
        return self.state.members

    def arrive(self) -> None:
        self.members = self.state.members


@pytest.mark.parametrize(
    ("partitions", "changes", "expected"),
    [
        (24, {}, [1, 2, 3, 4, 5, 6, 8, 12, 24]),
        (1, {}, [1]),
        (0, {}, []),
        (24, {"members_per_pod": 4}, [4, 8, 12, 24]),
        (10, {"members_per_pod": 4}, [4, 8, 12]),
        (24, {"min_replicas": 3, "max_replicas": 10}, [3, 4, 5, 6, 8, 10]),
        (4, {"min_replicas": 6}, [6]),
    ],
)
def test_numbers_of_members_are_those_that_take_a_partition_from_the_busiest(
    partitions: int, changes: dict[str, Any], expected: list[int]
) -> None:
    assert levels(partitions, replace(SETTINGS, **changes)) == expected


def test_members_that_are_needed_read_the_forecast_with_headroom() -> None:
    state = ScalingState(1, 0)
    assert needed(load(400, 1), state, SETTINGS) == 1
    assert needed(load(450, 1), state, SETTINGS) == 2
    assert needed(load(4000, 1), state, SETTINGS) == 12
    assert needed(load(1e9, 1), state, SETTINGS) == 24


def test_lag_within_the_target_needs_no_member_and_lag_beyond_it_does() -> None:
    state = ScalingState(1, 0)
    assert needed(load(400, 1, lag=4000), state, SETTINGS) == 1
    assert needed(load(400, 1, lag=400_000), state, SETTINGS) == 4


def test_busy_partition_counts_with_the_member_that_reads_it() -> None:
    assert needed(load(1000, 1, hottest=350.0), ScalingState(1, 0), SETTINGS) == 12


def test_area_of_a_lag_ends_when_it_is_consumed() -> None:
    assert lag_area(100, -10, 1000) == 500
    assert lag_area(0, 10, 10) == 500
    assert lag_area(0, -10, 10) == 0


def test_lag_that_a_change_saves_is_beside_what_its_rebalance_costs() -> None:
    saved, cost = lag_saved(load(1000, 1), SETTINGS, 1, 3, price=24.0)
    assert saved > 100_000
    assert 0 < cost < saved
    assert lag_saved(load(400, 1), SETTINGS, 1, 3, price=0.0) == (0, 0)


def test_group_that_reads_all_changes_nothing() -> None:
    group = Group(2)
    assert group.run(3600, rate=900) == 2
    assert group.causes == []


def test_rate_beyond_the_members_is_answered_after_ten_seconds_by_what_it_needs() -> None:
    group = Group(2)
    assert group.run(10, rate=4000, lag=30_000) == 2
    assert group.run(5, rate=4000, lag=50_000) == 12
    assert group.state.phase is ScalingPhase.STARTING
    assert group.causes == [
        "2 → 12 members: 4,000 records/s are expected and 50,000 are waiting; saves 162,500,000 record-seconds of lag,"
        " costs 84,028 (10.0 partition-seconds)"
    ]


def test_short_peak_changes_nothing() -> None:
    group = Group(2)
    for _ in range(20):
        group.run(5, rate=1500)
        group.run(10, rate=300)
    assert group.causes == []


def test_gain_below_the_price_changes_nothing() -> None:
    group = Group(2, price=10_000.0)
    assert group.run(60, rate=1010) == 2
    group.price = 1.0
    assert group.run(15, rate=1010) == 3


def test_nothing_changes_while_a_rebalance_runs() -> None:
    group = Group(2)
    assert group.run(600, rate=4000, lag=50_000, is_stable=False) == 2


def test_nothing_changes_until_the_price_is_known() -> None:
    group = Group(2, price=None)
    assert group.run(60, rate=4000, lag=50_000) == 2
    assert set(group.asked) == {(2, 12)}
    group.price = 10.0
    assert group.run(5, rate=4000, lag=50_000) == 12


def test_price_is_looked_up_for_changes_that_save_something() -> None:
    group = Group(2)
    group.run(600, rate=900)
    assert group.asked == []


def test_members_that_start_are_counted_and_more_of_them_may_be_needed() -> None:
    group = Group(2)
    assert group.run(15, rate=2000, lag=30_000) == 6
    assert group.run(20, rate=2000, lag=45_000) == 6
    assert group.run(15, rate=5000, lag=90_000) == 24
    group.arrive()
    group.run(5, rate=5000)
    assert group.state.phase is ScalingPhase.STABLE


def test_members_that_do_not_come_are_awaited_for_a_while_and_stay_wanted() -> None:
    group = Group(2)
    group.run(15, rate=2000, lag=30_000)
    assert group.run(SETTINGS.start_seconds + LATE_S + 10, rate=2000, lag=30_000) == 6
    assert group.state.phase is ScalingPhase.STABLE


def test_members_leave_when_fewer_have_been_enough_for_the_cooldown() -> None:
    group = Group(12)
    assert group.run(295, rate=900) == 12
    assert group.run(10, rate=900) == 3
    assert group.state.phase is ScalingPhase.LEAVING
    assert group.causes == ["12 → 3 members: these have been enough for 300 s; each way costs 10.0 partition-seconds"]
    group.arrive()
    assert group.run(3600, rate=900) == 3


def test_peak_within_the_cooldown_delays_a_scale_in() -> None:
    group = Group(12)
    group.run(200, rate=900)
    group.run(20, rate=4000)
    assert group.run(290, rate=900) == 12
    assert group.run(30, rate=900) == 3


def test_dear_rebalance_delays_a_scale_in() -> None:
    group = Group(12, price=6000.0)
    assert group.run(1200, rate=900) == 12
    assert group.run(300, rate=900) == 3


def test_cooldown_doubles_where_a_scale_in_came_too_early() -> None:
    group = Group(12)
    group.run(310, rate=900)
    group.arrive()
    assert group.run(30, rate=4000, lag=50_000) == 12
    group.arrive()
    assert group.run(595, rate=900) == 12
    assert group.run(20, rate=900) == 3
    group.arrive()
    group.run(4000, rate=900)
    group.run(30, rate=4000, lag=50_000)
    assert group.state.cooldown_s == 300


def test_change_that_kubernetes_would_ignore_is_not_asked_for() -> None:
    many = replace(SETTINGS, records_per_second=100.0)
    group = Group(12, many)
    assert needed(load(1000, 12, 20_000, 100, member_rate=100.0), group.state, many) == 13
    assert group.run(60, rate=1000, lag=20_000, partitions=100) == 15
    group = Group(13, many)
    assert needed(load(900, 13, 0, 100, member_rate=100.0), group.state, many) == 12
    assert group.run(1800, rate=900, partitions=100) == 13


def test_scale_in_is_drained_first_where_the_pods_have_ordinals() -> None:
    group = Group(12, replace(SETTINGS, drain="statefulset"))
    assert group.run(305, rate=900) == 12
    assert (group.state.phase, group.state.target) == (ScalingPhase.DRAINING, 3)
    group.is_drained = True
    assert group.run(5, rate=900) == 3
    group.arrive()
    group.run(5, rate=900)
    assert group.state.phase is ScalingPhase.STABLE
    assert group.causes == [
        "12 → 3 members: these have been enough for 300 s; each way costs 10.0 partition-seconds;"
        " they are drained first",
        "12 → 3 members: those that leave own nothing",
    ]


def test_drain_that_takes_long_is_not_awaited() -> None:
    group = Group(12, replace(SETTINGS, drain="statefulset"))
    group.run(305, rate=900)
    assert group.run(65, rate=900) == 3
    assert group.causes[-1] == "12 → 3 members: those that leave still own partitions after 60 s"


def test_members_that_do_not_leave_are_the_least_that_there_may_be() -> None:
    group = Group(12)
    group.run(305, rate=900)
    assert group.run(LATE_S + 10, rate=900) == 12
    assert group.causes[-1] == "12 members are still there, which is taken for the least that there may be"


def test_group_without_members_gets_what_its_lag_needs_at_once() -> None:
    group = Group(0)
    assert group.run(5, rate=900, lag=10_000) == 3


def unmeasured(group: Group, seconds: float, rate: float, lag: int = 0) -> int:
    group.settings = replace(group.settings, records_per_second=None)
    return group.run(seconds, rate, lag, is_measured=False, member_rate=rate / max(1, group.members))


def test_group_of_unknown_speed_is_made_smaller_step_by_step() -> None:
    group = Group(12)
    sizes = []
    for _ in range(3):
        sizes.append(unmeasured(group, 320, rate=900))
        group.arrive()
    assert sizes == [8, 6, 5]


@pytest.mark.parametrize("members", [1, 12])
def test_group_of_unknown_speed_with_lag_waits_for_a_measurement(members: int) -> None:
    group = Group(members)
    assert unmeasured(group, 900, rate=900, lag=100_000) == members


def test_group_without_topics_stays_as_it_is() -> None:
    group = Group(2)
    for _ in range(100):
        assert group.step(GroupLoad(2, 0, is_stable=True)) == 2
