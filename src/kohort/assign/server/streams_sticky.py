"""Sticky assignor of streams groups (KIP-1071): tasks stay where their state is, and processes are loaded alike.

A process is loaded by its tasks for each of its members. A member's share is what is left, divided by the members below
their share, and rounded up; it is computed anew whenever a member has reached it. Standby tasks count for a share of
their own. Each active task stays with its member, else it goes to one with a standby copy, each below its share; what
is left goes to the emptiest members. A standby task goes to a member that had the task, if its process has it no more,
else to the least loaded process without it; with too few processes there are fewer copies. Where tags count, standby
tasks go where `streams_apart` places them. So far Kafka's
`StickyTaskAssignor` does the same; where it leaves a choice to the order of a hash map, names decide here. Last, the
fullest members hand tasks on (`streams_evenness`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from kohort.assign.server.process_load import ProcessLoad, Tags
from kohort.assign.server.streams_apart import place_apart
from kohort.assign.server.streams_evenness import TaskPlacement, level
from kohort.model.streams_tasks import Task, TasksByRole

STICKY = "sticky"
"""The assignor's name."""


class StickyMember(NamedTuple):
    """One member, as the assignor sees it: the process it belongs to, its last target, and the tags that count."""

    process_id: str
    previous: TasksByRole = TasksByRole()
    tags: Tags = ()


class StickySubtopology(NamedTuple):
    """How many tasks a subtopology has, and whether they have state."""

    tasks: int
    is_stateful: bool


class _Share:
    """How many tasks a member gets."""

    __slots__ = ("members", "size", "total")

    def __init__(self, total: int, members: int) -> None:
        self.total, self.members = total, members
        self._divide()

    def reached(self, count: int) -> None:
        """A member has `count` tasks now: if that is its share, the others divide what is left."""
        if count == self.size:
            self.members -= 1
            self.total -= count
            self._divide()

    def _divide(self) -> None:
        self.size = -(-self.total // self.members) if self.members else 0


class _Round:
    """One assignment in the making."""

    def __init__(
        self, members: Mapping[str, StickyMember], subtopologies: Mapping[str, StickySubtopology], standbys: int
    ) -> None:
        self._standbys = standbys
        self._members = members
        self._processes: dict[str, ProcessLoad] = {}
        self._active_before: dict[Task, str] = {}
        self._standby_before: dict[Task, list[str]] = {}
        self.active: dict[str, set[Task]] = {member_id: set() for member_id in members}
        self.standby: dict[str, set[Task]] = {member_id: set() for member_id in members}
        for member_id, member in sorted(members.items()):
            self._processes.setdefault(member.process_id, ProcessLoad(member.process_id, member.tags)).counts[
                member_id
            ] = 0
            self._active_before.update(dict.fromkeys(member.previous.active, member_id))
            for task in member.previous.standby:
                self._standby_before.setdefault(task, []).append(member_id)
        active = sum(each.tasks for each in subtopologies.values())
        copies = standbys * sum(each.tasks for each in subtopologies.values() if each.is_stateful)
        self._active_share = _Share(active, len(members))
        self._total_share = _Share(active + copies, len(members))

    def assign_active(self, tasks: Iterable[Task]) -> None:
        """Give out the active tasks."""
        rest: list[Task] = []
        for task in sorted(tasks, key=_by_partition):
            member_id = self._active_before.get(task)
            if member_id is None or not self._add_active(task, member_id):
                rest.append(task)
        left: list[Task] = []
        for task in rest:
            before = self._least_loaded(self._standby_before.get(task, ()), None)
            if before is None or not self._add_active(task, before):
                left.append(task)
        # The members of a process were given tasks back, some more than others: the emptiest member comes first.
        queue = [(process.least, process.load, process.process_id, process) for process in self._processes.values()]
        heapify(queue)
        for task in sorted(left):
            process = heappop(queue)[-1]
            self._add(task, process, process.least_loaded_member(), is_active=True)
            heappush(queue, (process.least, process.load, process.process_id, process))

    def assign_standby(self, tasks: Iterable[Task]) -> None:
        """Give out the standby tasks."""
        left: list[tuple[Task, int]] = []
        for task in sorted(tasks, key=_by_partition, reverse=True):
            for number in range(self._standbys):
                if not self._return_standby(task):
                    left.append((task, self._standbys - number))
                    break
        queue = self._by_load()
        for task, copies in sorted(left, reverse=True):
            for _ in range(copies):
                if not self._add_to_other_process(task, queue):
                    break

    def _return_standby(self, task: Task) -> bool:
        """Give a copy to a member that had the task; return whether there is one that can take it."""
        for member_id in self._owners_before(task):
            process = self._home(member_id)
            if task not in process.tasks and process.counts[member_id] < self._total_share.size:
                self._add(task, process, member_id, is_active=False)
                return True
        return False

    def _owners_before(self, task: Task) -> Iterator[str]:
        if task in self._active_before:
            yield self._active_before[task]
        standby = self._least_loaded(self._standby_before.get(task, ()), task)
        if standby is not None:
            yield standby

    def _add_to_other_process(self, task: Task, queue: list[tuple[float, str, ProcessLoad]]) -> bool:
        """Give a copy to the least loaded process that has not the task; return whether there is one."""
        passed: list[tuple[float, str, ProcessLoad]] = []
        process = None
        while queue and process is None:
            entry = heappop(queue)
            if task in entry[2].tasks:
                passed.append(entry)
            else:
                process = entry[2]
        if process is not None:
            self._add(task, process, process.least_loaded_member(), is_active=False)
            passed.append((process.load, process.process_id, process))
        for entry in passed:
            heappush(queue, entry)
        return process is not None

    def _add_active(self, task: Task, member_id: str) -> bool:
        process = self._home(member_id)
        if process.counts[member_id] >= self._active_share.size:
            return False
        self._add(task, process, member_id, is_active=True)
        return True

    def _add(self, task: Task, process: ProcessLoad, member_id: str, *, is_active: bool) -> None:
        process.add(task, member_id)
        if is_active:
            self.active[member_id].add(task)
            self._active_share.reached(process.counts[member_id])
        else:
            self.standby[member_id].add(task)
        self._total_share.reached(process.counts[member_id])

    def _least_loaded(self, member_ids: Iterable[str], task: Task | None) -> str | None:
        """Return the member of the least loaded process, without those whose process has the task."""
        able = [each for each in member_ids if task is None or task not in self._home(each).tasks]
        return min(able, key=self._load_of, default=None)

    def _load_of(self, member_id: str) -> tuple[float, int, str]:
        process = self._home(member_id)
        return process.load, process.counts[member_id], member_id

    def _home(self, member_id: str) -> ProcessLoad:
        return self._processes[self._members[member_id].process_id]

    def _by_load(self) -> list[tuple[float, str, ProcessLoad]]:
        queue = [(process.load, process.process_id, process) for process in self._processes.values()]
        heapify(queue)
        return queue


def _by_partition(task: Task) -> tuple[int, str]:
    return task[1], task[0]


def assign_tasks(
    members: Mapping[str, StickyMember], subtopologies: Mapping[str, StickySubtopology], standby_replicas: int
) -> dict[str, TasksByRole]:
    """Return the target of each member; `standby_replicas` is how many copies a task with state should have."""
    if not members:
        return {}
    is_apart = any(any(member.tags) for member in members.values())
    made = _Round(members, subtopologies, 0 if is_apart else standby_replicas)
    made.assign_active(_tasks(subtopologies, is_active=True))
    stateful = list(_tasks(subtopologies, is_active=False))
    made.assign_standby(stateful)
    process_of = {member_id: member.process_id for member_id, member in members.items()}
    before = {member_id: member.previous.active for member_id, member in members.items()}
    active, standby = level(TaskPlacement(made.active, made.standby), process_of, before)
    if is_apart:
        homes = {member_id: (member.process_id, member.tags) for member_id, member in members.items()}
        had = {member_id: member.previous.active | member.previous.standby for member_id, member in members.items()}
        standby = place_apart(active, homes, had, stateful, standby_replicas)
    return {
        member_id: TasksByRole(frozenset(active[member_id]), frozenset(standby[member_id])) for member_id in members
    }


def _tasks(subtopologies: Mapping[str, StickySubtopology], *, is_active: bool) -> Iterator[Task]:
    for subtopology_id, each in subtopologies.items():
        if is_active or each.is_stateful:
            for partition in range(each.tasks):
                yield subtopology_id, partition
