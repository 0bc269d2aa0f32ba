"""A member's identity, its states in either protocol, and what its user configures."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kohort.model.errors import ErrorCode

NO_GENERATION = -1


class Identity(NamedTuple):
    """Who a member is in its group: the generation and the member id that every request carries.

    The coordinator gives out both. A response counts only while the identity it was asked with is the member's own.
    """

    generation: int = NO_GENERATION
    member_id: str = ""

    @property
    def is_valid(self) -> bool:
        """Whether the member takes part in a generation."""
        return self.generation != NO_GENERATION and bool(self.member_id)


NO_IDENTITY = Identity()
"""What a member is before it joins, and after the coordinator has forgotten it."""


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


class ConsumerState(StrEnum):
    """Where a member of the consumer protocol is; the names are those of Java's `MemberState`."""

    UNSUBSCRIBED = "unsubscribed"  # not in the group, and not on its way there
    JOINING = "joining"
    RECONCILING = "reconciling"  # there is a target, or a part of one, that is not yet what is owned
    ACKNOWLEDGING = "acknowledging"  # what was reconciled is still to be sent
    STABLE = "stable"
    FENCED = "fenced"  # what was owned is to be reported lost, then it joins again
    PREPARE_LEAVING = "prepare_leaving"  # the last callback runs
    LEAVING = "leaving"
    FATAL = "fatal"
    STALE = "stale"  # left because its user stayed away


class PollState(StrEnum):
    """Where the user is between two polls, against the deadline of `max.poll.interval.ms`."""

    HERE = "here"  # in poll, or no deadline is set
    AWAY = "away"
    LATE = "late"  # two thirds of the interval have passed
    MISSED = "missed"  # the deadline has passed: the member is out until the user is back


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """A member's timings, in milliseconds, and what it reports about itself. Kafka's defaults.

    Session timeout, heartbeat interval and whether the first heartbeat leaves with the assignment are the classic
    protocol's: in the consumer protocol the broker sets them.
    What is below `rack` is the consumer protocol's: the server-side assignor to vote for, and when lags of standby
    copies are sent.
    """

    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 300_000
    heartbeat_interval_ms: int = 3_000
    is_first_heartbeat_at_once: bool = True
    max_poll_interval_ms: int | None = None
    instance_id: str | None = None
    rack: str | None = None
    server_assignor: str | None = None
    acceptable_recovery_lag: int = 10_000
    lag_growth_ms: int = 60_000


# In these states no join or sync is under way, so a heartbeat reaches the coordinator.
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
