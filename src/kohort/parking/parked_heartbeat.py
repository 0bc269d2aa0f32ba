"""A heartbeat that waits for its answer, and what parking needs of its surroundings.

A parking decides how long a heartbeat waits. The connection that received it reports what happens there: another
request arrived (`followed`), one arrived that must not wait (`release`), or the client disconnected (`drop`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum, auto
from typing import Any, Generic, Protocol, TypeVar


class Heartbeat(Protocol):
    """What identifies the sender of a heartbeat."""

    @property
    def group_id(self) -> str:
        """The group of the member."""

    @property
    def member_id(self) -> str:
        """The member."""


HeartbeatT = TypeVar("HeartbeatT", bound=Heartbeat)
AnswerT = TypeVar("AnswerT")


class Timers(Protocol):
    """Deadlines by key, in milliseconds. `action` gets the time at which it runs."""

    def arm(self, key: Hashable, deadline_ms: int, action: Callable[[int], None], /) -> None:
        """Run `action` at `deadline_ms`; it replaces the timer of the same key."""

    def move(self, key: Hashable, deadline_ms: int, /) -> bool:
        """Change the deadline of a timer; return whether it exists."""

    def disarm(self, key: Hashable, /) -> None:
        """Cancel a timer, if it exists."""

    def deadline_ms(self, key: Hashable, /) -> int | None:
        """Return the deadline of a timer, or None."""


class Follower(Enum):
    """A request that arrives on the connection of a parked heartbeat."""

    HEARTBEAT = auto()
    """The next heartbeat of the same member."""
    COMMIT = auto()
    """A commit of the same member, which is carried out at once: only its answer can wait."""
    OTHER = auto()


def follower_of(heartbeat: Heartbeat, behind: Any, commit: type) -> Follower:
    """Classify what arrived behind a parked heartbeat: another one, one of the class of commits, or something else."""
    is_one = isinstance(behind, (type(heartbeat), commit))
    if not is_one or (behind.group_id, behind.member_id) != (heartbeat.group_id, heartbeat.member_id):
        return Follower.OTHER
    return Follower.COMMIT if isinstance(behind, commit) else Follower.HEARTBEAT


class Parking(Protocol[HeartbeatT, AnswerT]):
    """Where a heartbeat waits."""

    def followed(self, parked: ParkedHeartbeat[HeartbeatT, AnswerT], follower: Follower, now_ms: int) -> bool:
        """Another request arrived behind a parked heartbeat; return whether it stays parked."""

    def drop(self, parked: ParkedHeartbeat[HeartbeatT, AnswerT]) -> None:
        """Remove a heartbeat that waits, without an answer."""


class ParkedHeartbeat(Generic[HeartbeatT, AnswerT]):
    """One heartbeat. Once it is answered or dropped, `parking` is None and every method does nothing."""

    __slots__ = ("answer", "heartbeat", "parking")

    def __init__(
        self, parking: Parking[HeartbeatT, AnswerT], heartbeat: HeartbeatT, answer: Callable[[AnswerT], None]
    ) -> None:
        self.parking: Parking[HeartbeatT, AnswerT] | None = parking
        self.heartbeat = heartbeat
        self.answer = answer

    @property
    def is_parked(self) -> bool:
        """Whether it is neither answered nor dropped."""
        return self.parking is not None

    def followed(self, follower: Follower, now_ms: int) -> bool:
        """Another request arrived on the connection: return whether the heartbeat stays parked."""
        return self.parking is not None and self.parking.followed(self, follower, now_ms)

    def release(self, now_ms: int) -> None:
        """Answer it, for a request that cannot wait behind it."""
        self.followed(Follower.OTHER, now_ms)

    def drop(self) -> None:
        """Remove it: its sender has disconnected."""
        if self.parking is not None:
            self.parking.drop(self)
