"""Standby tasks of streams groups, placed by the tags of processes (KIP-708)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.assign.server.streams_sticky import StickyMember, StickySubtopology, assign_tasks
from kohort.model.streams_tasks import Task, TasksByRole

STATEFUL = {"0": StickySubtopology(6, True)}


def in_zones(*zones: str | None, threads: int = 1) -> dict[str, StickyMember]:
    """Return the members of one process for each zone."""
    return {
        f"m{number}.{thread}": StickyMember(f"p{number}", tags=(zone,))
        for number, zone in enumerate(zones)
        for thread in range(threads)
    }


def homes(found: dict[str, TasksByRole], members: dict[str, StickyMember]) -> dict[Task, list[StickyMember]]:
    """Return who has each task, the active one first."""
    having: dict[Task, list[StickyMember]] = {}
    for role in (0, 1):
        for member_id, tasks in sorted(found.items()):
            for task in sorted(tasks[role]):
                having.setdefault(task, []).append(members[member_id])
    return having


@pytest.mark.parametrize("threads", [1, 3])
def test_each_copy_is_in_another_zone_than_its_task(threads: int) -> None:
    members = in_zones("a", "a", "a", "b", threads=threads)
    found = assign_tasks(members, STATEFUL, 1)
    assert all(one.tags != other.tags for one, other in homes(found, members).values())


def test_two_copies_are_in_two_other_zones() -> None:
    members = in_zones("a", "a", "b", "b", "c", "c")
    found = assign_tasks(members, STATEFUL, 2)
    assert all(len({each.tags for each in having}) == 3 for having in homes(found, members).values())
    assert [len(tasks.standby) for tasks in found.values()] == [2] * 6


def test_more_copies_than_zones_are_beside_each_other() -> None:
    members = in_zones("a", "a", "b")
    found = assign_tasks(members, STATEFUL, 2)
    assert all(len(having) == 3 for having in homes(found, members).values())


def test_the_most_keys_that_can_differ_do() -> None:
    tags = [("k1", "a"), ("k1", "b"), ("k2", "a"), ("k2", "b")]
    members = {f"m{number}": StickyMember(f"p{number}", tags=each) for number, each in enumerate(tags)}
    for one, other in homes(assign_tasks(members, STATEFUL, 1), members).values():
        assert all(mine != theirs for mine, theirs in zip(one.tags, other.tags, strict=True))


def test_process_without_a_tag_comes_last() -> None:
    members = in_zones("a", None, "b")
    found = assign_tasks(members, STATEFUL, 1)
    for one, other in homes(found, members).values():
        assert one.tags == (None,) or other.tags != (None,)


def test_group_in_which_no_process_has_a_tag_is_assigned_as_without_tags() -> None:
    members = in_zones(None, None, None, threads=2)
    sizes = {"0": StickySubtopology(5, True), "1": StickySubtopology(3, False)}
    plain = {member_id: each._replace(tags=()) for member_id, each in members.items()}
    assert assign_tasks(members, sizes, 2) == assign_tasks(plain, sizes, 2)


def test_copy_stays_where_it_was_when_a_process_comes_in_its_zone() -> None:
    members = in_zones("a", "b", "b")
    before = assign_tasks(members, STATEFUL, 1)
    members = {member_id: each._replace(previous=before[member_id]) for member_id, each in members.items()}
    members["m3.0"] = StickyMember("p3", tags=("b",))
    after = assign_tasks(members, STATEFUL, 1)
    lost = sum(len(before[each].standby - after[each].standby - after[each].active) for each in before)
    assert lost <= 6 // 3 + 1


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from("abc"), st.sampled_from("xy")), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=3),
    st.integers(0, 3),
)
def test_laws(processes: list[tuple[int, str, str]], sizes: list[tuple[int, bool]], copies: int) -> None:
    tags = {number: (zone, rack) for number, zone, rack in processes}
    subtopologies = {str(number): StickySubtopology(*each) for number, each in enumerate(sizes)}
    members = {
        f"m{place}": StickyMember(f"p{number}", tags=tags[number]) for place, (number, _, _) in enumerate(processes)
    }
    found = assign_tasks(members, subtopologies, copies)
    for task, having in homes(found, members).items():
        names = [each.process_id for each in having]
        expected = min(copies, len(tags) - 1) if subtopologies[task[0]].is_stateful else 0
        assert len(names) == len(set(names)) == 1 + expected, task
        if copies == 1 and expected:
            one, other = having
            least = min(alike(one, each) for each in members.values() if each.process_id != one.process_id)
            assert alike(one, other) == least, task
    again = {member_id: each._replace(previous=found[member_id]) for member_id, each in members.items()}
    assert assign_tasks(again, subtopologies, copies) == found


def alike(one: StickyMember, other: StickyMember) -> int:
    return sum(mine == theirs for mine, theirs in zip(one.tags, other.tags, strict=True))


def test_copies_are_even_where_each_process_is_in_a_place_of_its_own() -> None:
    members = in_zones(*(f"z{number}" for number in range(300)))
    found = assign_tasks(members, {"0": StickySubtopology(600, True)}, 1)
    assert max(len(tasks.standby) for tasks in found.values()) <= 4
    assert all(one.tags != other.tags for one, other in homes(found, members).values())
