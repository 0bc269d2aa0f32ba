"""What happens to a consumer group (KIP-848). Hard events are Kafka's records of types 3 to 8 and 16, one for one.

Where a `cause` cannot be known, as after a replay, it is COORDINATOR_LOADED.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from kohort.assign.server.spec import StandbyLags
from kohort.group.commands import Protocols
from kohort.model.cause import Cause
from kohort.model.id_partitions import IdPartitions


class MemberState(IntEnum):
    """Where a member is on its way to its target; the numbers are those of the record."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class ClassicPhase(IntEnum):
    """Where a classic member of a consumer group is in its own small round (KIP-848's migration). 0 is not stored."""

    STABLE = 0
    PREPARE_REBALANCE = 1
    COMPLETING_REBALANCE = 2


class ClassicMemberMetadata(NamedTuple):
    """What makes a member of a consumer group a classic one: its session timeout, and the protocols it offers."""

    session_timeout_ms: int
    protocols: Protocols


class Held(NamedTuple):
    """Partitions of one topic with the epoch in which each was assigned to the member (KIP-1251), in the same order."""

    topic_id: bytes
    partitions: tuple[int, ...]
    epochs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupStored:
    """The group's epoch, and a hash of the metadata of the topics it subscribes to. Record type 3."""

    group_id: str
    epoch: int
    metadata_hash: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class ConsumerMemberStored:
    """What a member says about itself. Record type 5. `classic` is None for a native member; `lags` is our extension.

    `subscribed_topic_names` are sorted; `subscribed_topic_regex` is empty for none.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMemberMetadata | None
    cause: Cause
    lags: StandbyLags = ()
    acceptable_recovery_lag: int | None = None


@dataclass(frozen=True, slots=True)
class TargetStored:
    """The epoch that the targets of the members belong to, and when it was computed. Record type 6."""

    group_id: str
    epoch: int
    timestamp_ms: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class MemberTargetStored:
    """What a member should own. Record type 7."""

    group_id: str
    member_id: str
    target: IdPartitions
    cause: Cause


@dataclass(frozen=True, slots=True)
class MemberAssignmentStored:
    """What a member was granted (`assigned`) and asked to give back (`pending`). Record type 8.

    Both are sorted by topic id. `classic_phase` is our extension: without it the timers of a classic member would not
    survive a failover.
    """

    group_id: str
    member_id: str
    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: tuple[Held, ...]
    pending: tuple[Held, ...]
    cause: Cause
    classic_phase: ClassicPhase = ClassicPhase.STABLE


@dataclass(frozen=True, slots=True)
class RegexStored:
    """What an expression matches. Record type 16."""

    group_id: str
    regex: str
    topics: tuple[str, ...]
    version: int
    timestamp_ms: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class ConsumerGroupDeleted:
    """The group is no consumer group any more. The tombstone of record type 3."""

    group_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class PartitionMetadataStored:
    """The log holds what Kafka 4.0 stored about topics. Record type 4: read, never written; it is taken out again."""

    group_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class PartitionMetadataDeleted:
    """What Kafka 4.0 stored about topics is void. The tombstone of record type 4."""

    group_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class ConsumerMemberDeleted:
    """A member is out. The tombstone of record type 5; those of types 8 and 7 come before it."""

    group_id: str
    member_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class TargetDeleted:
    """The group has no target. The tombstone of record type 6."""

    group_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class MemberTargetDeleted:
    """A member has no target. The tombstone of record type 7."""

    group_id: str
    member_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class MemberAssignmentDeleted:
    """A member owns nothing and has no epoch. The tombstone of record type 8."""

    group_id: str
    member_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class RegexDeleted:
    """Nobody subscribes with an expression any more. The tombstone of record type 16."""

    group_id: str
    regex: str
    cause: Cause


ConsumerHardEvent = (
    ConsumerGroupStored
    | ConsumerMemberStored
    | TargetStored
    | MemberTargetStored
    | MemberAssignmentStored
    | RegexStored
    | ConsumerGroupDeleted
    | PartitionMetadataStored
    | PartitionMetadataDeleted
    | ConsumerMemberDeleted
    | TargetDeleted
    | MemberTargetDeleted
    | MemberAssignmentDeleted
    | RegexDeleted
)


@dataclass(frozen=True, slots=True)
class TargetFailed:
    """The assignor failed; the target in force stays. `message` is what the members are told."""

    group_id: str
    assignor: str
    message: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class TargetTimed:
    """What computing the last target took, in microseconds: the next one waits the longer, the more that is."""

    group_id: str
    cost_us: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class ConsumerMemberOut:
    """A member left, was removed or was evicted; the records that say so come with it. Says why, for people."""

    group_id: str
    member_id: str
    instance_id: str | None
    cause: Cause
    silent_ms: int = -1


@dataclass(frozen=True, slots=True)
class ClassicJoinParked:
    """A classic member's JoinGroup waits until others have released what it will get."""

    group_id: str
    member_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class ClassicJoinAnswered:
    """A waiting JoinGroup of a classic member has its answer."""

    group_id: str
    member_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class GroupConverted:
    """A group became a consumer group, or a classic one again, with these members; says so for people."""

    group_id: str
    is_consumer: bool
    epoch: int
    member_ids: tuple[str, ...]
    cause: Cause


ConsumerSoftEvent = (
    TargetFailed | TargetTimed | ConsumerMemberOut | ClassicJoinParked | ClassicJoinAnswered | GroupConverted
)
