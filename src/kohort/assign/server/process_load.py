"""One process of a streams group, while tasks are assigned: what its members have been given."""

from __future__ import annotations

from kohort.model.streams_tasks import Task

Tags = tuple[str | None, ...]
"""The values of a process for the keys of tags that its group names (KIP-708), in their order."""


class ProcessLoad:
    """What a process has, in any role; `counts` are the tasks of each member."""

    __slots__ = ("counts", "process_id", "tags", "tasks", "total")

    def __init__(self, process_id: str, tags: Tags) -> None:
        self.process_id, self.tags = process_id, tags
        self.counts: dict[str, int] = {}
        self.tasks: set[Task] = set()
        self.total = 0

    @property
    def load(self) -> float:
        """Its tasks for each of its members."""
        return self.total / len(self.counts)

    @property
    def least(self) -> int:
        """How many tasks its emptiest member has."""
        return min(self.counts.values())

    def least_loaded_member(self) -> str:
        """Return its emptiest member."""
        return min(self.counts, key=lambda member_id: (self.counts[member_id], member_id))

    def add(self, task: Task, member_id: str) -> None:
        """Give a task to a member."""
        self.counts[member_id] += 1
        self.total += 1
        self.tasks.add(task)
