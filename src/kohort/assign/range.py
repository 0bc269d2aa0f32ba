"""Kafka's range assignor: topic by topic, members in order get contiguous blocks of partitions.

The law: with P partitions and C subscribers, each gets ⌊P/C⌋ and the first P mod C get one more. Where members and
replicas have racks that differ from partition to partition, a first pass hands out partitions whose racks match
within the same quotas, same-sized topics of the same subscribers together (KIP-881). Java's RangeAssignor gives the
same result for the same input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kohort.assign.member_classes import has_near_and_far, member_classes, racks_of, subscriber_masks
from kohort.assign.spec import GroupSpec, RebalanceProtocol, StatelessAssignor, TopicSpec, member_order, subscribers
from kohort.model.assignment import Assignment, DeferredAssignment
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription

_Block = tuple[Sequence[str], range]
"""The same partitions of several topics."""


class RangeAssignor(StatelessAssignor):
    """Assignor `range`: co-partitioned topics line up, at the price of balance across many small topics."""

    name = "range"
    protocols = (RebalanceProtocol.EAGER,)

    def assign(self, spec: GroupSpec) -> dict[str, Assignment]:
        """Return one assignment for every member of `spec`."""
        order = member_order(spec)
        subscriptions = [spec.members[member].subscription for member in order]
        # Racks are compared topic by topic; most groups have none, or have every partition on every rack.
        mine = racks_of(subscriptions)
        if mine and any(has_near_and_far(mine, topic.racks) for topic in spec.topics.values()):
            return _near_replicas(spec)
        return _in_blocks(spec, order, subscriptions)


def _in_blocks(spec: GroupSpec, order: Sequence[str], subscriptions: Sequence[Subscription]) -> dict[str, Assignment]:
    """Share out what no rack distinguishes: topics of one size with the same subscribers in one go."""
    classes = member_classes(subscriptions, spec.topics)
    alike: dict[tuple[int, int], list[str]] = {}
    for topic, mask in subscriber_masks(classes, sorted(spec.topics)).items():
        if mask:
            alike.setdefault((mask, spec.topics[topic].partitions), []).append(topic)
    blocks: list[list[_Block]] = [[] for _ in order]
    for (mask, partitions), topics in alike.items():
        places = sorted(place for number, each in enumerate(classes) if mask >> number & 1 for place in each.places)
        share, extras = divmod(partitions, len(places))
        start = 0
        for rank, place in enumerate(places[:partitions]):
            end = start + share + (rank < extras)
            blocks[place].append((topics, range(start, end)))
            start = end
    nothing = Assignment()
    return {
        member: DeferredAssignment(_read, mine) if mine else nothing for member, mine in zip(order, blocks, strict=True)
    }


def _read(blocks: Sequence[_Block]) -> Iterable[TopicPartition]:
    return (TopicPartition(topic, number) for topics, numbers in blocks for topic in topics for number in numbers)


def _near_replicas(spec: GroupSpec) -> dict[str, Assignment]:
    """Share out first what has a replica on a member's rack, then the rest."""
    owned: dict[str, list[TopicPartition]] = {member: [] for member in spec.members}
    racks = {member: entry.subscription.rack for member, entry in spec.members.items()}
    shares = [
        _Share(topic, spec.topics[topic], members, racks)
        for topic, members in subscribers(spec).items()
        if members and spec.topics[topic].partitions
    ]
    if any(share.is_rack_aware for share in shares):
        _match_racks(shares, owned)
    for share in shares:
        share.fill(owned)
    return {member: Assignment(frozenset(partitions)) for member, partitions in owned.items()}


class _Share:
    """One topic being shared out: the partitions left and what each of its members may still take."""

    def __init__(self, topic: str, spec: TopicSpec, members: Sequence[str], racks: dict[str, str | None]) -> None:
        self.topic = topic
        self.partitions = spec.partitions
        self.members = tuple(members)
        self._racks = racks
        self._replica_racks = spec.racks
        self._left = list(range(spec.partitions))
        self._given = dict.fromkeys(members, 0)
        self._quota, self._extras = divmod(spec.partitions, len(members))
        mine = {rack for member in members if (rack := racks[member]) is not None}
        everywhere = frozenset[str]().union(*spec.racks)
        # Where every partition is on every rack, any assignment is as near as any other.
        self.is_rack_aware = bool(mine & everywhere) and any(each != everywhere for each in spec.racks)

    def matches(self, member: str, partition: int) -> bool:
        """Return whether the partition has a replica on the member's rack; a member without a rack is near to all."""
        rack = self._racks[member]
        return rack is None or (partition < len(self._replica_racks) and rack in self._replica_racks[partition])

    def allowance(self, member: str) -> int:
        """Return how many more partitions the member may take."""
        return max(0, self._quota + (self._extras > 0) - self._given[member])

    def give(self, member: str, partitions: Sequence[int], owned: dict[str, list[TopicPartition]]) -> None:
        """Hand `partitions` to the member."""
        owned[member].extend(TopicPartition(self.topic, partition) for partition in partitions)
        self._given[member] += len(partitions)
        if self._given[member] > self._quota:
            self._extras -= 1
        given = set(partitions)
        self._left = [partition for partition in self._left if partition not in given]

    def fill_near(self, owned: dict[str, list[TopicPartition]]) -> None:
        """Give every member what its rack has, up to its quota."""
        for member in self.members:
            near = [partition for partition in self._left if self.matches(member, partition)]
            if chosen := near[: self.allowance(member)]:
                self.give(member, chosen, owned)

    def fill(self, owned: dict[str, list[TopicPartition]]) -> None:
        """Give out whatever is left in contiguous blocks."""
        at = 0
        left = self._left
        for member in self.members:
            block = left[at : at + self.allowance(member)]
            at += len(block)
            owned[member].extend(TopicPartition(self.topic, partition) for partition in block)
            self._given[member] += len(block)
            if block and self._given[member] > self._quota:
                self._extras -= 1
        self._left = []


def _match_racks(shares: Sequence[_Share], owned: dict[str, list[TopicPartition]]) -> None:
    together: dict[tuple[tuple[str, ...], int], list[_Share]] = {}
    for share in shares:
        together.setdefault((share.members, share.partitions), []).append(share)
    for group in together.values():
        if len(group) > 1:
            _match_racks_together(group, owned)
        elif group[0].is_rack_aware:
            group[0].fill_near(owned)


def _match_racks_together(group: Sequence[_Share], owned: dict[str, list[TopicPartition]]) -> None:
    """Give partition n of all co-partitioned topics to one member that is near all of them."""
    candidates = list(group[0].members)
    for partition in range(group[0].partitions):
        for member in candidates:
            if all(share.matches(member, partition) and share.allowance(member) for share in group):
                break
        else:
            continue
        for share in group:
            share.give(member, [partition], owned)
        if not any(share.allowance(member) for share in group):
            candidates.remove(member)
            if not candidates:
                return
