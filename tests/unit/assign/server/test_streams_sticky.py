"""The sticky assignor of streams groups: shares, stickiness, standby copies in other processes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kohort.assign.server.streams_sticky import StickyMember, StickySubtopology, assign_tasks
from kohort.model.streams_tasks import NO_TASKS, TasksByRole, tasks_of

STATELESS, STATEFUL = StickySubtopology(4, False), StickySubtopology(4, True)


def of(text: str) -> frozenset[tuple[str, int]]:
    return tasks_of((each.partition("_")[0], [int(each.partition("_")[2])]) for each in text.split())


def test_tasks_of_a_subtopology_are_dealt_over_processes_and_their_members() -> None:
    members = {"a": StickyMember("p"), "b": StickyMember("p"), "c": StickyMember("q")}
    found = assign_tasks(members, {"0": StickySubtopology(6, False)}, 0)
    assert {member_id: len(tasks.active) for member_id, tasks in found.items()} == {"a": 2, "b": 2, "c": 2}


def test_tasks_stay_up_to_a_members_share() -> None:
    members = {"a": StickyMember("p", TasksByRole(of("0_0 0_1 0_2 0_3"))), "b": StickyMember("q")}
    found = assign_tasks(members, {"0": STATELESS}, 0)
    assert (found["a"].active, found["b"].active) == (of("0_0 0_1"), of("0_2 0_3"))


def test_task_of_a_member_that_is_gone_goes_to_its_standby_copy() -> None:
    members = {
        "a": StickyMember("p", TasksByRole(of("0_0"), of("0_1"))),
        "b": StickyMember("q", TasksByRole(of("0_2"), of("0_3"))),
    }
    found = assign_tasks(members, {"0": STATEFUL}, 0)
    assert (found["a"].active, found["b"].active) == (of("0_0 0_1"), of("0_2 0_3"))


def test_standby_copies_are_fewer_where_there_are_too_few_processes() -> None:
    members = {"a": StickyMember("p"), "b": StickyMember("p"), "c": StickyMember("q")}
    found = assign_tasks(members, {"0": STATEFUL}, 2)
    assert sum(len(tasks.standby) for tasks in found.values()) == 4
    assert assign_tasks({"a": StickyMember("p")}, {"0": STATEFUL}, 1)["a"].standby == frozenset()
    assert not assign_tasks({}, {"0": STATEFUL}, 1)


def total(tasks: TasksByRole) -> int:
    return len(tasks.active) + len(tasks.standby)


def test_active_task_without_state_goes_where_no_more_copies_fit() -> None:
    members = {
        "a": StickyMember("p", TasksByRole(of("1_1 1_4"), of("0_0"))),
        "b": StickyMember("q", TasksByRole(of("1_0 1_3"), of("0_0"))),
    }
    found = assign_tasks(members, {"0": StickySubtopology(1, True), "1": StickySubtopology(6, False)}, 2)
    assert (total(found["a"]), total(found["b"])) == (4, 4)
    assert all(each.previous.active <= found[member_id].active for member_id, each in members.items())


def test_roles_of_a_task_change_so_that_the_fullest_member_has_less() -> None:
    members = {
        "a": StickyMember("p", TasksByRole(of("0_1 0_2 0_4"), of("0_0"))),
        "b": StickyMember("p", TasksByRole(of("1_0 1_3"), of("0_3"))),
        "c": StickyMember("q"),
    }
    found = assign_tasks(members, {"0": StickySubtopology(5, True), "1": StickySubtopology(5, False)}, 1)
    assert [total(each) for each in found.values()] == [5, 5, 5]


@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=4),
    st.integers(0, 2),
)
def test_laws(processes: list[int], sizes: list[tuple[int, bool]], standbys: int) -> None:
    subtopologies = {str(number): StickySubtopology(*each) for number, each in enumerate(sizes)}
    members = {f"m{number}": StickyMember(f"p{process}") for number, process in enumerate(processes)}
    first = assign_tasks(members, subtopologies, standbys)
    check(members, subtopologies, standbys, first)
    stayed = {member_id: each._replace(previous=first[member_id]) for member_id, each in members.items()}
    check(members, subtopologies, standbys, assign_tasks(stayed, subtopologies, standbys))
    left = dict(list(stayed.items())[1:]) or stayed
    joined = {**left, "new": StickyMember("p9")}
    check(joined, subtopologies, standbys, assign_tasks(joined, subtopologies, standbys))


def check(
    members: dict[str, StickyMember],
    subtopologies: dict[str, StickySubtopology],
    standbys: int,
    found: dict[str, TasksByRole],
) -> None:
    """Check that each task is active once, and that its copies are in other processes, as many as there can be."""
    active = Counter(task for tasks in found.values() for task in tasks.active)
    assert set(active.values()) <= {1}
    assert len(active) == sum(each.tasks for each in subtopologies.values())
    process_of = {member_id: each.process_id for member_id, each in members.items()}
    held = Counter((process_of[each], task) for each, tasks in found.items() for task in tasks.active | tasks.standby)
    assert set(held.values()) <= {1}, "a process has a task once"
    copies = min(standbys, len({each.process_id for each in members.values()}) - 1)
    standby = Counter(task for tasks in found.values() for task in tasks.standby)
    for subtopology_id, each in subtopologies.items():
        for partition in range(each.tasks):
            assert standby[subtopology_id, partition] == (copies if each.is_stateful else 0)
    assert all(tasks.warmup == NO_TASKS.warmup for tasks in found.values())
