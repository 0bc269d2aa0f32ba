"""The states of a classic member, and what its user configures."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kohort.model.errors import ErrorCode


class State(StrEnum):
    """Where a member is between two stable assignments."""

    UNJOINED = "unjoined"
    PREPARING = "preparing"  # a callback runs before JoinGroup
    JOINING = "joining"
    ASSIGNING = "assigning"  # this member leads and computes
    SYNCING = "syncing"
    COMPLETING = "completing"  # callbacks run after SyncGroup
    STABLE = "stable"
    LEAVING = "leaving"
    CLOSED = "closed"
    FATAL = "fatal"


class PollState(StrEnum):
    """Where the user is between two polls, against the deadline of `max.poll.interval.ms`."""

    HERE = "here"  # in poll, or no deadline is set
    AWAY = "away"
    LATE = "late"  # two thirds of the interval have passed
    MISSED = "missed"  # the deadline has passed: the member is out until the user is back


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """A member's timings, in milliseconds, and what it says about itself. Kafka's defaults."""

    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int | None = None
    instance_id: str | None = None
    rack: str | None = None


# In these states no join or sync is under way, so a heartbeat says something and is heard.
BEATING = frozenset({State.PREPARING, State.ASSIGNING, State.COMPLETING, State.STABLE, State.LEAVING})
# From these there is no way back into a round.
ENDING = frozenset({State.LEAVING, State.CLOSED, State.FATAL})
# The coordinator is elsewhere, or may be.
MOVED = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)

# KIP-62's words, as Java's client sends them with LeaveGroup.
POLL_EXPIRED = "consumer poll timeout has expired."
