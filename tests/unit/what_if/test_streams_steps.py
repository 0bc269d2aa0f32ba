"""What follows a change to a streams group: moves at once, copies that are awaited, and moves after these."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kohort.group.coordinator_settings import GroupSettings
from kohort.group.streams.topology import InternalTopic, StreamsTopology, Subtopology
from kohort.model.streams_tasks import TasksByRole
from kohort.what_if.change import PlannedChange
from kohort.what_if.streams_steps import StreamsFacts, StreamsMemberFacts, TaskMove, steps_of

COUNTING = StreamsTopology(
    0,
    (
        Subtopology("0", ("words",), repartition_sinks=("g-repartition",)),
        Subtopology(
            "1", repartition_sources=(InternalTopic("g-repartition", 4),), changelogs=(InternalTopic("g-log"),)
        ),
    ),
)
TASKS = frozenset((subtopology, number) for subtopology in "01" for number in range(4))


def facts(owner: str = "a", **settings: object) -> StreamsFacts:
    return StreamsFacts(
        "g",
        COUNTING,
        {"words": 4, "g-repartition": 4, "g-log": 4},
        GroupSettings().streams_config_of("g")._replace(**settings),  # type: ignore[arg-type]
        {owner: StreamsMemberFacts("first", "one", TasksByRole(TASKS))},
        reports_lags=True,
    )


def moved(moves: tuple[TaskMove, ...]) -> set[tuple[str, int]]:
    return {move.task for move in moves}


@pytest.mark.parametrize("owner", ["a", "z"])  # which member sends its heartbeat first
def test_tasks_without_state_move_at_once_and_those_with_state_once_their_copies_have_caught_up(owner: str) -> None:
    first, second = steps_of(facts(owner), PlannedChange(add=1))
    assert {(move.before, move.after) for move in first.moves} == {("first", "new-1")}
    assert {task[0] for task in moved(first.moves)} == {"0"}
    assert {name for _, name in first.warmups} == {"new-1"}
    assert moved(second.moves) == {task for task, _ in first.warmups}
    assert second.warmups == ()
    assert len(moved(first.moves) | moved(second.moves)) == len(TASKS) // 2


def test_few_tasks_warm_up_at_a_time() -> None:
    steps = steps_of(facts(warmup_replicas=1), PlannedChange(add=1))
    assert [len(step.warmups) for step in steps] == [1, 1, 0]


@pytest.mark.parametrize("change", [PlannedChange(kill=("b",)), PlannedChange(stop=("b",))])
def test_what_a_member_had_goes_to_where_its_standby_copies_are(change: PlannedChange) -> None:
    group = facts(standby_replicas=1)
    half = frozenset(task for task in TASKS if task[1] < 2)
    members = {
        "a": StreamsMemberFacts("first", "one", TasksByRole(half, TASKS - half), dict.fromkeys(TASKS - half, 5)),
        "b": StreamsMemberFacts("second", "two", TasksByRole(TASKS - half, half), dict.fromkeys(half, 5)),
    }
    (step,) = steps_of(replace(group, members=members), change)
    assert step.moves == tuple(TaskMove(task, "second", "first") for task in sorted(TASKS - half))
    assert step.standbys == ()


def test_clients_that_report_no_lags_wait_for_no_copy() -> None:
    (step,) = steps_of(replace(facts(), reports_lags=False), PlannedChange(add=1))
    assert (len(step.moves), step.warmups) == (4, ())
