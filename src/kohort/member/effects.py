"""What a member asks of the world: requests to its coordinator, callbacks to run, an assignment to compute.

Plain values, carried out by a driver in the order given. Each request is answered by one input of `inputs`; each
callback by `CallbackFinished`, each `Compute` by `Computed` or `ComputeFailed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kohort.assign.spec import MemberSpec
from kohort.member.consumer_effects import ConsumerEffect
from kohort.member.identity import Identity
from kohort.model.assignment import Assignment, Partitions
from kohort.model.errors import ErrorCode
from kohort.model.subscription import Subscription


class Callback(StrEnum):
    """The three callbacks of a rebalance listener."""

    REVOKED = "revoked"
    ASSIGNED = "assigned"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Join:
    """Send JoinGroup. `protocols` are in order of preference; `reason` says why (KIP-800)."""

    identity: Identity
    protocols: tuple[tuple[str, Subscription], ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Sync:
    """Send SyncGroup; `assignments` is empty unless this member leads. `failure` says why the leader has none."""

    identity: Identity
    protocol_name: str
    assignments: Mapping[str, Assignment]
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Send Heartbeat."""

    identity: Identity


@dataclass(frozen=True, slots=True)
class Leave:
    """Send LeaveGroup for this member."""

    identity: Identity
    reason: str


@dataclass(frozen=True, slots=True)
class Compute:
    """Run the assignor of that name over the members and current metadata. With `skip`, take the metadata only."""

    identity: Identity
    protocol_name: str
    members: Mapping[str, MemberSpec]
    skip: bool = False


@dataclass(frozen=True, slots=True)
class RunCallback:
    """Run a callback of the listener with `partitions`, and nothing else of the rebalance until it has finished."""

    callback: Callback
    partitions: Partitions
    cause: str


@dataclass(frozen=True, slots=True)
class OnAssignment:
    """Call the assignor's `on_assignment`, if it has one: after all that is revoked, before `assigned`."""

    protocol_name: str
    assignment: Assignment
    generation: int


@dataclass(frozen=True, slots=True)
class Rediscover:
    """Forget the coordinator's address and look it up before the next request."""

    code: ErrorCode


@dataclass(frozen=True, slots=True)
class TellUser:
    """Raise this from the user's next poll, unless a round succeeds before that; the member goes on."""

    code: ErrorCode
    text: str


@dataclass(frozen=True, slots=True)
class PollLate:
    """Warn: two thirds of the poll interval have passed, and after `left_ms` more the member gives up its place."""

    left_ms: int


@dataclass(frozen=True, slots=True)
class PollMissed:
    """Say that the poll deadline has passed: the member leaves, or, a static one, is silent until its session ends."""

    is_leaving: bool


@dataclass(frozen=True, slots=True)
class Fail:
    """The member cannot go on: `text` tells its user why and what to do."""

    code: ErrorCode
    text: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The member has left for good; nothing follows."""


Effect = (
    Join
    | Sync
    | Heartbeat
    | Leave
    | Compute
    | RunCallback
    | OnAssignment
    | Rediscover
    | TellUser
    | PollLate
    | PollMissed
    | Fail
    | Ended
    | ConsumerEffect
)
