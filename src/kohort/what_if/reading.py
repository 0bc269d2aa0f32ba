"""Who reads which partition when, as members themselves know it: what records pile up in is what nobody reads.

A partition is read from the end of its `assigned` callback to the beginning of `revoked` or `lost`, or to the end of
its process. That is less than its member *owns* by the coordinator's books: a dead member owns until its session ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from kohort.model.ids import TopicPartition


class Unread(NamedTuple):
    """A partition that nobody read, in microseconds of virtual time."""

    partition: TopicPartition
    from_us: int
    until_us: int

    @property
    def duration_s(self) -> float:
        """How long it was."""
        return (self.until_us - self.from_us) / 1_000_000


class Reading:
    """The partitions of one group."""

    def __init__(self) -> None:
        self.unread: list[Unread] = []
        self._readers: Counter[TopicPartition] = Counter()
        self._since_us: dict[TopicPartition, int] = {}

    def know(self, partitions: Iterable[TopicPartition], now_us: int) -> None:
        """These exist from now on; nobody reads them yet."""
        for partition in partitions:
            if partition not in self._readers:
                self._readers[partition] = 0
                self._since_us[partition] = now_us

    def start(self, partitions: Iterable[TopicPartition], now_us: int) -> None:
        """A member reads these from now on."""
        for partition in partitions:
            self._readers[partition] += 1
            since_us = self._since_us.pop(partition, None)
            if since_us is not None and since_us < now_us:
                self.unread.append(Unread(partition, since_us, now_us))

    def stop(self, partitions: Iterable[TopicPartition], now_us: int) -> None:
        """A member reads these no longer."""
        for partition in partitions:
            self._readers[partition] -= 1
            if not self._readers[partition]:
                self._since_us[partition] = now_us

    def all_unread(self, from_us: int, until_us: int) -> list[Unread]:
        """Return what was not read between two moments, cut off there."""
        going_on = [Unread(partition, since_us, until_us) for partition, since_us in sorted(self._since_us.items())]
        found = [
            Unread(each.partition, max(from_us, each.from_us), min(until_us, each.until_us))
            for each in [*self.unread, *going_on]
        ]
        return [each for each in found if each.until_us > each.from_us]
