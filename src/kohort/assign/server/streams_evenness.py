"""Evenness of streams groups: a placement of tasks in which the fullest member has as few as there can be.

The sticky assignor places one task after the other, and a process has a task once: copies that fit into no other
process make their member fuller than others. Here tasks are handed on along a path of members, from one of the fullest
to one that has two tasks fewer. Copies are handed on first: that restores state, and interrupts no work. Where it is
not enough, an active task is, to a member with fewer of them than the most, or in exchange for the role of a task of
which the giver has a copy; first those that their members did not have before. If the fullest member cannot have less,
nothing is changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from kohort.model.streams_tasks import Task

COPIES_ALONE = -1
BUDGETS = (COPIES_ALONE, 0, 1, 2, 3, 4)
"""How many active tasks a path may take from where they were before, less those that it brings back."""


class TaskPlacement(NamedTuple):
    """The tasks of each member, by role."""

    active: dict[str, set[Task]]
    standby: dict[str, set[Task]]

    def counts(self) -> dict[str, int]:
        """Return how many tasks each member has."""
        return {member_id: len(tasks) + len(self.standby[member_id]) for member_id, tasks in self.active.items()}

    def copy(self) -> TaskPlacement:
        """Return the same placement, to be changed."""
        return TaskPlacement(*({member_id: set(tasks) for member_id, tasks in role.items()} for role in self))


class _Move(NamedTuple):
    """A task that goes from one member to another, in a role."""

    role: dict[str, set[Task]]
    giver: str
    taker: str
    task: Task


def level(placed: TaskPlacement, process_of: Mapping[str, str], before: Mapping[str, frozenset[Task]]) -> TaskPlacement:
    """Return a placement whose fullest member has as few tasks as can be; no member has more active ones than most had.

    `before` are the active tasks of the last target, which stay where they can.
    """
    counts = placed.counts()
    top, least = max(counts.values()), -(-sum(counts.values()) // len(counts))
    while top > least:
        tried = placed.copy()
        while max(tried.counts().values()) == top:
            paths = _Paths(tried, process_of, before)
            moves = next(filter(None, map(paths.find, BUDGETS)), ())
            if not moves:
                return placed
            for role, giver, taker, task in moves:
                role[giver].remove(task)
                role[taker].add(task)
        placed, top = tried, top - 1
    return placed


class _Paths:
    """Ways from a member that is fuller than it need be to one that is not."""

    def __init__(
        self, placed: TaskPlacement, process_of: Mapping[str, str], before: Mapping[str, frozenset[Task]]
    ) -> None:
        self._placed, self._process_of, self._before = placed, process_of, before
        self._counts = placed.counts()
        self._most_active = max(map(len, placed.active.values()))
        self._of_process: dict[str, set[Task]] = {}
        for member_id, process_id in process_of.items():
            tasks = self._of_process.setdefault(process_id, set())
            tasks.update(placed.active[member_id], placed.standby[member_id])

    def find(self, budget: int) -> tuple[_Move, ...]:
        """Return the moves that make one of the fullest members less full, none if there are none within a budget."""
        top = max(self._counts.values())
        paths: dict[str, tuple[_Move, ...]] = {each: () for each in sorted(self._counts) if self._counts[each] == top}
        rest = sorted(self._counts.keys() - paths.keys(), key=lambda each: (self._counts[each], each))
        queue = deque(paths)
        while queue:
            giver = queue.popleft()
            path = paths[giver]
            moved = {move.task for move in path}
            barred = {process_id: tasks | moved for process_id, tasks in self._of_process.items()}
            barred[self._process_of[giver]] = moved
            copies = {process_id: self._placed.standby[giver] - tasks for process_id, tasks in barred.items()}
            for taker in rest:
                process_id = self._process_of[taker]
                if copies[process_id]:
                    moves: tuple[_Move, ...] = (_Move(self._placed.standby, giver, taker, min(copies[process_id])),)
                else:
                    moves = self._of_active_task(giver, taker, barred[process_id], moved) if budget >= 0 else ()
                if moves and sum(map(self._price, path + moves)) <= max(budget, 0):
                    paths[taker] = path + moves
                    if self._counts[taker] <= top - 2:
                        return paths[taker]
                    queue.append(taker)
            rest = [each for each in rest if each not in paths]
        return ()

    def _of_active_task(self, giver: str, taker: str, barred: set[Task], moved: set[Task]) -> tuple[_Move, ...]:
        """Return how an active task goes to a member: for nothing, or for the role of a task that both have."""
        active, standby = self._placed
        gift = self._cheapest(giver, taker, active[giver] - barred)
        if gift is None or len(active[taker]) < self._most_active:
            return () if gift is None else (gift,)
        role = self._cheapest(taker, giver, (standby[giver] & active[taker]) - moved)
        return () if role is None else (gift, role, _Move(standby, giver, taker, role.task))

    def _cheapest(self, giver: str, taker: str, tasks: set[Task]) -> _Move | None:
        moves = (_Move(self._placed.active, giver, taker, task) for task in tasks)
        return min(moves, key=lambda move: (self._price(move), move.task), default=None)

    def _price(self, move: _Move) -> int:
        """Return how many active tasks a move takes from where they were before: -1 if it brings one back."""
        if move.role is self._placed.standby:
            return 0
        return (move.task in self._before[move.giver]) - (move.task in self._before[move.taker])
