"""Targets where members differ: in their subscriptions, their racks, or in what they may be given.

Members that are alike form a class, partitions that the same classes may be given a kind. `shares` says how many
partitions of each kind each class gets: no chain of moves could make the loads more even, and as few as can be move.
`nearness` then brings partitions near to their members. Inside a class everything is even (`uniform_dealing`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from kohort.assign.nearness import match_racks
from kohort.assign.server.even_dealing import Pair, deal, release
from kohort.assign.server.uniform_claims import take_stock
from kohort.assign.shares import Shares
from kohort.model.id_partitions import NOTHING, IdPartitions, id_partitions


@dataclass(slots=True)
class MemberClass:
    """Members that are alike, by their places in the order of all members."""

    topics: Collection[bytes]
    rack: str | None = None
    places: list[int] = field(default_factory=list)


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
    """One computation of targets. `order` holds the members' ids; what is known of each stands at its place."""

    def __init__(
        self,
        order: Sequence[str],
        previous: Sequence[IdPartitions],
        classes: Sequence[MemberClass],
        counts: Mapping[bytes, int],
        kinds: Kinds,
    ) -> None:
        self.steps = 0
        self._order = order
        self._classes = classes
        self._kinds = kinds
        alike = [([topic_id for topic_id in each.topics if topic_id in counts], each.places) for each in classes]
        self._held, self._sizes, self._free = take_stock(previous, counts, alike)

    def targets(self) -> dict[str, IdPartitions]:
        """Return the target of every member."""
        for each, pool in zip(self._classes, self._pools(), strict=True):
            held = [self._held[at] for at in each.places]
            deal(held, [self._sizes[at] for at in each.places], pool)
            for at, mine in zip(each.places, held, strict=True):
                self._held[at] = mine
        return dict(zip(self._order, self._held, strict=True))

    def _pools(self) -> list[IdPartitions]:
        """Return what each class gets from outside, after it has given up what goes to others."""
        kinds = self._kinds
        if not kinds.supply:
            return [NOTHING] * len(self._classes)
        held = self._held
        owned = [kinds.count(chain.from_iterable([held[at] for at in each.places])) for each in self._classes]
        given = self._shares(owned)
        released: list[Pair] = []
        for each, mine, target in zip(self._classes, owned, given, strict=True):
            wanted = {kind: count - target.get(kind, 0) for kind, count in mine.items() if count > target.get(kind, 0)}
            if wanted:
                released += release(self._held, each.places, self._sizes, wanted, kinds.of)
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
        """Return how many of each kind the members of a class shall hold."""
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
