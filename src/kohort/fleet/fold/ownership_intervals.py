"""Ownership of a group's partitions as intervals of time.

The rule of ownership is that of `kohort.group.explain`. Ended intervals are kept until they are collected; gaps are not
kept, their time is added to the hours as it passes (`hours.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kohort.group.explain.partition_ownership import Ownership
from kohort.model.ids import TopicPartition


class Interval(NamedTuple):
    """A member's ownership of a partition; `until_ms` is None while it lasts."""

    partition: TopicPartition
    member_id: str
    from_ms: int
    until_ms: int | None


class Intervals(Ownership):
    """Current owners of one group's partitions, and the intervals that ended since the last collection."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[Interval] = []

    def take(self, member_id: str, partitions: Iterable[TopicPartition], at_ms: int, born_ms: int | None) -> None:
        """Assign partitions to a member, ending the intervals of their previous owners."""
        taken = list(partitions)
        for partition in taken:
            owner = self.owners.get(partition)
            if owner is not None and owner[0] != member_id:
                self._end(partition, *owner, at_ms)
        super().take(member_id, taken, at_ms, born_ms)
        self.gaps.clear()

    def give_up(self, member_id: str, partitions: Iterable[TopicPartition], at_ms: int) -> list[TopicPartition]:
        """Take partitions from a member; return those that it owned."""
        revoking = list(partitions)
        for partition in revoking:
            owner = self.owners.get(partition)
            if owner is not None and owner[0] == member_id:
                self._end(partition, *owner, at_ms)
        return super().give_up(member_id, revoking, at_ms)

    def replace_member(self, old_id: str, new_id: str, at_ms: int) -> None:
        """Move all partitions of a member to another id; the old intervals end where the new ones begin."""
        held = self.owned_by(old_id)
        for partition in held:
            self._end(partition, *self.owners[partition], at_ms)
        self.hand_over(old_id, new_id)
        for partition in held:
            self.owners[partition] = new_id, at_ms

    def share_of(self, member_id: str) -> int:
        """Return how many partitions a member owns."""
        return len(self._held.get(member_id, ()))

    def collect_ended(self) -> list[Interval]:
        """Return the intervals that ended since the last time."""
        ended, self.ended = self.ended, []
        return ended

    def open_intervals(self) -> list[Interval]:
        """Return the open intervals in order."""
        return [Interval(partition, owner, since, None) for partition, (owner, since) in sorted(self.owners.items())]

    def _end(self, partition: TopicPartition, member_id: str, from_ms: int, at_ms: int) -> None:
        if at_ms > from_ms:
            self.ended.append(Interval(partition, member_id, from_ms, at_ms))
