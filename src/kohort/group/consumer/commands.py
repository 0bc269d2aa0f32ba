"""What is asked of a consumer group (KIP-848): one value per command, as in `commands`.

`AssignTarget`, `Reconcile` and those about classic members and conversions are never sent by a client: a decision asks
for them with `Then`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kohort.assign.server.spec import StandbyLags
from kohort.model.cause import Cause
from kohort.model.id_partitions import IdPartitions

if TYPE_CHECKING:
    from kohort.group.commands import Join

LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2


@dataclass(slots=True)
class ConsumerHeartbeat:
    """ConsumerGroupHeartbeat. What is None was not said and has not changed.

    `new_member_id` is the id that a joiner without one gets (v0). `owned` is what the sender says it owns. `lags`,
    `acceptable_recovery_lag` and `reason` are this project's extension. `is_counted`: it was decided when it came and
    kept since. `margin_ms`: how long before its next heartbeat is due its client must have the answer, 0 where that
    does not matter.
    """

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    owned: IdPartitions | None = None
    client_id: str = ""
    client_host: str = ""
    new_member_id: str = ""
    lags: StandbyLags | None = None
    reason: str = ""
    api_version: int = 1
    is_counted: bool = False
    margin_ms: int = 0
    acceptable_recovery_lag: int | None = None


@dataclass(slots=True)
class AssignTarget:
    """Compute a new target if the group epoch has gone on and it is time."""

    group_id: str
    cause: Cause


@dataclass(slots=True)
class Reconcile:
    """Move the sender of `heartbeat`, whose identity has been checked and stored, towards its target, and answer it."""

    group_id: str
    member_id: str
    heartbeat: ConsumerHeartbeat
    is_full: bool
    has_subscription_changed: bool = False


@dataclass(slots=True)
class TargetMeasured:
    """What the last target of the group cost to compute, in microseconds: the runtime says so, who has a clock."""

    group_id: str
    cost_us: int


@dataclass(slots=True)
class TopicChanged:
    """A topic that a member of the group subscribes to was created, grown, deleted, or may now match an expression."""

    group_id: str
    topic: str


@dataclass(slots=True)
class ReconcileJoin:
    """Move a classic member, whose JoinGroup has been checked and stored, towards its target, and answer or keep it.

    `is_waiting`: its JoinGroup is parked already; otherwise it is the request being decided. Unless it `may_wait`, it
    is answered with what there is.
    """

    group_id: str
    member_id: str
    cause: Cause
    is_waiting: bool = False
    may_wait: bool = True


@dataclass(slots=True)
class PrepareClassic:
    """See which classic members must join again, and whose waiting JoinGroup can be answered.

    Asked for when a target was installed (`member_ids` None: all of them), and when partitions became free that
    `member_ids` wait for. Native members among them are passed over.
    """

    group_id: str
    member_ids: tuple[str, ...] | None
    cause: Cause


@dataclass(slots=True)
class DowngradeIfDue:
    """Members went: make the group classic if no native one is left and it may be. `then` is decided afterwards."""

    group_id: str
    cause: Cause
    then: Join | None = None


ConsumerCommand = (
    ConsumerHeartbeat
    | AssignTarget
    | Reconcile
    | TargetMeasured
    | TopicChanged
    | ReconcileJoin
    | PrepareClassic
    | DowngradeIfDue
)
