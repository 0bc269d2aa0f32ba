"""What a member is told to own: a set of partitions and the algebra on such sets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kohort.model.ids import TopicPartition

Partitions = frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Assignment:
    """One member's assignment: its partitions, and the assignor's own bytes or None."""

    partitions: Partitions = frozenset()
    user_data: bytes | None = None


def added(owned: Partitions, assigned: Partitions) -> Partitions:
    """Return what `assigned` brings to a member that owns `owned`."""
    return assigned - owned


def revoked(owned: Partitions, assigned: Partitions) -> Partitions:
    """Return what a member that owns `owned` must give up to hold just `assigned`."""
    return owned - assigned


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return partition numbers by topic, both sorted, as the wire wants them."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics
