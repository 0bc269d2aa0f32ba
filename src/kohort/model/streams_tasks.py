"""Tasks of a streams group (KIP-1071): what its members own in place of partitions.

A task is one partition of a subtopology. A member has it in one of three roles: active, where it processes records;
standby, a copy of the state; warm-up, a copy that is to become active. Of an active task the epoch counts in which it
was assigned, as of partitions of a consumer group (KIP-1251).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

Task = tuple[str, int]
"""The id of a subtopology, and a partition."""


class TaskRole(StrEnum):
    """What a member does with a task."""

    ACTIVE = "active"
    STANDBY = "standby"
    WARMUP = "warmup"


class TasksByRole(NamedTuple):
    """Tasks by role. It is empty if none of its fields has a task: use `any(tasks)`."""

    active: frozenset[Task] = frozenset()
    standby: frozenset[Task] = frozenset()
    warmup: frozenset[Task] = frozenset()


class AssignedTasks(NamedTuple):
    """Tasks by role, the active ones with the epochs in which they were assigned."""

    active: Mapping[Task, int] = MappingProxyType({})
    standby: frozenset[Task] = frozenset()
    warmup: frozenset[Task] = frozenset()

    @property
    def tasks(self) -> TasksByRole:
        """The same without epochs."""
        return TasksByRole(frozenset(self.active), self.standby, self.warmup)

    def roles(self) -> dict[Task, TaskRole]:
        """Return the role of each task."""
        found = dict.fromkeys(self.active, TaskRole.ACTIVE)
        found.update(dict.fromkeys(self.standby, TaskRole.STANDBY))
        found.update(dict.fromkeys(self.warmup, TaskRole.WARMUP))
        return found


NO_TASKS, NONE_ASSIGNED = TasksByRole(), AssignedTasks()


def roles_of(assigned: AssignedTasks, pending: AssignedTasks) -> dict[Task, TaskRole]:
    """Return the role in which a member has each task: one that becomes a standby is active until it is given back."""
    return {**assigned.roles(), **pending.roles()}


def overlap(tasks: TasksByRole, others: AssignedTasks | TasksByRole) -> bool:
    """Whether some task is in both in the same role."""
    return any(any(task in theirs for task in ours) for ours, theirs in zip(tasks, others, strict=True))


def is_within(tasks: TasksByRole, others: AssignedTasks) -> bool:
    """Whether every active task is one in `others`, and every copy is there in some role: it may change that."""
    roles = others.roles()
    return tasks.active <= others.active.keys() and all(task in roles for task in tasks.standby | tasks.warmup)


def by_subtopology(tasks: Collection[Task]) -> dict[str, list[int]]:
    """Return the partitions of each subtopology, all sorted, as the wire and the records have them."""
    found: dict[str, list[int]] = {}
    for subtopology_id, partition in sorted(tasks):
        found.setdefault(subtopology_id, []).append(partition)
    return found


def tasks_of(subtopologies: Iterable[tuple[str, Iterable[int]]]) -> frozenset[Task]:
    """Return the tasks of partitions by subtopology."""
    return frozenset((subtopology_id, partition) for subtopology_id, numbers in subtopologies for partition in numbers)
