"""One step of a member of a streams group: tasks that change their role at a member, and in a process."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.group.streams_world import active, tasks

from kohort.group.streams.apply import apply
from kohort.group.streams.events import (
    StreamsMemberAssignmentStored,
    StreamsMemberState,
    StreamsMemberStored,
    StreamsMemberTargetStored,
    StreamsTargetStored,
)
from kohort.group.streams.group import StreamsGroup
from kohort.group.streams.reconcile import TaskStep, reconcile
from kohort.model.cause import Cause, CauseKind
from kohort.model.streams_tasks import NO_TASKS, NONE_ASSIGNED, AssignedTasks, TasksByRole

WHY = Cause(CauseKind.MEMBER_RECONCILED, 0)
STABLE, UNREVOKED, UNRELEASED = (
    StreamsMemberState.STABLE,
    StreamsMemberState.UNREVOKED_TASKS,
    StreamsMemberState.UNRELEASED_TASKS,
)


def standby(text: str) -> TasksByRole:
    return TasksByRole(standby=tasks(text))


def warmup(text: str) -> TasksByRole:
    return TasksByRole(warmup=tasks(text))


def group(**members: tuple[TasksByRole, TasksByRole]) -> StreamsGroup:
    """A group with a target of epoch 5: each member has tasks of epoch 4, and a target. `a` and `a2` are a process."""
    found = StreamsGroup("g")
    for member_id, (has, target) in members.items():
        assigned = AssignedTasks(dict.fromkeys(has.active, 4), has.standby, has.warmup)
        apply(found, StreamsMemberStored("g", member_id, None, None, "c", "/h", 1, 0, member_id[0], None, (), WHY))
        apply(found, StreamsMemberAssignmentStored("g", member_id, 4, 3, STABLE, assigned, NONE_ASSIGNED, WHY))
        apply(found, StreamsMemberTargetStored("g", member_id, target, WHY))
    apply(found, StreamsTargetStored("g", 5, 0, WHY))
    return found


def step(found: StreamsGroup, member_id: str, owned: TasksByRole | None = None) -> TaskStep:
    """Let a member that reports to own this take its next step."""
    member = found.members[member_id]
    taken = reconcile(found, member, owned)
    assert taken is not None, "the member stays as it is"
    apply(found, taken.stored(found, member, WHY))
    return taken


def test_active_task_that_becomes_a_standby_is_one_in_the_step_that_asks_for_it_back() -> None:
    found = group(a=(active("0_0"), standby("0_0")))
    asked = step(found, "a", active("0_0"))
    assert (asked.epoch, asked.state) == (4, UNREVOKED)
    assert (asked.assigned.tasks, asked.pending.tasks) == (standby("0_0"), active("0_0"))
    assert reconcile(found, found.members["a"], active("0_0")) is None, "it has not given it back"
    given_back = step(found, "a", standby("0_0"))
    assert given_back == (5, 4, STABLE, AssignedTasks(standby=tasks("0_0")), NONE_ASSIGNED)


def test_task_is_active_at_the_next_owner_once_the_last_one_has_only_a_standby() -> None:
    found = group(a=(active("0_0"), standby("0_0")), b=(NO_TASKS, active("0_0")))
    step(found, "a", active("0_0"))
    waiting = step(found, "b", NO_TASKS)
    assert (waiting.state, waiting.assigned) == (UNRELEASED, NONE_ASSIGNED)
    step(found, "a", standby("0_0"))
    granted = step(found, "b", NO_TASKS)
    assert (granted.state, granted.assigned) == (STABLE, AssignedTasks({("0", 0): 5}))


def test_member_that_gave_back_what_it_was_asked_for_is_an_epoch_further_even_if_it_is_asked_for_more() -> None:
    found = group(a=(active("0_0 0_1"), active("0_0")))
    assert step(found, "a", active("0_0 0_1")).epoch == 4
    apply(found, StreamsMemberTargetStored("g", "a", NO_TASKS, WHY))
    apply(found, StreamsTargetStored("g", 6, 0, WHY))
    asked = step(found, "a", active("0_0"))
    assert (asked.epoch, asked.previous_epoch, asked.state, asked.pending.tasks) == (5, 4, UNREVOKED, active("0_0"))
    assert step(found, "a", NO_TASKS).epoch == 6


@pytest.mark.parametrize("copy", [standby, warmup])
def test_copy_is_retained_until_its_task_is_free_and_becomes_active_in_one_step(
    copy: Callable[[str], TasksByRole],
) -> None:
    found = group(a=(copy("0_0"), active("0_0")), b=(active("0_0"), NO_TASKS))
    waiting = step(found, "a", copy("0_0"))
    assert (waiting.state, waiting.assigned.tasks, waiting.pending) == (UNRELEASED, copy("0_0"), NONE_ASSIGNED)
    step(found, "b", active("0_0"))
    step(found, "b", NO_TASKS)
    granted = step(found, "a", copy("0_0"))
    assert (granted.state, granted.assigned) == (STABLE, AssignedTasks({("0", 0): 5}))


@pytest.mark.parametrize(("before", "after"), [(standby, warmup), (warmup, standby)])
def test_copy_becomes_one_of_the_other_kind_at_once(
    before: Callable[[str], TasksByRole], after: Callable[[str], TasksByRole]
) -> None:
    found = group(a=(before("0_0"), after("0_0")))
    changed = step(found, "a", before("0_0"))
    assert (changed.epoch, changed.state, changed.assigned.tasks) == (5, STABLE, after("0_0"))


def test_copy_stays_what_it_is_while_its_member_has_other_tasks_to_give_back() -> None:
    found = group(a=(TasksByRole(tasks("0_1"), tasks("0_0")), active("0_0")))
    asked = step(found, "a", TasksByRole(tasks("0_1"), tasks("0_0")))
    assert (asked.assigned.tasks, asked.pending.tasks) == (standby("0_0"), active("0_1"))
    assert step(found, "a", standby("0_0")).assigned.tasks == active("0_0")


def test_active_task_that_becomes_a_warmup_is_given_back_first() -> None:
    found = group(a=(active("0_0"), warmup("0_0")))
    asked = step(found, "a", active("0_0"))
    assert (asked.assigned, asked.pending.tasks) == (NONE_ASSIGNED, active("0_0"))
    assert step(found, "a", NO_TASKS).assigned.tasks == warmup("0_0")


def test_copy_of_another_thread_of_the_process_is_given_back_before_the_task_is_active() -> None:
    found = group(a=(standby("0_0"), NO_TASKS), a2=(NO_TASKS, active("0_0")))
    assert step(found, "a2", NO_TASKS).state is UNRELEASED
    assert step(found, "a", standby("0_0")).state is UNREVOKED
    step(found, "a", NO_TASKS)
    assert step(found, "a2", NO_TASKS).assigned.tasks == active("0_0")
