"""Who owned each partition of a group, as intervals of time: `explain`'s rule of ownership, and what ended under it.

The rule itself is `kohort.group.explain.partition_ownership`. Here every ownership that ends is kept as an
`Interval` until it is collected, and gaps are not kept one by one: their time is added up as it passes, see `hours.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kohort.group.explain.partition_ownership import Ownership
from kohort.model.ids import TopicPartition


class Interval(NamedTuple):
    """A member owned a partition from one moment until another; until None while it still does."""

    partition: TopicPartition
    member_id: str
    from_ms: int
    until_ms: int | None


class Intervals(Ownership):
    """The partitions of one group, carried forward in time, with what ended since it was last collected."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[Interval] = []

    def take(self, member_id: str, partitions: Iterable[TopicPartition], at_ms: int, born_ms: int | None) -> None:
        """Let a member own these from now on; whoever owned one of them does no longer."""
        taken = list(partitions)
        for partition in taken:
            owner = self.owners.get(partition)
            if owner is not None and owner[0] != member_id:
                self._end(partition, *owner, at_ms)
        super().take(member_id, taken, at_ms, born_ms)
        self.gaps.clear()

    def give_up(self, member_id: str, partitions: Iterable[TopicPartition], at_ms: int) -> list[TopicPartition]:
        """Let a member own these no longer; return those that it did own."""
        asked = list(partitions)
        for partition in asked:
            owner = self.owners.get(partition)
            if owner is not None and owner[0] == member_id:
                self._end(partition, *owner, at_ms)
        return super().give_up(member_id, asked, at_ms)

    def replace_member(self, old_id: str, new_id: str, at_ms: int) -> None:
        """Let a member go on with what another owned; the old one's intervals end where its own begin."""
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
        """Return who owns what now, in order."""
        return [Interval(partition, owner, since, None) for partition, (owner, since) in sorted(self.owners.items())]

    def _end(self, partition: TopicPartition, member_id: str, from_ms: int, at_ms: int) -> None:
        if at_ms > from_ms:
            self.ended.append(Interval(partition, member_id, from_ms, at_ms))
