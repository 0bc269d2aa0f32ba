"""What happened to a group. Every event carries its cause; `apply` folds it, and nothing else changes a group.

Hard events are records of `__consumer_offsets` (log/offsets_topic.py writes and reads them), so their fields are what
those records can hold, and the cause beside it, which a replay cannot know. Soft events are lost with the process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kohort.group.commands import Join, Protocols
from kohort.group.consumer.commands import ConsumerHeartbeat
from kohort.group.consumer.events import ConsumerHardEvent, ConsumerSoftEvent
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


@dataclass(frozen=True, slots=True)
class GroupStored:
    """A classic group as the log holds it: a generation, or an empty group. Record type 2.

    `is_synced`: its members have their assignments; a generation that is not awaits its leader's SyncGroup.
    """

    group_id: str
    protocol_type: str | None
    generation: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[StoredMember, ...]
    cause: Cause
    is_synced: bool = True


@dataclass(frozen=True, slots=True)
class GroupDeleted:
    """The group is no more. The tombstone of record type 2."""

    group_id: str
    cause: Cause


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
class OffsetDeleted:
    """A committed offset is forgotten. The tombstone of record type 1."""

    group_id: str
    topic: str
    partition: int
    cause: Cause


HardEvent = GroupStored | GroupDeleted | OffsetCommitted | OffsetDeleted | ConsumerHardEvent


@dataclass(frozen=True, slots=True)
class MemberIdIssued:
    """A member was told its id and must join again with it (KIP-394). Until then the id is pending."""

    group_id: str
    member_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class PendingMemberDropped:
    """An issued id was not used in time, or its holder left."""

    group_id: str
    member_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class MemberAdded:
    """A member entered the group; its JoinGroup waits."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    cause: Cause


@dataclass(frozen=True, slots=True)
class MemberRejoined:
    """A member of the last generation joined the round; its JoinGroup waits. It may offer other protocols now."""

    group_id: str
    member_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    cause: Cause


@dataclass(frozen=True, slots=True)
class StaticMemberReplaced:
    """An instance came back without its member id and got a new one; the old id is fenced (KIP-345).

    `awaits_join`: its JoinGroup waits for the round; otherwise it is answered at once. `old_session_timeout_ms` is how
    long the old id could be silent, -1 where a request of it waited.
    """

    group_id: str
    instance_id: str
    old_member_id: str
    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    awaits_join: bool
    cause: Cause
    old_session_timeout_ms: int = -1


@dataclass(frozen=True, slots=True)
class MemberRemoved:
    """A member is out: it left, was removed, or was evicted. The cause says which.

    `silent_ms` is how long it had not been heard of where that is why, else -1; `session_timeout_ms` how long it could.
    """

    group_id: str
    member_id: str
    instance_id: str | None
    cause: Cause
    silent_ms: int = -1
    session_timeout_ms: int = -1


@dataclass(frozen=True, slots=True)
class RoundOpened:
    """A round began: every member must join again. Assignments of an unfinished round are void."""

    group_id: str
    generation: int
    is_initial: bool
    initial_delay_ms: int
    initial_remaining_ms: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class RoundAnnounced:
    """The members of a round whose heartbeats waited were answered together, `waited_ms` after the round began.

    It is about answers and changes no group: the node reports it, no decision does.
    """

    group_id: str
    generation: int
    waited_ms: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class InitialDelayExtended:
    """Members keep arriving at a new group, so it waits a little more (KIP-134)."""

    group_id: str
    delay_ms: int
    remaining_ms: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class GenerationFormed:
    """The gathering is over: these members are the next generation and await their assignment."""

    group_id: str
    generation: int
    protocol_name: str
    leader: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class SyncReceived:
    """A member asked for its assignment; `awaits_sync` when there is none yet and it waits."""

    group_id: str
    member_id: str
    awaits_sync: bool
    cause: Cause


@dataclass(frozen=True, slots=True)
class MemberRecognized:
    """A member that only the log knew has joined again with nothing changed: now all that it offers is known."""

    group_id: str
    member_id: str
    protocols: Protocols
    cause: Cause


@dataclass(frozen=True, slots=True)
class RebalanceAvoided:
    """A member joined again without need and said so; it keeps its generation where Kafka would start a round."""

    group_id: str
    member_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class AssignmentFailed:
    """The leader could not assign and said why. `message` is what the members of the generation are told."""

    group_id: str
    generation: int
    leader: str
    message: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class RevocationsAwaited:
    """A cooperative round took partitions away that nobody has yet: `revoking` will join again without them.

    `is_holding`: the others get no answer to SyncGroup until then, or until the hold is over; `held` wait already.
    """

    group_id: str
    generation: int
    revoking: tuple[str, ...]
    is_holding: bool
    held: tuple[str, ...]
    cause: Cause


@dataclass(frozen=True, slots=True)
class SyncsReleased:
    """The revoking members take their time: whoever was held has its assignment now."""

    group_id: str
    generation: int
    cause: Cause


@dataclass(frozen=True, slots=True)
class JoinRefused:
    """A member was not let in, with an answer on which its client may end for good. It changes no group."""

    group_id: str
    error: ErrorCode
    request: Join | ConsumerHeartbeat
    cause: Cause


@dataclass(frozen=True, slots=True)
class GatheringFailed:
    """The generation could not be stored: every waiting join was answered with an error, and all must join again."""

    group_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class GroupLoaded:
    """A group with members was taken up from the log."""

    group_id: str
    cause: Cause


@dataclass(frozen=True, slots=True)
class GroupUnloaded:
    """This coordinator gave the group up."""

    group_id: str
    cause: Cause


SoftEvent = (
    MemberIdIssued
    | PendingMemberDropped
    | MemberAdded
    | MemberRejoined
    | StaticMemberReplaced
    | MemberRemoved
    | RoundOpened
    | RoundAnnounced
    | InitialDelayExtended
    | GenerationFormed
    | SyncReceived
    | MemberRecognized
    | RebalanceAvoided
    | AssignmentFailed
    | RevocationsAwaited
    | SyncsReleased
    | JoinRefused
    | GatheringFailed
    | GroupLoaded
    | GroupUnloaded
    | ConsumerSoftEvent
)
Event = HardEvent | SoftEvent
