"""How good an assignment is: whether it is valid, how even, how much it moves, how near it is.

It measures what any assignor returned, Java's included, against what the members owned. Loads are partitions, or
partitions for each unit of weight. The score is Kafka's: the sum, over all pairs of members, of the difference between
their loads; 0 is perfectly even, and where subscriptions differ the best there is may be more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from kohort.assign.server.adapter import group_spec
from kohort.assign.server.spec import ServerGroup
from kohort.assign.spec import GroupSpec
from kohort.model.assignment import Assignment, IdPartitions, Partitions, each
from kohort.model.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Quality:
    """What was found. `faults` are sentences about what no assignment may do; a valid one has none."""

    faults: tuple[str, ...]
    least: float
    most: float
    score: float
    improvable: tuple[str, str] | None
    """A member that could pass a partition on, through others or directly, to one that is emptier by two; or None."""
    moved: int
    """How many partitions that a member owned, and could retain, it does not retain."""
    unassigned: Partitions
    near: int
    """How many partitions have a replica on the rack of their member."""

    @property
    def is_valid(self) -> bool:
        """Return whether every partition has at most one owner, and that one subscribed to its topic."""
        return not self.faults

    @property
    def is_balanced(self) -> bool:
        """Return whether no move could make the loads more even."""
        return self.improvable is None


def measure(
    spec: GroupSpec,
    assignments: Mapping[str, Assignment],
    *,
    owned: Mapping[str, Partitions] | None = None,
    weights: Mapping[str, float] | None = None,
) -> Quality:
    """Measure an assignment of `spec`; `owned` is what its subscriptions claim unless it is given."""
    if owned is None:
        owned = {name: frozenset(member.subscription.owned) for name, member in spec.members.items()}
    shares = {name: assignments[name].partitions if name in assignments else frozenset() for name in spec.members}
    weigh = weights or {}
    loads = {name: len(partitions) / weigh.get(name, 1) for name, partitions in shares.items()}
    assigned = frozenset(chain.from_iterable(shares.values()))
    wanted = {topic for member in spec.members.values() for topic in member.subscription.topics}
    everything = {
        TopicPartition(topic, number)
        for topic, each in spec.topics.items()
        if topic in wanted
        for number in range(each.partitions)
    }
    return Quality(
        faults=faults_of(spec, assignments),
        least=min(loads.values(), default=0),
        most=max(loads.values(), default=0),
        score=pairwise_difference(loads.values()),
        improvable=_improvable(spec, shares, weigh),
        moved=sum(len((owned.get(name, frozenset()) & everything) - mine) for name, mine in shares.items()),
        unassigned=frozenset(everything - assigned),
        near=sum(_is_near(spec, name, partition) for name, mine in shares.items() for partition in mine),
    )


def measure_target(group: ServerGroup, target: Mapping[str, IdPartitions]) -> Quality:
    """Measure the target of a consumer group; `moved` counts what a member does not retain of its previous target."""
    names = {topic_id: topic.name for topic_id, topic in group.topics.items()}
    assignments = {
        member: Assignment(frozenset(TopicPartition(names.get(at, at.hex()), number) for at, number in each(given)))
        for member, given in target.items()
    }
    return measure(group_spec(group, ""), assignments)


def pairwise_difference(loads: Iterable[float]) -> float:
    """Return the sum of the differences between all pairs of loads."""
    ordered = sorted(loads)
    return sum((2 * rank - len(ordered) + 1) * load for rank, load in enumerate(ordered))


def faults_of(spec: GroupSpec, assignments: Mapping[str, Assignment]) -> tuple[str, ...]:
    """Return in sentences where partitions have two owners, or one that did not subscribe to their topic."""
    found = [f"{name} is no member" for name in assignments if name not in spec.members]
    owner: dict[TopicPartition, str] = {}
    for name in spec.members:
        if name not in assignments:
            found.append(f"{name} has no assignment")
            continue
        topics = set(spec.members[name].subscription.topics)
        for partition in sorted(assignments[name].partitions):
            if partition in owner:
                found.append(f"{partition} is assigned to {owner[partition]} and {name}")
            owner[partition] = name
            if partition.topic not in topics:
                found.append(f"{partition} is assigned to {name}, which did not subscribe to its topic")
    return tuple(found)


def _improvable(
    spec: GroupSpec, shares: Mapping[str, Partitions], weights: Mapping[str, float]
) -> tuple[str, str] | None:
    """Return the two ends of a chain of moves that makes the loads more even, or None."""
    subscribers: dict[str, list[str]] = {}
    for name in sorted(spec.members):
        for topic in set(spec.members[name].subscription.topics):
            subscribers.setdefault(topic, []).append(name)
    topics_of = {name: {partition.topic for partition in mine} for name, mine in shares.items()}
    saving = {name: (2 * len(mine) - 1) / weights.get(name, 1) for name, mine in shares.items()}
    cost = {name: (2 * len(mine) + 1) / weights.get(name, 1) for name, mine in shares.items()}
    lowest = min(cost.values(), default=0.0)
    visited: set[str] = set()
    followed: set[str] = set()
    for start in sorted(shares, key=lambda name: (-saving[name], name)):
        if saving[start] <= lowest:
            break
        # Whatever a fuller member reached is as full as that one: it cannot help this one either.
        if start in visited:
            continue
        visited.add(start)
        waiting = deque([start])
        while waiting:
            for topic in sorted(topics_of[waiting.popleft()] - followed):
                followed.add(topic)
                for name in subscribers.get(topic, ()):
                    if name not in visited:
                        if cost[name] < saving[start]:
                            return start, name
                        visited.add(name)
                        waiting.append(name)
    return None


def _is_near(spec: GroupSpec, member: str, partition: TopicPartition) -> bool:
    rack = spec.members[member].subscription.rack
    topic = spec.topics.get(partition.topic)
    return topic is not None and partition.partition < len(topic.racks) and rack in topic.racks[partition.partition]
