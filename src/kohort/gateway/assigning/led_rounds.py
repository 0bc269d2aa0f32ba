"""Leaders' JoinGroup answers, kept until their SyncGroup comes, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from kohort.group.results import JoinedMember, JoinResult

MOST_BYTES = 64 << 20
"""How much metadata is kept; beyond that the oldest rounds are forgotten, and their leaders' own assignments pass."""

_MEMBER_BYTES = 500
"""What a member takes besides its metadata, about."""


@dataclass(frozen=True, slots=True)
class LedRound:
    """A generation whose leader assigns now."""

    generation: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    members: tuple[JoinedMember, ...]

    @property
    def size(self) -> int:
        """Return how many bytes it takes, about."""
        return sum(len(each.metadata) + _MEMBER_BYTES for each in self.members)


class LedRounds:
    """By group, the last generation whose leader has its JoinGroup answer and has not assigned."""

    def __init__(self) -> None:
        self._rounds: OrderedDict[str, LedRound] = OrderedDict()
        self._bytes = 0

    def begin(self, group_id: str, result: JoinResult) -> None:
        """A leader has got its JoinGroup answer."""
        self.take(group_id)
        found = LedRound(
            result.generation, result.protocol_type, result.protocol_name, result.member_id, result.members
        )
        self._rounds[group_id] = found
        self._bytes += found.size
        while self._bytes > MOST_BYTES:
            self.take(next(iter(self._rounds)))

    def take(self, group_id: str) -> LedRound | None:
        """Return the round of a group, and forget it."""
        found = self._rounds.pop(group_id, None)
        if found is not None:
            self._bytes -= found.size
        return found
