"""What a decision asks for. The runtime carries it out in this order: appends, notes, replies and parks, timers, then.

`Append` is hard state: the event becomes a record and survives failover. `Note` is soft state: it does not. A `Reply`
is released only once every `Append` of its decision is durable; if one cannot be, nothing of the decision happens and
`AppendFailed` is decided instead. A `Then` is decided after all that has been applied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kohort.group.commands import Command
from kohort.group.events import HardEvent, SoftEvent
from kohort.group.group_timers import Timer
from kohort.group.results import Result


class ParkedKind(StrEnum):
    """The requests that may wait for others."""

    JOIN = "join"
    SYNC = "sync"


class Parked(NamedTuple):
    """Where a waiting request is kept: at most one of a kind for each member."""

    kind: ParkedKind
    group_id: str
    member_id: str


def parked_join(group_id: str, member_id: str) -> Parked:
    """Return the place of a member's waiting JoinGroup."""
    return Parked(ParkedKind.JOIN, group_id, member_id)


def parked_sync(group_id: str, member_id: str) -> Parked:
    """Return the place of a member's waiting SyncGroup."""
    return Parked(ParkedKind.SYNC, group_id, member_id)


@dataclass(slots=True)
class Append:
    """Make the event a record; it has happened once the record is appended."""

    event: HardEvent


@dataclass(slots=True)
class Note:
    """Let the event happen, in memory only."""

    event: SoftEvent


@dataclass(slots=True)
class Reply:
    """Answer the request being decided, or the one parked at `to`."""

    result: Result
    to: Parked | None = None


@dataclass(slots=True)
class Park:
    """Keep the request being decided until a later `Reply` to this place."""

    at: Parked


@dataclass(slots=True)
class Arm:
    """Have the timer fire at `deadline_ms`, or move it there."""

    timer: Timer
    deadline_ms: int


@dataclass(slots=True)
class Disarm:
    """Have the timer not fire; no harm if it was not armed."""

    timer: Timer


@dataclass(slots=True)
class Rouse:
    """These members have something new to hear: answer their heartbeats if some are kept."""

    group_id: str
    member_ids: tuple[str, ...]


@dataclass(slots=True)
class Announce:
    """A round has begun, of which members learn by their heartbeats.

    Those in `stopping` give up all partitions when they learn of it, and read nothing until the last of `awaited` has
    joined. So they should learn of it together, when all of `awaited` can be reached, and at `latest_ms` at the latest.
    """

    group_id: str
    awaited: tuple[str, ...]
    stopping: frozenset[str]
    latest_ms: int


@dataclass(slots=True)
class Then:
    """Decide this next, on the state that this decision leaves."""

    command: Command


Effect = Append | Note | Reply | Park | Arm | Disarm | Rouse | Announce | Then
Effects = Iterable[Effect]
"""A decision. One that comes as a tuple holds nothing but `Reply` and `Arm` (heartbeats are many)."""
