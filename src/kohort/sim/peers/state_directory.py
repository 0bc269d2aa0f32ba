"""The state directory of a Kafka Streams process: how far its copies of changelogs are. It survives restarts.

A copy that is open is restored at the speed of the process until it has reached the end of its changelog. One of a task
that the process has no more stays as it is. Positions are computed when they are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kohort.model.streams_tasks import Task
from kohort.sim.kernel.scheduler import Scheduler
from kohort.sim.peers.streams_application import StreamsApplication


@dataclass(slots=True)
class _Copy:
    """One copy: where it was at a time, and at which speed it is restored since, 0 while it is closed."""

    offset: int
    since_us: int
    records_per_s: int


class StateDirectory:
    """One directory. `process_id` is the id that the process has stored in it."""

    def __init__(
        self, process_id: str, application: StreamsApplication, records_per_s: int, scheduler: Scheduler
    ) -> None:
        self.process_id = process_id
        self._application = application
        self._records_per_s = records_per_s
        self._scheduler = scheduler
        self._copies: dict[Task, _Copy] = {}

    @property
    def tasks(self) -> Iterable[Task]:
        """The tasks of which there is state, sorted."""
        return sorted(self._copies)

    def open(self, task: Task, *, is_active: bool) -> None:
        """Begin to restore a copy; that of an active task, which writes the changelog, is never overtaken by it."""
        self._turn(task, self._records_per_s + is_active * 2 * self._application.records_per_s)

    def close(self, task: Task) -> None:
        """Leave a copy as it is."""
        if task in self._copies:
            self._turn(task, 0)

    def close_all(self) -> None:
        """Leave all copies as they are: the process has ended."""
        for task in self.tasks:
            self.close(task)

    def restore_faster(self, records_per_s: int) -> None:
        """Restore at least so fast from now on."""
        self._records_per_s = max(records_per_s, self._records_per_s)
        for task, copy in self._copies.items():
            if copy.records_per_s:
                self._turn(task, max(copy.records_per_s, self._records_per_s))

    def offset(self, task: Task) -> int:
        """Return how far a copy is; 0 without one."""
        copy = self._copies.get(task)
        if copy is None:
            return 0
        passed_us = self._scheduler.now_us - copy.since_us
        restored = copy.offset + copy.records_per_s * passed_us // 1_000_000
        return min(restored, self._application.end_offset)

    def lag(self, task: Task) -> int:
        """Return how many records a copy is behind."""
        return self._application.end_offset - self.offset(task)

    def _turn(self, task: Task, records_per_s: int) -> None:
        self._copies[task] = _Copy(self.offset(task), self._scheduler.now_us, records_per_s)
