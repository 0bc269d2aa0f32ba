"""Kafka's server-side `uniform`: the most even loads there can be, and as few moves as lead to them.

Where all members subscribe alike, loads differ by one at most, in time proportional to members and partitions. Where
they do not, no chain of moves could make the loads more even, where Kafka's stops after some sweeps. Unlike Kafka's
it honours racks (docs/decisions/0025): after balance and before stickiness, and only where members' racks tell replicas
apart. Ties go by member id and topic id; the same group gives the same target, whatever order it is written in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kohort.assign.classes import has_near_and_far
from kohort.assign.server import ServerGroup, ServerTopic
from kohort.assign.uniform_claims import take_stock
from kohort.assign.uniform_dealing import deal
from kohort.assign.uniform_sharing import Kinds, MemberClass, Sharing
from kohort.model.id_partitions import IdPartitions


class UniformAssignor:
    """Assignor `uniform`, the default of a coordinator."""

    name = "uniform"

    def assign(self, group: ServerGroup) -> dict[str, IdPartitions]:
        """Return the target of every member."""
        order = sorted(group.members)
        if not order:
            return {}
        racks = [group.members[name].rack for name in order]
        is_rack_aware = any(racks) and _has_near_and_far(racks, group.topics)
        if group.is_homogeneous and not is_rack_aware:
            return _even(group, order)
        return sharing(group, order, racks if is_rack_aware else None).targets()


def sharing(group: ServerGroup, order: Sequence[str], racks: Sequence[str | None] | None) -> Sharing:
    """Return how a group whose members differ shares its partitions; with their racks, so that they are honoured."""
    classes = member_classes(group, order, racks)
    counts = partition_counts(group.topics)
    kinds = Kinds()
    for topic_id, eligible in subscriber_masks(classes, counts).items():
        if eligible:
            topic = group.topics[topic_id]
            if racks is None:
                kinds.add_topic(topic_id, topic.partitions, eligible)
            else:
                kinds.add_partitions(topic_id, _masks(topic, classes, eligible))
        else:
            del counts[topic_id]
    return Sharing(order, [group.members[name].previous for name in order], classes, counts, kinds)


def partition_counts(topics: Mapping[bytes, ServerTopic]) -> dict[bytes, int]:
    """Return how many partitions each topic that has some has, in order of the topics' ids."""
    return {topic_id: count for topic_id in sorted(topics) if (count := topics[topic_id].partitions) > 0}


def member_classes(
    group: ServerGroup, order: Sequence[str], racks: Sequence[str | None] | None = None
) -> list[MemberClass]:
    """Return the classes of members with equal subscriptions, and equal racks if they are given, by first member."""
    classes: dict[tuple[frozenset[bytes], str | None], MemberClass] = {}
    # Most members' topics are the very same set: comparing two sets of a thousand ids takes its time.
    found: dict[tuple[int, str | None], list[int]] = {}
    known = group.topics.keys()
    for at, name in enumerate(order):
        topics = group.members[name].topics
        rack = None if racks is None else racks[at]
        places = found.get((id(topics), rack))
        if places is None:
            mine = topics if topics <= known else topics & known
            places = classes.setdefault((mine, rack), MemberClass(mine, rack)).places
            found[id(topics), rack] = places
        places.append(at)
    return list(classes.values())


def subscriber_masks(classes: Sequence[MemberClass], counts: Mapping[bytes, int]) -> dict[bytes, int]:
    """Return for every topic the classes that subscribe to it: a bit mask of their numbers."""
    found = dict.fromkeys(counts, 0)
    for number, each in enumerate(classes):
        for topic_id in each.topics:
            if topic_id in found:
                found[topic_id] |= 1 << number
    return found


def _even(group: ServerGroup, order: Sequence[str]) -> dict[str, IdPartitions]:
    counts = partition_counts(group.topics)
    previous = [group.members[name].previous for name in order]
    if any(previous):
        held, sizes, free = take_stock(previous, counts, [(counts, range(len(order)))])
    else:
        held, sizes = previous, [0] * len(order)
        free = tuple([(topic_id, tuple(range(count))) for topic_id, count in counts.items()])
    deal(held, sizes, free)
    return dict(zip(order, held, strict=True))


def _has_near_and_far(racks: Sequence[str | None], topics: Mapping[bytes, ServerTopic]) -> bool:
    mine = {rack for rack in racks if rack is not None}
    return has_near_and_far(mine, (held for topic in topics.values() for held in topic.racks))


def _masks(topic: ServerTopic, classes: Sequence[MemberClass], eligible: int) -> list[tuple[int, int]]:
    """Return for each partition of a topic the classes that may be given it, and those that are far from it."""
    far_from: dict[frozenset[str], int] = {}
    found = []
    for number in range(topic.partitions):
        near = topic.racks[number] if number < len(topic.racks) else frozenset[str]()
        if near not in far_from:
            far_from[near] = sum(
                1 << bit for bit, each in enumerate(classes) if each.rack is not None and each.rack not in near
            )
        found.append((eligible, far_from[near]))
    return found
