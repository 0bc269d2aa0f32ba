"""The sticky engine: everybody keeps what it owns as far as balance allows, for any mix of subscriptions.

The law, in this order: every partition that somebody subscribed to has one owner; no partition could move to make
the loads more even; members near a replica get it where that costs no balance; as few partitions move as can be. The
same group gives the same assignment, whatever order it is written in. Where all members subscribe alike there is one
class to deal to (`dealing`); else `shares` first says how many partitions of each kind each class of members gets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kohort.assign.claims import Claims, Owned, take_in
from kohort.assign.dealing import deal, release
from kohort.assign.layout import Layout, Slots
from kohort.assign.member_classes import MemberClass, has_near_and_far, member_classes, racks_of, subscriber_masks
from kohort.assign.nearness import match_racks
from kohort.assign.shares import Shares
from kohort.assign.spec import GroupSpec
from kohort.model.assignment import Assignment, DeferredAssignment
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription


class Engine:
    """One round. `order` holds the members; what is known of each stands at its place in the other lists."""

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
            take_in(owned, self._slots_of, self._layout, generation_of, lambda place: subscriptions[place].topics)
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
            name: DeferredAssignment(read, kept, given) if kept or given else nothing
            for name, kept, given in zip(self._order, self._claims.owned, self._given, strict=True)
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

    def _deal_to(self, alike: MemberClass, pool: Sequence[int]) -> None:
        owned = self._claims.owned
        if len(alike.places) == len(owned):
            dealt = deal(owned, pool, self._number_of)
            self._moved = dealt.released
            self._claims.owned, self._given = dealt.kept, dealt.given
            return
        dealt = deal([owned[place] for place in alike.places], pool, self._number_of)
        self._moved += dealt.released
        for place, kept, given in zip(alike.places, dealt.kept, dealt.given, strict=True):
            owned[place] = kept
            self._given[place] = given

    def _pools(self, free: Sequence[int]) -> list[list[int]]:
        """Return what each class of members gets from outside, after it has given up what goes to others."""
        kind_of, shares, owned = self._shares()
        held = shares.share_out()
        if self._is_rack_aware:
            match_racks(shares)
        self.steps = shares.steps
        free_of: list[list[int]] = [[] for _ in shares.eligible]
        for number in free:
            free_of[kind_of[number]].append(number)
        for each, mine, target in zip(self._classes, owned, held, strict=True):
            wanted = {kind: count - target.get(kind, 0) for kind, count in mine.items() if count > target.get(kind, 0)}
            if wanted:
                claims = [self._claims.owned[place] for place in each.places]
                taken = release(claims, wanted, self._number_of, kind_of)
                self._moved += taken
                for place, kept in zip(each.places, claims, strict=True):
                    self._claims.owned[place] = kept
                for number in taken:
                    free_of[kind_of[number]].append(number)
        pools: list[list[int]] = [[] for _ in self._classes]
        for kind, numbers in enumerate(free_of):
            takers = [
                (target.get(kind, 0) - mine.get(kind, 0), pool)
                for mine, target, pool in zip(owned, held, pools, strict=True)
                if target.get(kind, 0) > mine.get(kind, 0)
            ]
            _spread(sorted(numbers), takers)
        for pool in pools:
            pool.sort()
        return pools

    def _shares(self) -> tuple[list[int], Shares, list[dict[int, int]]]:
        """Return the kind of every partition, the problem, and how many of each kind the members of a class own."""
        subscribed = subscriber_masks(self._classes)
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
        far = [
            0
            if near is None
            else sum(
                1 << bit for bit, each in enumerate(self._classes) if each.rack is not None and each.rack not in near
            )
            for _, near in kinds
        ]
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
