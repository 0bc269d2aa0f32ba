"""Shares partitions out by a load that each of them has, such as its lag or its rate, with few moves.

A partition without an owner goes to the member with the least load. Then partitions move from the member with the most
load, each time the one that evens out two members best, until no member has more than its fair part and a tolerance,
or no single move makes the largest load smaller. What is even enough stays as it is. Pure: the same loads and members
always give the same result.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Mapping
from itertools import chain

from kohort.assign.spec import GroupSpec, member_order
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition

TOLERANCE = 0.2
"""How much more than its fair part of the load a member may have before partitions move."""

IDLE_SHARE = 0.001
"""What a partition counts at least, as a part of the mean load: those without load are shared out by number."""

Loads = Mapping[TopicPartition, float]


class _Member:
    """What a member has, as (load, partition) in order of the loads."""

    def __init__(self, wanted: frozenset[str]) -> None:
        self.wanted = wanted
        self.load = 0.0
        self.held: list[tuple[float, TopicPartition]] = []

    def add(self, weight: float, partition: TopicPartition) -> None:
        insort(self.held, (weight, partition))
        self.load += weight

    def remove(self, at: int) -> tuple[float, TopicPartition]:
        weight, partition = self.held.pop(at)
        self.load -= weight
        return weight, partition


def by_load(spec: GroupSpec, loads: Loads, *, tolerance: float = TOLERANCE) -> dict[str, Partitions]:
    """Return what each member shall own in the end; a partition without a load counts as idle."""
    order = member_order(spec)
    members = {name: _Member(frozenset(spec.members[name].subscription.topics)) for name in order}
    weights = _weights(spec, loads)
    free = set(weights)
    for name in order:
        for partition in spec.members[name].subscription.owned:
            if partition in free and partition.topic in members[name].wanted:
                free.discard(partition)
                members[name].add(weights[partition], partition)
    for partition in sorted(free, key=lambda each: (-weights[each], each)):
        takers = [member for member in members.values() if partition.topic in member.wanted]
        if takers:
            min(takers, key=lambda each: (each.load, len(each.held))).add(weights[partition], partition)
    _even_out(list(members.values()), tolerance)
    return {name: frozenset(partition for _, partition in member.held) for name, member in members.items()}


def _weights(spec: GroupSpec, loads: Loads) -> dict[TopicPartition, float]:
    """Return the load of each partition that a member wants."""
    wanted = set(chain.from_iterable(member.subscription.topics for member in spec.members.values()))
    every = [
        TopicPartition(topic, number)
        for topic, each in sorted(spec.topics.items())
        if topic in wanted
        for number in range(each.partitions)
    ]
    total = sum(max(loads.get(partition, 0.0), 0.0) for partition in every)
    least = total / max(len(every), 1) * IDLE_SHARE or 1.0
    return {partition: max(loads.get(partition, 0.0), least) for partition in every}


def _even_out(members: list[_Member], tolerance: float) -> None:
    """Move partitions, one after the other, from members with too much load."""
    if not members:
        return
    limit = sum(member.load for member in members) / len(members) * (1 + tolerance)
    stuck: set[int] = set()
    while True:
        heavy = [(member.load, -at) for at, member in enumerate(members) if member.load > limit and at not in stuck]
        if not heavy:
            return
        at = -max(heavy)[1]
        if not _moves_one(members, members[at]):
            stuck.add(at)  # what others give up can only add to the loads of members below it


def _moves_one(members: list[_Member], giver: _Member) -> bool:
    """Move one partition of a member to where the larger load of both gets smallest; return whether one moved."""
    best: tuple[float, int, int] | None = None
    by_topics: defaultdict[frozenset[str], list[int]] = defaultdict(list)
    for number, taker in enumerate(members):
        if taker is not giver:
            by_topics[taker.wanted].append(number)
    for wanted, numbers in by_topics.items():
        number = min(numbers, key=lambda each: (members[each].load, len(members[each].held), each))
        gap = giver.load - members[number].load
        # The largest up to half the gap leaves the giver above the taker; one beyond it would make them change places.
        middle = bisect_right(giver.held, gap / 2, key=lambda each: each[0])
        up_to_half = _first(giver, wanted, range(middle - 1, -1, -1))
        for at in up_to_half or _first(giver, wanted, range(middle, len(giver.held))):
            weight = giver.held[at][0]
            if weight < gap:
                larger = max(giver.load - weight, members[number].load + weight)
                best = min(best or (larger, number, at), (larger, number, at))
    if best is None or best[0] >= giver.load:
        return False
    _, number, at = best
    members[number].add(*giver.remove(at))
    return True


def _first(giver: _Member, wanted: frozenset[str], places: range) -> list[int]:
    """Return the first place of a partition that the taker wants, if there is one."""
    return next(([at] for at in places if giver.held[at][1].topic in wanted), [])
