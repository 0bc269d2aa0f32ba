"""What the log contains of a streams group, folded by other code than the coordinator's, which knows no decisions.

Of soft events it takes what members reported of their copies: which lag each copy had when it was reported last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kohort.group.events import Event
from kohort.group.streams.events import (
    StreamsGroupDeleted,
    StreamsGroupStored,
    StreamsHardEvent,
    StreamsMemberAssignmentDeleted,
    StreamsMemberAssignmentStored,
    StreamsMemberDeleted,
    StreamsMemberStored,
    StreamsMemberTargetDeleted,
    StreamsMemberTargetStored,
    StreamsTargetDeleted,
    StreamsTargetStored,
    StreamsTopologyStored,
    TaskOffsetsOffered,
    TaskOffsetsReported,
)
from kohort.group.streams.topology import StreamsTopology
from kohort.model.streams_tasks import NO_TASKS, NONE_ASSIGNED, AssignedTasks, Task, TaskRole, TasksByRole

AWAY = -2
"""The epoch of a static member that left for a while."""


@dataclass(slots=True)
class RecordedThread:
    """The records of one member, and what it has reported.

    `lags` are of tasks that it had, or was to run next, when it reported them. `former` is its target before the last
    epoch.
    """

    instance_id: str | None = None
    process_id: str = ""
    epoch: int = 0
    assigned: AssignedTasks = NONE_ASSIGNED
    pending: AssignedTasks = NONE_ASSIGNED
    target: TasksByRole = NO_TASKS
    former: TasksByRole = NO_TASKS
    lags: dict[Task, int] = field(default_factory=dict)
    reports_lags: bool = True

    def tasks(self) -> Iterator[tuple[Task, TaskRole]]:
        """Yield the tasks that it was granted or asked to give back, with their roles."""
        yield from self.assigned.roles().items()
        yield from self.pending.roles().items()

    def lag(self, task: Task) -> int | None:
        """Return the lag of a task that it was granted or was to run, as far as that is known; the owner's is none."""
        roles = self.assigned.roles()
        if task not in roles and task not in self.former.active:
            return None
        return self.lags.get(task, 0 if roles.get(task) is TaskRole.ACTIVE else None)


@dataclass(slots=True)
class StreamsRecords:
    """The records of one streams group."""

    epoch: int = 0
    target_epoch: int = 0
    topology: StreamsTopology | None = None
    threads: dict[str, RecordedThread] = field(default_factory=dict)

    def is_out(self, member_id: str) -> bool:
        """Whether a member was removed, or has left for a while."""
        found = self.threads.get(member_id)
        return found is None or found.epoch == AWAY

    def why_no_commit(self, member_id: str, epoch: int, partition: int) -> str | None:
        """Return why a commit with an epoch is to be refused, of a partition that subtopology 0 reads; None if not."""
        if epoch < 0 and not self.threads:
            return None
        found = self.threads.get(member_id)
        if found is None:
            return f"{member_id} is no member"
        if epoch == found.epoch:
            return None
        task = ("0", partition)
        since = found.assigned.active.get(task, found.pending.active.get(task))
        if epoch < found.epoch and since is not None and 0 <= since <= epoch:
            return None
        return f"{member_id} shows epoch {epoch} and is at {found.epoch}, and had the task since {since}"

    def fold(self, event: Event) -> None:
        """Take an event."""
        match event:
            case StreamsGroupStored():
                self.epoch = event.epoch
                for thread in self.threads.values():
                    thread.former = thread.target
            case StreamsTopologyStored():
                self.topology = event.topology
            case StreamsTargetStored():
                self.target_epoch = event.epoch
            case StreamsTargetDeleted():
                self.target_epoch = -1
            case StreamsMemberStored():
                thread = self._thread(event.member_id)
                thread.instance_id, thread.process_id = event.instance_id, event.process_id
            case StreamsMemberTargetStored():
                self._thread(event.member_id).target = event.target
            case StreamsMemberAssignmentStored():
                thread = self._thread(event.member_id)
                thread.epoch, thread.assigned, thread.pending = event.epoch, event.assigned, event.pending
            case StreamsMemberDeleted():
                self.threads.pop(event.member_id, None)
            case StreamsMemberTargetDeleted() if event.member_id in self.threads:
                self.threads[event.member_id].target = NO_TASKS
            case StreamsMemberAssignmentDeleted() if event.member_id in self.threads:
                thread = self.threads[event.member_id]
                thread.epoch, thread.assigned, thread.pending = 0, NONE_ASSIGNED, NONE_ASSIGNED
            case TaskOffsetsReported():
                self._report(event)
            case TaskOffsetsOffered():
                self._thread(event.member_id).reports_lags = event.reports_lags

    def _thread(self, member_id: str) -> RecordedThread:
        return self.threads.setdefault(member_id, RecordedThread())

    def _report(self, event: TaskOffsetsReported) -> None:
        thread, end_offsets = self._thread(event.member_id), dict(event.end_offsets)
        owned = {*thread.assigned.roles(), *thread.target.active}
        thread.lags = {
            task: end_offsets[task] - offset
            for task, offset in event.offsets
            if task in owned and offset <= end_offsets.get(task, -1)
        }


def is_of_streams(event: Event) -> bool:
    """Whether an event is one of a streams group that its records take."""
    return isinstance(event, StreamsHardEvent | TaskOffsetsReported | TaskOffsetsOffered)


def ends_streams(event: Event) -> bool:
    """Whether an event ends a streams group."""
    return isinstance(event, StreamsGroupDeleted)
