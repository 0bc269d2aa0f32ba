"""Warm-ups of streams groups: a task with state moves once its copy has caught up. The laws of `refine`."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from kohort.assign.server.streams_sticky import StickyMember, StickySubtopology, assign_tasks
from kohort.assign.server.streams_warmups import WarmupLimits, WarmupMember, refine
from kohort.model.streams_tasks import NO_TASKS, Task, TasksByRole, tasks_of

LIMITS = WarmupLimits(100, 2)


def of(*partitions: int) -> frozenset[Task]:
    return tasks_of([("0", partitions)])


def test_task_stays_with_its_owner_until_the_new_owner_is_within_the_limit() -> None:
    target = {"a": TasksByRole(of(0)), "b": TasksByRole(of(1))}
    members = {"a": WarmupMember("p", of(0, 1)), "b": WarmupMember("q")}
    withheld = {"a": TasksByRole(of(0, 1)), "b": TasksByRole(warmup=of(1))}
    assert refine(target, members, ("0",), LIMITS) == withheld
    members["b"] = members["b"]._replace(lags={("0", 1): 101})
    assert refine(target, members, ("0",), LIMITS) == withheld
    members["b"] = members["b"]._replace(lags={("0", 1): 100})
    assert refine(target, members, ("0",), LIMITS) == target


def test_moves_that_wait_for_nothing_are_made_at_once() -> None:
    target = {"a": NO_TASKS, "b": TasksByRole(of(0))}
    members = {"a": WarmupMember("p", of(0)), "b": WarmupMember("q")}
    assert refine(target, members, (), LIMITS) == target, "the task has no state"
    assert refine(target, members, ("0",), WarmupLimits(100, 0)) == target, "there may be no warm-ups"
    for changes in ({"reports_lags": False}, {"process_id": "p"}):
        assert refine(target, {**members, "b": members["b"]._replace(**changes)}, ("0",), LIMITS) == target
    assert refine(target, {"a": WarmupMember("p"), "b": WarmupMember("q")}, ("0",), LIMITS) == target, "no state lives"


def test_copy_that_has_caught_up_takes_over_from_an_owner_that_is_gone() -> None:
    target = {"b": TasksByRole(of(0)), "c": TasksByRole(of(1))}
    members = {"b": WarmupMember("q"), "c": WarmupMember("r", lags={("0", 0): 7})}
    assert refine(target, members, ("0",), LIMITS) == {"b": TasksByRole(warmup=of(0)), "c": TasksByRole(of(0, 1))}


def test_standby_copy_of_the_owners_process_goes_to_the_new_owner() -> None:
    target = {"a": TasksByRole(standby=of(0)), "b": TasksByRole(of(0))}
    members = {"a": WarmupMember("p", of(0)), "b": WarmupMember("q")}
    assert refine(target, members, ("0",), LIMITS) == {"a": TasksByRole(of(0)), "b": TasksByRole(standby=of(0))}


def test_warm_up_retains_its_place_unless_it_falls_behind() -> None:
    target = {"a": NO_TASKS, "b": TasksByRole(of(0, 1)), "c": TasksByRole(of(2))}
    members = {"a": WarmupMember("p", of(0, 1, 2)), "b": WarmupMember("q"), "c": WarmupMember("r", warmup=of(2))}
    one = WarmupLimits(100, 1)
    assert refine(target, members, ("0",), one)["c"].warmup == of(2)
    members["c"] = members["c"]._replace(falling_behind=of(2))
    found = refine(target, members, ("0",), one)
    assert (found["b"].warmup, found["c"].warmup) == (of(0), of())


@dataclass
class Client:
    """A thread: what it was granted last, and the lags of its copies."""

    process_id: str
    reports_lags: bool
    has: TasksByRole = NO_TASKS
    lags: dict[Task, int] = field(default_factory=dict)


class Group:
    """Clients, one target after the other."""

    def __init__(self, clients: dict[str, Client], sizes: list[tuple[int, bool]], standbys: int, slots: int) -> None:
        self.clients, self.standbys = clients, standbys
        self.subtopologies = {str(number): StickySubtopology(*each) for number, each in enumerate(sizes)}
        self.limits = WarmupLimits(100, slots)

    def target(self) -> bool:
        """Compute a target, check the laws, and grant it; return whether no move waits."""
        sticky = {
            member_id: StickyMember(each.process_id, TasksByRole(each.has.active, each.has.standby | each.has.warmup))
            for member_id, each in self.clients.items()
        }
        placed = assign_tasks(sticky, self.subtopologies, self.standbys)
        members = {
            member_id: WarmupMember(each.process_id, each.has.active, each.has.warmup, each.lags, (), each.reports_lags)
            for member_id, each in self.clients.items()
        }
        stateful = {name for name, each in self.subtopologies.items() if each.is_stateful}
        found = refine(placed, members, stateful, self.limits)
        self.check(placed, found, stateful)
        for member_id, tasks in found.items():
            client = self.clients[member_id]
            client.lags = {task: client.lags.get(task, 1_000) for task in tasks.standby | tasks.warmup}
            client.has = tasks
        return found == placed

    def check(self, placed: dict[str, TasksByRole], found: dict[str, TasksByRole], stateful: set[str]) -> None:
        active = sorted(task for tasks in found.values() for task in tasks.active)
        assert active == sorted(task for tasks in placed.values() for task in tasks.active), "each once"
        had = [
            (self.clients[name].process_id, task) for name, tasks in found.items() for role in tasks for task in role
        ]
        assert len(had) == len(set(had)), "a process has a task once"
        assert sum(len(tasks.warmup) for tasks in found.values()) <= self.limits.warmup_replicas
        for member_id, tasks in found.items():
            for task in tasks.active:
                ready = self.caught_up(task)
                is_ready = self.clients[member_id].process_id in ready
                waits = task[0] in stateful and self.clients[member_id].reports_lags and self.limits.warmup_replicas
                assert is_ready or not ready or not waits, "it moves to a copy that has caught up"

    def caught_up(self, task: Task) -> set[str]:
        return {
            each.process_id
            for each in self.clients.values()
            if task in each.has.active or each.lags.get(task, 1_000) <= self.limits.acceptable_recovery_lag
        }

    def shrink(self) -> None:
        for client in self.clients.values():
            client.lags = {task: lag // 4 for task, lag in client.lags.items()}


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([True, True, False])), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=3),
    st.integers(0, 2),
    st.integers(0, 3),
    st.data(),
)
def test_laws(
    kinds: list[tuple[int, bool]], sizes: list[tuple[int, bool]], standbys: int, slots: int, data: st.DataObject
) -> None:
    clients = {f"m{number}": Client(f"p{process}", reports) for number, (process, reports) in enumerate(kinds)}
    group = Group({}, sizes, standbys, slots)
    for member_id, client in clients.items():
        group.clients[member_id] = client
        if data.draw(st.booleans()):
            group.target()
        if len(group.clients) > 1 and data.draw(st.integers(0, 3)) == 0:
            del group.clients[data.draw(st.sampled_from(sorted(group.clients)))]
    for _ in range(200):
        if group.target():
            break
        group.shrink()
    assert group.target(), "all moves are made once lags shrink"
