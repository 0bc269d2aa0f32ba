"""Kafka Streams' own task assignor and our placement of tasks, on the same random applications.

Each application changes (a process comes, goes, or comes back with the state on its disk) and is placed again and
again, while copies catch up, until no move is left. Every placement of ours is held to the constraints of KIP-441. What
becomes of the application is compared with what Kafka Streams makes of it: the balance when it is settled, and the
moves of tasks with state on the way there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random

from interop.java_lines import JavaLines

from kohort.assign.task_placement import HostTasks, PlacementRules, TaskHost, place_tasks
from kohort.model.ids import TopicPartition

TOPICS = {"stateful": 0, "stateless": 1}
"""The sub-topology of each kind of task, by the topic that it reads here."""

MOST_ROUNDS = 200
END = 100_000
"""The lag of a host without a copy."""

CHANGES = 6
"""How often a random application changes."""


@dataclass(frozen=True)
class Application:
    """What is placed: tasks, rules, and the capacities of the hosts."""

    stateful: tuple[TopicPartition, ...]
    stateless: tuple[TopicPartition, ...]
    rules: PlacementRules
    capacities: Mapping[str, int]


Hosts = dict[str, HostTasks]
Side = Callable[[Application, Mapping[str, TaskHost], Mapping[str, frozenset[TopicPartition]]], tuple[Hosts, bool]]
"""From an application, its hosts and the standby copies that they had, to the next placement and whether it is last."""


class Java:
    """Kafka Streams' assignor in a process of its own."""

    def __init__(self) -> None:
        self._lines = JavaLines("LockstepTasks", pom="streams-pom.xml")

    def close(self) -> None:
        """End the process."""
        self._lines.close()

    def place(
        self,
        application: Application,
        hosts: Mapping[str, TaskHost],
        standby: Mapping[str, frozenset[TopicPartition]],
    ) -> tuple[Hosts, bool]:
        """Return what Kafka Streams places; its warm-ups are among the standby copies."""
        rules = application.rules
        asked = {
            "standby_replicas": rules.standby_replicas,
            "acceptable_recovery_lag": rules.acceptable_recovery_lag,
            "max_warmup_replicas": rules.max_warmup_replicas,
            "stateful": list(map(_task_id, application.stateful)),
            "stateless": list(map(_task_id, application.stateless)),
            "hosts": {
                name: {
                    "capacity": host.capacity,
                    "active": list(map(_task_id, sorted(host.active))),
                    "standby": list(map(_task_id, sorted(standby[name]))),
                    "lags": {_task_id(task): min(host.lag(task), END) for task in application.stateful},
                }
                for name, host in hosts.items()
            },
        }
        given = json.loads(self._lines.ask(json.dumps(asked)))
        found = {
            name: HostTasks(set(map(_task, host["active"])), set(map(_task, host["standby"])))
            for name, host in given["hosts"].items()
        }
        return found, not given["probing"]


def ours(
    application: Application, hosts: Mapping[str, TaskHost], standby: Mapping[str, frozenset[TopicPartition]]
) -> tuple[Hosts, bool]:
    """Return our placement, which must keep to the constraints. Raises AssertionError where it does not."""
    del standby
    placed = place_tasks(hosts, application.stateful, application.stateless, application.rules)
    check(application, hosts, placed.hosts)
    return placed.hosts, not placed.pending


def check(application: Application, hosts: Mapping[str, TaskHost], placed: Mapping[str, HostTasks]) -> None:
    """Hold a placement to the constraints of KIP-441. Raises AssertionError."""
    rules = application.rules
    active = sorted(task for host in placed.values() for task in host.active)
    assert active == sorted(application.stateful + application.stateless), "each task is active on one host"
    for name, host in placed.items():
        twice = (host.active & host.standby) | (host.active & host.warmup) | (host.standby & host.warmup)
        assert not twice, f"{name} has two copies of {twice}"
    for task in application.stateful:
        count = sum(task in host.standby for host in placed.values())
        assert count == min(rules.standby_replicas, len(placed) - 1), f"{task} has {count} standby copies"
        (owner,) = [name for name, host in placed.items() if task in host.active]
        least = min(host.lag(task) for host in hosts.values())
        lag = hosts[owner].lag(task)
        assert lag <= max(least, rules.acceptable_recovery_lag), f"{task} is active on {owner}, which is {lag} behind"
    warmups = sum(len(host.warmup) for host in placed.values())
    assert warmups <= rules.max_warmup_replicas, f"{warmups} warm-ups"


@dataclass
class Outcome:
    """What one side made of an application."""

    moves: int = 0
    rounds: int = 0
    unsettled: int = 0
    balances: list[tuple[Fraction, Fraction, Fraction]] = field(default_factory=list)
    """After each change, tasks for each thread of the fullest host: with state, active, and with standby copies."""


@dataclass
class World:
    """One side's hosts as they are: what they run, and how far their copies are behind."""

    active: dict[TopicPartition, str] = field(default_factory=dict)
    standby: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)
    lags: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)

    def hosts(self, capacities: Mapping[str, int]) -> dict[str, TaskHost]:
        """Return the hosts as an assignor is shown them."""
        return {
            name: TaskHost(
                capacity,
                frozenset(task for task, host in self.active.items() if host == name),
                dict(self.lags.get(name, {})),
            )
            for name, capacity in capacities.items()
        }

    def take(self, placed: Mapping[str, HostTasks], random: Random) -> int:
        """Take a placement; copies catch up meanwhile, and what is left on a disk falls behind. Return the moves."""
        moves = 0
        for name, host in sorted(placed.items()):
            lags = self.lags.setdefault(name, {})
            for task in host.active:
                if task.topic == "stateful" and self.active.get(task, name) != name:
                    moves += 1
            copies = host.standby | host.warmup
            for task in sorted(copies | lags.keys()):
                speed = random.choice((0.0, 0.3, 0.7))
                if task in host.active:
                    continue
                if task in copies:
                    lags[task] = int(lags.get(task, END) * speed)
                else:
                    lags[task] = min(lags[task] + 4_000, END)
                    if lags[task] == END:
                        del lags[task]
            for task in host.active:
                # What it keeps when the task goes to another host.
                if task.topic == "stateful":
                    lags[task] = 0
            self.standby[name] = frozenset(copies)
        self.active = {task: name for name, host in placed.items() for task in host.active}
        return moves

    def lose(self, name: str, *, is_disk_lost: bool) -> None:
        """A host is gone."""
        self.active = {task: host for task, host in self.active.items() if host != name}
        self.standby.pop(name, None)
        if is_disk_lost:
            self.lags.pop(name, None)


def play(seed: int, sides: Mapping[str, Side]) -> dict[str, Outcome]:
    """Return what the sides make of the application of a seed."""
    random = Random(f"tasks {seed}")
    application = Application(
        tuple(TopicPartition("stateful", number) for number in range(random.randint(1, 24))),
        tuple(TopicPartition("stateless", number) for number in range(random.choice((0, 0, random.randint(1, 8))))),
        PlacementRules(random.randint(0, 2), random.choice((0, 100, 10_000)), random.randint(1, 4)),
        {},
    )
    capacities: dict[str, int] = {}
    worlds = {name: World() for name in sides}
    found = {name: Outcome() for name in sides}
    for change in range(CHANGES):
        is_even = random.random() < 0.5
        for _ in range(random.randint(0 if capacities else 1, 2)):
            capacities[str(random.randint(1, 9))] = 2 if is_even else random.randint(1, 4)
        while len(capacities) > 1 and random.random() < 0.3:
            gone = random.choice(sorted(capacities))
            is_disk_lost = random.random() < 0.5
            del capacities[gone]
            for world in worlds.values():
                world.lose(gone, is_disk_lost=is_disk_lost)
        application = replace(application, capacities=dict(sorted(capacities.items())))
        for name, side in sides.items():
            settle(application, side, worlds[name], found[name], Random(f"tasks {seed} {change}"))
    return found


@dataclass
class Comparison:
    """What both sides made of many applications."""

    ours: Outcome = field(default_factory=Outcome)
    theirs: Outcome = field(default_factory=Outcome)
    more_even: int = 0
    worse: list[str] = field(default_factory=list)

    def take(self, seed: int, ours: Outcome, theirs: Outcome) -> None:
        """Add an application."""
        for total, one in ((self.ours, ours), (self.theirs, theirs)):
            total.moves += one.moves
            total.rounds += one.rounds
            total.unsettled += one.unsettled
            total.balances += one.balances
        for change, (own, other) in enumerate(zip(ours.balances, theirs.balances, strict=True)):
            self.more_even += own != other
            if any(mine > yours for mine, yours in zip(own, other, strict=True)):
                self.worse.append(f"application {seed}, change {change}: {own} tasks for each thread, theirs {other}")

    def lines(self) -> list[str]:
        """Say what was found."""
        return [
            f"{len(self.ours.balances):,} times settled, {self.more_even:,} times more evenly than Kafka Streams",
            f"{self.ours.moves:,} moves of tasks with state, Kafka Streams {self.theirs.moves:,}",
            f"{self.ours.rounds:,} rounds, Kafka Streams {self.theirs.rounds:,}",
        ]


def compare(java: Java, count: int) -> Comparison:
    """Compare both sides; an application that is less even when settled is worse, and so are more moves in all."""
    found = Comparison()
    for seed in range(count):
        outcomes = play(seed, {"ours": ours, "theirs": java.place})
        found.take(seed, outcomes["ours"], outcomes["theirs"])
    if found.ours.moves > found.theirs.moves:
        found.worse.append(f"{found.ours.moves:,} moves in all, theirs {found.theirs.moves:,}")
    if found.ours.unsettled:
        found.worse.append(f"{found.ours.unsettled} applications did not settle")
    return found


def settle(application: Application, side: Side, world: World, outcome: Outcome, random: Random) -> None:
    """Place an application until no move is left."""
    for _ in range(MOST_ROUNDS):
        placed, is_last = side(
            application,
            world.hosts(application.capacities),
            {name: world.standby.get(name, frozenset()) for name in application.capacities},
        )
        outcome.rounds += 1
        outcome.moves += world.take(placed, random)
        if is_last:
            break
    else:
        outcome.unsettled += 1
    outcome.balances.append(balance(application, placed))


def balance(application: Application, placed: Mapping[str, HostTasks]) -> tuple[Fraction, Fraction, Fraction]:
    """Return tasks for each thread of the fullest host: active with state, active, with standby copies."""

    def most(count: Callable[[HostTasks], int]) -> Fraction:
        return max(Fraction(count(host), application.capacities[name]) for name, host in placed.items())

    return (
        most(lambda host: sum(task.topic == "stateful" for task in host.active)),
        most(lambda host: len(host.active)),
        most(lambda host: sum(task.topic == "stateful" for task in host.active) + len(host.standby)),
    )


def _task_id(task: TopicPartition) -> str:
    return f"{TOPICS[task.topic]}_{task.partition}"


def _task(text: str) -> TopicPartition:
    kind, number = text.split("_")
    return TopicPartition("stateless" if int(kind) else "stateful", int(number))
