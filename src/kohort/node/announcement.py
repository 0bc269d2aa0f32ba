"""A round of which members learn together: who can be reached, who stops reading, until when the others wait.

An eager member stops reading when it learns of a round, and none reads again before the last has joined. So those
whose heartbeats are here go on until each awaited member has sent a heartbeat or a JoinGroup, or is out of the group.
Nothing is gained by an earlier word: the round cannot end before, however long a dead member's session lasts.
"""

from __future__ import annotations

from collections.abc import Iterable


class Announcement:
    """One round that begins at `began_ms`; `stopping` are the members that give up their partitions for it."""

    __slots__ = ("_unreached", "began_ms", "latest_ms", "stopping")

    def __init__(self, awaited: Iterable[str], stopping: frozenset[str], now_ms: int, latest_ms: int) -> None:
        self.began_ms = now_ms
        self.latest_ms = latest_ms
        self.stopping = stopping
        self._unreached = set(awaited)

    @property
    def is_due(self) -> bool:
        """Whether every awaited member can be reached now, or need not be."""
        return not self._unreached

    def reach(self, member_id: str) -> None:
        """A member's heartbeat is here, or its JoinGroup, or it is out."""
        self._unreached.discard(member_id)

    def lose(self, member_id: str) -> None:
        """A member's heartbeat is answered, and its next is some time away."""
        self._unreached.add(member_id)


__all__ = ["Announcement"]
