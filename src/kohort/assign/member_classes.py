"""Members that are alike: equal subscriptions, and where they matter equal racks and weights.

A group has thousands of members and few classes of them. What is decided for a class is decided once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kohort.assign.spec import TopicSpec
from kohort.model.subscription import Subscription

FEW = 8


TopicT = TypeVar("TopicT", str, bytes)
"""A topic's name, or its id."""


@dataclass(slots=True)
class MemberClass(Generic[TopicT]):
    """Members that are alike, by their places in the order of all members."""

    topics: frozenset[TopicT]
    rack: str | None = None
    weight: float = 1
    places: list[int] = field(default_factory=list)


def member_classes(
    subscriptions: Sequence[Subscription],
    topics: Mapping[str, TopicSpec],
    *,
    with_racks: bool = False,
    weights: Sequence[float] | None = None,
) -> list[MemberClass[str]]:
    """Return the classes in order of their first members; topics that are unknown or empty make no difference."""
    known = frozenset(topic for topic, spec in topics.items() if spec.partitions)
    if not with_racks and not weights and len({id(subscription.topics) for subscription in subscriptions}) == 1:
        # The whole group subscribed to the very same tuple of topics.
        return [MemberClass(known.intersection(subscriptions[0].topics), places=list(range(len(subscriptions))))]
    first: list[tuple[tuple[str, ...], frozenset[str]]] = []
    wanted: dict[tuple[str, ...], frozenset[str]] = {}
    classes: dict[tuple[frozenset[str], str | None, float], MemberClass[str]] = {}
    found: dict[tuple[int, str | None, float], list[int]] = {}
    for place, subscription in enumerate(subscriptions):
        topics_of = subscription.topics
        rack = subscription.rack if with_racks else None
        weight = weights[place] if weights else 1
        # Most members' topics are the very same tuple, or equal to one that was seen.
        places = found.get((id(topics_of), rack, weight))
        if places is None:
            # Comparing with the few tuples seen first is quicker than hashing each member's thousand names.
            mine = next((each for seen, each in first if seen == topics_of), None)
            if mine is None and (mine := wanted.get(topics_of)) is None:
                mine = wanted[topics_of] = known.intersection(topics_of)
                if len(first) < FEW:
                    first.append((topics_of, mine))
            key = (mine, rack, weight)
            places = found[id(topics_of), rack, weight] = classes.setdefault(key, MemberClass(*key)).places
        places.append(place)
    return list(classes.values())


def subscriber_masks(classes: Sequence[MemberClass[TopicT]], topics: Iterable[TopicT]) -> dict[TopicT, int]:
    """Return for every topic the classes that subscribe to it: a bit mask of their numbers."""
    found = dict.fromkeys(topics, 0)
    for number, each in enumerate(classes):
        for topic in each.topics:
            if topic in found:
                found[topic] |= 1 << number
    return found


def far_from(classes: Sequence[MemberClass[TopicT]], racks: frozenset[str]) -> int:
    """Return the classes on none of the racks, as a bit mask; one without a rack is near to all."""
    return sum(1 << bit for bit, each in enumerate(classes) if each.rack is not None and each.rack not in racks)


def racks_of(subscriptions: Iterable[Subscription]) -> set[str]:
    """Return the racks that members are on."""
    return {subscription.rack for subscription in subscriptions if subscription.rack is not None}


def has_near_and_far(mine: AbstractSet[str], racks: Iterable[frozenset[str]]) -> bool:
    """Return whether replicas' racks distinguish partitions: some are on a member's rack, and not all are everywhere.

    Where every partition is on every rack, any assignment is as near as any other (KIP-881).
    """
    distinct = set(racks)
    return len(distinct) > 1 and not mine.isdisjoint(frozenset().union(*distinct))
