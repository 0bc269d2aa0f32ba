"""Partitions that a member holds without a break: what a commit is about must be, from when it is asked for on.

A commit may wait, for another one or for a coordinator. What was taken away meanwhile may have come back, and others
have read on in between: the old offsets would take the group back.
"""

from __future__ import annotations

from collections.abc import Iterable

from kohort.model.assignment import Partitions
from kohort.model.ids import TopicPartition


class Hold:
    """Some partitions that were owned when it was made, and those of them that still are, without a break."""

    __slots__ = ("kept", "owned")

    def __init__(self, owned: Partitions) -> None:
        self.owned = self.kept = owned

    @property
    def lost(self) -> Partitions:
        """What was not owned all the time, whether it is now or not."""
        return self.owned - self.kept


class Held:
    """The holds that somebody has an interest in."""

    __slots__ = ("_holds",)

    def __init__(self) -> None:
        self._holds: dict[Hold, None] = {}

    def hold(self, partitions: Iterable[TopicPartition], owned: Partitions) -> Hold:
        """Watch those of some partitions that are owned now, until `release`."""
        hold = Hold(owned.intersection(partitions))
        self._holds[hold] = None
        return hold

    def release(self, hold: Hold) -> None:
        """Watch no more."""
        self._holds.pop(hold, None)

    def follow(self, owned: Partitions) -> None:
        """See what is owned now."""
        for hold in self._holds:
            hold.kept &= owned
