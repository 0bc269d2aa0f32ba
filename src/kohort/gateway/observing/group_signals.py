"""What the traffic shows of groups, for the rooms that act on it: one room emits a signal, others take it.

So no object needs another that is built later. Who takes what stands in one place, `gateway.Gateway`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic, ParamSpec

from kohort.group.effects import Announce
from kohort.group.events import Event
from kohort.model.errors import ErrorCode

P = ParamSpec("P")


class Signal(Generic[P]):
    """To call it is to emit it: each taker gets it at once, in the order in which they were added."""

    def __init__(self) -> None:
        self._takers: tuple[Callable[P, None], ...] = ()

    def connect(self, *takers: Callable[P, None]) -> None:
        """Add takers."""
        self._takers += takers

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        for taker in self._takers:
            taker(*args, **kwargs)


class GroupSignals:
    """The signals of one gateway."""

    def __init__(self) -> None:
        self.event_applied = Signal[[Event, int]]()
        """An event has changed a group; the time."""
        self.member_joined = Signal[[str, str]]()
        """A group's member has sent JoinGroup, and waits for its round."""
        self.member_synced = Signal[[str, int]]()
        """A member got its assignment; the time."""
        self.sync_released = Signal[[str, str, ErrorCode, int]]()
        """The answer to the SyncGroup of a group's member is withheld no longer: it is its assignment, or the error."""
        self.round_announced = Signal[[Announce, int]]()
        """Members that stop reading when they learn of a round should learn of it together; the time."""
        self.round_awaited = Signal[[str, int]]()
        """A group's members are waited for that a round has not reached, wherever they are; the time."""
        self.reach_changed = Signal[[str, Collection[str], bool]]()
        """While a group's round is announced: whether heartbeats of these members are parked here now, or no longer."""
        self.group_changed = Signal[[str, int]]()
        """All events of one request or answer about a group have happened; the time."""
        self.look_up_begun = Signal[[str, int | None, int]]()
        """A group is looked up in this generation, None for one with member epochs; the time."""
        self.fell_back = Signal[[str]]()
        """Parking did harm to a group here."""
