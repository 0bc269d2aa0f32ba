"""A classic group and its members as they are now: fields and questions, no decisions.

Only `apply` writes the fields. Questions asked for every command cost the same for any size of group;
those that walk all members say so, and are asked once in a round. A generation is stored twice: when it forms, before
any member learns of it (`unsynced`), and when it has its assignments (`synced`). So a replay of the log knows every
generation that a member may refer to, and who is in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from kohort.group.commands import Protocols
from kohort.group.events import GenerationFormed, GroupStored, StoredMember
from kohort.group.group_timers import Timer, session_timer
from kohort.group.results import JoinedMember
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode

CONSUMER_PROTOCOL_TYPE = "consumer"


class Phase(StrEnum):
    """Kafka's names for the states of a classic group."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


PREDECESSORS: dict[Phase, frozenset[Phase]] = {
    Phase.EMPTY: frozenset({Phase.EMPTY, Phase.PREPARING_REBALANCE}),
    Phase.PREPARING_REBALANCE: frozenset({Phase.STABLE, Phase.COMPLETING_REBALANCE, Phase.EMPTY}),
    Phase.COMPLETING_REBALANCE: frozenset({Phase.PREPARING_REBALANCE}),
    # Stable to Stable is a static member's new id, stored without a round.
    Phase.STABLE: frozenset({Phase.COMPLETING_REBALANCE, Phase.STABLE}),
    Phase.DEAD: frozenset(Phase),
}
"""From where each state can be entered while a group lives. A replay may enter Stable and Empty from anywhere."""


class Member:
    """One member of a classic group.

    `protocols` are all it offers; only the one that was chosen while it `is_restored`, known from the log alone.
    `is_new` from its first JoinGroup until its first generation: it has not learnt its id for sure, so it cannot be
    expected to send heartbeats.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "is_restored",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session",
        "session_timeout_ms",
    )

    def __init__(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: Protocols,
        *,
        is_new: bool = False,
        is_restored: bool = False,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        self.assignment = b""
        self.is_new = is_new
        self.is_restored = is_restored
        self.session: Timer = session_timer(group_id, member_id)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return the member's metadata for a protocol, empty if it does not offer it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""


class ClassicGroup:
    """One classic group. A group that only ever had offsets committed has no protocol type: a simple group."""

    __slots__ = (
        "awaiting_join",
        "awaiting_sync",
        "failed_leaders",
        "generation",
        "group_id",
        "has_newcomers",
        "initial_delay_ms",
        "initial_remaining_ms",
        "is_holding",
        "is_initial",
        "is_stored",
        "leader",
        "members",
        "pending",
        "pending_sync",
        "phase",
        "protocol_name",
        "protocol_type",
        "rebalances_avoided",
        "revoking",
        "round_cause",
        "state_timestamp_ms",
        "static_members",
        "supported",
        "sync_failure",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.phase = Phase.EMPTY
        self.state_timestamp_ms = -1
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member id by instance id."""
        self.supported: dict[str, int] = {}
        """By protocol name, how many members offer it."""
        self.pending: set[str] = set()
        """Ids issued and not used yet; a round waits for them."""
        self.awaiting_join: set[str] = set()
        self.awaiting_sync: set[str] = set()
        """Whose SyncGroup waits: for the leader, or in a Stable group for the members in `revoking`."""
        self.pending_sync: set[str] = set()
        """Members of the generation that have not sent SyncGroup yet."""
        self.revoking: set[str] = set()
        """Members that lost partitions which no member has got yet: they will join again (KIP-429)."""
        self.is_holding = False
        """Whether answers to SyncGroup wait until one of `revoking` has joined again."""
        self.sync_failure: str | None = None
        """Why the last generation got no assignment, in its leader's words; until the next one forms."""
        self.failed_leaders: list[str] = []
        """Who led since the last assignment and could not assign, the last one last."""
        self.rebalances_avoided = 0
        self.is_stored = False
        """Whether the log holds a record of the group itself, not only offsets."""
        self.is_initial = False
        """Whether the round that gathers now began in an empty group, and so runs its full delay."""
        self.has_newcomers = False
        self.initial_delay_ms = 0
        self.initial_remaining_ms = 0
        self.round_cause: Cause | None = None

    @property
    def is_simple(self) -> bool:
        """Whether the group exists only for its offsets."""
        return self.protocol_type is None and not self.members and not self.pending

    @property
    def is_complete(self) -> bool:
        """Whether no member is awaited any more: every member has joined and no issued id is outstanding."""
        return len(self.awaiting_join) == len(self.members) and not self.pending

    @property
    def is_gathering(self) -> bool:
        """Whether members are being gathered for the next generation."""
        return self.phase is Phase.PREPARING_REBALANCE

    def is_behind(self, member_id: str, generation: int) -> bool:
        """Whether a member speaks of an older epoch of the consumer group that this group has just been.

        It owns what it owned, and joins the round that gathers like all others (see migrate).
        """
        cause = self.round_cause
        return (
            self.phase is Phase.PREPARING_REBALANCE
            and cause is not None
            and cause.kind is CauseKind.GROUP_CONVERTED
            and 0 <= generation < self.generation
            and member_id in self.members
        )

    def is_supporting(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a member with these protocols could be in the group: one name at least is offered by every member."""
        if self.phase is Phase.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if self.protocol_type != protocol_type:
            return False
        count = len(self.members)
        return any(self.supported.get(name, 0) == count for name, _ in protocols)

    def is_perhaps_supporting(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether `is_supporting` could hold if all that the restored members offer were known. Walks all members."""
        if not self.members or self.protocol_type != protocol_type:
            return False
        known = [{name for name, _ in member.protocols} for member in self.members.values() if not member.is_restored]
        return len(known) < len(self.members) and any(
            all(name in offered for offered in known) for name, _ in protocols
        )

    def is_accepting(self, member_id: str, max_size: int) -> bool:
        """Whether there is room for a join.

        While members gather, those already waiting count, not those known: so a group that is over its size sheds
        the members that come back last.
        """
        if self.phase is Phase.PREPARING_REBALANCE:
            return member_id in self.awaiting_join or len(self.awaiting_join) < max_size
        if self.phase in (Phase.COMPLETING_REBALANCE, Phase.STABLE):
            return member_id in self.members or len(self.members) < max_size
        return True

    def max_rebalance_timeout_ms(self) -> int:
        """Return the longest time that a member asks for, to join again. Walks all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def members_for_leader(self, protocol_name: str | None) -> tuple[JoinedMember, ...]:
        """Return all members, by id, with their metadata for a protocol. Walks all members."""
        return tuple(
            JoinedMember(member_id, member.instance_id, member.metadata(protocol_name))
            for member_id, member in sorted(self.members.items())
        )


def vote(group: ClassicGroup, changed: dict[str, Protocols] | None = None) -> str | None:
    """Return the protocol that most members like best of those they all offer. Walks all members.

    Kafka leaves a tie to the order of a hash map; here the first name in alphabetical order wins. `changed` gives
    the protocols that some members are about to offer instead. None when no protocol is offered by all.
    """
    offers = {member_id: member.protocols for member_id, member in group.members.items()} | (changed or {})
    supporters: dict[str, int] = {}
    for protocols in offers.values():
        for name in {name for name, _ in protocols}:
            supporters[name] = supporters.get(name, 0) + 1
    candidates = {name for name, count in supporters.items() if count == len(offers)}
    votes: dict[str, int] = {}
    for protocols in offers.values():
        choice = next((name for name, _ in protocols if name in candidates), None)
        if choice is not None:
            votes[choice] = votes.get(choice, 0) + 1
    return min(votes, key=lambda name: (-votes[name], name)) if votes else None


def identity_error(group: ClassicGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """Return why the sender is not the member it says it is, or NONE.

    An instance id decides first: unknown, the sender is unknown; held by another member id, the sender is fenced.
    """
    if instance_id is not None:
        holder = group.static_members.get(instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if holder != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def synced(group: ClassicGroup, assignments: Mapping[str, bytes], now_ms: int, cause: Cause) -> GroupStored:
    """Return the group's generation with these assignments, members by id."""
    return GroupStored(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol_name=group.protocol_name,
        leader=group.leader,
        state_timestamp_ms=now_ms,
        members=tuple(
            stored_member(member, group.protocol_name, assignments.get(member_id, b""))
            for member_id, member in sorted(group.members.items())
        ),
        cause=cause,
    )


def unsynced(group: ClassicGroup, formed: GenerationFormed) -> GroupStored:
    """Return the generation that forms, which awaits its leader's SyncGroup."""
    return GroupStored(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        generation=formed.generation,
        protocol_name=formed.protocol_name,
        leader=formed.leader,
        state_timestamp_ms=formed.cause.at_ms,
        members=tuple(stored_member(member, formed.protocol_name, b"") for _, member in sorted(group.members.items())),
        cause=formed.cause,
        is_synced=False,
    )


def emptied(group: ClassicGroup, cause: Cause, now_ms: int) -> GroupStored:
    """Return that no member is left after a round."""
    return GroupStored(
        group_id=group.group_id,
        protocol_type=group.protocol_type,
        generation=group.generation + 1,
        protocol_name=None,
        leader=None,
        state_timestamp_ms=now_ms,
        members=(),
        cause=cause,
    )


def stored_member(member: Member, protocol_name: str | None, assignment: bytes) -> StoredMember:
    """Return what is stored of one member: of its protocols only the one that was chosen."""
    return StoredMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.metadata(protocol_name),
        assignment,
    )
