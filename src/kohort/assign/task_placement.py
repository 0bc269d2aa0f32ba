"""Placement of tasks with state and of their standby copies on hosts: the rule that Kafka Streams follows (KIP-441).

A task is active on one host. Its state is copied from a changelog, which takes long, so a task does not move to a host
before that host has caught up: at most `acceptable_recovery_lag` records behind. Until then it stays with a host that
has, and the host that shall have it in the end gets a *warm-up*, a copy beyond the standby copies. `place_tasks` lists
what is always true. `make lockstep` runs it beside `HighAvailabilityTaskAssignor` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heapify, heapreplace
from itertools import pairwise

from kohort.model.ids import TopicPartition

Task = TopicPartition
"""A task is named by the partition that it reads."""

RUNNING = -2
"""The lag of a task on the host where it is active, as Kafka Streams writes it."""

UNKNOWN_LAG = 2**63
"""The lag of a copy that does not exist, or of which nothing is known."""

ACCEPTABLE_RECOVERY_LAG = 10_000
MAX_WARMUP_REPLICAS = 2


@dataclass(frozen=True, slots=True)
class TaskHost:
    """A process that runs tasks. `capacity` is the number of its threads; `lags` are records, for each of its copies.

    A lag below 0 is unknown, but `RUNNING`: such a task is active here as those in `active` are.
    """

    capacity: int = 1
    active: frozenset[Task] = frozenset()
    lags: Mapping[Task, int] = field(default_factory=dict)

    def lag(self, task: Task) -> int:
        """Return how far the host's copy of a task is behind."""
        if task in self.active:
            return RUNNING
        lag = self.lags.get(task, UNKNOWN_LAG)
        return lag if lag >= 0 or lag == RUNNING else UNKNOWN_LAG


@dataclass(frozen=True, slots=True)
class PlacementRules:
    """How many copies there are, and when one has caught up; the names and defaults are those of Kafka Streams."""

    standby_replicas: int = 0
    acceptable_recovery_lag: int = ACCEPTABLE_RECOVERY_LAG
    max_warmup_replicas: int = MAX_WARMUP_REPLICAS

    def __post_init__(self) -> None:
        for name, least in (("standby_replicas", 0), ("acceptable_recovery_lag", 0), ("max_warmup_replicas", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be {least} or more; {getattr(self, name)} is not")


@dataclass(frozen=True, slots=True)
class HostTasks:
    """What one host shall have."""

    active: set[Task] = field(default_factory=set)
    standby: set[Task] = field(default_factory=set)
    warmup: set[Task] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Placement:
    """Who has what, by host, and how many moves wait until a copy has caught up."""

    hosts: dict[str, HostTasks]
    pending: int


def place_tasks(
    hosts: Mapping[str, TaskHost],
    stateful: Collection[Task],
    stateless: Collection[Task] = (),
    rules: PlacementRules | None = None,
) -> Placement:
    """Return the next placement of all tasks on the hosts, of which there is at least one.

    Each task is active on exactly one host, and no host has two copies of a task. A task is active on a host that has
    caught up, where there is one, and else on one that is least behind. A task with state has `standby_replicas`
    standby copies, or one on each other host where these are fewer. There are at most `max_warmup_replicas` warm-ups.

    In the end, when every copy has caught up, no task and no copy could move to make tasks for each unit of capacity
    more even. Few tasks move on the way there: hosts retain what they run up to their part, and what is warming up goes
    on.
    """
    return _Placing(hosts, sorted(stateful), sorted(stateless), rules or PlacementRules()).placement()


class _Placing:
    """One run: first what shall be in the end (`wanted`), then what of it may be already."""

    def __init__(
        self, hosts: Mapping[str, TaskHost], stateful: list[Task], stateless: list[Task], rules: PlacementRules
    ) -> None:
        self._names = sorted(hosts)
        self._hosts = hosts
        self._stateful = stateful
        self._stateless = stateless
        self._rules = rules
        self._capacity = {name: max(1, hosts[name].capacity) for name in self._names}
        # Copies of each task, those that are least behind first; a host that runs it is the first.
        self._copies: dict[Task, list[tuple[int, str]]] = {task: [] for task in stateful}
        for name in self._names:
            for task in {*hosts[name].active, *hosts[name].lags}:
                if task in self._copies and (lag := hosts[name].lag(task)) < UNKNOWN_LAG:
                    self._copies[task].append((lag, name))
        for copies in self._copies.values():
            copies.sort()

    def placement(self) -> Placement:
        """Return what each host shall have now."""
        wanted = self._wanted_active(self._stateful, dict.fromkeys(self._names, 0))
        standby = self._wanted_standby(wanted)
        found = {name: HostTasks() for name in self._names}
        active = {task: self._source(task, host) for task, host in wanted.items()}
        for task, host in active.items():
            found[host].active.add(task)
        moves = [(task, host) for task, host in wanted.items() if active[task] != host]
        seats, standby_moves = self._seats(wanted, active, standby)
        for task, holders in seats.items():
            for host in holders:
                found[host].standby.add(task)
        self._warm_up(found, moves, standby_moves)
        loads = dict.fromkeys(self._names, 0)
        for host in wanted.values():
            loads[host] += 1
        for task, host in self._wanted_active(self._stateless, loads).items():
            found[host].active.add(task)
        return Placement(found, len(moves) + len(standby_moves))

    def _has_caught_up(self, task: Task, host: str) -> bool:
        return self._hosts[host].lag(task) <= self._rules.acceptable_recovery_lag

    # What shall be in the end

    def _wanted_active(self, tasks: list[Task], loads: dict[str, int]) -> dict[Task, str]:
        """Return where each task shall be active; `loads` are the tasks that hosts have besides."""
        runs = self._runners(tasks)
        room = self._shares(len(tasks), {name: len(own) for name, own in runs.items()}, loads)
        wanted: dict[Task, str] = {}
        spare = [name for name in self._names if room[name] > len(runs[name])]
        for name in self._names:
            if len(runs[name]) > room[name]:
                # It gives away what another host has nearly caught up with, so that a warm-up is of use.
                runs[name].sort(key=lambda task: (-self._least_lag(task, spare), task))
            for task in runs[name][: room[name]]:
                wanted[task] = name
            room[name] -= min(room[name], len(runs[name]))
        free = [task for task in tasks if task not in wanted]
        wanted |= self._match(free, room)
        for task in free:
            if task not in wanted:
                host = min(
                    (name for name in self._names if room[name]),
                    key=lambda name: (self._hosts[name].lag(task), -Fraction(room[name], self._capacity[name]), name),
                )
                room[host] -= 1
                wanted[task] = host
        return wanted

    def _runners(self, tasks: Iterable[Task]) -> dict[str, list[Task]]:
        """Return the tasks that each host runs; of several that claim one, the first counts."""
        left = set(tasks)
        found: dict[str, list[Task]] = {}
        for name in self._names:
            host = self._hosts[name]
            own = left & (host.active | {task for task, lag in host.lags.items() if lag == RUNNING})
            left -= own
            found[name] = sorted(own)
        return found

    def _shares(self, count: int, owned: Mapping[str, int], loads: Mapping[str, int]) -> dict[str, int]:
        """Return how many of `count` tasks each host gets: the next one goes where tasks per capacity stay lowest.

        Of equal hosts it goes to the one that runs more than it has got so far.
        """
        shares = dict.fromkeys(self._names, 0)

        def turn(name: str) -> tuple[Fraction, int, str]:
            load = loads[name] + shares[name] + 1
            return Fraction(load, self._capacity[name]), shares[name] - owned[name], name

        heap = [turn(name) for name in self._names]
        heapify(heap)
        for _ in range(count):
            name = heap[0][-1]
            shares[name] += 1
            heapreplace(heap, turn(name))
        return shares

    def _least_lag(self, task: Task, hosts: Iterable[str]) -> int:
        return min((self._hosts[name].lag(task) for name in hosts), default=UNKNOWN_LAG)

    def _match(self, free: Iterable[Task], room: dict[str, int]) -> dict[Task, str]:
        """Give as many free tasks as possible to hosts with room that have caught up; take that room (Kuhn's paths)."""
        given: dict[str, list[Task]] = {name: [] for name in self._names}
        ready = {
            task: [
                name
                for lag, name in self._copies.get(task, ())
                if lag <= self._rules.acceptable_recovery_lag and room[name]
            ]
            for task in free
        }
        for task in ready:
            self._give(task, ready, given, room)
        for name, tasks in given.items():
            room[name] -= len(tasks)
        return {task: name for name, tasks in given.items() for task in tasks}

    @staticmethod
    def _give(
        first: Task, ready: Mapping[Task, list[str]], given: dict[str, list[Task]], room: Mapping[str, int]
    ) -> None:
        """Find a host for a task, by moving others that were given before where that is needed."""
        came_by: dict[str, Task] = {}
        queue = [first]
        for task in queue:
            for name in ready[task]:
                if name in came_by:
                    continue
                came_by[name] = task
                if len(given[name]) < room[name]:
                    while True:
                        moved = came_by[name]
                        given[name].append(moved)
                        if moved == first:
                            return
                        name = next(other for other, tasks in given.items() if moved in tasks and other != name)
                        given[name].remove(moved)
                queue += given[name]

    def _wanted_standby(self, wanted: Mapping[Task, str]) -> dict[Task, list[str]]:
        """Return where each task's standby copies shall be: where they are, if that is as even as it can be."""
        replicas = min(self._rules.standby_replicas, len(self._names) - 1)
        if replicas < 1:
            return {}
        loads = dict.fromkeys(self._names, 0)
        for host in wanted.values():
            loads[host] += 1
        found = {task: [name for _, name in self._copies[task] if name != host] for task, host in wanted.items()}
        for names in found.values():
            for name in names:
                loads[name] += 1

        def fullest(name: str) -> tuple[Fraction, str]:
            return Fraction(loads[name], self._capacity[name]), name

        for task, names in found.items():
            while len(names) > replicas:
                # The copy on the host that runs it now is the first to go, since it counts until the task has moved.
                worst = max(names, key=lambda name: (*self._copy_rank(task, name), fullest(name)))
                names.remove(worst)
                loads[worst] -= 1
        for task, host in wanted.items():
            while len(found[task]) < replicas:
                others = (name for name in self._names if name != host and name not in found[task])
                least = min(others, key=lambda name: (Fraction(loads[name] + 1, self._capacity[name]), name))
                found[task].append(least)
                loads[least] += 1
        self._level(wanted, found, loads)
        return found

    def _copy_rank(self, task: Task, name: str) -> tuple[bool, int]:
        """Return how little a copy is worth as a standby copy: the one of the host that runs it, then the late ones."""
        lag = self._hosts[name].lag(task)
        return lag == RUNNING, lag if lag > self._rules.acceptable_recovery_lag else 0

    def _level(self, wanted: Mapping[Task, str], standby: dict[Task, list[str]], loads: dict[str, int]) -> None:
        """Move standby copies to less loaded hosts, by way of others where needed, while that makes loads more even."""
        placed: dict[str, set[Task]] = {name: set() for name in self._names}
        for task, holders in standby.items():
            for name in holders:
                placed[name].add(task)
        while (path := self._levelling_path(wanted, placed, loads)) is not None:
            loads[path[0]] -= 1
            loads[path[-1]] += 1
            # From the end, so that each host has given its copy before it takes another.
            for source, taker in reversed(list(pairwise(path))):
                movable = (task for task in placed[source] - placed[taker] if wanted[task] != taker)
                task = min(movable, key=lambda task: (self._hosts[taker].lag(task), task))
                standby[task][standby[task].index(source)] = taker
                placed[source].remove(task)
                placed[taker].add(task)

    def _levelling_path(
        self, wanted: Mapping[Task, str], placed: Mapping[str, set[Task]], loads: Mapping[str, int]
    ) -> list[str] | None:
        """Return hosts of which each can give the next a standby copy: from a full one to the emptiest, or None."""

        def load_with(name: str, more: int) -> tuple[Fraction, str]:
            return Fraction(loads[name] + more, self._capacity[name]), name

        takers = sorted(self._names, key=lambda name: load_with(name, 1))
        for source in sorted(self._names, key=lambda name: load_with(name, 0), reverse=True):
            if not self._is_fuller(source, takers[0], loads):
                break
            came_from = {source: source}
            queue = [source]
            for name in queue:
                for taker in takers:
                    if taker not in came_from and any(wanted[task] != taker for task in placed[name] - placed[taker]):
                        came_from[taker] = name
                        queue.append(taker)
            for taker in takers:
                if taker in came_from and self._is_fuller(source, taker, loads):
                    path = [taker]
                    while path[-1] != source:
                        path.append(came_from[path[-1]])
                    return path[::-1]
        return None

    def _is_fuller(self, source: str, taker: str, loads: Mapping[str, int]) -> bool:
        """Return whether a host is fuller than another would be with one copy more: then moving one is worth it."""
        return Fraction(loads[taker] + 1, self._capacity[taker]) < Fraction(loads[source], self._capacity[source])

    # What of it may be now

    def _source(self, task: Task, wanted: str) -> str:
        """Return where a task is active until the host that shall have it has caught up."""
        copies = self._copies[task]
        if not copies or self._has_caught_up(task, wanted) or self._hosts[wanted].lag(task) <= copies[0][0]:
            return wanted
        # The first is the one that runs it, or is least behind.
        return copies[0][1]

    def _seats(
        self, wanted: Mapping[Task, str], active: Mapping[Task, str], standby: Mapping[Task, list[str]]
    ) -> tuple[dict[Task, list[str]], list[tuple[Task, str]]]:
        """Return the hosts of each task's standby copies now, and the copies that are still to move: (task, to)."""
        seats: dict[Task, list[str]] = {}
        moves: list[tuple[Task, str]] = []
        for task, holders in standby.items():
            # The host that runs it until the other has caught up has no second copy: the other warms up instead.
            now = [wanted[task] if name == active[task] else name for name in holders]
            spare = [name for _, name in self._copies[task] if name not in now and name != active[task]]
            for place, name in enumerate(now):
                if name == wanted[task] or self._has_caught_up(task, name):
                    continue
                better = next((other for other in spare if self._lag_less(task, other, name)), None)
                if better is not None and better != wanted[task]:
                    spare.remove(better)
                    now[place] = better
                    moves.append((task, name))
            seats[task] = now
        return seats, moves

    def _lag_less(self, task: Task, one: str, other: str) -> bool:
        return self._hosts[one].lag(task) < self._hosts[other].lag(task)

    def _warm_up(
        self, found: dict[str, HostTasks], moves: Iterable[tuple[Task, str]], standby_moves: Iterable[tuple[Task, str]]
    ) -> None:
        """Hand out the warm-ups: tasks before standby copies, and what is nearest to its end first."""
        left = self._rules.max_warmup_replicas
        for some in (moves, standby_moves):
            for task, host in sorted(some, key=lambda move: (self._hosts[move[1]].lag(move[0]), move)):
                if left and task not in found[host].standby and task not in found[host].active:
                    found[host].warmup.add(task)
                    left -= 1
