"""What a member asks of the world: requests to its coordinator, callbacks to run, an assignment to compute.

Plain values, carried out by a driver in the order given. Each request is answered by one input of `inputs`; each
callback by `CallbackFinished`, each `Compute` by `Computed` or `ComputeFailed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kohort.assign.spec import MemberSpec
from kohort.member.member_state import Identity
from kohort.model.assignment import Assignment, IdPartitions, Partitions
from kohort.model.errors import ErrorCode
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription

Lags = tuple[tuple[TopicPartition, int], ...]
"""How far each standby copy is behind, in records, by partition."""


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat:
    """Send ConsumerGroupHeartbeat; the answer names its `number`. What is None has not changed since it was sent.

    `member_epoch` is 0 to join, -1 and -2 to leave. `regex` is empty where the broker is to forget one.
    """

    number: int
    member_id: str
    member_epoch: int
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    rack: str | None = None
    owned: IdPartitions | None = None
    lags: Lags | None = None
    reason: str = ""
    cause: str = ""

    @property
    def is_leave(self) -> bool:
        """Whether this is the last the coordinator learns of the member for now."""
        return self.member_epoch < 0


@dataclass(frozen=True, slots=True)
class ExpediteHeartbeat:
    """Have the heartbeat that is under way answered now: there is something to report, and its broker may park it."""


@dataclass(frozen=True, slots=True)
class NameTopics:
    """Find the names of these topics, and of no others that were asked for before: `TopicsSeen` brings them."""

    topic_ids: frozenset[bytes]


ConsumerEffect = ConsumerHeartbeat | ExpediteHeartbeat | NameTopics


class Callback(StrEnum):
    """The three callbacks of a rebalance listener."""

    REVOKED = "revoked"
    ASSIGNED = "assigned"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Join:
    """Send JoinGroup. `protocols` are in order of preference; `reason` is the cause (KIP-800)."""

    identity: Identity
    protocols: tuple[tuple[str, Subscription], ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Sync:
    """Send SyncGroup; `assignments` is empty unless this member leads. `failure` is why the leader has none."""

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
class RaiseInPoll:
    """Raise this from the user's next poll, unless a round succeeds before that; the member continues."""

    code: ErrorCode
    text: str


@dataclass(frozen=True, slots=True)
class PollLate:
    """Warn: two thirds of the poll interval have passed, and after `left_ms` more the member leaves."""

    left_ms: int


@dataclass(frozen=True, slots=True)
class AssignmentErrorStays:
    """Warn: assignments carry this error whatever rounds the member asks for, and it asks for no other one."""

    error: ErrorCode


@dataclass(frozen=True, slots=True)
class PollMissed:
    """Report that the poll deadline has passed: the member leaves, or, static, sends nothing until its session ends."""

    is_leaving: bool


@dataclass(frozen=True, slots=True)
class Fail:
    """The member cannot continue: `text` is for its user: why and what to do."""

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
    | RaiseInPoll
    | PollLate
    | AssignmentErrorStays
    | PollMissed
    | Fail
    | Ended
    | ConsumerEffect
)
