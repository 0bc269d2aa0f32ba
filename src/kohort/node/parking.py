"""Heartbeats that are kept until there is something to say, instead of being answered that there is nothing.

The law: nothing waits behind a kept heartbeat, it is answered in the turn in which its group's answer changes, and no
later than its sender's pace allows. What is kept is the command: to answer it, it is decided again, by the group. It
decides nothing itself and knows no clock.
"""

from __future__ import annotations

from collections.abc import Callable

from kohort.group.commands import Heartbeat
from kohort.group.results import HeartbeatResult
from kohort.node.offsets_partition import Ticket
from kohort.node.pace import Pace
from kohort.node.timers import Timers


class Kept:
    """One heartbeat that waits."""

    __slots__ = ("_parking", "command", "pace", "ticket")

    def __init__(self, parking: Parking, command: Heartbeat, ticket: Ticket, pace: Pace) -> None:
        self.command = command
        self.ticket = ticket
        self.pace = pace
        self._parking = parking

    def release(self, now_ms: int) -> None:
        """Answer it now, whatever the answer is; no harm if it was answered before."""
        self._parking.release(self, now_ms)

    def drop(self) -> None:
        """Forget it: its sender has gone."""
        self._parking.drop(self)


class Parking:
    """The kept heartbeats of one node. `decide` gives the answer of a heartbeat as of now."""

    def __init__(self, timers: Timers, decide: Callable[[Heartbeat, int], HeartbeatResult]) -> None:
        self._timers = timers
        self._decide = decide
        self._groups: dict[str, dict[Kept, None]] = {}
        self._paces: dict[str, Pace] = {}
        """By member id, which is unique over all groups: it holds a UUID."""

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    @property
    def remembered(self) -> int:
        """How many members' paces are known."""
        return len(self._paces)

    def begin(self, member_id: str, now_ms: int) -> None:
        """A member got its assignment, from which most clients measure to their first heartbeat."""
        pace = self._paces.get(member_id)
        if pace is None:
            pace = self._paces[member_id] = Pace(now_ms)
        pace.begin(now_ms)

    def forget(self, member_id: str) -> None:
        """A member is out, or another id has taken its place."""
        self._paces.pop(member_id, None)

    def keep(self, command: Heartbeat, ticket: Ticket, session_timeout_ms: int, now_ms: int) -> Kept | None:
        """Keep a heartbeat of a member of the group if its sender does not mind; None when it is to be answered now."""
        pace = self._paces.get(command.member_id)
        if pace is None:
            self._paces[command.member_id] = Pace(now_ms)
            return None
        wait_ms = pace.beat(now_ms, session_timeout_ms)
        if not wait_ms:
            return None
        command.is_counted = True
        kept = Kept(self, command, ticket, pace)
        self._groups.setdefault(command.group_id, {})[kept] = None
        self._timers.arm(kept, now_ms + wait_ms, kept.release)
        return kept

    def group_changed(self, group_id: str, now_ms: int) -> None:
        """Something happened to a group: answer those of its heartbeats that now have something to say."""
        for kept in list(self._groups.get(group_id, ())):
            result = self._decide(kept.command, now_ms)
            if not result.is_quiet:
                self._answer(kept, result, now_ms)

    def release(self, kept: Kept, now_ms: int) -> None:
        """Answer one heartbeat, unless it was answered before."""
        if kept in self._groups.get(kept.command.group_id, ()):
            self._answer(kept, self._decide(kept.command, now_ms), now_ms)

    def drop(self, kept: Kept) -> None:
        """Keep a heartbeat no longer, without an answer."""
        self._timers.disarm(kept)
        group_id = kept.command.group_id
        group = self._groups.get(group_id)
        if group is not None:
            group.pop(kept, None)
            if not group:
                del self._groups[group_id]

    def _answer(self, kept: Kept, result: HeartbeatResult, now_ms: int) -> None:
        self.drop(kept)
        kept.pace.answered_ms = now_ms
        kept.ticket(result)


__all__ = ["Kept", "Parking"]
