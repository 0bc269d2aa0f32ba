"""A classic group and its members as they are now: fields and questions, no decisions.

Only `apply` writes the fields. Questions asked for every command cost the same for any size of group;
those that walk all members are marked, and asked once in a round. A generation is stored twice: when it forms, before
any member learns of it (`unsynced`), and when it has its assignments (`synced`). So a replay of the log knows every
generation that a member may refer to, and who is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from enum import StrEnum

from kohort.group.commands import Join, Protocols
from kohort.group.events import GroupStored, StoredMember
from kohort.group.group_timers import Timer, session_timer
from kohort.group.results import JoinedMember, JoinResult
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode

CONSUMER_PROTOCOL_TYPE = "consumer"

COOPERATIVE = frozenset({"cooperative-sticky", "capacity", "tasks"})
"""Client-side assignors whose members retain their partitions through a rebalance, if they offer no eager one."""


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


@dataclass(slots=True, eq=False)
class Member:
    """One member of a classic group.

    It is made of its JoinGroup, or of what the log has of it. `protocols` are all it offers; only the one that was
    chosen while it `is_restored`, known from the log alone. `is_new` from its first JoinGroup until its first
    generation: it has not learnt its id for sure, so it cannot be expected to send heartbeats.
    """

    group_id: InitVar[str]
    member_id: str
    origin: InitVar[Join | StoredMember]
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    is_restored: bool = False
    instance_id: str | None = field(init=False)
    client_id: str = field(init=False)
    client_host: str = field(init=False)
    session_timeout_ms: int = field(init=False)
    rebalance_timeout_ms: int = field(init=False)
    session: Timer = field(init=False)
    joins_again_ms: int = 0
    """From when on its client would send another JoinGroup at once."""

    def __post_init__(self, group_id: str, origin: Join | StoredMember) -> None:
        self.instance_id = origin.instance_id
        self.client_id = origin.client_id
        self.client_host = origin.client_host
        self.session_timeout_ms = origin.session_timeout_ms
        self.rebalance_timeout_ms = origin.rebalance_timeout_ms
        self.session = session_timer(group_id, self.member_id)

    def metadata(self, protocol_name: str | None) -> bytes:
        """Return the member's metadata for a protocol, empty if it does not offer it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""


@dataclass(slots=True, eq=False)
class ClassicGroup:
    """One classic group. A group that only ever had offsets committed has no protocol type: a simple group.

    More than 20 attributes: fields of Kafka's record, the round, and indexes, which `apply` changes together.
    """

    group_id: str
    phase: Phase = Phase.EMPTY
    state_timestamp_ms: int = -1
    generation: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str | None = None
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """Member id by instance id."""
    supported: dict[str, int] = field(default_factory=dict)
    """By protocol name, how many members offer it."""
    pending: set[str] = field(default_factory=set)
    """Ids issued and not used yet; a round waits for them."""
    awaiting_join: set[str] = field(default_factory=set)
    awaiting_sync: set[str] = field(default_factory=set)
    """Whose SyncGroup waits: for the leader, or in a Stable group for the members in `revoking`."""
    pending_sync: set[str] = field(default_factory=set)
    """Members of the generation that have not sent SyncGroup yet."""
    revoking: set[str] = field(default_factory=set)
    """Members that lost partitions which no member has got yet: they will join again (KIP-429)."""
    is_withholding: bool = False
    """Whether answers to SyncGroup wait until one of `revoking` has joined again."""
    is_revoking_later: bool = False
    """Whether those to `revoking` wait too: some of the others would not join again at once."""
    sync_failure: str | None = None
    """Why the last generation got no assignment, in its leader's words; until the next one forms."""
    failed_leaders: list[str] = field(default_factory=list)
    """Who led since the last assignment and could not assign, the last one last."""
    rebalances_avoided: int = 0
    is_stored: bool = False
    """Whether the log has a record of the group itself, not only offsets."""
    is_initial: bool = False
    """Whether the round that gathers now began in an empty group, and so runs its full delay."""
    has_newcomers: bool = False
    initial_delay_ms: int = 0
    initial_remaining_ms: int = 0
    round_cause: Cause | None = None

    @property
    def is_simple(self) -> bool:
        """Whether the group exists only for its offsets."""
        return self.protocol_type is None and not self.members and not self.pending

    @property
    def has_all_joined(self) -> bool:
        """Whether no member is awaited any more: every member has joined and no issued id is outstanding."""
        return len(self.awaiting_join) == len(self.members) and not self.pending

    @property
    def is_gathering(self) -> bool:
        """Whether members are being gathered for the next generation."""
        return self.phase is Phase.PREPARING_REBALANCE

    def is_withheld(self, member_id: str) -> bool:
        """Whether a SyncGroup of a member has to wait for those that must revoke, in a Stable group."""
        return self.is_withholding and (self.is_revoking_later or member_id not in self.revoking)

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

    def is_supporting(self, protocol_type: str, protocols: Protocols, sender: Member | None = None) -> bool:
        """Whether a member with these protocols could be in the group: one name at least is offered by every member.

        `sender` is the member that these protocols are of, if it is in the group already. What it offered before counts
        too, as in Kafka, unless it is restored: then it is not known, and this is what it offers.
        """
        if self.phase is Phase.EMPTY:
            return bool(protocol_type) and bool(protocols)
        if self.protocol_type != protocol_type:
            return False
        replaced = (sender,) if sender is not None and sender.is_restored else ()
        count = len(self.members) - len(replaced)
        before = {name for member in replaced for name, _ in member.protocols}
        return any(self.supported.get(name, 0) - (name in before) == count for name, _ in protocols)

    def unknown_offers(self, sender: Member | None) -> set[str]:
        """Return the members but the sender that are restored: what else they offer is not known. Walks all members."""
        return {each.member_id for each in self.members.values() if each.is_restored and each is not sender}

    def is_perhaps_supporting(self, protocol_type: str, protocols: Protocols, unknown: set[str]) -> bool:
        """Whether `is_supporting` may be true if all that the `unknown` members offer were known. Walks all members."""
        if not unknown or self.protocol_type != protocol_type:
            return False
        known = [{name for name, _ in member.protocols} for member in self.members.values() if not member.is_restored]
        return any(all(name in offered for offered in known) for name, _ in protocols)

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
    """Return why the sender is not the member it claims to be, or NONE. An instance id decides first."""
    if error := instance_error(group.static_members, member_id, instance_id):
        return error
    return ErrorCode.NONE if member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def instance_error(static_members: Mapping[str, str], member_id: str, instance_id: str | None) -> ErrorCode:
    """Return why the sender is not the instance it claims to be, or NONE; a new one is unknown, an old one fenced."""
    if instance_id is None:
        return ErrorCode.NONE
    holder = static_members.get(instance_id)
    if holder is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if holder == member_id else ErrorCode.FENCED_INSTANCE_ID


def stored(group: ClassicGroup, members: Iterable[StoredMember], at_ms: int, cause: Cause) -> GroupStored:
    """Return the group's generation with these members, in order of their ids."""
    return GroupStored(
        group.group_id,
        group.protocol_type,
        group.generation,
        group.protocol_name,
        group.leader,
        at_ms,
        tuple(sorted(members)),
        cause,
    )


def joined(
    group: ClassicGroup, member_id: str, generation: int, protocol_name: str | None, leader: str | None
) -> JoinResult:
    """Return the answer to a member of a generation; its leader gets the members, too."""
    return JoinResult(ErrorCode.NONE, member_id, generation, group.protocol_type, protocol_name, leader or "")


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
