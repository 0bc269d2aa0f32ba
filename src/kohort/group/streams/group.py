"""A streams group (KIP-1071) and its members as they are now: fields and questions, no decisions.

Only `apply` writes the fields. Questions asked for every heartbeat cost the same for any size of group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field, replace
from enum import StrEnum

from kohort.group.group_timers import Timer, session_timer
from kohort.group.streams.description import NOT_DESCRIBED, KnownDescription
from kohort.group.streams.events import (
    Settings,
    StreamsMemberState,
    StreamsMemberStored,
    TaskOffsetsReported,
    UserEndpoint,
)
from kohort.group.streams.topology import ConfiguredTopology, StreamsTopology
from kohort.model.cause import Cause, HeartbeatReason
from kohort.model.lag_watch import LagWatch
from kohort.model.streams_tasks import NO_TASKS, NONE_ASSIGNED, AssignedTasks, Task, TaskRole, TasksByRole, roles_of

FIRST_EPOCH = 1
"""The epoch of a group that no member has joined, and of its target: the first join makes it 2."""


class StreamsGroupState(StrEnum):
    """Kafka's names for the states of a streams group."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True, eq=False)
class StreamsMember:
    """One member: a thread of an application, whose process has others.

    `assigned` is what it was granted, `pending` what it was asked to give back and has not yet; `target` is what it
    should own once it has the group's assignment epoch. A member `is_stored` once its own record is known.

    `copies` has the lags that it reported, and `lag_reason` is why the last of them call for a new target. It
    `reports_lags` until its client shows that it cannot.

    More than 20 attributes: fields of Kafka's three records of a member, and what is known until a failover.
    """

    group_id: InitVar[str]
    member_id: str
    is_stored: bool = False
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: UserEndpoint | None = None
    client_tags: Settings = ()
    epoch: int = 0
    previous_epoch: int = 0
    state: StreamsMemberState = StreamsMemberState.STABLE
    assigned: AssignedTasks = NONE_ASSIGNED
    pending: AssignedTasks = NONE_ASSIGNED
    target: TasksByRole = NO_TASKS
    offsets: Mapping[Task, int] = field(default_factory=dict)
    end_offsets: Mapping[Task, int] = field(default_factory=dict)
    copies: LagWatch[Task] = field(default_factory=lambda: LagWatch(0, 0))
    lag_reason: HeartbeatReason | None = None
    reports_lags: bool = True
    session: Timer = field(init=False)

    def __post_init__(self, group_id: str) -> None:
        self.session = session_timer(group_id, self.member_id)

    @property
    def roles(self) -> dict[Task, TaskRole]:
        """The role in which it has each task, granted or asked back."""
        return roles_of(self.assigned, self.pending)

    @property
    def present(self) -> set[Task]:
        """The tasks that it owns, or is to run next: another thread of its process may give the copy back first."""
        return {*self.assigned.roles(), *self.target.active}

    @property
    def retarget_reason(self) -> HeartbeatReason | None:
        """Why what it has reported calls for a new target, if it does.

        A warm-up that has caught up calls for one with each report: the epoch of the first could perhaps not be stored.
        """
        is_warm = any(
            lag <= self.copies.acceptable_recovery_lag and task in self.target.warmup for task, lag in self.copies.lags
        )
        return self.lag_reason or (HeartbeatReason.STANDBY_CAUGHT_UP if is_warm else None)

    def store(self, record: StreamsMemberStored) -> None:
        """Take what the record has of the member."""
        self.is_stored = True
        for name in STORED:
            setattr(self, name, getattr(record, name))

    def report_offsets(self, event: TaskOffsetsReported) -> None:
        """Take what the member has reported of its tasks."""
        self.offsets, self.end_offsets = dict(event.offsets), dict(event.end_offsets)
        # Kafka Streams looks up an end less often than its copies move: one that has caught up is beyond it.
        lags = {
            task: max(0, self.end_offsets[task] - self.offsets[task])
            for task in self.present
            if min(self.offsets.get(task, -1), self.end_offsets.get(task, -1)) >= 0
        }
        self.copies = replace(
            self.copies, acceptable_recovery_lag=event.acceptable_recovery_lag, growth_ms=event.growth_ms
        )
        self.lag_reason = self.copies.report(lags, event.cause.at_ms)

    def has_stored(self, record: StreamsMemberStored, names: tuple[str, ...] = ()) -> bool:
        """Whether the record has nothing new of the member, or nothing new in the fields of these names."""
        return self.is_stored and all(getattr(self, name) == getattr(record, name) for name in names or STORED)


STORED = (
    "instance_id", "rack_id", "client_id", "client_host", "rebalance_timeout_ms", "topology_epoch", "process_id",
    "endpoint", "client_tags",
)  # fmt: skip
"""What the record of a member has of it."""

PLACEMENT = ("rack_id", "topology_epoch", "process_id", "client_tags")
"""What of it decides where tasks are placed. Of a static member nothing else takes the epoch on (Kafka 4.4)."""


@dataclass(slots=True, eq=False)
class StreamsGroup:
    """One streams group.

    `holders` has the members that have a task, granted or asked back, and in which role. `unsettled` are the members
    that have not reached the target or have something left to do. `followers` is the shard's index of its groups by
    topic name, updated by each for itself.

    More than 20 attributes: fields of Kafka's records, indexes, and what is known until a failover.
    """

    group_id: str
    followers: dict[str, set[str]] = field(default_factory=dict)
    is_dead: bool = False
    epoch: int = FIRST_EPOCH
    epoch_cause: Cause | None = None
    metadata_hash: int = 0
    validated_epoch: int = -1
    assignment_settings: Settings = ()
    stored_description_epoch: int = -1
    failed_description_epoch: int = -1
    assignment_epoch: int = FIRST_EPOCH
    assignment_timestamp_ms: int = 0
    topology: StreamsTopology | None = None
    members: dict[str, StreamsMember] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """Member id by instance id."""
    holders: dict[Task, dict[str, TaskRole]] = field(default_factory=dict)
    unsettled: set[str] = field(default_factory=set)
    configured: ConfiguredTopology | None = None
    """The topology with the topics there are, None before it is asked for."""
    description: KnownDescription = NOT_DESCRIBED
    delayed_until_ms: int = 0
    """Before that no target is computed."""
    target_cost_us: int = 0
    """What the last target took to compute; 0 when it was not measured."""
    endpoint_epoch: int = 0
    """How often something about endpoints has changed."""
    shutdown_by: str | None = None
    """The member that asked that all end."""

    @property
    def is_validated(self) -> bool:
        """Whether all topics of the topology are there, as far as the group has decided."""
        return self.topology is not None and self.validated_epoch == self.topology.epoch

    @property
    def state(self) -> StreamsGroupState:
        """Where the group is."""
        if self.is_dead:
            return StreamsGroupState.DEAD
        if not self.members:
            return StreamsGroupState.EMPTY
        if not self.is_validated:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        return StreamsGroupState.RECONCILING if self.unsettled else StreamsGroupState.STABLE
