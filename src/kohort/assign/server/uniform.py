"""Kafka's server-side `uniform`: the most even loads there can be, and as few moves as lead to them.

Where all members subscribe alike, loads differ by one at most, in time proportional to members and partitions. Where
they do not, no chain of moves could make the loads more even, where Kafka's stops after some sweeps. Unlike Kafka's
it honours racks (docs/decisions/0025): after balance and before stickiness, and only where members' racks tell replicas
apart. Ties go by member id and topic id; the same group gives the same target, whatever order it is written in.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from kohort.assign.member_classes import has_near_and_far
from kohort.assign.server.even_dealing import deal, deal_afresh
from kohort.assign.server.spec import ServerGroup, ServerMember, ServerTopic
from kohort.assign.server.uniform_claims import take_stock
from kohort.assign.server.uniform_sharing import Kinds, MemberClass, Sharing
from kohort.model.id_partitions import NOTHING, IdPartitions


class UniformAssignor:
    """Assignor `uniform`, the default of a coordinator."""

    name = "uniform"

    def assign(self, group: ServerGroup) -> dict[str, IdPartitions]:
        """Return the target of every member."""
        order, members = in_order(group)
        if not order:
            return {}
        racks = [member.rack for member in members]
        is_rack_aware = racks.count(None) < len(racks) and _has_near_and_far(racks, group.topics)
        if group.is_homogeneous and not is_rack_aware:
            return _even(group, order, members)
        return sharing(group, order, members, racks if is_rack_aware else None).targets()


def in_order(group: ServerGroup) -> tuple[list[str], list[ServerMember]]:
    """Return the members' ids in order, and each one's entry at the same place."""
    order = sorted(group.members)
    if order == list(group.members):
        return order, list(group.members.values())
    return order, [group.members[name] for name in order]


def sharing(
    group: ServerGroup, order: Sequence[str], members: Sequence[ServerMember], racks: Sequence[str | None] | None
) -> Sharing:
    """Return how a group whose members differ shares its partitions; with their racks, so that they are honoured."""
    classes = member_classes(group, members, racks)
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
    return Sharing(order, [member.previous for member in members], classes, counts, kinds)


def partition_counts(topics: Mapping[bytes, ServerTopic]) -> dict[bytes, int]:
    """Return how many partitions each topic that has some has, in order of the topics' ids."""
    return {topic_id: count for topic_id in sorted(topics) if (count := topics[topic_id].partitions) > 0}


def member_classes(
    group: ServerGroup, members: Sequence[ServerMember], racks: Sequence[str | None] | None = None
) -> list[MemberClass]:
    """Return the classes of members with equal subscriptions, and equal racks if they are given, by first member."""
    topics = [member.topics for member in members]
    # Most members' topics are the very same set: comparing two sets of a thousand ids takes its time.
    same: list[Hashable] = [*map(id, topics)] if racks is None else [*zip(map(id, topics), racks, strict=True)]
    classes: dict[tuple[frozenset[bytes], str | None], MemberClass] = {}
    places_of: dict[Hashable, list[int]] = {}
    known = group.topics.keys()
    for at, each in enumerate(same):
        if each in places_of:
            places_of[each].append(at)
            continue
        mine = topics[at] if topics[at] <= known else topics[at].intersection(known)
        rack = None if racks is None else racks[at]
        # Equal sets that are not the same one come in order too.
        places_of[each] = classes.setdefault((mine, rack), MemberClass(mine, rack)).places
        places_of[each].append(at)
    return list(classes.values())


def subscriber_masks(classes: Sequence[MemberClass], counts: Mapping[bytes, int]) -> dict[bytes, int]:
    """Return for every topic the classes that subscribe to it: a bit mask of their numbers."""
    found = dict.fromkeys(counts, 0)
    for number, each in enumerate(classes):
        for topic_id in each.topics:
            if topic_id in found:
                found[topic_id] |= 1 << number
    return found


def _even(group: ServerGroup, order: Sequence[str], members: Sequence[ServerMember]) -> dict[str, IdPartitions]:
    counts = partition_counts(group.topics)
    previous = [member.previous for member in members]
    if previous.count(NOTHING) == len(previous):
        whole = {count: tuple(range(count)) for count in set(counts.values())}
        held = deal_afresh(len(order), tuple([(topic_id, whole[count]) for topic_id, count in counts.items()]))
    else:
        held, sizes, free = take_stock(previous, counts, [(counts, range(len(order)))])
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
