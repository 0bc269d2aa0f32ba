"""Tasks with state, their standby copies and warm-ups, as Kafka Streams assigns them, for consumers in Python.

A partition is a task. A program that has state for its partitions restores it from a changelog of its own; members
report how far their copies are behind, and the leader places tasks and copies by `task_placement` (KIP-441). The
protocol is cooperative (KIP-429), so a task runs on until its next owner has caught up and it is withheld for a round.

A member whose copy has caught up begins the round that moves the task, by a reason that brokers of ours act on and by
metadata that differs on others. Kafka Streams waits for `probing.rebalance.interval.ms` instead; here that is only
what happens if no member reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, runtime_checkable

from kohort.assign.cooperative import claimants_of, two_step
from kohort.assign.spec import GroupSpec, RebalanceProtocol, member_order, subscribers
from kohort.assign.task_placement import (
    ACCEPTABLE_RECOVERY_LAG,
    MAX_WARMUP_REPLICAS,
    HostTasks,
    Placement,
    PlacementRules,
    TaskHost,
    place_tasks,
)
from kohort.assign.user_data import (
    AssignedCopies,
    Copies,
    decode_assigned_copies,
    decode_copies,
    encode_assigned_copies,
    encode_copies,
)
from kohort.model.assignment import Assignment, Partitions
from kohort.model.ids import TopicPartition

PROBING_REBALANCE_INTERVAL_MS = 600_000

OnCopies = Callable[[Partitions, Partitions], None]
"""Takes the standby copies and the warm-ups that a member shall have from now on."""


@runtime_checkable
class ReadsLags(Protocol):
    """An assignor that sends the lags of its member's copies."""

    @property
    def is_settled(self) -> bool:
        """Whether no move waits for a copy, as far as this member's assignment shows."""

    def update_lags(self, lags: Mapping[TopicPartition, int]) -> None:
        """Take the lag of each copy, in records; the next JoinGroup carries them."""

    def probing_ms(self, assignment: Assignment) -> int | None:
        """Return after how many milliseconds a member with this assignment rejoins if nothing else happens, or None."""


class TasksAssignor:
    """Assignor `tasks`. It remembers its member's copies: every member needs an object of its own.

    `threads` is this member's share beside others, `stateless` are topics whose tasks have no state. The other settings
    are those of Kafka Streams; they are the leader's, so give all members the same. `on_copies` is called with each
    assignment, before the partitions are assigned; `standby` and `warmup` are what it was called with.
    """

    name = "tasks"
    protocols = (RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE)

    def __init__(
        self,
        *,
        threads: int = 1,
        stateless: Iterable[str] = (),
        standby_replicas: int = 0,
        acceptable_recovery_lag: int = ACCEPTABLE_RECOVERY_LAG,
        max_warmup_replicas: int = MAX_WARMUP_REPLICAS,
        probing_rebalance_interval_ms: int = PROBING_REBALANCE_INTERVAL_MS,
        on_copies: OnCopies | None = None,
    ) -> None:
        if threads < 1:
            raise ValueError(f"threads must be 1 or more; {threads} is not")
        if isinstance(stateless, str):
            raise TypeError(f"stateless={stateless!r}: expected a list of topics, such as [{stateless!r}]")
        if not 60_000 <= probing_rebalance_interval_ms < 2**31:
            raise ValueError(
                "probing_rebalance_interval_ms must be 60,000 or more, as in Kafka Streams, and below 2^31;"
                f" {probing_rebalance_interval_ms} is not"
            )
        self.threads = threads
        self.stateless = frozenset(stateless)
        self.rules = PlacementRules(standby_replicas, acceptable_recovery_lag, max_warmup_replicas)
        self.probing_rebalance_interval_ms = probing_rebalance_interval_ms
        self.standby: Partitions = frozenset()
        self.warmup: Partitions = frozenset()
        self.is_settled = True
        self._on_copies = on_copies
        self._active: Partitions = frozenset()
        self._lags: Mapping[TopicPartition, int] = {}

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Return one assignment for every member of `spec`; follow the two-step rule."""
        said = {name: decode_copies(member.subscription.user_data) for name, member in spec.members.items()}
        claims: dict[str, set[TopicPartition]] = {name: set() for name in spec.members}
        owners = claimants_of(spec)
        for task, names in owners.items():
            if len(names) == 1:
                claims[names[0]].add(task)
        for name, copies in said.items():
            # Members of an eager round have revoked what they ran.
            claims[name] |= {task for task in copies.active if task not in owners}
        hosts = {
            name: TaskHost(said[name].threads, frozenset(claims[name]), said[name].lags) for name in member_order(spec)
        }
        given = {name: HostTasks() for name in hosts}
        # Topics of the same members are placed together; a group in which all subscribe alike has one such part.
        parts: dict[tuple[str, ...], list[str]] = {}
        for topic, members in subscribers(spec).items():
            parts.setdefault(tuple(members), []).append(topic)
        is_settled = True
        for alike, topics in parts.items():
            placement = self._place(spec, {name: hosts[name] for name in alike}, topics)
            is_settled &= not placement.pending
            for name, tasks in placement.hosts.items():
                given[name].active.update(tasks.active)
                given[name].standby.update(tasks.standby)
                given[name].warmup.update(tasks.warmup)
        return two_step(spec, {name: self._assignment(tasks, is_settled=is_settled) for name, tasks in given.items()})

    def _place(self, spec: GroupSpec, hosts: Mapping[str, TaskHost], topics: Iterable[str]) -> Placement:
        tasks = [TopicPartition(topic, number) for topic in topics for number in range(spec.topics[topic].partitions)]
        stateless = [task for task in tasks if task.topic in self.stateless]
        stateful = [task for task in tasks if task.topic not in self.stateless]
        return place_tasks(hosts, stateful, stateless, self.rules)

    def _assignment(self, tasks: HostTasks, *, is_settled: bool) -> Assignment:
        probing_ms = -1 if is_settled else self.probing_rebalance_interval_ms
        copies = AssignedCopies(frozenset(tasks.standby), frozenset(tasks.warmup), probing_ms)
        return Assignment(frozenset(tasks.active), encode_assigned_copies(copies))

    def update_lags(self, lags: Mapping[TopicPartition, int]) -> None:
        """Take the lag of each copy, in records; the next JoinGroup carries them."""
        self._lags = dict(lags)

    def user_data(self, topics: Iterable[str], owned: Partitions, generation: int) -> bytes:
        """Return the member's threads, what it ran last and the lags of its copies."""
        del topics, generation
        active = owned or self._active
        return encode_copies(
            Copies(self.threads, active, {task: lag for task, lag in self._lags.items() if task not in active})
        )

    def probing_ms(self, assignment: Assignment) -> int | None:
        """Return after how many milliseconds a member with this assignment rejoins if nothing else happens, or None."""
        probing_ms = decode_assigned_copies(assignment.user_data).probing_ms
        return probing_ms if probing_ms >= 0 else None

    def on_assignment(self, assignment: Assignment, generation: int) -> None:
        """Remember the assignment, and report the copies to `on_copies`."""
        del generation
        copies = decode_assigned_copies(assignment.user_data)
        self._active = assignment.partitions
        self.standby, self.warmup = copies.standby, copies.warmup
        self.is_settled = copies.probing_ms < 0
        if self._on_copies is not None:
            self._on_copies(copies.standby, copies.warmup)
