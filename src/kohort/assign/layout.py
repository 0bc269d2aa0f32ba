"""The partitions that a group shares, numbered: topic by topic in order of their names, each topic's from its first.

The engine counts and compares plain numbers; `TopicPartition` objects come back when somebody looks at an assignment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain, repeat

from kohort.model.ids import TopicPartition

Slots = Mapping[str, Mapping[int, int]]
"""Numbers by topic and partition. What is not in it is unknown, or not for the member that asks."""


class Layout:
    """The numbering of one group's partitions."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = {topic: counts[topic] for topic in sorted(counts)}
        self.size = sum(self.counts.values())

    @cached_property
    def slots(self) -> dict[str, dict[int, int]]:
        """Return the number of every partition, by topic."""
        found = {}
        first = 0
        for topic, count in self.counts.items():
            found[topic] = dict(zip(range(count), range(first, first + count), strict=True))
            first += count
        return found

    @cached_property
    def table(self) -> list[TopicPartition]:
        """Return every partition at its number."""
        found: list[TopicPartition] = []
        for topic, count in self.counts.items():
            # As TopicPartition(topic, number), a hundred thousand times.
            found += map(tuple.__new__, repeat(TopicPartition), zip(repeat(topic, count), range(count), strict=True))
        return found

    def read(self, kept: Sequence[TopicPartition], given: Sequence[int]) -> Iterable[TopicPartition]:
        """Return the partitions `kept` and those with the numbers `given`."""
        return chain(kept, map(self.table.__getitem__, given))
