"""Shares partitions out by a load that each of them has, such as its lag or its rate, with few moves.

A partition without an owner goes to the member with the least load. Then partitions move, each time the one that evens
out two members best: away from a member with more than its fair part and a tolerance, and to one with less than that,
such as a new one; until there is none, or no single move makes the larger load of two members smaller. What is even
enough stays as it is. Pure: the same loads and members always give the same result.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from heapq import heapreplace
from itertools import chain
from math import inf

from kohort.assign.spec import GroupSpec, member_order
from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition

TOLERANCE = 0.2
"""How much more or less than its fair part of the load a member may have before partitions move."""

Loads = Mapping[TopicPartition, float]

_PARTS = 1 << 40
"""The sum of all loads, which are whole numbers here: rounding moves nothing to and fro."""


class _Member:
    """What a member has, as (load, partition) in order of the loads."""

    def __init__(self, at: int, wanted: frozenset[str], owned: Iterable[tuple[int, TopicPartition]]) -> None:
        self.at = at
        self.wanted = wanted
        self.owned = sorted(owned)
        self.load = sum(weight for weight, _ in self.owned)

    def order(self) -> tuple[int, int, int]:
        """Return what members are compared by: the first one takes before others, the last one gives before others."""
        return self.load, len(self.owned), self.at

    def gives(self, entry: tuple[int, TopicPartition], taker: _Member) -> None:
        """Move a partition to another member."""
        for member, sign in ((self, -1), (taker, 1)):
            place = bisect_left(member.owned, entry)
            member.owned[place : place + (sign < 0)] = [entry] if sign > 0 else []
            member.load += sign * entry[0]

    def best_for(self, taker: _Member) -> tuple[int, tuple[int, TopicPartition]] | None:
        """Return the partition to move, after the larger load of both then; None where none makes it less."""
        gap = self.load - taker.load
        # The largest up to half the gap leaves the giver above the taker; one beyond it would make them change places.
        middle = bisect_right(self.owned, gap // 2, key=lambda each: each[0])
        for at in chain(range(middle - 1, -1, -1), range(middle, len(self.owned))):
            weight, partition = self.owned[at]
            if partition.topic in taker.wanted:
                return (max(self.load - weight, taker.load + weight), (weight, partition)) if weight < gap else None
        return None


def by_load(spec: GroupSpec, loads: Loads, *, tolerance: float = TOLERANCE, idle: float = 0.0) -> dict[str, Partitions]:
    """Return what each member shall own in the end, as `share_out` does."""
    wanted = {name: frozenset(spec.members[name].subscription.topics) for name in member_order(spec)}
    owned = {name: spec.members[name].subscription.owned for name in wanted}
    topics = sorted(spec.topics.keys() & set().union(*wanted.values()))
    every = [TopicPartition(topic, number) for topic in topics for number in range(spec.topics[topic].partitions)]
    return share_out(wanted, owned, every, loads, tolerance=tolerance, idle=idle)


def share_out(
    wanted: Mapping[str, frozenset[str]],
    owned: Mapping[str, Iterable[TopicPartition]],
    partitions: Iterable[TopicPartition],
    loads: Loads,
    *,
    tolerance: float = TOLERANCE,
    idle: float = 0.0,
) -> dict[str, Partitions]:
    """Return what each member shall own, given the topics that it wants and what it owns.

    Every partition counts `idle` besides its load, so that those with little of it are shared out by number. With an
    infinite tolerance only those without an owner are given out.
    """
    weights = _weights(partitions, loads, idle)
    free = dict(weights)
    members = []
    for at, (name, topics) in enumerate(wanted.items()):
        mine = [each for each in dict.fromkeys(owned[name]) if each.topic in topics and each in free]
        members.append(_Member(at, topics, ((free.pop(each), each) for each in mine)))
    _give_out(members, sorted((-weight, partition) for partition, weight in free.items()))
    if members and tolerance != inf:
        fair = _fair_part(weights.values(), len(members))
        while _relieve(members, fair * (1 + tolerance)) or _fill(members, fair * (1 - tolerance)):
            pass  # where members want different topics, one may make the other possible
    return {name: frozenset(each for _, each in member.owned) for name, member in zip(wanted, members, strict=True)}


def _weights(partitions: Iterable[TopicPartition], loads: Loads, idle: float) -> dict[TopicPartition, int]:
    """Return the load of each partition, at least 1."""
    given = {each: max(loads.get(each, 0.0), 0.0) + idle for each in partitions}
    total = sum(given.values())
    return {each: 1 + int(load / total * _PARTS) if total else 1 for each, load in given.items()}


def _give_out(members: list[_Member], free: Iterable[tuple[int, TopicPartition]]) -> None:
    """Give each free partition, heaviest first, to the member with the least load that wants its topic."""
    takers: defaultdict[str, list[list[tuple[int, int, int]]]] = defaultdict(list)
    for topics, alike in _by_topics(members).items():
        orders = sorted(member.order() for member in alike)
        for topic in topics:
            takers[topic].append(orders)
    for minus_weight, partition in free:
        if partition.topic in takers:
            least = min(takers[partition.topic], key=lambda orders: orders[0])
            load, count, at = least[0]
            heapreplace(least, (load - minus_weight, count + 1, at))
            members[at].owned.append((-minus_weight, partition))
            members[at].load -= minus_weight
    for member in members:
        member.owned.sort()


def _by_topics(members: Iterable[_Member]) -> dict[frozenset[str], list[_Member]]:
    """Return the members that want the same topics together."""
    alike: defaultdict[frozenset[str], list[_Member]] = defaultdict(list)
    for member in members:
        alike[member.wanted].append(member)
    return alike


def _fair_part(weights: Iterable[int], members: int) -> float:
    """Return the fair part of a member, not counting those that one partition alone makes have more."""
    rest = sum(weights)
    for weight in sorted(weights, reverse=True):
        if members < 2 or weight * members <= rest:
            break
        rest -= weight
        members -= 1
    return rest / members


def _relieve(members: list[_Member], limit: float) -> bool:
    """Move partitions away from members with more load than the limit; return whether any moved."""
    alike = _by_topics(members)
    stuck: set[int] = set()
    has_moved = False
    while heavy := [member for member in members if member.load > limit and member.at not in stuck]:
        giver = max(heavy, key=_Member.order)
        takers = [min(each, key=_Member.order) for each in alike.values()]
        moves = [(*best, taker.at) for taker in takers if taker is not giver and (best := giver.best_for(taker))]
        if not moves:
            stuck.add(giver.at)
            continue
        _, entry, at = min(moves)
        giver.gives(entry, members[at])
        has_moved = True
    return has_moved


def _fill(members: list[_Member], floor: float) -> bool:
    """Move partitions to members with less load than the floor; return whether any moved."""
    stuck: set[int] = set()
    has_moved = False
    while light := [member for member in members if member.load < floor and member.at not in stuck]:
        taker = min(light, key=_Member.order)
        for giver in sorted(members, key=_Member.order, reverse=True):
            if giver.load > taker.load and (best := giver.best_for(taker)):
                giver.gives(best[1], taker)
                has_moved = True
                break
        else:
            stuck.add(taker.at)
    return has_moved
