"""Kafka's server-side `uniform`: the most even loads there can be, and as few moves as lead to them.

Where all members subscribe alike, loads differ by one at most, in time proportional to members and partitions. Where
they do not, no chain of moves could make the loads more even, where Kafka's stops after some sweeps. Members that are
alike form a class, partitions that the same classes may be given a kind, and `shares` computes how many of each kind
each class gets. Unlike Kafka's it honours racks (docs/decisions/0014): after balance and before stickiness, and only
where members' racks distinguish replicas. Ties go by member id and topic id.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import chain

from kohort.assign.member_classes import MemberClass, far_from, has_near_and_far, subscriber_masks
from kohort.assign.server.even_dealing import Pair, deal, deal_afresh, release
from kohort.assign.server.spec import ServerGroup, ServerMember, ServerTopic
from kohort.assign.shares import Shares, match_racks
from kohort.model.assignment import NOTHING, IdPartitions, id_partitions

Alike = tuple[Collection[bytes], Iterable[int]]
"""Topics, and the places of the members that subscribe to them."""


_Claims = tuple[list[IdPartitions], list[int], IdPartitions]


def survivors(previous: Sequence[IdPartitions], counts: Mapping[bytes, int], alike: Sequence[Alike]) -> _Claims:
    """Return what each member retains of its previous target, how many partitions that is, and which no member has.

    A member retains what exists, what it still subscribes to, and what no member before it in order has already. A
    target that a coordinator stored is valid as a rule, so that is tried first and costs little. `counts` are the
    partitions of each topic in order of their ids; every member is in one of `alike`.
    """
    return _valid(previous, counts, alike) or _resolved(previous, counts, alike)


def _valid(previous: Sequence[IdPartitions], counts: Mapping[bytes, int], alike: Sequence[Alike]) -> _Claims | None:
    """Return what members retain where nothing is wrong with it, else None."""
    claims: dict[bytes, list[tuple[int, ...]]] = {topic_id: [] for topic_id in counts}
    try:
        for topics, places in alike:
            is_all = len(alike) == 1 and len(topics) == len(claims)
            mine = claims if is_all else {topic_id: claims[topic_id] for topic_id in topics}
            for topic_id, numbers in chain.from_iterable(previous if is_all else [previous[at] for at in places]):
                mine[topic_id].append(numbers)
    except KeyError:
        return None
    total = 0
    free: list[tuple[bytes, tuple[int, ...]]] = []
    for (topic_id, count), claimed in zip(counts.items(), claims.values(), strict=True):
        if not claimed:
            free.append((topic_id, tuple(range(count))))
            continue
        flat: Sequence[int] = claimed[0] if len(claimed) == 1 else list(chain.from_iterable(claimed))
        size = len(flat)
        total += size
        if size == count and len(claimed) == 1:
            # Canonical: in order, and none twice.
            if flat[-1] != count - 1:
                return None
            continue
        taken = set(flat)
        # Numbers are not negative: as many as there are, with the least sum there can be, are just those.
        if len(taken) < size or (2 * sum(flat) != count * (count - 1) if size == count else max(flat) >= count):
            return None
        if size < count:
            free.append((topic_id, tuple([number for number in range(count) if number not in taken])))
    sizes = list(map(len, previous))
    if sum(sizes) == total:
        return list(previous), sizes, tuple(free)
    sizes = [len(mine[0][1]) if len(mine) == 1 else sum([len(numbers) for _, numbers in mine]) for mine in previous]
    return list(previous), sizes, tuple(free)


def _resolved(previous: Sequence[IdPartitions], counts: Mapping[bytes, int], alike: Sequence[Alike]) -> _Claims:
    claimed: dict[bytes, set[int]] = {topic_id: set() for topic_id in counts}
    wanted: list[Collection[bytes]] = [()] * len(previous)
    for topics, places in alike:
        for at in places:
            wanted[at] = topics
    assigned: list[IdPartitions] = []
    sizes = []
    for claims, topics in zip(previous, wanted, strict=True):
        retained = []
        total = 0
        for topic_id, numbers in claims:
            if topic_id in topics and topic_id in counts:
                count, taken = counts[topic_id], claimed[topic_id]
                mine = tuple([number for number in numbers if 0 <= number < count and number not in taken])
                taken.update(mine)
                if mine:
                    retained.append((topic_id, mine))
                    total += len(mine)
        assigned.append(claims if tuple(retained) == claims else tuple(retained))
        sizes.append(total)
    free = []
    for topic_id, count in counts.items():
        taken = claimed[topic_id]
        if left := tuple([number for number in range(count) if number not in taken]):
            free.append((topic_id, left))
    return assigned, sizes, tuple(free)


class Kinds:
    """The kinds of a group's partitions, numbered as they are first seen.

    A kind is who may be given it and who is far from it, as bit masks of the classes' numbers.
    """

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, int], int] = {}
        self.whole: dict[bytes, int] = {}
        """The kind of topics that have one."""
        self.split: dict[bytes, list[int]] = {}
        """The kind of each partition of the others."""
        self.supply: list[int] = []

    def add_topic(self, topic_id: bytes, partitions: int, eligible: int) -> None:
        """Note that all partitions of a topic are alike."""
        self.whole[topic_id] = self._number(eligible, 0, partitions)

    def add_partitions(self, topic_id: bytes, masks: Sequence[tuple[int, int]]) -> None:
        """Note for each partition of a topic who may be given it and who is far from it."""
        self.split[topic_id] = [self._number(eligible, far, 1) for eligible, far in masks]

    def of(self, topic_id: bytes, number: int) -> int:
        """Return the kind of a partition."""
        kind = self.whole.get(topic_id)
        return self.split[topic_id][number] if kind is None else kind

    def count(self, partitions: Iterable[tuple[bytes, tuple[int, ...]]]) -> dict[int, int]:
        """Return how many partitions there are of each kind that there are some of."""
        found = [0] * len(self.supply)
        whole = self.whole
        for topic_id, numbers in partitions:
            if topic_id in whole:
                found[whole[topic_id]] += len(numbers)
            else:
                kinds = self.split[topic_id]
                for number in numbers:
                    found[kinds[number]] += 1
        return {kind: count for kind, count in enumerate(found) if count}

    def sorted_out(self, partitions: IdPartitions) -> list[list[tuple[bytes, tuple[int, ...]]]]:
        """Return partitions by their kind."""
        found: list[list[tuple[bytes, tuple[int, ...]]]] = [[] for _ in self.supply]
        for topic_id, numbers in partitions:
            if topic_id in self.whole:
                found[self.whole[topic_id]].append((topic_id, numbers))
            else:
                kinds = self.split[topic_id]
                mine: dict[int, list[int]] = {}
                for number in numbers:
                    mine.setdefault(kinds[number], []).append(number)
                for kind, some in mine.items():
                    found[kind].append((topic_id, tuple(some)))
        return found

    def _number(self, eligible: int, far: int, partitions: int) -> int:
        kind = self.numbers.setdefault((eligible, far), len(self.numbers))
        if kind == len(self.supply):
            self.supply.append(0)
        self.supply[kind] += partitions
        return kind


class Sharing:
    """One computation of targets. `order` has the members' ids; what is known of each stands at its place."""

    def __init__(
        self,
        order: Sequence[str],
        previous: Sequence[IdPartitions],
        classes: Sequence[MemberClass[bytes]],
        counts: Mapping[bytes, int],
        kinds: Kinds,
    ) -> None:
        self.steps = 0
        self._order = order
        self._classes = classes
        self._kinds = kinds
        alike = [([topic_id for topic_id in each.topics if topic_id in counts], each.places) for each in classes]
        self._assigned, self._sizes, self._free = survivors(previous, counts, alike)

    def targets(self) -> dict[str, IdPartitions]:
        """Return the target of every member."""
        for each, pool in zip(self._classes, self._pools(), strict=True):
            assigned = [self._assigned[at] for at in each.places]
            deal(assigned, [self._sizes[at] for at in each.places], pool)
            for at, mine in zip(each.places, assigned, strict=True):
                self._assigned[at] = mine
        return dict(zip(self._order, self._assigned, strict=True))

    def _pools(self) -> list[IdPartitions]:
        """Return what each class gets from outside, after it has released what goes to others."""
        kinds = self._kinds
        if not kinds.supply:
            return [NOTHING] * len(self._classes)
        assigned = self._assigned
        owned = [kinds.count(chain.from_iterable([assigned[at] for at in each.places])) for each in self._classes]
        given = self._shares(owned)
        released: list[Pair] = []
        for each, mine, target in zip(self._classes, owned, given, strict=True):
            wanted = {kind: count - target.get(kind, 0) for kind, count in mine.items() if count > target.get(kind, 0)}
            if wanted:
                released += release(self._assigned, each.places, self._sizes, wanted, kinds.of)
        free = self._free
        if released:
            free = id_partitions([*free, *((topic_id, (number,)) for topic_id, number in released)])
        pools: list[list[tuple[bytes, tuple[int, ...]]]] = [[] for _ in self._classes]
        for kind, runs in enumerate(kinds.sorted_out(free)):
            takers = [
                (target.get(kind, 0) - mine.get(kind, 0), pool)
                for mine, target, pool in zip(owned, given, pools, strict=True)
                if target.get(kind, 0) > mine.get(kind, 0)
            ]
            if len(takers) == 1:
                takers[0][1].extend(runs)
            elif takers:
                _split(runs, takers)
        if kinds.split:
            return [id_partitions(pool) for pool in pools]
        return [tuple(sorted(pool)) for pool in pools]

    def _shares(self, owned: Sequence[dict[int, int]]) -> list[dict[int, int]]:
        """Return how many of each kind the members of a class shall have."""
        masks = list(self._kinds.numbers)
        far = [far for _, far in masks]
        shares = Shares(
            [len(each.places) for each in self._classes],
            [1.0] * len(self._classes),
            [eligible for eligible, _ in masks],
            far,
            self._kinds.supply,
            owned,
            [[self._sizes[at] for at in each.places] for each in self._classes],
        )
        found = shares.share_out()
        if any(far):
            match_racks(shares)
        self.steps = shares.steps
        return found


def _split(
    runs: Sequence[tuple[bytes, tuple[int, ...]]],
    takers: Sequence[tuple[int, list[tuple[bytes, tuple[int, ...]]]]],
) -> None:
    """Share out partitions so that each taker's come from all over the topics."""
    left = [count for count, _ in takers]
    total = sum(left)
    for topic_id, numbers in runs:
        start, end = 0, len(numbers)
        rest = total
        for at, (_, pool) in enumerate(takers):
            mine = left[at]
            if not mine:
                continue
            amount = end - start
            # In proportion to what each has left to get, rounded; the others must be able to take what remains.
            part = max(amount - rest + mine, min(mine, amount, (2 * amount * mine + rest) // (2 * rest)))
            if part:
                pool.append((topic_id, numbers[start : start + part]))
                start += part
                left[at] -= part
            rest -= mine
        total -= end


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
) -> list[MemberClass[bytes]]:
    """Return the classes of members with equal subscriptions, and equal racks if they are given, by first member."""
    topics = [member.topics for member in members]
    # Most members' topics are the very same set: comparing two sets of a thousand ids takes its time.
    same: list[Hashable] = [*map(id, topics)] if racks is None else [*zip(map(id, topics), racks, strict=True)]
    classes: dict[tuple[frozenset[bytes], str | None], MemberClass[bytes]] = {}
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


def _even(group: ServerGroup, order: Sequence[str], members: Sequence[ServerMember]) -> dict[str, IdPartitions]:
    counts = partition_counts(group.topics)
    previous = [member.previous for member in members]
    if previous.count(NOTHING) == len(previous):
        whole = {count: tuple(range(count)) for count in set(counts.values())}
        assigned = deal_afresh(len(order), tuple([(topic_id, whole[count]) for topic_id, count in counts.items()]))
    else:
        assigned, sizes, free = survivors(previous, counts, [(counts, range(len(order)))])
        deal(assigned, sizes, free)
    return dict(zip(order, assigned, strict=True))


def _has_near_and_far(racks: Sequence[str | None], topics: Mapping[bytes, ServerTopic]) -> bool:
    mine = {rack for rack in racks if rack is not None}
    return has_near_and_far(mine, (racks for topic in topics.values() for racks in topic.racks))


def _masks(topic: ServerTopic, classes: Sequence[MemberClass[bytes]], eligible: int) -> list[tuple[int, int]]:
    """Return for each partition of a topic the classes that may be given it, and those that are far from it."""
    far: dict[frozenset[str], int] = {}
    found = []
    for number in range(topic.partitions):
        near = topic.racks[number] if number < len(topic.racks) else frozenset[str]()
        if near not in far:
            far[near] = far_from(classes, near)
        found.append((eligible, far[near]))
    return found
