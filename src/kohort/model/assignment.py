"""What a member is assigned: a set of partitions by topic name or by topic id, and the algebra on such sets.

Of partitions by topic id, as the consumer protocol (KIP-848) names them in requests, targets and records, there is one
canonical form, so that equal sets are equal values: a tuple of (topic id, partition numbers), both sorted, without
topics that have no partition. Whatever comes from outside goes through `id_partitions` first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kohort.model.ids import TopicPartition

Partitions = frozenset[TopicPartition]


class _InOrder(Partitions):
    """A set of partitions that yields them by topic and number, whatever their hashes are."""

    __slots__ = ()

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(sorted(super().__iter__()))

    def __repr__(self) -> str:
        return f"frozenset({{{', '.join(map(repr, self))}}})"


def in_order(partitions: Iterable[TopicPartition]) -> Partitions:
    """Return the set of these partitions that yields them by topic and number: what users are given to walk over."""
    return _InOrder(partitions)


class Assignment:
    """One member's assignment: its partitions, and the assignor's own bytes or None. A value that does not change."""

    __slots__ = ("_partitions", "_user_data")

    def __init__(self, partitions: Partitions = frozenset(), user_data: bytes | None = None) -> None:
        self._partitions = partitions
        self._user_data = user_data

    @property
    def partitions(self) -> Partitions:
        """Return the set of partitions."""
        return self._partitions

    @property
    def user_data(self) -> bytes | None:
        """Return the assignor's own bytes, or None."""
        return self._user_data

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Assignment):
            return NotImplemented
        return self.partitions == other.partitions and self.user_data == other.user_data

    def __hash__(self) -> int:
        return hash((self.partitions, self.user_data))

    def __repr__(self) -> str:
        return f"Assignment(partitions={self.partitions!r}, user_data={self.user_data!r})"


class DeferredAssignment(Assignment):
    """An assignment whose partitions are `read(*arguments)`, called when a caller looks at them.

    A leader computes the assignments of thousands of members and looks at few of them as sets.
    """

    __slots__ = ("_source",)

    def __init__(self, read: Callable[..., Iterable[TopicPartition]], *arguments: object) -> None:
        self._source = (read, arguments)

    @property
    def partitions(self) -> Partitions:
        """Return the set of partitions."""
        try:
            return self._partitions
        except AttributeError:
            read, arguments = self._source
            self._partitions = frozenset(read(*arguments))
            return self._partitions

    @property
    def user_data(self) -> None:
        """Return None."""


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return partition numbers by topic, both sorted, as the wire wants them."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return {topic: sorted(topics[topic]) for topic in sorted(topics)}


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
