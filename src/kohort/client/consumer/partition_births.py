"""Which partitions were created after a consumer subscribed to their topics (KIP-1327).

All their records are younger than the subscription. With `auto_offset_reset="latest"` those that were written before
the consumer noticed the partition would be read by no member, so it is read from its first record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kohort.client.cluster.metadata import ClusterView
from kohort.model.ids import NO_TOPIC_ID, TopicPartition


class _FirstView(NamedTuple):
    """A topic when it was first looked at; without partitions where it did not exist then."""

    topic_id: bytes = NO_TOPIC_ID
    partitions: frozenset[int] = frozenset()


class PartitionBirths:
    """The partitions that each topic had when the consumer first looked at it.

    Nothing is known of a topic that it has not looked at: its partitions count as older.
    """

    def __init__(self) -> None:
        self._first: dict[str, _FirstView] = {}

    def see(self, view: ClusterView, topics: Iterable[str], new: Iterable[str] = ()) -> None:
        """Look at topics; those in `new` are known not to have existed before.

        A topic whose id has changed was deleted and created again: all its partitions are younger.
        """
        for name in new:
            self._first.setdefault(name, _FirstView())
        for name in topics:
            known, found = self._first.get(name), view.topics.get(name)
            if found is not None and found.partitions:
                if known is None:
                    self._first[name] = _FirstView(found.topic_id, frozenset(found.partitions))
                elif known.topic_id != found.topic_id != NO_TOPIC_ID:
                    is_same = known.topic_id == NO_TOPIC_ID
                    self._first[name] = _FirstView(found.topic_id, known.partitions if is_same else frozenset())
            elif known is None and view.is_gone(name):
                self._first[name] = _FirstView()

    def is_later(self, partition: TopicPartition) -> bool:
        """Return whether a partition was created after the consumer first looked at its topic."""
        known = self._first.get(partition.topic)
        return known is not None and partition.partition not in known.partitions
