"""Placement of tasks and copies: the constraints of KIP-441 on any hosts, and what each rule is for."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lockstep.tasks import Application, check, ours, play

from kohort.assign.task_placement import RUNNING, HostTasks, PlacementRules, TaskHost, place_tasks
from kohort.model.ids import TopicPartition


def tasks(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("stateful", number) for number in numbers)


def lags(**by_number: int) -> dict[TopicPartition, int]:
    return {TopicPartition("stateful", int(number[1:])): lag for number, lag in by_number.items()}


def numbers(hosts: Mapping[str, HostTasks]) -> dict[str, tuple[list[int], list[int], list[int]]]:
    def of(some: set[TopicPartition]) -> list[int]:
        return sorted(task.partition for task in some)

    return {name: (of(host.active), of(host.standby), of(host.warmup)) for name, host in hosts.items()}


def test_tasks_are_shared_out_by_threads() -> None:
    placed = place_tasks({"a": TaskHost(1), "b": TaskHost(3)}, tasks(*range(8)))
    assert {name: len(host.active) for name, host in placed.hosts.items()} == {"a": 2, "b": 6}
    assert placed.pending == 0


def test_new_host_warms_up_and_takes_its_tasks_when_it_has_caught_up() -> None:
    rules = PlacementRules(acceptable_recovery_lag=100, max_warmup_replicas=1)
    alone = TaskHost(active=tasks(0, 1, 2, 3))
    first = place_tasks({"a": alone, "b": TaskHost()}, tasks(0, 1, 2, 3), rules=rules)
    assert numbers(first.hosts) == {"a": ([0, 1, 2, 3], [], []), "b": ([], [], [2])}
    assert first.pending == 2
    behind = place_tasks({"a": alone, "b": TaskHost(lags=lags(_2=101))}, tasks(0, 1, 2, 3), rules=rules)
    assert numbers(behind.hosts) == numbers(first.hosts)
    ready = place_tasks({"a": alone, "b": TaskHost(lags=lags(_2=100))}, tasks(0, 1, 2, 3), rules=rules)
    assert numbers(ready.hosts) == {"a": ([0, 1, 3], [], []), "b": ([2], [], [3])}


def test_standby_copy_that_has_caught_up_takes_over_from_a_dead_host() -> None:
    hosts = {"b": TaskHost(lags=lags(_0=5, _1=90_000)), "c": TaskHost(lags=lags(_1=7))}
    placed = place_tasks(hosts, tasks(0, 1), rules=PlacementRules(standby_replicas=1))
    assert numbers(placed.hosts) == {"b": ([0], [1], []), "c": ([1], [0], [])}


def test_where_none_has_caught_up_the_least_behind_takes_over() -> None:
    hosts = {"a": TaskHost(), "b": TaskHost(lags=lags(_0=50_000)), "c": TaskHost(lags=lags(_0=40_000))}
    assert numbers(place_tasks(hosts, tasks(0)).hosts)["c"] == ([0], [], [])


def test_standby_copies_stay_where_they_are() -> None:
    hosts = {
        "a": TaskHost(active=tasks(0), lags=lags(_1=3)),
        "b": TaskHost(active=tasks(1), lags=lags(_2=2)),
        "c": TaskHost(active=tasks(2), lags=lags(_0=0)),
    }
    placed = place_tasks(hosts, tasks(0, 1, 2), rules=PlacementRules(standby_replicas=1))
    assert numbers(placed.hosts) == {"a": ([0], [1], []), "b": ([1], [2], []), "c": ([2], [0], [])}


def test_standby_copy_moves_to_a_new_host_by_a_warm_up() -> None:
    rules = PlacementRules(standby_replicas=1, max_warmup_replicas=1)
    hosts = {"a": TaskHost(active=tasks(0), lags=lags(_1=0)), "b": TaskHost(active=tasks(1), lags=lags(_0=0))}
    first = place_tasks({**hosts, "c": TaskHost()}, tasks(0, 1), rules=rules)
    assert numbers(first.hosts) == {"a": ([0], [1], []), "b": ([1], [0], []), "c": ([], [], [0])}
    ready = place_tasks({**hosts, "c": TaskHost(lags=lags(_0=0))}, tasks(0, 1), rules=rules)
    assert [numbers(ready.hosts)[name][:2] for name in "abc"] == [([0], [1]), ([1], []), ([], [0])]


def test_tasks_without_state_move_at_once() -> None:
    clicks = [TopicPartition("stateless", number) for number in range(4)]
    placed = place_tasks({"a": TaskHost(active=frozenset(clicks)), "b": TaskHost()}, (), clicks)
    assert {name: len(host.active) for name, host in placed.hosts.items()} == {"a": 2, "b": 2}
    assert placed.pending == 0


def test_unknown_lag_is_no_copy() -> None:
    hosts = {"a": TaskHost(lags=lags(_0=-3)), "b": TaskHost(lags=lags(_0=60_000))}
    assert numbers(place_tasks(hosts, tasks(0)).hosts)["b"][0] == [0]


def test_of_two_hosts_that_run_a_task_one_keeps_it() -> None:
    hosts = {"a": TaskHost(active=tasks(0)), "b": TaskHost(lags=lags(_0=RUNNING))}
    placed = place_tasks(hosts, tasks(0))
    check(Application(tuple(tasks(0)), (), PlacementRules(), {"a": 1, "b": 1}), hosts, placed.hosts)


@pytest.mark.parametrize(
    ("setting", "value"), [("standby_replicas", -1), ("acceptable_recovery_lag", -1), ("max_warmup_replicas", 0)]
)
def test_bad_rules_are_refused_by_name(setting: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{setting} must be"):
        PlacementRules(**{setting: value})


@pytest.mark.parametrize("seed", range(40))
def test_random_applications_settle_within_the_constraints(seed: int) -> None:
    assert play(seed, {"ours": ours})["ours"].unsettled == 0


HOSTS = st.dictionaries(
    st.sampled_from("abcdef"),
    st.builds(
        TaskHost,
        st.integers(1, 4),
        st.frozensets(st.builds(TopicPartition, st.just("stateful"), st.integers(0, 9))),
        st.dictionaries(
            st.builds(TopicPartition, st.just("stateful"), st.integers(0, 9)), st.integers(-5, 2**63 - 1), max_size=10
        ),
    ),
    min_size=1,
)


@given(
    HOSTS, st.integers(0, 8), st.builds(PlacementRules, st.integers(0, 3), st.integers(0, 10_000), st.integers(1, 4))
)
def test_whatever_hosts_claim_the_constraints_hold(
    hosts: dict[str, TaskHost], count: int, rules: PlacementRules
) -> None:
    application = Application(tuple(sorted(tasks(*range(count)))), (), rules, {})
    placed = place_tasks(hosts, application.stateful, (), rules)
    check(application, hosts, placed.hosts)
