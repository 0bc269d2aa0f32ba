"""The sticky engine: every member retains what it owns as far as balance allows, for any mix of subscriptions.

The law, in this order: every subscribed partition has one owner; no partition could move to make
the loads more even; members near a replica get it where that costs no balance; as few partitions move as can be. The
same group gives the same assignment, whatever order it is written in. Where all members subscribe alike there is one
class to deal to (`deal`); else `shares` first computes how many partitions of each kind each class of members gets.
The engine counts and compares plain numbers; `TopicPartition` objects come back when an assignment is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import chain, repeat

from kohort.assign.member_classes import (
    MemberClass,
    far_from,
    has_near_and_far,
    member_classes,
    racks_of,
    subscriber_masks,
)
from kohort.assign.shares import Shares, match_racks
from kohort.assign.spec import GroupSpec
from kohort.model.assignment import Assignment, DeferredAssignment
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription

Slots = Mapping[str, Mapping[int, int]]
"""Numbers by topic and partition. What is not in it is unknown, or not for the member that asks."""


class Layout:
    """The numbering of a group's partitions: topic by topic in order of their names, each topic's from its first."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = {topic: counts[topic] for topic in sorted(counts)}
        self.size = sum(self.counts.values())

    @cached_property
    def slots(self) -> dict[str, dict[int, int]]:
        """Return the number of every partition, by topic."""
        found = {}
        first = 0
        for topic, count in self.counts.items():
            found[topic] = dict(zip(range(count), range(first, first + count), strict=True))
            first += count
        return found

    @cached_property
    def table(self) -> list[TopicPartition]:
        """Return every partition at its number."""
        found: list[TopicPartition] = []
        for topic, count in self.counts.items():
            # As TopicPartition(topic, number), a hundred thousand times.
            found += map(tuple.__new__, repeat(TopicPartition), zip(repeat(topic, count), range(count), strict=True))
        return found

    def read(self, retained: Sequence[TopicPartition], given: Sequence[int]) -> Iterable[TopicPartition]:
        """Return the partitions `retained` and those with the numbers `given`."""
        return chain(retained, map(self.table.__getitem__, given))


Owned = Sequence[TopicPartition]


@dataclass(slots=True)
class Claims:
    """What each member owns, by its place in the order of the members, and what no member may be given for now."""

    owned: list[Owned]
    numbers: set[int]
    blocked: set[int] = field(default_factory=set)
    returned: dict[int, list[TopicPartition]] = field(default_factory=dict)


def read_claims(
    owned: list[Owned],
    slots_of: Sequence[Slots],
    layout: Layout,
    generation_of: Callable[[int], int],
    topics_of: Callable[[int], Sequence[str]],
) -> Claims:
    """Return what the members own; `slots_of` has what each may own, `topics_of` what each subscribed to.

    Of several claims to one partition that of the highest generation counts; where that generation claims it twice, no
    member owns it (KIP-792). Claims to topics that their member did not subscribe to, or that do not exist, do not
    count, but a partition that such a member still owns may not be given away before the member has revoked it.
    """
    if not any(owned):
        return Claims(owned, set())
    numbers = _numbers(owned, slots_of)
    if numbers is None:
        claims = _resolve(owned, slots_of, layout, generation_of, topics_of)
        claims.numbers = _numbers(claims.owned, slots_of) or set()
        return claims
    return Claims(owned, numbers)


def _numbers(owned: Sequence[Owned], slots_of: Sequence[Slots]) -> set[int] | None:
    """Return the numbers of all claims, or None where two are equal or one is to be dropped."""
    first = slots_of[0]
    try:
        if len(set(map(id, slots_of))) == 1:
            numbers = [first[topic][partition] for claims in owned for topic, partition in claims]
        else:
            numbers = [
                slots[topic][partition]
                for claims, slots in zip(owned, slots_of, strict=True)
                for topic, partition in claims
            ]
    except KeyError:
        return None
    found = set(numbers)
    return found if len(found) == len(numbers) else None


def _resolve(
    owned: Sequence[Owned],
    slots_of: Sequence[Slots],
    layout: Layout,
    generation_of: Callable[[int], int],
    topics_of: Callable[[int], Sequence[str]],
) -> Claims:
    best: dict[TopicPartition, tuple[int, list[int]]] = {}
    for at, claims in enumerate(owned):
        generation = generation_of(at) if claims else -1
        for partition in dict.fromkeys(claims):
            highest, owners = best.get(partition, (generation, []))
            if generation > highest:
                highest, owners = generation, []
            if generation == highest:
                owners.append(at)
            best[partition] = (highest, owners)
    retained: list[list[TopicPartition]] = [[] for _ in owned]
    found = Claims([], set())
    for partition, (_, owners) in best.items():
        owner = owners[0]
        topic, number = partition
        if (known := layout.slots.get(topic, {}).get(number)) is None:
            if len(owners) == 1 and number >= 0 and topic in topics_of(owner):
                found.returned.setdefault(owner, []).append(partition)
        elif len(owners) == 1 and topic in slots_of[owner]:
            retained[owner].append(partition)
        else:
            found.blocked.add(known)
    found.owned = list(retained)
    return found


NumberOf = Callable[[TopicPartition], int]


@dataclass(slots=True)
class Deal:
    """What each member retains and the numbers of what it is given, and which numbers were taken from a member."""

    retained: list[Owned]
    given: list[Sequence[int]]
    released: list[int]


def deal(owned: Sequence[Owned], pool: Sequence[int], number_of: NumberOf) -> Deal:
    """Share out the partitions of members with equal subscriptions and those of the pool, which is sorted.

    Of T partitions and n members each gets ⌊T/n⌋ and T mod n get one more, first those that own more anyway. A member
    with too many retains the first of its partitions by number, then topic, and revokes some of each topic. What
    is free is dealt in a circle, in order.
    """
    size = len(owned)
    sizes = list(map(len, owned))
    total = sum(sizes)
    if not total:
        return Deal(list(owned), [pool[at::size] for at in range(size)], [])
    share, extras = divmod(total + len(pool), size)
    retained = list(owned)
    released: list[int] = []
    needs: list[int] = []
    for at, count in enumerate(sizes):
        if count <= share:
            needs.append(at)
            continue
        quota = share
        if extras:
            extras -= 1
            quota += 1
        if count > quota:
            ordered = sorted(owned[at], key=_by_number)
            retained[at] = ordered[:quota]
            released += map(number_of, ordered[quota:])
    free = sorted([*pool, *released]) if released else pool
    given: list[Sequence[int]] = [()] * size
    if free:
        for at, numbers in _dealt(needs, sizes, share, extras, free).items():
            given[at] = numbers
    return Deal(retained, given, released)


def _dealt(
    needs: Sequence[int], sizes: Sequence[int], share: int, extras: int, free: Sequence[int]
) -> Mapping[int, Sequence[int]]:
    """Deal `free` in a circle to those who have less than `share`, then the extras to the first that have just it."""
    missing = [(at, share - sizes[at]) for at in needs]
    # A member that is given something anyway is given one of the extras before a member that would gain nothing else.
    missing = [
        (at, count + 1) if rank < extras else (at, count) for rank, (at, count) in enumerate(_short_first(missing))
    ]
    found: dict[int, list[int]] = {at: [] for at, count in missing if count}
    circle = [(at, count) for at, count in missing if count]
    start = 0
    while circle:
        rounds = min(count for _, count in circle)
        width = len(circle)
        block = free[start : start + rounds * width]
        for place, (at, _) in enumerate(circle):
            found[at] += block[place::width]
        start += rounds * width
        circle = [(at, count - rounds) for at, count in circle if count > rounds]
    return found


def release(owned: list[Owned], wanted: dict[int, int], number_of: NumberOf, kind_of: Sequence[int]) -> list[int]:
    """Take as many partitions of each kind as `wanted` has, from the fullest members first; return their numbers.

    What a member retains replaces what it owned.
    """
    taken: list[int] = []
    fullest = [(-len(claims), at) for at, claims in enumerate(owned) if claims]
    heapify(fullest)
    while fullest and wanted:
        count, at = heappop(fullest)
        # Down to the next fullest, at once.
        surplus = max(1, -count + fullest[0][0]) if fullest else -count
        retained: list[TopicPartition] = []
        for partition in sorted(owned[at], key=_by_number, reverse=True):
            kind = kind_of[number := number_of(partition)]
            if surplus and wanted.get(kind):
                surplus -= 1
                taken.append(number)
                wanted[kind] -= 1
                if not wanted[kind]:
                    del wanted[kind]
            else:
                retained.append(partition)
        if len(retained) < -count:
            owned[at] = retained
            heappush(fullest, (-len(retained), at))
    return taken


def _short_first(missing: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted(missing, key=_has_enough)


def _has_enough(entry: tuple[int, int]) -> bool:
    return entry[1] == 0


def _by_number(partition: TopicPartition) -> tuple[int, str]:
    return partition.partition, partition.topic


class Engine:
    """One round. `order` has the members; what is known of each stands at its place in the other lists."""

    def __init__(
        self,
        spec: GroupSpec,
        order: Sequence[str],
        subscriptions: Sequence[Subscription],
        owned: list[Owned],
        generation_of: Callable[[int], int],
        weights: Sequence[float] | None = None,
    ) -> None:
        self.steps = 0
        self._spec = spec
        self._order = order
        mine = racks_of(subscriptions)
        self._is_rack_aware = bool(mine) and has_near_and_far(
            mine, (racks for topic in spec.topics.values() for racks in topic.racks)
        )
        self._classes = member_classes(subscriptions, spec.topics, with_racks=self._is_rack_aware, weights=weights)
        wanted = frozenset[str]().union(*(each.topics for each in self._classes))
        self._layout = Layout({topic: spec.topics[topic].partitions for topic in wanted})
        self._slots_of = self._all_slots() if any(owned) else []
        self._claims = (
            read_claims(owned, self._slots_of, self._layout, generation_of, lambda place: subscriptions[place].topics)
            if self._slots_of
            else Claims(owned, set())
        )
        self._given: list[Sequence[int]] = [()] * len(order)
        self._moved: list[int] = []

    def eager(self) -> dict[str, Assignment]:
        """Return the assignments for members that have given everything up before."""
        self._share_out()
        return self._assignments()

    def cooperative(self) -> dict[str, Assignment]:
        """Return the assignments of this round: what changes hands is withheld until its owner has revoked it."""
        self._share_out()
        withheld = self._claims.blocked.union(self._moved)
        if withheld:
            for place, numbers in enumerate(self._given):
                if numbers and not withheld.isdisjoint(numbers):
                    self._given[place] = [number for number in numbers if number not in withheld]
        for place, partitions in self._claims.returned.items():
            self._claims.owned[place] = [*self._claims.owned[place], *partitions]
        return self._assignments()

    def _assignments(self) -> dict[str, Assignment]:
        read = self._layout.read
        nothing = Assignment()
        return {
            name: DeferredAssignment(read, retained, given) if retained or given else nothing
            for name, retained, given in zip(self._order, self._claims.owned, self._given, strict=True)
        }

    def _all_slots(self) -> list[Slots]:
        slots = self._layout.slots
        found: list[Slots] = [slots] * len(self._order)
        if len(self._classes) > 1:
            for each in self._classes:
                own = {topic: slots[topic] for topic in each.topics}
                for place in each.places:
                    found[place] = own
        return found

    def _number_of(self, partition: TopicPartition) -> int:
        return self._layout.slots[partition.topic][partition.partition]

    # Who gets what

    def _share_out(self) -> None:
        claimed = self._claims.numbers
        free: Sequence[int] = range(self._layout.size)
        if claimed:
            free = [number for number in free if number not in claimed] if len(claimed) < len(free) else []
        if len(self._classes) == 1:
            self._deal_to(self._classes[0], free)
        elif self._layout.size:
            for each, pool in zip(self._classes, self._pools(free), strict=True):
                self._deal_to(each, pool)

    def _deal_to(self, alike: MemberClass[str], pool: Sequence[int]) -> None:
        owned = self._claims.owned
        if len(alike.places) == len(owned):
            dealt = deal(owned, pool, self._number_of)
            self._moved = dealt.released
            self._claims.owned, self._given = dealt.retained, dealt.given
            return
        dealt = deal([owned[place] for place in alike.places], pool, self._number_of)
        self._moved += dealt.released
        for place, retained, given in zip(alike.places, dealt.retained, dealt.given, strict=True):
            owned[place] = retained
            self._given[place] = given

    def _pools(self, free: Sequence[int]) -> list[list[int]]:
        """Return what each class of members gets from outside, after it has released what goes to others."""
        kind_of, shares, owned = self._shares()
        goals = shares.share_out()
        if self._is_rack_aware:
            match_racks(shares)
        self.steps = shares.steps
        free_of: list[list[int]] = [[] for _ in shares.eligible]
        for number in free:
            free_of[kind_of[number]].append(number)
        for each, mine, target in zip(self._classes, owned, goals, strict=True):
            wanted = {kind: count - target.get(kind, 0) for kind, count in mine.items() if count > target.get(kind, 0)}
            if wanted:
                claims = [self._claims.owned[place] for place in each.places]
                taken = release(claims, wanted, self._number_of, kind_of)
                self._moved += taken
                for place, retained in zip(each.places, claims, strict=True):
                    self._claims.owned[place] = retained
                for number in taken:
                    free_of[kind_of[number]].append(number)
        pools: list[list[int]] = [[] for _ in self._classes]
        for kind, numbers in enumerate(free_of):
            takers = [
                (target.get(kind, 0) - mine.get(kind, 0), pool)
                for mine, target, pool in zip(owned, goals, pools, strict=True)
                if target.get(kind, 0) > mine.get(kind, 0)
            ]
            _spread(sorted(numbers), takers)
        for pool in pools:
            pool.sort()
        return pools

    def _shares(self) -> tuple[list[int], Shares, list[dict[int, int]]]:
        """Return the kind of every partition, the problem, and how many of each kind the members of a class own."""
        subscribed = subscriber_masks(self._classes, self._layout.counts)
        kinds: dict[tuple[int, frozenset[str] | None], int] = {}
        kind_of: list[int] = []
        for topic, count in self._layout.counts.items():
            mask = subscribed[topic]
            if self._is_rack_aware:
                racks = self._spec.topics[topic].racks
                for partition in range(count):
                    near = racks[partition] if partition < len(racks) else frozenset[str]()
                    kind_of.append(kinds.setdefault((mask, near), len(kinds)))
            else:
                kind_of += [kinds.setdefault((mask, None), len(kinds))] * count
        far = [0 if near is None else far_from(self._classes, near) for _, near in kinds]
        supply = [0] * len(kinds)
        for kind in kind_of:
            supply[kind] += 1
        owned: list[dict[int, int]] = []
        for each in self._classes:
            counts: dict[int, int] = {}
            for place in each.places:
                for topic, partition in self._claims.owned[place]:
                    kind = kind_of[self._layout.slots[topic][partition]]
                    counts[kind] = counts.get(kind, 0) + 1
            owned.append(counts)
        sizes = [len(each.places) for each in self._classes]
        weights = [each.weight for each in self._classes]
        loads = [[len(self._claims.owned[place]) for place in each.places] for each in self._classes]
        return kind_of, Shares(sizes, weights, [mask for mask, _ in kinds], far, supply, owned, loads), owned


def _spread(numbers: Sequence[int], takers: Sequence[tuple[int, list[int]]]) -> None:
    """Share `numbers` out so that each taker's come from all over the list."""
    if len(takers) == 1:
        takers[0][1].extend(numbers)
        return
    turns = sorted((turn / count, rank) for rank, (count, _) in enumerate(takers) for turn in range(count))
    for number, (_, rank) in zip(numbers, turns, strict=True):
        takers[rank][1].append(number)
