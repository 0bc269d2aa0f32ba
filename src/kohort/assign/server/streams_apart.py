"""Standby tasks of streams groups apart from each other, by the tags of their processes (KIP-708).

A tag is where a process runs, such as `zone=a`; a group names the keys that count. Each copy goes to a process that
is alike to those that have the task in as few keys as can be: at best in none. A process without a value for a key
counts as alike in it. Of processes that are so, one that had the task comes first while its member is below its share
of all tasks, then a little loaded one. With too few places copies are beside each other; with too few processes there
are fewer.

Places count for more than evenness: nothing is levelled after that. Apache Kafka 4.4's broker knows the tags of members
and does not use them; the assignor of clients in classic groups does (`ClientTagAwareStandbyTaskAssignor`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from heapq import heapify, heappop, heappush

from kohort.assign.server.process_load import ProcessLoad, Tags
from kohort.model.streams_tasks import Task


class _Place:
    """The processes of the same tags, of which the least loaded is found first."""

    def __init__(self, tags: Tags) -> None:
        self.tags = tags
        self._queue: list[tuple[float, str, ProcessLoad]] = []

    def add(self, process: ProcessLoad) -> None:
        heappush(self._queue, (process.load, process.process_id, process))

    @property
    def load(self) -> float:
        """The load of the least loaded process."""
        while (entry := self._queue[0])[0] != entry[2].load:
            heappop(self._queue)
            self.add(entry[2])  # it was given a task since
        return self._queue[0][0]

    def least_loaded(self, task: Task) -> ProcessLoad | None:
        """Return the least loaded process that has not the task."""
        passed: list[tuple[float, str, ProcessLoad]] = []
        found = None
        while self._queue and found is None:
            load, process_id, process = heappop(self._queue)
            if load != process.load:
                self.add(process)
                continue
            passed.append((load, process_id, process))
            found = None if task in process.tasks else process
        for entry in passed:
            heappush(self._queue, entry)
        return found


class _Spread:
    """The standby tasks in the making."""

    def __init__(
        self,
        active: Mapping[str, Collection[Task]],
        homes: Mapping[str, tuple[str, Tags]],
        before: Mapping[str, Iterable[Task]],
        copies: int,
    ) -> None:
        self._home: dict[str, ProcessLoad] = {}
        self._having: dict[Task, list[ProcessLoad]] = {}
        """Who has a task, in any role."""
        self._owners: dict[Task, list[str]] = {}
        """The members that had a task."""
        processes: dict[str, ProcessLoad] = {}
        for member_id, (process_id, tags) in sorted(homes.items()):
            process = processes.setdefault(process_id, ProcessLoad(process_id, tags))
            process.counts[member_id] = 0
            self._home[member_id] = process
            for task in before[member_id]:
                self._owners.setdefault(task, []).append(member_id)
        for member_id, tasks in active.items():
            for task in tasks:
                self._home[member_id].add(task, member_id)
                self._having[task] = [self._home[member_id]]
        places: dict[Tags, _Place] = {}
        for process in processes.values():
            places.setdefault(process.tags, _Place(process.tags)).add(process)
        self._values = [set(values) - {None} for values in zip(*places, strict=True)]
        self._queue: list[tuple[float, int, _Place]] = [
            (each.load, number, each) for number, each in enumerate(places.values())
        ]
        """Places by their loads: those with little come first."""
        heapify(self._queue)
        self._share = -(-(sum(map(len, active.values())) + copies) // len(homes))

    def place(self, task: Task) -> str | None:
        """Give out one more copy of a task; return its member, None where each process has the task."""
        having = self._having.setdefault(task, [])
        before = [each for each in self._owners.get(task, ()) if self._is_able(task, each)]
        alike, member_id = min(
            ((_alike(self._home[each].tags, having), each) for each in before), default=(len(self._values) + 1, "")
        )
        # No process can be less alike than this: one for each key of which the task has all values already.
        least = sum(values <= {each.tags[number] for each in having} for number, values in enumerate(self._values))
        passed: list[tuple[float, int, _Place]] = []
        while self._queue and alike > least:
            load, number, place = heappop(self._queue)
            if load != place.load:
                heappush(self._queue, (place.load, number, place))
                continue
            found = _alike(place.tags, having)
            process = place.least_loaded(task) if found < alike else None
            if process is not None:
                alike, member_id = found, process.least_loaded_member()
            passed.append((load, number, place))
        for entry in passed:
            heappush(self._queue, entry)
        if not member_id:
            return None
        self._home[member_id].add(task, member_id)
        having.append(self._home[member_id])
        return member_id

    def _is_able(self, task: Task, member_id: str) -> bool:
        process = self._home[member_id]
        return task not in process.tasks and process.counts[member_id] < self._share


def _alike(tags: Tags, having: Collection[ProcessLoad]) -> int:
    """Return in how many keys a process of these tags is like one that has the task."""
    return sum(value is None or any(value == each.tags[number] for each in having) for number, value in enumerate(tags))


def place_apart(
    active: Mapping[str, Collection[Task]],
    homes: Mapping[str, tuple[str, Tags]],
    before: Mapping[str, Iterable[Task]],
    tasks: Collection[Task],
    copies: int,
) -> dict[str, set[Task]]:
    """Return the standby tasks of each member: so many `copies` of each of these tasks, where there are processes.

    By member id are its active tasks, its process with the tags of that, and the tasks with state that it had.
    """
    spread = _Spread(active, homes, before, copies * len(tasks))
    standby: dict[str, set[Task]] = {member_id: set() for member_id in homes}
    for task in sorted(tasks, key=lambda each: (each[1], each[0])):
        for _ in range(copies):
            member_id = spread.place(task)
            if member_id is None:
                break
            standby[member_id].add(task)
    return standby
