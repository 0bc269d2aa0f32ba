"""What must be true of a streams group between two commands, by invariant; `invariants.py` has their names."""

from __future__ import annotations

from collections.abc import Iterator

from kohort.group.group_timers import Timer, revocation_timer, target_timer
from kohort.group.streams.events import StreamsMemberState
from kohort.group.streams.group import StreamsGroup
from kohort.model.streams_tasks import Task, TaskRole


def shared_tasks(group: StreamsGroup) -> Iterator[str]:
    """Yield a sentence for each task that two members have as an active one, granted or asked back (Withholding)."""
    owners: dict[Task, str] = {}
    for member_id, member in sorted(group.members.items()):
        for task in sorted({*member.assigned.active, *member.pending.active}):
            other = owners.setdefault(task, member_id)
            if other != member_id:
                yield f"{show_task(task)} is active at {other} and at {member_id}"


def crowded_processes(group: StreamsGroup) -> Iterator[str]:
    """Yield a sentence for each task that a process has twice, granted or asked back (OneCopyPerProcess)."""
    found: dict[tuple[str, Task], str] = {}
    for member_id, member in sorted(group.members.items()):
        entries = [
            (task, role)
            for tasks in (member.assigned, member.pending)
            for role, of_role in zip(TaskRole, tasks, strict=True)
            for task in sorted(of_role)
        ]
        for task, role in entries:
            if role is TaskRole.STANDBY and task in member.pending.active:
                continue  # an active task that becomes a standby is both until it is given back
            place, text = (member.process_id, task), f"{role} at {member_id}"
            if place in found:
                yield f"{member.process_id} has {show_task(task)} twice: {found[place]}, {text}"
            found[place] = text


def shared_targets(group: StreamsGroup) -> Iterator[str]:
    """Yield a sentence for each task that the targets make active twice (TargetLegal)."""
    owners: dict[Task, str] = {}
    for member_id, member in sorted(group.members.items()):
        for task in sorted(member.target.active):
            other = owners.setdefault(task, member_id)
            if other != member_id:
                yield f"in the target {show_task(task)} is active at {other} and at {member_id}"


def early_epochs(group: StreamsGroup) -> Iterator[str]:
    """Yield a sentence for each epoch that is ahead of the group's (EpochMonotone)."""
    for member_id, member in group.members.items():
        if member.epoch > group.epoch:
            yield f"{member_id} at epoch {member.epoch} in a group of epoch {group.epoch}"
    if group.assignment_epoch > group.epoch:
        yield f"target of epoch {group.assignment_epoch} in a group of epoch {group.epoch}"


def misfits(group: StreamsGroup) -> Iterator[str]:
    """Yield a sentence for each thing that does not fit the state that a member is in (PhaseFits)."""
    for member_id, member in group.members.items():
        is_unrevoked = member.state is StreamsMemberState.UNREVOKED_TASKS
        if is_unrevoked != any(member.pending):
            yield f"{member_id} is {member.state.name} with {len(member.pending.roles())} tasks to give back"
        if not member.is_stored:
            yield f"{member_id} has no record of its own"
    if group.members and group.topology is None:
        yield "members without a topology"


def unconverged(group: StreamsGroup) -> Iterator[str]:
    """Yield a sentence if the group knows wrongly who has something left to do (StableMeansConverged)."""
    unsettled = {
        member_id
        for member_id, member in group.members.items()
        if member.epoch != group.assignment_epoch or member.state is not StreamsMemberState.STABLE
    }
    if unsettled != group.unsettled:
        yield f"unsettled {sorted(group.unsettled)} where it should be {sorted(unsettled)}"
    for member_id in sorted(group.members.keys() - unsettled):
        member = group.members[member_id]
        if member.assigned.tasks != member.target:
            yield f"{member_id} is STABLE with {member.assigned.tasks}, and its target is {member.target}"


def shared_slots(group: StreamsGroup) -> Iterator[str]:
    """Yield a sentence if instances are not those of the members (StaticSlotUnique)."""
    instances = {member.instance_id: id_ for id_, member in group.members.items() if member.instance_id is not None}
    if instances != group.static_members:
        yield f"static_members {group.static_members} where a count gives {instances}"


def miscounts(group: StreamsGroup) -> Iterator[str]:
    """Yield a sentence if the index of holders is not what a walk over the members gives (CountsAgree)."""
    holders: dict[Task, dict[str, TaskRole]] = {}
    for member_id, member in group.members.items():
        for tasks in (member.assigned, member.pending):
            for task, role in tasks.roles().items():
                holders.setdefault(task, {})[member_id] = role
    if holders != group.holders:
        yield f"holders {group.holders} where the members have {holders}"


def show_task(task: Task) -> str:
    """Return a task as Kafka names it, `0_1`."""
    return f"{task[0]}_{task[1]}"


def needed(group: StreamsGroup) -> Iterator[Timer]:
    """Yield the timers without which a group could wait for ever."""
    if group.is_dead:
        return
    for member_id, member in group.members.items():
        yield member.session
        if member.state is StreamsMemberState.UNREVOKED_TASKS:
            yield revocation_timer(group.group_id, member_id, member.epoch)
    if group.members and group.epoch > group.assignment_epoch:
        yield target_timer(group.group_id)
