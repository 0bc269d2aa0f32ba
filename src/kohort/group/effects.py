"""What a command leads to: a `Decision`, which the runtime carries out, made of single effects.

`Append` is hard state: the event becomes a record and survives failover. `Note` is soft state: it does not.
`Decision` states the order in which effects take place.
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
    """Where a waiting request is parked: at most one of a kind for each member."""

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
    """Park the request being decided until a later `Reply` to this place."""

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
class WakeMembers:
    """These members have something new to learn: answer their heartbeats if some are parked."""

    group_id: str
    member_ids: tuple[str, ...]


@dataclass(slots=True)
class Announce:
    """A round has begun, of which members learn by their heartbeats.

    Those in `stopping` revoke all partitions when they learn of it, and read nothing until the last of `awaited` has
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


Effect = Append | Note | Reply | Park | Arm | Disarm | WakeMembers | Announce | Then
Effects = Iterable[Effect]
"""A part of a decision, in order. `decide` joins the parts to one `Decision`."""


class Decision(tuple[Effect, ...]):
    """All effects of one command, in the order in which they were decided. The runtime carries it out as follows.

    1. The events of all `Append` are appended to the log, as one batch of records. If that fails, nothing of the
       decision happens, and `AppendFailed` is decided instead.
    2. The effects take place one after the other: the event of an `Append` or `Note` changes the group, a `Park` stores
       the request, an `Arm` or `Disarm` sets its timer, a `WakeMembers` or `Announce` marks parked heartbeats.
    3. Each `Reply` leaves, in order; where the log is flushed for replies, after the flush.
    4. Each `Then` is decided, on the state that this decision and the followers before it leave.
    5. When nothing follows any more, parked heartbeats are answered for whose members something has changed.
    """

    __slots__ = ()

    @property
    def records(self) -> list[HardEvent]:
        """The events that become records, in order."""
        return [effect.event for effect in self if type(effect) is Append]
