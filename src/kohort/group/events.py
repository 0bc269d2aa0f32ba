"""What happened to a group. Every event carries its cause; `apply` folds it, and nothing else changes a group.

Hard events are records of `__consumer_offsets` (log/offsets_topic.py writes and reads them), so their fields are what
those records can store, and the cause beside it, which a replay cannot know: it is COORDINATOR_LOADED then. Those of
consumer groups (KIP-848) are Kafka's records of types 3 to 8 and 16, one for one. Soft events are lost with the node.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from kohort.assign.server.spec import StandbyLags
from kohort.group.commands import ConsumerHeartbeat, Join, Protocols
from kohort.model.assignment import IdPartitions
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID


class StoredMember(NamedTuple):
    """One member in a stored generation: its metadata is that of the chosen protocol only."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class _Caused:
    """Every event has a cause, after the fields of its own."""

    __slots__ = ()
    cause: Cause


@dataclass(frozen=True, slots=True)
class _Event(_Caused):
    group_id: str


class StoredEvent(_Event):
    """Hard state: a record."""

    __slots__ = ()


class ConsumerHardEvent(StoredEvent):
    """A record of a consumer group."""

    __slots__ = ()


class SoftEvent(_Event):
    """Soft state, which no record stores."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _GroupEvent(_Event):
    cause: Cause


@dataclass(frozen=True, slots=True)
class _MemberEvent(_Event):
    member_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class _JoinEvent(_Event):
    member_id: str
    request: Join
    cause: Cause


@dataclass(frozen=True, slots=True)
class GroupStored(StoredEvent):
    """A classic group as the log stores it: a generation, or an empty group. Record type 2.

    `is_synced`: its members have their assignments; a generation that is not awaits its leader's SyncGroup.
    """

    protocol_type: str | None
    generation: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[StoredMember, ...]
    cause: Cause
    is_synced: bool = True


@dataclass(frozen=True, slots=True)
class GroupDeleted(StoredEvent, _GroupEvent):
    """The group is no more. The tombstone of record type 2."""


class OffsetCommitted(NamedTuple):
    """One committed offset. Record type 1 (type 0 is read as one).

    `expire_ms` is -1 unless the request named its own retention; `leader_epoch` is -1 when unknown. `member_id` is
    who committed, empty for a commit from outside or a replayed one.
    """

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int = -1
    topic_id: bytes = NO_TOPIC_ID
    member_id: str = ""

    @property
    def cause(self) -> Cause:
        """Who committed and when; built when asked for, because commits are many."""
        return Cause(CauseKind.OFFSETS_COMMITTED, self.commit_ms, self.member_id or None)


@dataclass(frozen=True, slots=True)
class OffsetPending:
    """An offset was committed in a transaction (KIP-447), which is open. Record type 1 in a transactional batch.

    `is_superseded`: something was committed for the partition since. A replayed one has the epoch -1.
    """

    producer_id: int
    producer_epoch: int
    committed: OffsetCommitted
    is_superseded: bool = False

    @property
    def group_id(self) -> str:
        """The group whose offset it is."""
        return self.committed.group_id

    @property
    def cause(self) -> Cause:
        """Who committed and when."""
        return self.committed.cause


@dataclass(frozen=True, slots=True)
class OffsetsTransactionEnded:
    """A transaction has ended on this partition: its offsets take effect, or do not. The record is a marker."""

    producer_id: int
    is_commit: bool


@dataclass(frozen=True, slots=True)
class OffsetDeleted(StoredEvent):
    """A committed offset is forgotten. The tombstone of record type 1."""

    topic: str
    partition: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class MemberIdIssued(SoftEvent, _MemberEvent):
    """A member was sent its id and must join again with it (KIP-394). Until then the id is pending."""


@dataclass(frozen=True, slots=True)
class PendingMemberDropped(SoftEvent, _MemberEvent):
    """An issued id was not used in time, or its holder left."""


@dataclass(frozen=True, slots=True)
class MemberAdded(SoftEvent, _JoinEvent):
    """A member entered the group; its JoinGroup waits."""

    @property
    def instance_id(self) -> str | None:
        """The instance of a static member."""
        return self.request.instance_id


@dataclass(frozen=True, slots=True)
class MemberRejoined(SoftEvent, _JoinEvent):
    """A member of the last generation joined the round; its JoinGroup waits. It may offer other protocols now."""


@dataclass(frozen=True, slots=True)
class StaticMemberReplaced(SoftEvent, _JoinEvent):
    """An instance came back without its member id and got a new one; the old id is fenced (KIP-345).

    `awaits_join`: its JoinGroup waits for the round; otherwise it is answered at once. `old_session_timeout_ms` is how
    long the old id could be absent, -1 where a request of it waited.
    """

    old_member_id: str
    awaits_join: bool
    old_session_timeout_ms: int = -1

    @property
    def instance_id(self) -> str:
        """The instance that came back."""
        return self.request.instance_id or ""


@dataclass(frozen=True, slots=True)
class MemberRemoved(SoftEvent):
    """A member is out: it left, was removed, or was evicted. The cause shows which.

    `silent_ms` is how long it had sent no request where that is why, else -1; `session_timeout_ms` how long it could.
    """

    member_id: str
    instance_id: str | None
    cause: Cause
    silent_ms: int = -1
    session_timeout_ms: int = -1


@dataclass(frozen=True, slots=True)
class RoundOpened(SoftEvent):
    """A round began: every member must join again. Assignments of an unfinished round are void."""

    generation: int
    is_initial: bool
    initial_delay_ms: int
    initial_remaining_ms: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class RoundAnnounced(SoftEvent):
    """The members of a round whose heartbeats waited were answered together, `waited_ms` after the round began.

    It is about answers and changes no group: the node reports it, no decision does.
    """

    generation: int
    waited_ms: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class InitialDelayExtended(SoftEvent):
    """More members arrive at a new group, so it waits a little more (KIP-134)."""

    delay_ms: int
    remaining_ms: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class GenerationFormed(SoftEvent):
    """The gathering is over: these members are the next generation and await their assignment."""

    generation: int
    protocol_name: str
    leader: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class SyncReceived(SoftEvent):
    """A member asked for its assignment; `awaits_sync` when there is none yet and it waits."""

    member_id: str
    awaits_sync: bool
    cause: Cause


@dataclass(frozen=True, slots=True)
class MemberRecognized(SoftEvent):
    """A member that only the log knew has joined again with nothing changed: now all that it offers is known."""

    member_id: str
    protocols: Protocols
    cause: Cause


@dataclass(frozen=True, slots=True)
class RebalanceAvoided(SoftEvent, _MemberEvent):
    """A member joined again with the reason `blind`; it retains its generation where Kafka would start a round."""


@dataclass(frozen=True, slots=True)
class AssignmentFailed(SoftEvent):
    """The leader could not assign and gave the reason. `message` is the error for its members."""

    generation: int
    leader: str
    message: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class RevocationsAwaited(SoftEvent):
    """A cooperative round took partitions away that no member has yet: `revoking` will join again without them.

    `is_holding`: the others get no answer to SyncGroup until then or the limit; those of `held` wait already. With
    `is_delayed` `revoking` get none either, until the clients of the others join again at once.
    """

    generation: int
    revoking: tuple[str, ...]
    is_holding: bool
    is_delayed: bool
    held: tuple[str, ...]
    cause: Cause


@dataclass(frozen=True, slots=True)
class SyncsReleased(SoftEvent):
    """Those of `released`, which waited, have their assignments now.

    With `is_holding` it is time to revoke, and the others wait on; else the revoking members take too long.
    """

    generation: int
    released: tuple[str, ...]
    is_holding: bool
    cause: Cause


@dataclass(frozen=True, slots=True)
class JoinRefused(SoftEvent):
    """A member was not admitted, with an answer on which its client may end for good. It changes no group."""

    error: ErrorCode
    request: Join | ConsumerHeartbeat
    cause: Cause


@dataclass(frozen=True, slots=True)
class GatheringFailed(SoftEvent, _GroupEvent):
    """The generation could not be stored: every waiting join was answered with an error, and all must join again."""


@dataclass(frozen=True, slots=True)
class GroupLoaded(SoftEvent, _GroupEvent):
    """A group with members was taken up from the log."""


@dataclass(frozen=True, slots=True)
class GroupUnloaded(SoftEvent, _GroupEvent):
    """This coordinator gave the group up."""


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


class Assigned(NamedTuple):
    """Partitions of one topic with the epoch in which each was assigned to the member (KIP-1251), in the same order."""

    topic_id: bytes
    partitions: tuple[int, ...]
    epochs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupStored(ConsumerHardEvent):
    """The group's epoch, and a hash of the metadata of the topics it subscribes to. Record type 3."""

    epoch: int
    metadata_hash: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class ConsumerMemberStored(ConsumerHardEvent):
    """What a member sends about itself. Record type 5. `classic` is None for a native member; `lags` is our extension.

    `subscribed_topic_names` are sorted; `subscribed_topic_regex` is empty for none.
    """

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
class TargetStored(ConsumerHardEvent):
    """The epoch that the targets of the members belong to, and when it was computed. Record type 6."""

    epoch: int
    timestamp_ms: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class MemberTargetStored(ConsumerHardEvent):
    """What a member should own. Record type 7."""

    member_id: str
    target: IdPartitions
    cause: Cause


@dataclass(frozen=True, slots=True)
class MemberAssignmentStored(ConsumerHardEvent):
    """What a member was granted (`assigned`) and asked to give back (`pending`). Record type 8.

    Both are sorted by topic id. `classic_phase` is our extension: without it the timers of a classic member would not
    survive a failover.
    """

    member_id: str
    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: tuple[Assigned, ...]
    pending: tuple[Assigned, ...]
    cause: Cause
    classic_phase: ClassicPhase = ClassicPhase.STABLE


@dataclass(frozen=True, slots=True)
class RegexStored(ConsumerHardEvent):
    """What an expression matches. Record type 16."""

    regex: str
    topics: tuple[str, ...]
    version: int
    timestamp_ms: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class ConsumerGroupDeleted(ConsumerHardEvent, _GroupEvent):
    """The group is no consumer group any more. The tombstone of record type 3."""


@dataclass(frozen=True, slots=True)
class PartitionMetadataStored(ConsumerHardEvent, _GroupEvent):
    """The log has what Kafka 4.0 stored about topics. Record type 4: read, never written; it is taken out again."""


@dataclass(frozen=True, slots=True)
class PartitionMetadataDeleted(ConsumerHardEvent, _GroupEvent):
    """What Kafka 4.0 stored about topics is void. The tombstone of record type 4."""


@dataclass(frozen=True, slots=True)
class ConsumerMemberDeleted(ConsumerHardEvent, _MemberEvent):
    """A member is out. The tombstone of record type 5; those of types 8 and 7 come before it."""


@dataclass(frozen=True, slots=True)
class TargetDeleted(ConsumerHardEvent, _GroupEvent):
    """The group has no target. The tombstone of record type 6."""


@dataclass(frozen=True, slots=True)
class MemberTargetDeleted(ConsumerHardEvent, _MemberEvent):
    """A member has no target. The tombstone of record type 7."""


@dataclass(frozen=True, slots=True)
class MemberAssignmentDeleted(ConsumerHardEvent, _MemberEvent):
    """A member owns nothing and has no epoch. The tombstone of record type 8."""


@dataclass(frozen=True, slots=True)
class RegexDeleted(ConsumerHardEvent):
    """No member subscribes with an expression any more. The tombstone of record type 16."""

    regex: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class TargetFailed(SoftEvent):
    """The assignor failed; the target in force stays. `message` is the error for its members."""

    assignor: str
    message: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class TargetTimed(SoftEvent):
    """What computing the last target took, in microseconds: the next one waits the longer, the more that is."""

    cost_us: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class ConsumerMemberOut(SoftEvent):
    """A member left, was removed or was evicted; the records of it come with it. Why, for people."""

    member_id: str
    instance_id: str | None
    cause: Cause
    silent_ms: int = -1


@dataclass(frozen=True, slots=True)
class ClassicJoinParked(SoftEvent, _MemberEvent):
    """A classic member's JoinGroup waits until others have released what it will get."""


@dataclass(frozen=True, slots=True)
class ClassicJoinAnswered(SoftEvent, _MemberEvent):
    """A waiting JoinGroup of a classic member has its answer."""


@dataclass(frozen=True, slots=True)
class GroupConverted(SoftEvent):
    """A group became a consumer group, or a classic one again, with these members; for people."""

    is_consumer: bool
    epoch: int
    member_ids: tuple[str, ...]
    cause: Cause


HardEvent = StoredEvent | OffsetCommitted | OffsetPending
Event = HardEvent | SoftEvent
