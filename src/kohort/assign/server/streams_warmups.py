"""Warm-ups of streams groups (KIP-1071, KIP-848): a task with state moves once its new owner's copy has caught up.

`refine` runs after the assignor. A task that the assignor moves to a process whose copy is further behind than
`acceptable_recovery_lag` stays active where its state is: with its owner, or with a member whose copy has caught up.
The new owner gets a copy meanwhile. That is a standby copy, if the assignor has made one for the process in which the
task stays: there the task is active, so that its copy is free. Else it is a warm-up, of which there are few at a time.

A lag that was not reported is too large, but for the owner's own. A member whose client reports no lags waits for
none: its moves are made at once. All are on Apache Kafka 4.4.0, whose `AssignmentRefiner` changes nothing yet.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from kohort.model.streams_tasks import Task, TasksByRole


class WarmupLimits(NamedTuple):
    """The bounds of a group: how many records a copy may be behind, and how many warm-ups there are at a time."""

    acceptable_recovery_lag: int
    warmup_replicas: int


class WarmupMember(NamedTuple):
    """One member: the active tasks that it was granted, the warm-ups of its last target, the lags that it reported.

    Lags are records, of tasks that it has. `falling_behind` are those that have grown for some time.
    """

    process_id: str
    active: Collection[Task] = ()
    warmup: Collection[Task] = ()
    lags: Mapping[Task, int] = MappingProxyType({})
    falling_behind: Collection[Task] = ()
    reports_lags: bool = True


def refine(
    target: Mapping[str, TasksByRole],
    members: Mapping[str, WarmupMember],
    stateful: Collection[str],
    limits: WarmupLimits,
) -> dict[str, TasksByRole]:
    """Return the target with the moves withheld that wait for a copy; `stateful` are ids of subtopologies.

    What is always true:
     - Each task that is active in `target` is active once, and a process has a task once.
     - No task becomes active in a process that is behind the limit, or has reported no lag, while its owner or a copy
       within the limit lives in another one; but for members that report no lags.
     - There are at most `warmup_replicas` warm-ups, and none that falls behind. With 0 nothing waits.
     - Once all lags are within the limit, the target is as it was. While lags of warm-ups shrink, each group of targets
       comes to that: a warm-up has its place until it has caught up.
    """
    if not limits.warmup_replicas:
        return dict(target)
    found = {member_id: tuple(map(set, tasks)) for member_id, tasks in target.items()}
    state = _State(members, limits.acceptable_recovery_lag)
    waiting: list[tuple[Task, str]] = []
    for member_id, tasks in target.items():
        for task in tasks.active:
            stays_with = state.stays_with(task, member_id) if task[0] in stateful else None
            if stays_with is None:
                continue
            found[member_id][0].remove(task)
            found[stays_with][0].add(task)
            copy_of = next((each for each in state.beside(stays_with) if task in found[each][1]), None)
            if copy_of is None:
                waiting.append((task, member_id))
            else:
                found[copy_of][1].remove(task)
                found[member_id][1].add(task)
    waiting = [(task, member_id) for task, member_id in waiting if task not in members[member_id].falling_behind]
    waiting.sort(key=lambda each: (each[0] not in members[each[1]].warmup, each))
    for task, member_id in waiting[: limits.warmup_replicas]:
        found[member_id][2].add(task)
    return {member_id: TasksByRole(*map(frozenset, tasks)) for member_id, tasks in found.items()}


class _State:
    """Where the state of tasks is."""

    def __init__(self, members: Mapping[str, WarmupMember], acceptable_recovery_lag: int) -> None:
        self._members = members
        self._processes: dict[str, list[str]] = {}
        self._caught_up: dict[Task, list[tuple[int, int, str]]] = {}
        for member_id, member in sorted(members.items()):
            self._processes.setdefault(member.process_id, []).append(member_id)
            lags = {**dict.fromkeys(member.active, 0), **member.lags}
            for task, lag in lags.items():
                if lag <= acceptable_recovery_lag:
                    order = (0, 0, member_id) if task in member.active else (1, lag, member_id)
                    self._caught_up.setdefault(task, []).append(order)

    def beside(self, member_id: str) -> list[str]:
        """Return the members of a member's process."""
        return self._processes[self._members[member_id].process_id]

    def stays_with(self, task: Task, member_id: str) -> str | None:
        """Return the member with which a task stays that is to be active at `member_id`, None if it need not wait."""
        caught_up = self._caught_up.get(task)
        if caught_up is None or not self._members[member_id].reports_lags:
            return None
        beside = self.beside(member_id)
        return None if any(each in beside for _, _, each in caught_up) else min(caught_up)[2]
