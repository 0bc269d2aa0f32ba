"""Tasks of a streams group in a written world: who runs them, and where targets place them."""

from __future__ import annotations

from typing import Any

from tests.unit.sim.checks.scripted import WHY, Script, breaks

from kohort.group.streams.apply import apply
from kohort.group.streams.events import (
    StreamsGroupDeleted,
    StreamsGroupStored,
    StreamsMemberAssignmentStored,
    StreamsMemberState,
    StreamsMemberStored,
    StreamsMemberTargetStored,
    StreamsTargetStored,
    StreamsTopologyStored,
    TaskOffsetsOffered,
    TaskOffsetsReported,
)
from kohort.group.streams.group import StreamsGroup
from kohort.group.streams.topology import InternalTopic, StreamsTopology, Subtopology
from kohort.model.streams_tasks import AssignedTasks, Task, TasksByRole
from kohort.sim.checks.group_ledger import Ledgers
from kohort.sim.checks.invariants import (
    NO_DOUBLE_OWNERSHIP,
    ONE_COPY_PER_PROCESS,
    TARGET_LEGAL,
    TASKS_MOVE_WARM,
    WITHHOLDING,
)
from kohort.sim.checks.streams_checks import StreamsTargetChecker, StreamsTaskChecker
from kohort.sim.checks.streams_invariants import crowded_processes, miscounts

TOPOLOGY = StreamsTopology(0, (Subtopology("0", ("u",), changelogs=(InternalTopic("g-changelog"),)),))
"""Two tasks with state."""
FIRST, SECOND = ("0", 0), ("0", 1)


def tasks(*active: Task, standby: tuple[Task, ...] = (), warmup: tuple[Task, ...] = ()) -> TasksByRole:
    return TasksByRole(frozenset(active), frozenset(standby), frozenset(warmup))


def stored(member_id: str, process_id: str) -> StreamsMemberStored:
    return StreamsMemberStored("g", member_id, None, None, "c", "/h", 1, 0, process_id, None, (), WHY)


def granted(member_id: str, has: TasksByRole, epoch: int = 2) -> StreamsMemberAssignmentStored:
    assigned = AssignedTasks(dict.fromkeys(has.active, epoch), has.standby, has.warmup)
    state = StreamsMemberState.STABLE
    return StreamsMemberAssignmentStored("g", member_id, epoch, 0, state, assigned, AssignedTasks(), WHY)


def target(epoch: int = 2, **targets: TasksByRole) -> list[Any]:
    events: list[Any] = [StreamsMemberTargetStored("g", member_id, each, WHY) for member_id, each in targets.items()]
    return [*events, StreamsTargetStored("g", epoch, 1, WHY)]


def reports(member_id: str, **lags: int) -> TaskOffsetsReported:
    shown = tuple((("0", int(name[1:])), lag) for name, lag in lags.items())
    offsets = tuple((task, 50_000 - lag) for task, lag in shown)
    return TaskOffsetsReported("g", member_id, offsets, tuple((task, 50_000) for task, _ in shown), 0, 0, WHY)


def group(**processes: str) -> Script:
    """A group of members by their processes."""
    script = Script(StreamsTaskChecker, StreamsTargetChecker)
    script.happens(StreamsGroupStored("g", 2, 0, 0, (), WHY), StreamsTopologyStored("g", TOPOLOGY, WHY))
    script.happens(*(stored(member_id, process_id) for member_id, process_id in processes.items()))
    return script


def test_two_members_of_the_group_run_no_task_twice() -> None:
    script = group(A="p", B="q")
    script.see.runs(script.member("m1.1", "A"), tasks(FIRST))
    script.see.runs(script.member("m2.1", "B"), tasks(standby=(FIRST,)))
    with breaks(NO_DOUBLE_OWNERSHIP, "m2.1 takes 0_0, which m1.1 runs"):
        script.see.runs(script.member("m2.1", "B"), tasks(FIRST))


def test_member_that_was_evicted_may_run_a_task_until_it_learns_of_that() -> None:
    script = group(B="q")
    script.see.runs(script.member("m1.1", "A"), tasks(FIRST))
    script.see.runs(script.member("m2.1", "B"), tasks(FIRST))
    assert script.times(NO_DOUBLE_OWNERSHIP) == 2


def test_member_may_run_a_task_that_it_began_before_its_report_without_it_was_answered() -> None:
    """Kafka Streams reports what it owned before, and the task is another's by that, seed 920001567."""
    script = group(A="p", B="q")
    hasty = script.member("m1.1", "A", early_tasks=frozenset({FIRST}))
    script.see.runs(hasty, tasks(FIRST, SECOND))
    script.see.runs(script.member("m2.1", "B"), tasks(FIRST))
    with breaks(NO_DOUBLE_OWNERSHIP, "m2.1 takes 0_1, which m1.1 runs"):
        script.see.runs(script.member("m2.1", "B"), tasks(SECOND))


def test_threads_of_one_process_have_a_task_once() -> None:
    script = group(A="p", B="p")
    script.see.runs(script.member("m1.1", "A"), tasks(FIRST))
    with breaks(ONE_COPY_PER_PROCESS, "m1.2 takes 0_0"):
        script.see.runs(script.member("m1.2", "B"), tasks(standby=(FIRST,)))


def test_task_is_granted_once_it_is_given_back() -> None:
    script = group(A="p", B="q")
    script.happens(granted("A", tasks(FIRST)), granted("B", tasks(standby=(FIRST,))))
    with breaks(WITHHOLDING, "B is granted 0_0 as active, which A has as active"):
        script.happens(granted("B", tasks(FIRST)))


def test_copy_is_granted_in_another_process_than_the_active_task() -> None:
    script = group(A="p", B="p")
    script.happens(granted("A", tasks(FIRST)))
    with breaks(ONE_COPY_PER_PROCESS, "in the same process"):
        script.happens(granted("B", tasks(standby=(FIRST,))))


def test_task_may_be_active_and_a_standby_only_where_it_is_given_back() -> None:
    group, had = StreamsGroup("g"), AssignedTasks({FIRST: 2})
    for member_id, assigned, pending in (
        ("A", AssignedTasks(standby=frozenset({FIRST})), had),
        ("B", had, AssignedTasks(standby=frozenset({FIRST}))),
    ):
        apply(group, stored(member_id, f"process of {member_id}"))
        unrevoked = StreamsMemberState.UNREVOKED_TASKS
        apply(group, StreamsMemberAssignmentStored("g", member_id, 2, 1, unrevoked, assigned, pending, WHY))
    assert list(crowded_processes(group)) == ["process of B has 0_0 twice: active at B, standby at B"]
    assert not list(miscounts(group))


def test_target_has_every_task_once() -> None:
    script = group(A="p", B="q")
    with breaks(TARGET_LEGAL, "0_1 is active nowhere"):
        script.happens(*target(A=tasks(FIRST)))
    script = group(A="p", B="q")
    with breaks(TARGET_LEGAL, "0_0 is active twice"):
        script.happens(*target(A=tasks(FIRST, SECOND), B=tasks(FIRST)))
    script = group(A="p", B="q")
    with breaks(TARGET_LEGAL, "0_0 has 1 standby copies, and 0 are possible"):
        script.happens(*target(A=tasks(FIRST, SECOND), B=tasks(standby=(FIRST,))))


def test_target_has_no_copy_where_the_task_is_active() -> None:
    script = group(A="p", B="p")
    with breaks(ONE_COPY_PER_PROCESS, "p has 0_0 twice"):
        script.happens(*target(A=tasks(FIRST, SECOND), B=tasks(warmup=(FIRST,))))


def test_task_moves_only_to_a_copy_that_has_caught_up() -> None:
    script = group(A="p", B="q")
    script.happens(granted("A", tasks(FIRST, SECOND)), granted("B", tasks(warmup=(FIRST,))), reports("B", t0=10_000))
    script.happens(*target(A=tasks(SECOND), B=tasks(FIRST)))
    script.happens(reports("B", t0=10_001))
    with breaks(TASKS_MOVE_WARM, "0_0 becomes active at B of q", "['p'] have"):
        script.happens(*target(3, A=tasks(SECOND), B=tasks(FIRST)))


def test_task_may_move_cold_where_no_copy_has_caught_up_and_to_members_without_lags() -> None:
    script = group(A="p", B="q")
    script.happens(*target(A=tasks(FIRST), B=tasks(SECOND)))
    script.happens(granted("A", tasks(FIRST)), granted("B", tasks(SECOND)), TaskOffsetsOffered("g", "B", False, WHY))
    script.happens(*target(3, A=tasks(), B=tasks(FIRST, SECOND)))
    assert script.times(TASKS_MOVE_WARM) == 4


def test_few_tasks_warm_up_at_a_time() -> None:
    script = group(A="p", B="q", C="r")
    with breaks(TASKS_MOVE_WARM, "3 tasks warm up, of 2"):
        script.happens(*target(A=tasks(FIRST, SECOND), B=tasks(warmup=(FIRST, SECOND)), C=tasks(warmup=(FIRST,))))


def test_group_that_is_deleted_has_no_members() -> None:
    script = group(A="p")
    script.happens(granted("A", tasks(FIRST)))
    assert not script.ledgers.groups["g"].is_out("A")
    script.happens(StreamsGroupDeleted("g", WHY))
    assert script.ledgers.groups["g"].is_out("A")
    assert isinstance(script.ledgers, Ledgers)
