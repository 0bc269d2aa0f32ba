"""Kafka 4.4's assignor of streams groups and ours, on the same random groups.

Each group changes several times: threads and whole processes come and go. Each side places the tasks anew from its own
last targets. Both keep to the same constraints, and ours is never less even: its fullest member has no more tasks than
Kafka's, active ones and all. That costs moves, so in all groups together ours may make one more in a hundred. Where
Kafka's leaves a choice to the order of a hash map, the two differ.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from interop.java_lines import JavaLines

from interop import jars
from kohort.assign.server.streams_sticky import StickyMember, StickySubtopology, assign_tasks
from kohort.model.streams_tasks import Task, TasksByRole, by_subtopology, tasks_of

CHANGES = 8
"""How often a random group changes."""

MOST_MOVES = 1.01
"""How many moves ours may make for each of Kafka's."""

Members = Mapping[str, StickyMember]
Subtopologies = Mapping[str, StickySubtopology]
Targets = Mapping[str, TasksByRole]
Side = Callable[[Members, Subtopologies, int], Targets]


class Java:
    """Kafka's assignor in a process of its own."""

    def __init__(self) -> None:
        self._lines = JavaLines("LockstepStreams", pom=jars.NEWEST)

    def close(self) -> None:
        """End the process."""
        self._lines.close()

    def assign(self, members: Members, subtopologies: Subtopologies, standby_replicas: int) -> Targets:
        """Return what Kafka places."""
        asked = {
            "standby_replicas": standby_replicas,
            "subtopologies": {
                name: {"tasks": each.tasks, "stateful": each.is_stateful} for name, each in subtopologies.items()
            },
            "members": {
                member_id: {
                    "process": member.process_id,
                    "active": by_subtopology(member.previous.active),
                    "standby": by_subtopology(member.previous.standby),
                }
                for member_id, member in members.items()
            },
        }
        found = json.loads(self._lines.ask(json.dumps(asked)))
        return {
            member_id: TasksByRole(tasks_of(each["active"].items()), tasks_of(each["standby"].items()))
            for member_id, each in found.items()
        }


def balance(targets: Targets) -> tuple[int, int]:
    """Return the tasks of the fullest member: active ones, and all."""
    active = max((len(each.active) for each in targets.values()), default=0)
    return active, max((len(each.active) + len(each.standby) for each in targets.values()), default=0)


def faults(members: Members, subtopologies: Subtopologies, standby_replicas: int, targets: Targets) -> list[str]:
    """Return which constraints a placement breaks."""
    found = []
    expected = {(name, number) for name, each in subtopologies.items() for number in range(each.tasks)}
    active = Counter(task for each in targets.values() for task in each.active)
    if active != Counter(expected):
        found.append("each task is active once")
    places = Counter(
        (members[member_id].process_id, task)
        for member_id, each in targets.items()
        for task in each.active | each.standby
    )
    if any(count > 1 for count in places.values()):
        found.append("a process has a task once")
    copies = min(standby_replicas, len({member.process_id for member in members.values()}) - 1)
    standby = Counter(task for each in targets.values() for task in each.standby)
    if standby != Counter({task: copies for task in expected if copies and subtopologies[task[0]].is_stateful}):
        found.append(f"each task with state has {copies} standby copies")
    return found


def moves(before: Targets, after: Targets) -> int:
    """Return how many active tasks go from a member that stays to another one."""
    owners: dict[Task, str] = {task: member_id for member_id, each in after.items() for task in each.active}
    return sum(
        member_id in after and owners.get(task, member_id) != member_id
        for member_id, each in before.items()
        for task in each.active
    )


@dataclass
class Comparison:
    """What both sides made of many groups."""

    placements: int = 0
    same: int = 0
    more_even: int = 0
    moved: Counter[str] = field(default_factory=Counter)
    worse: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Say what was found."""
        return [
            f"{self.placements:,} placements, {self.same:,} the same, {self.more_even:,} more even than Kafka's",
            f"{self.moved['ours']:,} moves of active tasks, Kafka's {self.moved['theirs']:,}",
        ]


def play(seed: int, sides: Mapping[str, Side], found: Comparison) -> None:
    """Let the group of a seed change on both sides, and compare each placement."""
    random = Random(f"streams {seed}")
    subtopologies = {
        str(number): StickySubtopology(random.randint(1, 8), random.random() < 0.6)
        for number in range(random.randint(1, 3))
    }
    standby_replicas = random.choice((0, 1, 1, 2))
    processes: dict[str, str] = {}
    last: dict[str, Targets] = {name: {} for name in sides}
    for change in range(CHANGES):
        _change(random, processes, number=change)
        placed: dict[str, Targets] = {}
        for name, side in sides.items():
            members = {
                member_id: StickyMember(process_id, last[name].get(member_id, TasksByRole()))
                for member_id, process_id in sorted(processes.items())
            }
            placed[name] = side(members, subtopologies, standby_replicas)
            found.moved[name] += moves(last[name], placed[name])
            for fault in faults(members, subtopologies, standby_replicas, placed[name]):
                found.worse.append(f"group {seed}, change {change}: {name}: not: {fault}")
        last = placed
        found.placements += 1
        found.same += placed["ours"] == placed["theirs"]
        own, other = balance(placed["ours"]), balance(placed["theirs"])
        found.more_even += own < other
        if any(mine > yours for mine, yours in zip(own, other, strict=True)):
            found.worse.append(f"group {seed}, change {change}: the fullest member has {own} tasks, theirs {other}")


def _change(random: Random, processes: dict[str, str], number: int) -> None:
    """Have threads come and go, one by one or a process at a time."""
    while processes and random.random() < 0.5:
        gone = random.choice(sorted(processes))
        of_process = [each for each in sorted(processes) if processes[each] == processes[gone]]
        for member_id in of_process if random.random() < 0.5 else [gone]:
            del processes[member_id]
    for count in range(random.randint(0, 3) or not processes):
        processes[f"m{number}.{count}"] = f"p{random.randint(1, 5)}"


def compare(java: Java, count: int) -> Comparison:
    """Compare both sides on so many groups; more moves in all than `MOST_MOVES` allows are worse, too."""
    found = Comparison()
    for seed in range(count):
        play(seed, {"ours": assign_tasks, "theirs": java.assign}, found)
    if found.moved["ours"] > found.moved["theirs"] * MOST_MOVES:
        found.worse.append(f"{found.moved['ours']:,} moves in all, theirs {found.moved['theirs']:,}")
    return found
