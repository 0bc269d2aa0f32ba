"""What happened to a streams group: Kafka's records of types 17 and 19 to 23, one for one, and soft state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from kohort.group.events import SoftEvent, StoredEvent
from kohort.group.streams.description import KnownDescription
from kohort.group.streams.topology import ConfiguredTopology, StreamsTopology
from kohort.model.cause import Cause
from kohort.model.streams_tasks import AssignedTasks, Task, TasksByRole

Settings = tuple[tuple[str, str], ...]
"""Names and values, sorted."""


class StreamsMemberState(IntEnum):
    """Where a member is on its way to its target; the numbers are those of the record."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


class UserEndpoint(NamedTuple):
    """Where a member answers interactive queries."""

    host: str
    port: int


class StreamsHardEvent(StoredEvent):
    """A record of a streams group."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _GroupDeletion(StreamsHardEvent):
    cause: Cause


@dataclass(frozen=True, slots=True)
class _MemberDeletion(StreamsHardEvent):
    member_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class StreamsGroupStored(StreamsHardEvent):
    """The group's epoch, and what it was decided on. Record type 17.

    `validated_epoch` is the epoch of the topology whose topics are all there, -1 while they are not. The other two are
    topology epochs too: that of the description a member has uploaded, and that of one that could not be stored.
    """

    epoch: int
    metadata_hash: int
    validated_epoch: int
    assignment_settings: Settings
    cause: Cause
    stored_description_epoch: int = -1
    failed_description_epoch: int = -1


@dataclass(frozen=True, slots=True)
class StreamsMemberStored(StreamsHardEvent):
    """What a member sends about itself. Record type 19."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology_epoch: int
    process_id: str
    endpoint: UserEndpoint | None
    client_tags: Settings
    cause: Cause


@dataclass(frozen=True, slots=True)
class StreamsTargetStored(StreamsHardEvent):
    """The epoch that the targets of the members belong to, and when it was computed. Record type 20."""

    epoch: int
    timestamp_ms: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class StreamsMemberTargetStored(StreamsHardEvent):
    """What a member should own. Record type 21."""

    member_id: str
    target: TasksByRole
    cause: Cause


@dataclass(frozen=True, slots=True)
class StreamsMemberAssignmentStored(StreamsHardEvent):
    """What a member was granted (`assigned`) and asked to give back (`pending`). Record type 22."""

    member_id: str
    epoch: int
    previous_epoch: int
    state: StreamsMemberState
    assigned: AssignedTasks
    pending: AssignedTasks
    cause: Cause


@dataclass(frozen=True, slots=True)
class StreamsTopologyStored(StreamsHardEvent):
    """The program that the members run. Record type 23."""

    topology: StreamsTopology
    cause: Cause


@dataclass(frozen=True, slots=True)
class StreamsGroupDeleted(_GroupDeletion):
    """The group is no streams group any more. The tombstone of record type 17."""


@dataclass(frozen=True, slots=True)
class StreamsMemberDeleted(_MemberDeletion):
    """A member is out. The tombstone of record type 19; those of types 22 and 21 come before it."""


@dataclass(frozen=True, slots=True)
class StreamsTargetDeleted(_GroupDeletion):
    """The group has no target. The tombstone of record type 20."""


@dataclass(frozen=True, slots=True)
class StreamsMemberTargetDeleted(_MemberDeletion):
    """A member has no target. The tombstone of record type 21."""


@dataclass(frozen=True, slots=True)
class StreamsMemberAssignmentDeleted(_MemberDeletion):
    """A member owns nothing and has no epoch. The tombstone of record type 22."""


@dataclass(frozen=True, slots=True)
class StreamsTopologyDeleted(_GroupDeletion):
    """The group has no topology. The tombstone of record type 23."""


@dataclass(frozen=True, slots=True)
class TopologyConfigured(SoftEvent):
    """What the topology needs was derived from the topics there are; None when it must be derived again."""

    configured: ConfiguredTopology | None
    cause: Cause


@dataclass(frozen=True, slots=True)
class TopologyDescribed(SoftEvent):
    """A member was asked for the description of the topology, or has uploaded it (KIP-1331)."""

    known: KnownDescription
    cause: Cause


@dataclass(frozen=True, slots=True)
class AssignmentDelayed(SoftEvent):
    """The first member of an empty group joined: no target is computed before `until_ms`, as others will follow."""

    until_ms: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class EndpointsChanged(SoftEvent):
    """What a member with an endpoint answers queries about has changed: all members must be sent it."""

    cause: Cause


@dataclass(frozen=True, slots=True)
class ShutdownRequested(SoftEvent):
    """A member asked that all members of the application end."""

    member_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class TaskOffsetsReported(SoftEvent):
    """How far tasks of a member are, and where their changelogs end, also of tasks on its disk only.

    The last two are the bounds of the group at that time: from which lag on a copy has caught up, and how long a lag
    grows until the copy falls behind.
    """

    member_id: str
    offsets: tuple[tuple[Task, int], ...]
    end_offsets: tuple[tuple[Task, int], ...]
    acceptable_recovery_lag: int
    growth_ms: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class TaskOffsetsOffered(SoftEvent):
    """Whether a member's client can report offsets at all: those before Kafka Streams 4.4 do not."""

    member_id: str
    reports_lags: bool
    cause: Cause
