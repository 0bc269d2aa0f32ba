"""The whole state of a shard and its node, at drawn events: the rules of `invariants`, who waits, what stays."""

from __future__ import annotations

from random import Random

from kohort.group.classic.group import ClassicGroup
from kohort.group.shard import Group, Shard
from kohort.node.groups.offsets_partition import OffsetsPartition, Status
from kohort.node.node import Node
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.group_ledger import Ledgers, active_in
from kohort.sim.checks.invariants import (
    BOUNDED_MEMORY,
    CATALOGUE,
    COUNTS_AGREE,
    EVERY_PARKED_REPLY_ANSWERED,
    broken,
    needed_by,
    violations,
    waiting,
)
from kohort.sim.kernel.world_observer import SeenNode

LONGEST_PAUSE = 3
"""After how many steps that touched a group its state is looked at, at the latest."""

SPARE = 16
"""What a node has beside its groups: its own timers, and what is about to be forgotten."""

TIMERS_OF_A_MEMBER, TIMERS_OF_A_GROUP = 4, 6

_OF_STATE = tuple(each for each in CATALOGUE if each.classic or each.consumer or each.streams)


class StateChecker(Checker):
    """Everything that speaks of a state alone, and BoundedMemory."""

    invariants = (*_OF_STATE, BOUNDED_MEMORY)

    def __init__(self, ledgers: Ledgers, random: Random) -> None:
        super().__init__()
        self._ledgers = ledgers
        self._partitions: dict[str, int] = {}
        """How many partitions each topic has had."""
        self._random = random
        self._pause = 1

    def stepped(self) -> None:
        """Look at the groups that this step touched, now and then."""
        touched = self._ledgers.touched
        if not touched:
            return
        self._pause -= 1
        if self._pause > 0:
            touched.clear()
            return
        self._pause = self._random.randint(1, LONGEST_PAUSE)
        for group_id, shard in touched.items():
            self._look_at(shard, group_id)
        touched.clear()
        for node in self._ledgers.nodes:
            self._look_inside(node.node)

    def fault(self, name: str, subject: str, detail: str) -> None:
        """Where a topic could not grow on a bad disk, groups have the commits that were to precede its partitions."""
        if name == "grow topic":
            self._partitions[subject] = self._partitions.get(subject, 0) + int(detail.removeprefix("by="))

    def node_stopped(self, node: SeenNode, how: str) -> None:
        self._look_at_all(node.node)

    def shard_loaded(self, node: SeenNode, hosted: OffsetsPartition) -> None:
        """A shard that was folded from its log meets every rule that a live one does."""
        if hosted.status is Status.ACTIVE:
            self._look_at_whole(hosted)

    def ended(self) -> None:
        for node in self._ledgers.nodes:
            self._look_at_all(node.node)

    # -- looking

    def _look_at(self, shard: Shard, group_id: str) -> None:
        self._count_all()
        for invariant, text in broken(shard, group_id):
            self.broken(invariant, text)

    def _look_at_all(self, node: Node | None) -> None:
        for hosted in active_in(node):
            self._look_at_whole(hosted)
        self._look_inside(node)

    def _look_at_whole(self, hosted: OffsetsPartition) -> None:
        self._count_all()
        for text in violations(hosted.shard):
            name, _, sentence = text.partition(": ")
            self.broken(next((each for each in CATALOGUE if each.name == name), COUNTS_AGREE), sentence)

    def _count_all(self) -> None:
        for invariant in _OF_STATE:
            self.count(invariant)

    def _look_inside(self, node: Node | None) -> None:
        if node is None or not node.context.has_coordinator or not node.coordinator.partitions:
            return
        expected = set()
        members = groups = pending = 0
        for hosted in active_in(node):
            expected |= waiting(hosted.shard)
            for group_id, group in hosted.shard.groups.items():
                groups += 1
                members += len(group.members)
                pending += len(group.pending) if isinstance(group, ClassicGroup) else 0
                self._demand_timers(group_id, group, node)
        self.count(EVERY_PARKED_REPLY_ANSWERED)
        parked = set(node.coordinator.runtime.parked)
        if expected != parked:
            surplus, missing = sorted(parked - expected), sorted(expected - parked)
            text = f"{surplus} wait for nothing, and {missing} should wait and do not"
            self.broken(EVERY_PARKED_REPLY_ANSWERED, text)
        self._demand_bounds(node, members, groups, pending)

    def _demand_bounds(self, node: Node, members: int, groups: int, pending: int) -> None:
        self.count(BOUNDED_MEMORY)
        runtime = node.coordinator.runtime
        classic, consumer = runtime.classic_parking, runtime.epoch_parking
        waits = sum(len(connection.outstanding) for connection in node.connections)
        bound = members * TIMERS_OF_A_MEMBER + pending + groups * TIMERS_OF_A_GROUP + waits + SPARE
        if len(node.timers) > bound:
            self.broken(BOUNDED_MEMORY, f"{len(node.timers)} timers for {members} members of {groups} groups")
        known, parked = classic.known_members + consumer.known_members, len(classic) + len(consumer)
        if known > members + SPARE:
            self.broken(BOUNDED_MEMORY, f"heartbeats of {known} are remembered, of {members} members")
        if parked > waits:
            self.broken(BOUNDED_MEMORY, f"{parked} heartbeats are parked, and {waits} requests wait")
        # A group that could not be loaded when a topic went still has what it had committed of it (docs/gaps.md).
        for topic in node.topics:
            self._partitions[topic.name] = max(self._partitions.get(topic.name, 0), len(topic.partitions))
        partitions = sum(self._partitions.values())
        for hosted in active_in(node):
            for group_id, offsets in hosted.shard.offsets.items():
                text = f"{group_id}: {len(offsets)} commits are stored, of {partitions} partitions"
                self.require(len(offsets) <= partitions, BOUNDED_MEMORY, text)

    def _demand_timers(self, group_id: str, group: Group, node: Node) -> None:
        self.count(EVERY_PARKED_REPLY_ANSWERED)
        for timer in needed_by(group):
            text = f"{group_id}: nothing ends a wait, {timer} is not armed"
            self.require(timer in node.timers, EVERY_PARKED_REPLY_ANSWERED, text)
