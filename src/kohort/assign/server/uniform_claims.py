"""What the members of a consumer group hold by their previous targets, and what is free.

The law: a member keeps of its previous target what exists, what it still subscribes to, and what no member before it
in order holds already. A target that a coordinator kept is sound as a rule, so that is tried first and costs little.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain

from kohort.model.id_partitions import IdPartitions

Alike = tuple[Collection[bytes], Iterable[int]]
"""Topics, and the places of the members that subscribe to them."""


_Found = tuple[list[IdPartitions], list[int], IdPartitions]


def take_stock(previous: Sequence[IdPartitions], counts: Mapping[bytes, int], alike: Sequence[Alike]) -> _Found:
    """Return what each member holds, how many partitions that is, and what nobody holds.

    `counts` are the partitions of each topic in order of their ids; every member is in one of `alike`.
    """
    return _sound(previous, counts, alike) or _resolved(previous, counts, alike)


def _sound(previous: Sequence[IdPartitions], counts: Mapping[bytes, int], alike: Sequence[Alike]) -> _Found | None:
    """Return what members hold where nothing is wrong with it, else None."""
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
    sizes = [len(held[0][1]) if len(held) == 1 else sum([len(numbers) for _, numbers in held]) for held in previous]
    return list(previous), sizes, tuple(free)


def _resolved(previous: Sequence[IdPartitions], counts: Mapping[bytes, int], alike: Sequence[Alike]) -> _Found:
    claimed: dict[bytes, set[int]] = {topic_id: set() for topic_id in counts}
    wanted: list[Collection[bytes]] = [()] * len(previous)
    for topics, places in alike:
        for at in places:
            wanted[at] = topics
    held: list[IdPartitions] = []
    sizes = []
    for claims, topics in zip(previous, wanted, strict=True):
        kept = []
        total = 0
        for topic_id, numbers in claims:
            if topic_id in topics and topic_id in counts:
                count, taken = counts[topic_id], claimed[topic_id]
                mine = tuple([number for number in numbers if 0 <= number < count and number not in taken])
                taken.update(mine)
                if mine:
                    kept.append((topic_id, mine))
                    total += len(mine)
        held.append(claims if tuple(kept) == claims else tuple(kept))
        sizes.append(total)
    free = []
    for topic_id, count in counts.items():
        taken = claimed[topic_id]
        if left := tuple([number for number in range(count) if number not in taken]):
            free.append((topic_id, left))
    return held, sizes, tuple(free)
