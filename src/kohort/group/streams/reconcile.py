"""Reconciliation: one step of a member of a streams group towards its target. Read this screen to understand it.

Three sets of tasks of one member: A is what it was granted, P what it was asked to give back, T its target.

 STABLE            has what its epoch grants. It steps when the target's epoch is another one.
 UNREVOKED_TASKS   must give back P. It steps once it reports to own nothing of P, and is an epoch further at least.
 UNRELEASED_TASKS  has its target's epoch, but waits for tasks that others still have. It steps each time.

A step retains A∩T, role by role. If the member may still own anything beyond, that is P, and all else waits. Otherwise
it takes the target's epoch and everything of T that is free.

A task that only changes its role stays open at the member (Kafka 4.4). One that becomes a standby task is granted in
the step that asks for the active one back. A copy that becomes active is retained until the task is free, and then it
is no copy any more; a standby task becomes a warm-up, or a warm-up a standby, at once. Only an active task that becomes
a warm-up is given back first.

A task is free as an active one if no other member has it as an active one, and none of the same process has it at all:
the threads of a process share a directory of state. As a standby or warm-up it is free if none of the same process has
it. So a task is active at one member at most, and a process has it at one member at most.
"""

from __future__ import annotations

from typing import NamedTuple

from kohort.group.streams.events import StreamsMemberAssignmentStored, StreamsMemberState
from kohort.group.streams.group import StreamsGroup, StreamsMember
from kohort.model.cause import Cause
from kohort.model.streams_tasks import NONE_ASSIGNED, AssignedTasks, Task, TaskRole, TasksByRole, overlap


class TaskStep(NamedTuple):
    """What becomes of a member."""

    epoch: int
    previous_epoch: int
    state: StreamsMemberState
    assigned: AssignedTasks
    pending: AssignedTasks

    def stored(self, group: StreamsGroup, member: StreamsMember, cause: Cause) -> StreamsMemberAssignmentStored:
        """Return the event by which a member takes the step."""
        return StreamsMemberAssignmentStored(group.group_id, member.member_id, *self, cause)


def reconcile(group: StreamsGroup, member: StreamsMember, owned: TasksByRole | None) -> TaskStep | None:
    """Return the member's next step, or None when it stays as it is.

    `owned` is what it reports to own, None without a report. A member in the state UNKNOWN must own nothing: see
    `is_unknown`.
    """
    match member.state:
        case StreamsMemberState.STABLE:
            stays = member.epoch == group.assignment_epoch
        case StreamsMemberState.UNREVOKED_TASKS:
            stays = owned is None or overlap(owned, member.pending)
        case _:
            stays = False
    if stays:
        return None
    step = _step(group, member, owned)
    is_same = step._replace(previous_epoch=0) == (member.epoch, 0, member.state, member.assigned, member.pending)
    return None if is_same else step


def is_unknown(member: StreamsMember, owned: TasksByRole | None) -> bool:
    """Whether the member is in a state of a later version, and must begin anew because it does not own nothing."""
    return member.state is StreamsMemberState.UNKNOWN and (owned is None or any(owned))


def _step(group: StreamsGroup, member: StreamsMember, owned: TasksByRole | None) -> TaskStep:
    granted, target, target_epoch = member.assigned, member.target, group.assignment_epoch
    free = TasksByRole(
        frozenset(
            task for task in target.active - granted.active.keys() if _is_free(group, member, task, is_active=True)
        ),
        frozenset(task for task in target.standby - granted.standby if _is_free(group, member, task)),
        frozenset(task for task in target.warmup - granted.warmup if _is_free(group, member, task)),
    )
    to_standby, to_warmup = free.standby & (granted.active.keys() | granted.warmup), free.warmup & granted.standby
    retained = AssignedTasks(
        {task: epoch for task, epoch in granted.active.items() if task in target.active},
        granted.standby & (target.standby | target.active) | to_standby,
        granted.warmup & (target.warmup | target.active) | to_warmup,
    )
    revoked = AssignedTasks(
        {task: epoch for task, epoch in granted.active.items() if task not in target.active},
        granted.standby - retained.standby - to_warmup,
        granted.warmup - retained.warmup - to_standby,
    )
    if any(revoked) and (owned is None or overlap(owned, revoked)):
        has_given_back = member.state is StreamsMemberState.UNREVOKED_TASKS
        epoch = target_epoch if member.state is StreamsMemberState.UNKNOWN else member.epoch + has_given_back
        return TaskStep(epoch, member.epoch, StreamsMemberState.UNREVOKED_TASKS, retained, revoked)
    assigned = AssignedTasks(
        {**retained.active, **dict.fromkeys(free.active, target_epoch)},
        (retained.standby | free.standby) - free.active,
        (retained.warmup | free.warmup) - free.active,
    )
    state = StreamsMemberState.STABLE if assigned.tasks == target else StreamsMemberState.UNRELEASED_TASKS
    return TaskStep(target_epoch, member.epoch, state, assigned, NONE_ASSIGNED)


def _is_free(group: StreamsGroup, member: StreamsMember, task: Task, *, is_active: bool = False) -> bool:
    """Whether a member may have a task; what it has given back itself does not count (KAFKA-19449)."""
    for holder_id, role in group.holders.get(task, {}).items():
        if holder_id == member.member_id:
            continue
        if (is_active and role is TaskRole.ACTIVE) or group.members[holder_id].process_id == member.process_id:
            return False
    return True
