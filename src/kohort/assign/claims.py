"""Who owns what before a round: the members' claims, checked against one another and against what exists.

The law (KIP-792): of several claims to one partition that of the highest generation counts; where that generation
claims it twice, nobody owns it. Claims to topics that their member did not subscribe to, or that nobody knows, count
for nothing, but a partition that such a member still holds may not be given away before the member has let it go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kohort.assign.layout import Layout, Slots
from kohort.model.ids import TopicPartition

Owned = Sequence[TopicPartition]


@dataclass(slots=True)
class Claims:
    """What each member owns, by its place in the order of the members, and what no member may be given for now."""

    owned: list[Owned]
    numbers: set[int]
    blocked: set[int] = field(default_factory=set)
    returned: dict[int, list[TopicPartition]] = field(default_factory=dict)


def take_in(
    owned: list[Owned],
    slots_of: Sequence[Slots],
    layout: Layout,
    generation_of: Callable[[int], int],
    topics_of: Callable[[int], Sequence[str]],
) -> Claims:
    """Return what the members own; `slots_of` holds what each may own, `topics_of` what each subscribed to."""
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
    kept: list[list[TopicPartition]] = [[] for _ in owned]
    found = Claims([], set())
    for partition, (_, owners) in best.items():
        owner = owners[0]
        topic, number = partition
        if (known := layout.slots.get(topic, {}).get(number)) is None:
            if len(owners) == 1 and number >= 0 and topic in topics_of(owner):
                found.returned.setdefault(owner, []).append(partition)
        elif len(owners) == 1 and topic in slots_of[owner]:
            kept[owner].append(partition)
        else:
            found.blocked.add(known)
    found.owned = list(kept)
    return found
