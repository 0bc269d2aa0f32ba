"""Offsets committed in transactions that are still open (KIP-447): they take effect at the transaction's end, or never.

A transaction's offset loses against what was committed after it, whether plainly or by a transaction that ended first:
the order is that of the records, as in Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass

from kohort.group.events import OffsetCommitted

Key = tuple[str, str, int]
"""Group, topic and partition."""


def key_of(event: OffsetCommitted) -> Key:
    """Return what an offset was committed for."""
    return event.group_id, event.topic, event.partition


@dataclass(slots=True)
class _Pending:
    event: OffsetCommitted
    order: int
    is_superseded: bool


class PendingOffsets:
    """The pending offsets of one offsets partition, by producer id."""

    __slots__ = ("_by_producer", "_count", "_of_groups")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[Key, _Pending]] = {}
        self._of_groups: dict[str, set[int]] = {}
        """By group, the producers with an open transaction that commits its offsets."""
        self._count = 0

    def __len__(self) -> int:
        """The number of producers."""
        return len(self._by_producer)

    def has_group(self, group_id: str) -> bool:
        """Whether an open transaction commits offsets of a group."""
        return group_id in self._of_groups

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether the offset of a partition is not known before an open transaction ends (`RequireStable`)."""
        key = group_id, topic, partition
        return any(key in self._by_producer[each] for each in self._of_groups.get(group_id, ()))

    def of_group(self, group_id: str) -> list[OffsetCommitted]:
        """Return a group's pending offsets."""
        producers = sorted(self._of_groups.get(group_id, ()))
        return [
            pending.event
            for each in producers
            for pending in self._by_producer[each].values()
            if pending.event.group_id == group_id
        ]

    def add(self, producer_id: int, event: OffsetCommitted, *, is_superseded: bool = False) -> None:
        """An offset was committed in a producer's transaction."""
        self._count += 1
        key = key_of(event)
        self._by_producer.setdefault(producer_id, {})[key] = _Pending(event, self._count, is_superseded)
        self._of_groups.setdefault(event.group_id, set()).add(producer_id)

    def committed(self, event: OffsetCommitted) -> None:
        """An offset was committed plainly: pending ones of before do not count any more."""
        self.forgotten(event.group_id, event.topic, event.partition)

    def forgotten(self, group_id: str, topic: str, partition: int) -> None:
        """The offset of a partition was deleted: the same."""
        self._supersede((group_id, topic, partition), self._count)

    def end(self, producer_id: int, *, is_commit: bool) -> list[OffsetCommitted]:
        """A producer's transaction has ended: return the offsets that take effect."""
        ended = self._by_producer.pop(producer_id, {})
        for group_id in {group_id for group_id, _, _ in ended}:
            producers = self._of_groups[group_id]
            producers.discard(producer_id)
            if not producers:
                del self._of_groups[group_id]
        if not is_commit:
            return []
        effective = [pending for pending in ended.values() if not pending.is_superseded]
        for pending in effective:
            self._supersede(key_of(pending.event), pending.order)
        return [pending.event for pending in effective]

    def _supersede(self, key: Key, order: int) -> None:
        for producer_id in self._of_groups.get(key[0], ()):
            pending = self._by_producer[producer_id].get(key)
            if pending is not None and pending.order <= order:
                pending.is_superseded = True
