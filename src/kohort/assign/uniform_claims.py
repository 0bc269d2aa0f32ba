"""What the members of a consumer group hold by their previous targets, and what is free.

The law: a member keeps of its previous target what exists, what it still subscribes to, and what no member before it
in order holds already. A target that a coordinator kept is sound as a rule, so that is tried first and costs little.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from kohort.model.id_partitions import IdPartitions

Alike = tuple[Collection[bytes], Iterable[int]]
"""Topics, and the places of the members that subscribe to them."""


def take_stock(
    previous: Sequence[IdPartitions], counts: Mapping[bytes, int], alike: Sequence[Alike]
) -> tuple[list[IdPartitions], list[int], IdPartitions]:
    """Return what each member holds, how many partitions that is, and what nobody holds.

    `counts` are the partitions of each topic in order of their ids; every member is in one of `alike`.
    """
    found = _sound(previous, counts, alike) or _resolved(previous, counts, alike)
    held, sizes, claimed = found
    free = []
    for topic_id, count in counts.items():
        taken = claimed[topic_id]
        if not taken:
            free.append((topic_id, tuple(range(count))))
        elif len(taken) < count:
            free.append((topic_id, tuple([number for number in range(count) if number not in taken])))
    return held, sizes, tuple(free)


_Found = tuple[list[IdPartitions], list[int], Mapping[bytes, set[int]]]


def _sound(previous: Sequence[IdPartitions], counts: Mapping[bytes, int], alike: Sequence[Alike]) -> _Found | None:
    """Return what members hold where nothing is wrong with it, else None."""
    claimed: dict[bytes, set[int]] = {topic_id: set() for topic_id in counts}
    take = {topic_id: taken.update for topic_id, taken in claimed.items()}
    sizes = [0] * len(previous)
    for topics, places in alike:
        mine = take if len(topics) == len(take) else {topic_id: take[topic_id] for topic_id in topics}
        try:
            for at in places:
                total = 0
                for topic_id, numbers in previous[at]:
                    mine[topic_id](numbers)
                    total += len(numbers)
                sizes[at] = total
        except KeyError:
            return None
    if sum(map(len, claimed.values())) != sum(sizes):
        return None
    for topic_id, taken in claimed.items():
        # Numbers are not negative, so as many as there are with the least sum there can be are just those.
        count = counts[topic_id]
        if len(taken) == count:
            if 2 * sum(taken) != count * (count - 1):
                return None
        elif taken and max(taken) >= count:
            return None
    return list(previous), sizes, claimed


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
    return held, sizes, claimed
