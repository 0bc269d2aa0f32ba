"""Members with equal subscriptions share a number of partitions: all but one more or less, and as few as can be move.

The law: of T partitions and n members each gets ⌊T/n⌋ and T mod n get one more, first those that own more anyway.
A member with too many keeps the first of its partitions by number, then topic, so that it gives up some of each
topic. What is free is dealt in a circle, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from kohort.model.ids import TopicPartition

Owned = Sequence[TopicPartition]
NumberOf = Callable[[TopicPartition], int]


@dataclass(slots=True)
class Deal:
    """What each member keeps and the numbers of what it is given, and which numbers were taken from a member."""

    kept: list[Owned]
    given: list[Sequence[int]]
    released: list[int]


def deal(owned: Sequence[Owned], pool: Sequence[int], number_of: NumberOf) -> Deal:
    """Share out the members' partitions and those of the pool, which is sorted."""
    size = len(owned)
    sizes = list(map(len, owned))
    held = sum(sizes)
    if not held:
        return Deal(list(owned), [pool[at::size] for at in range(size)], [])
    share, extras = divmod(held + len(pool), size)
    kept = list(owned)
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
            kept[at] = ordered[:quota]
            released += map(number_of, ordered[quota:])
    free = sorted([*pool, *released]) if released else pool
    given: list[Sequence[int]] = [()] * size
    if free:
        for at, numbers in _dealt(needs, sizes, share, extras, free).items():
            given[at] = numbers
    return Deal(kept, given, released)


def _dealt(
    needs: Sequence[int], sizes: Sequence[int], share: int, extras: int, free: Sequence[int]
) -> Mapping[int, Sequence[int]]:
    """Deal `free` in a circle to those who have less than `share`, then the extras to the first that have just it."""
    missing = [(at, share - sizes[at]) for at in needs]
    # Whoever is given something anyway is given one of the extras before a member that would gain nothing else.
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
    """Take as many partitions of each kind as `wanted` says, from the fullest members first; return their numbers.

    What a member keeps replaces what it owned.
    """
    taken: list[int] = []
    fullest = [(-len(claims), at) for at, claims in enumerate(owned) if claims]
    heapify(fullest)
    while fullest and wanted:
        count, at = heappop(fullest)
        # Down to the next fullest, at once.
        surplus = max(1, -count + fullest[0][0]) if fullest else -count
        kept: list[TopicPartition] = []
        for partition in sorted(owned[at], key=_by_number, reverse=True):
            kind = kind_of[number := number_of(partition)]
            if surplus and wanted.get(kind):
                surplus -= 1
                taken.append(number)
                wanted[kind] -= 1
                if not wanted[kind]:
                    del wanted[kind]
            else:
                kept.append(partition)
        if len(kept) < -count:
            owned[at] = kept
            heappush(fullest, (-len(kept), at))
    return taken


def _short_first(missing: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted(missing, key=_has_enough)


def _has_enough(entry: tuple[int, int]) -> bool:
    return entry[1] == 0


def _by_number(partition: TopicPartition) -> tuple[int, str]:
    return partition.partition, partition.topic
