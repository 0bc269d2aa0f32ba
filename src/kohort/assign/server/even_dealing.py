"""Members that are alike share partitions by topic id: all but one more or less, and as few as can be move.

The law: of T partitions and n members each gets ⌊T/n⌋ and T mod n get one more, first those that own more anyway. A
member with too many retains the first of its partitions by number, then topic, and revokes some of each topic.
What is free is dealt in a circle, so that no topic gathers at a few members; where that would make very many small
entries, it is dealt in blocks, as Kafka does. What does not change stays the same object.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain, islice, repeat

from kohort.model.assignment import NOTHING, IdPartitions, each, id_partitions, size

SPREAD_LIMIT = 4_096
"""How many (topic, numbers) entries a circle may make, unless blocks would make half as many or more.

Beyond, blocks make targets, records and replies small.
"""

Pair = tuple[bytes, int]


def deal(owned: list[IdPartitions], sizes: Sequence[int], free: IdPartitions) -> None:
    """Share out what the members own and what is free, by changing `owned`; `sizes` counts what each owns."""
    total = sum(sizes)
    if not total:
        owned[:] = deal_afresh(len(owned), free)
        return
    share, extras = divmod(total + size(free), len(owned))
    fuller = sizes.count(share + 1)
    if fuller <= extras and max(sizes) <= share + 1:
        extras -= fuller
        if not free:
            return
    else:
        free = id_partitions(chain(free, _cut(owned, sizes, share, extras)))
        extras -= min(extras, sum(count > share for count in sizes))
    takers = _takers(sizes, share, extras)
    counts = [count for _, count in takers]
    for (at, _), given in zip(takers, dealt(free, counts), strict=True):
        owned[at] = id_partitions(chain(owned[at], given)) if owned[at] else given


def deal_afresh(members: int, free: IdPartitions) -> list[IdPartitions]:
    """Share out what is free among so many members that own nothing."""
    share, extras = divmod(size(free), members)
    counts = [share + 1] * extras
    if share:
        counts += [share] * (members - extras)
    return dealt(free, counts) + [NOTHING] * (members - len(counts)) if counts else [NOTHING] * members


def dealt(free: IdPartitions, counts: list[int]) -> list[IdPartitions]:
    """Return as many of the free partitions for each taker as `counts` has them; their sum is what is free."""
    width = len(counts)
    entries = sum([min(len(numbers), width) for _, numbers in free])
    if entries > SPREAD_LIMIT and entries > 2 * (width + len(free)):
        return _in_blocks(free, counts)
    more = counts.count(counts[0])
    if counts[0] - counts[-1] in (0, 1) and counts == [counts[0]] * more + [counts[-1]] * (width - more):
        return _in_an_even_circle(free, width)
    return _in_a_circle(free, counts)


def release(
    owned: list[IdPartitions],
    places: Iterable[int],
    sizes: list[int],
    wanted: dict[int, int],
    kind_of: Callable[[bytes, int], int],
) -> list[Pair]:
    """Take as many partitions of each kind as `wanted` has, from the fullest of the members at `places` first."""
    taken: list[Pair] = []
    fullest = [(-sizes[at], at) for at in places if sizes[at]]
    heapify(fullest)
    while fullest and wanted:
        count, at = heappop(fullest)
        # Down to the next fullest, at once.
        surplus = max(1, -count + fullest[0][0]) if fullest else -count
        gone: set[Pair] = set()
        for pair in sorted(each(owned[at]), key=_by_number, reverse=True):
            kind = kind_of(*pair)
            if kind in wanted:
                surplus -= 1
                gone.add(pair)
                wanted[kind] -= 1
                if not wanted[kind]:
                    del wanted[kind]
                if not surplus:
                    break
        if gone:
            taken += sorted(gone)
            owned[at] = without(owned[at], gone)
            sizes[at] -= len(gone)
            heappush(fullest, (-sizes[at], at))
    return taken


def without(owned: IdPartitions, gone: set[Pair]) -> IdPartitions:
    """Return what is left of `owned` when `gone` is taken out of it."""
    left = [(topic_id, tuple([n for n in numbers if (topic_id, n) not in gone])) for topic_id, numbers in owned]
    return tuple([entry for entry in left if entry[1]])


def _cut(owned: list[IdPartitions], sizes: Sequence[int], share: int, extras: int) -> list[tuple[bytes, tuple[int]]]:
    """Take from every member what it owns beyond its share, or one more for as many as there are extras."""
    released: list[Pair] = []
    for at, count in enumerate(sizes):
        if count > share:
            quota = share + (extras > 0)
            extras -= extras > 0
            if count > quota:
                gone = sorted(each(owned[at]), key=_by_number)[quota:]
                owned[at] = without(owned[at], set(gone)) if quota else NOTHING
                released += gone
    return [(topic_id, (number,)) for topic_id, number in released]


def _takers(sizes: Sequence[int], share: int, extras: int) -> list[tuple[int, int]]:
    """Return who gets how many: up to the share, and the extras first to those that are given something anyway."""
    short = [(at, share - count) for at, count in enumerate(sizes) if count < share]
    if not extras:
        return short
    if len(short) >= extras:
        return [(at, count + (rank < extras)) for rank, (at, count) in enumerate(short)]
    extras -= len(short)
    level = islice((at for at, count in enumerate(sizes) if count == share), extras)
    return sorted([*((at, count + 1) for at, count in short), *((at, 1) for at in level)])


def _in_blocks(free: IdPartitions, counts: Sequence[int]) -> list[IdPartitions]:
    """Deal contiguous blocks, from topic to topic."""
    found: list[IdPartitions] = []
    runs = iter(free)
    topic_id, numbers = next(runs)
    start, left = 0, len(numbers)
    for count in counts:
        if count < left:
            end = start + count
            found.append(((topic_id, numbers[start:end]),))
            start = end
            left -= count
            continue
        block = []
        while count >= left:
            block.append((topic_id, numbers[start:]))
            count -= left
            topic_id, numbers = next(runs, (b"", ()))
            start, left = 0, len(numbers)
            if not left:
                break
        if count:
            block.append((topic_id, numbers[:count]))
            start = count
            left -= count
        found.append(tuple(block))
    return found


def _in_an_even_circle(free: IdPartitions, width: int) -> list[IdPartitions]:
    """Deal one by one to takers of which each gets as many as the last, or one more."""
    most = max([len(numbers) for _, numbers in free])
    if most > width:
        return _in_a_wide_circle(free, width)
    entries: list[tuple[bytes, tuple[int]]] = []
    singles = list(zip(range(most)))
    for topic_id, numbers in free:
        is_whole = numbers[-1] < len(numbers)
        entries += zip(repeat(topic_id), singles[: len(numbers)] if is_whole else zip(numbers))
    # No topic goes once around, so what a taker is given are as many topics, in order.
    rounds, rest = divmod(len(entries), width)
    starts = range(0, rounds * width, width)
    more = zip(*(entries[start : start + rest] for start in (*starts, rounds * width)), strict=True)
    less = zip(*(entries[start + rest : start + width] for start in starts), strict=True)
    return [*more, *less]


def _in_a_wide_circle(free: IdPartitions, width: int) -> list[IdPartitions]:
    found: list[list[tuple[bytes, tuple[int, ...]]]] = [[] for _ in range(width)]
    start = 0
    for topic_id, numbers in free:
        turn = [*found[start:], *found[:start]]
        row = [(topic_id, numbers[at::width]) for at in range(min(width, len(numbers)))]
        deque(map(list.append, turn, row), maxlen=0)
        start = (start + len(numbers)) % width
    return [tuple(entries) for entries in found]


def _in_a_circle(free: IdPartitions, counts: Sequence[int]) -> list[IdPartitions]:
    """Deal one by one; one that has enough is passed over from then on."""
    found: list[list[Pair]] = [[] for _ in counts]
    pairs = list(each(free))
    circle = list(enumerate(counts))
    start = 0
    while circle:
        rounds = min([count for _, count in circle])
        width = len(circle)
        block = pairs[start : start + rounds * width]
        for turn, (at, _) in enumerate(circle):
            found[at] += block[turn::width]
        start += rounds * width
        circle = [(at, count - rounds) for at, count in circle if count > rounds]
    return [_gathered(mine) for mine in found]


def _gathered(pairs: Iterable[Pair]) -> IdPartitions:
    """Return the canonical form of pairs that are in order."""
    found: dict[bytes, list[int]] = {}
    for topic_id, number in pairs:
        found.setdefault(topic_id, []).append(number)
    return tuple([(topic_id, tuple(numbers)) for topic_id, numbers in found.items()])


def _by_number(pair: Pair) -> tuple[int, bytes]:
    return pair[1], pair[0]
