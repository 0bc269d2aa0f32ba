"""A heartbeat that waits for its answer, and what parking needs of its surroundings.

A parking decides how long a heartbeat waits. The connection that received it reports what happens there: another
request arrived (`followed`), one arrived that must not wait (`release`), or the client disconnected (`drop`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum, auto
from typing import Generic, Protocol, TypeVar

from kohort.wire.messages import HeartbeatRequest, OffsetCommitRequest


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


def follower_of(heartbeat: HeartbeatRequest, behind: object) -> Follower:
    """Classify the request that arrived behind a parked heartbeat."""
    if not isinstance(behind, HeartbeatRequest | OffsetCommitRequest):
        return Follower.OTHER
    if (behind.group_id, behind.member_id) != (heartbeat.group_id, heartbeat.member_id):
        return Follower.OTHER
    return Follower.HEARTBEAT if isinstance(behind, HeartbeatRequest) else Follower.COMMIT


# -- what a client's software, as ApiVersions names it (KIP-511), demands where its heartbeats are parked

JAVA = "apache-kafka-java"

MARGIN_MS = {"kohort": 0, "unknown": 0, JAVA: 50}
"""How long before its next heartbeat is due a client of the consumer protocol must have the last answer.

0 where it does not matter. Java's client polls without pause until it is answered.
"""

OTHERS_MARGIN_MS = 200
"""The same for all others. librdkafka, under many names, abandons a heartbeat when the next one is due."""


KAFKAJS, SARAMA = "kafkajs", "sarama"

STOPPED_BY_HEARTBEATS = frozenset({KAFKAJS, SARAMA})
"""Clients that do nothing else while a heartbeat is unanswered: none of theirs is parked, also in no round.

kafkajs waits for the answer before it processes records. sarama sends no other request to the same broker, neither
commits nor OffsetFetch, and no Fetch where that broker has data.
"""

KAFKAJS_ASSIGNOR = "RoundRobinAssigner"
"""kafkajs does not name itself; its assignor, which no other client offers by this name, does."""


def can_static_member_wait(software: str) -> bool:
    """Whether a heartbeat of a static classic member may be parked while its group is stable.

    Java's close waits for the answers to all that it has sent, and a static member sends no LeaveGroup that would
    release a parked heartbeat.
    """
    return software != JAVA


COUNTING_FROM_ANSWERS = frozenset({"kgo"})
"""Clients whose next classic heartbeat is due an interval after the answer to the last one, not after that one.

All others send the next one when they would have sent it anyway, however long the last one waited.
"""

QUIET_MS = 6_000
"""A member that has committed nothing for so long does not commit by itself: by default clients do every 5 s."""


def can_committing_member_wait(software: str, quiet_ms: int) -> bool:
    """Whether a heartbeat of a member that committed `quiet_ms` ago may be parked while its group is stable.

    Its next commit has a parked heartbeat answered early. That must not make the next heartbeat late: its member would
    learn later of a round than without parking, and the whole group with it.
    """
    return software not in COUNTING_FROM_ANSWERS or quiet_ms >= QUIET_MS


def overlapping(software: str) -> bool | None:
    """Whether a client sends its next classic heartbeat though the last is unanswered; None if that must be found out.

    It is False for all that send it an interval after the last one, or when that is answered.
    """
    return None if software in {"", JAVA} else False


# -- parking


class Parking(Protocol[HeartbeatT, AnswerT]):
    """Where a heartbeat waits."""

    def followed(self, parked: ParkedHeartbeat[HeartbeatT, AnswerT], follower: Follower, now_ms: int) -> bool:
        """Another request arrived behind a heartbeat that waits; return whether it goes on waiting."""

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

    def followed(self, follower: Follower, now_ms: int) -> bool:
        """Another request arrived on the connection: return whether the heartbeat goes on waiting."""
        return self.parking is not None and self.parking.followed(self, follower, now_ms)

    def release(self, now_ms: int) -> None:
        """Answer it, for a request that cannot wait behind it."""
        self.followed(Follower.OTHER, now_ms)

    def drop(self) -> None:
        """Remove it: its sender has disconnected."""
        if self.parking is not None:
            self.parking.drop(self)
