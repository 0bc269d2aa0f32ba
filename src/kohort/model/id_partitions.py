"""Partitions by topic id: how the consumer protocol (KIP-848) names them in requests, targets and records.

One canonical form, so that equal sets are equal values: a tuple of (topic id, partition numbers), both sorted, without
topics that have no partition. Whatever comes from outside goes through `id_partitions` first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

IdPartitions = tuple[tuple[bytes, tuple[int, ...]], ...]

NOTHING: IdPartitions = ()


def id_partitions(topics: Iterable[tuple[bytes, Iterable[int]]]) -> IdPartitions:
    """Return the canonical form of partitions by topic id; a topic named twice has what it has in both places."""
    found: dict[bytes, set[int]] = {}
    for topic_id, partitions in topics:
        numbers = found.get(topic_id)
        if numbers is None:
            found[topic_id] = set(partitions)
        else:
            numbers.update(partitions)
    return tuple((topic_id, tuple(sorted(found[topic_id]))) for topic_id in sorted(found) if found[topic_id])


def each(partitions: IdPartitions) -> Iterator[tuple[bytes, int]]:
    """Yield every (topic id, partition number)."""
    for topic_id, numbers in partitions:
        for number in numbers:
            yield topic_id, number


def size(partitions: IdPartitions) -> int:
    """Return how many partitions there are."""
    return sum(len(numbers) for _, numbers in partitions)
