"""A second statement of what the logs contain of each group: its members with their epochs, assignments and commits.

It is folded from the same events as `group/shard`, by other code that was written to be read, not to be fast, and that
knows nothing of decisions. Of soft events it takes who was removed, who has joined the round that gathers, and which
static members were replaced. When a shard is loaded its ledgers begin again from the bytes of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kohort.group.events import (
    ConsumerGroupDeleted,
    ConsumerGroupStored,
    ConsumerMemberDeleted,
    ConsumerMemberStored,
    Event,
    GatheringFailed,
    GroupDeleted,
    GroupLoaded,
    GroupStored,
    GroupUnloaded,
    Held,
    MemberAdded,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberRejoined,
    MemberRemoved,
    MemberState,
    MemberTargetDeleted,
    MemberTargetStored,
    OffsetCommitted,
    OffsetDeleted,
    RegexDeleted,
    RegexStored,
    RoundOpened,
    StaticMemberReplaced,
    StoredMember,
    TargetDeleted,
    TargetStored,
)
from kohort.group.shard import Shard
from kohort.log.group_replay import records_of
from kohort.log.offsets_topic import Replay
from kohort.model.assignment import Partitions
from kohort.model.id_partitions import NOTHING, IdPartitions
from kohort.model.ids import NO_TOPIC_ID, group_partition
from kohort.sim.checks.checker import Checker
from kohort.sim.kernel.world_observer import SeenMember, SeenNode

if TYPE_CHECKING:
    from kohort.node.groups.offsets_partition import OffsetsPartition
    from kohort.node.node import Node
    from kohort.node.topics.topic import Partition

Place = tuple[bytes, int]
"""A partition by its topic's id."""

NEVER = -1
"""The offset of a partition without a commit."""

AWAY = -2
"""The epoch of a static member that left for a while."""


@dataclass(slots=True)
class Native:
    """The records of one member of a consumer group; `held` has the epoch in which each partition was assigned."""

    instance_id: str | None = None
    is_classic: bool = False
    names: tuple[str, ...] = ()
    regex: str = ""
    epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: frozenset[Place] = frozenset()
    held: dict[Place, int] = field(default_factory=dict)
    target: IdPartitions = NOTHING


@dataclass(slots=True)
class GroupLedger:
    """The records of one group. `kind` is empty for a group that has offsets only."""

    kind: str = ""
    turns: int = 0
    """How often anything changed that decides who may commit."""
    commits: dict[tuple[str, int], OffsetCommitted] = field(default_factory=dict)
    # a classic group
    generation: int = 0
    is_synced: bool = True
    members: dict[str, StoredMember] = field(default_factory=dict)
    out: set[str] = field(default_factory=set)
    """Members that were removed since the generation was stored."""
    joined: set[str] = field(default_factory=set)
    """Members whose JoinGroup belongs to the round that gathers."""
    left_behind: set[str] = field(default_factory=set)
    """Static members that did not join a generation and stay in it: they learn of it with their next request."""
    is_gathering: bool = False
    former: dict[str, frozenset[Place]] = field(default_factory=dict)
    """What the members of the consumer group that this was until now were granted."""
    before: dict[str, StoredMember] = field(default_factory=dict)
    """The members of the classic group that this was, but for those it had left behind."""
    # a consumer group
    epoch: int = 0
    target_epoch: int = 0
    natives: dict[str, Native] = field(default_factory=dict)
    asker: dict[Place, str] = field(default_factory=dict)
    """The member that has a partition, granted or asked back."""
    regexes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def is_out(self, member_id: str) -> bool:
        """Whether a member was removed or left behind, or has left for a while: its knowledge may be outdated."""
        if member_id in self.left_behind:
            return True
        if self.kind == "consumer":
            member = self.natives.get(member_id)
            return member is None or member.epoch == AWAY
        if member_id in self.out:
            return True
        return member_id not in self.members and member_id not in self.joined

    def note_shown(self, member_id: str, epoch: int) -> None:
        """Note that a member shows a generation or epoch: if it is the log's, the member is not left behind."""
        member = self.natives.get(member_id)
        if epoch == (self.generation if member is None else member.epoch):
            self.left_behind.discard(member_id)

    def why_no_commit(self, member_id: str, epoch: int, place: Place) -> str | None:
        """Return why a commit with a generation or epoch is to be refused, or None when it may be accepted."""
        if self.kind == "consumer":
            return self._why_not_native(member_id, epoch, place)
        if epoch < 0 and not self.members:
            return None
        if self.kind == "":
            return f"there is no group in which {member_id} could be at {epoch}"
        if member_id in self.out:
            return f"{member_id} was removed"
        if member_id not in self.members:
            return f"{member_id} is not in generation {self.generation}"
        if epoch != self.generation:
            if self.is_gathering and 0 <= epoch < self.generation and member_id in self.former:
                return None  # what it had in the consumer group is its own until the round ends
            return f"{member_id} shows generation {epoch}, the group is at {self.generation}"
        if not self.is_synced and not self.is_gathering:
            return f"generation {self.generation} has no assignments yet"
        return None

    def _why_not_native(self, member_id: str, epoch: int, place: Place) -> str | None:
        if epoch < 0 and not self.natives:
            return None
        member = self.natives.get(member_id)
        if member is None:
            return f"{member_id} is no member"
        if epoch == member.epoch:
            return None
        if epoch > member.epoch:
            return f"{member_id} shows epoch {epoch}, the log knows {member.epoch}"
        since = member.held.get(place)
        if since is None or not 0 <= since <= epoch:
            return f"{member_id} shows epoch {epoch} and is at {member.epoch}, and had the partition since {since}"
        return None

    def committed(self, topic: str, number: int, topic_id: bytes) -> int:
        """Return the offset that is committed for a partition of a topic, or NEVER."""
        found = self.commits.get((topic, number))
        return NEVER if found is None or topic_id not in (found.topic_id, NO_TOPIC_ID) else found.offset

    def names_of(self, member: Native) -> frozenset[str]:
        """Return the topics that a member of a consumer group subscribes to, as far as expressions are resolved."""
        return frozenset(member.names).union(self.regexes.get(member.regex, ()) if member.regex else ())

    def resume(self, before: GroupLedger) -> None:
        """Go on after a load: what the log does not say, or a cleaning took from it, is as true as before."""
        if before.kind == self.kind == "consumer":
            self.left_behind = before.left_behind & self.natives.keys()
        elif before.kind == self.kind and before.generation == self.generation:
            self.left_behind = before.left_behind & self.members.keys()
            self.former = {id_: had for id_, had in before.former.items() if id_ in self.members} | self.former


def fold(group: GroupLedger, event: Event) -> None:
    """Fold one event into what is known of its group."""
    change = _FOLDS.get(type(event))
    if change is not None:
        change(group, event)


def _commit(group: GroupLedger, event: OffsetCommitted) -> None:
    group.commits[event.topic, event.partition] = event


def _forget_commit(group: GroupLedger, event: OffsetDeleted) -> None:
    group.commits.pop((event.topic, event.partition), None)


def _store_classic(group: GroupLedger, event: GroupStored) -> None:
    if event.generation != group.generation:
        group.former = {}
    if not event.is_synced:
        group.left_behind = {stored.member_id for stored in event.members} - group.joined
        group.joined = set()
    elif event.generation != group.generation:
        group.left_behind = set()
        group.joined = set()
    group.kind = "classic"
    group.turns += 1
    group.generation = event.generation
    group.is_synced = event.is_synced
    group.is_gathering = False
    group.members = {stored.member_id: stored for stored in event.members}
    group.left_behind &= group.members.keys()
    group.out.clear()


def _delete_classic(group: GroupLedger, _: GroupDeleted) -> None:
    if group.kind == "consumer":
        return  # a tombstone of the classic group that it was
    group.kind = ""
    group.turns += 1
    group.before = {id_: stored for id_, stored in group.members.items() if not group.is_out(id_)}
    group.members = {}
    group.out, group.joined, group.former = set(), set(), {}
    group.is_gathering = False


def _remove(group: GroupLedger, event: MemberRemoved) -> None:
    group.turns += 1
    group.out.add(event.member_id)
    group.joined.discard(event.member_id)


def _join(group: GroupLedger, event: MemberAdded | MemberRejoined) -> None:
    group.turns += 1
    group.joined.add(event.member_id)
    group.out.discard(event.member_id)


def _replace_static(group: GroupLedger, event: StaticMemberReplaced) -> None:
    group.turns += 1
    group.out.add(event.old_member_id)
    group.joined.discard(event.old_member_id)
    if event.awaits_join:
        group.joined.add(event.member_id)


def _open_round(group: GroupLedger, _: RoundOpened) -> None:
    group.turns += 1
    group.is_gathering = True


def _fail_gathering(group: GroupLedger, _: GatheringFailed) -> None:
    group.turns += 1
    group.joined = set()


def _load(group: GroupLedger, _: GroupLoaded | GroupUnloaded) -> None:
    group.turns += 1
    group.is_gathering = False


def _drop_consumer(group: GroupLedger) -> None:
    group.natives = {}
    group.asker = {}
    group.regexes = {}
    group.epoch = group.target_epoch = 0


def _become_consumer(group: GroupLedger) -> None:
    if group.kind != "consumer":
        group.kind = "consumer"
        group.members = {}
        group.out, group.joined, group.former = set(), set(), {}
        group.is_gathering, group.is_synced = False, True


def _native(group: GroupLedger, member_id: str) -> Native:
    _become_consumer(group)
    member = group.natives.get(member_id)
    if member is None:
        member = group.natives[member_id] = Native()
    return member


def _store_group(group: GroupLedger, event: ConsumerGroupStored) -> None:
    _become_consumer(group)
    group.former = {}
    group.epoch = event.epoch


def _delete_group(group: GroupLedger, _: ConsumerGroupDeleted) -> None:
    if group.kind == "consumer":
        group.turns += 1
        group.generation = group.epoch  # at which a classic group goes on, if this one is converted
        _drop_consumer(group)
        group.kind = ""


def _store_native(group: GroupLedger, event: ConsumerMemberStored) -> None:
    group.turns += 1
    member = _native(group, event.member_id)
    member.instance_id = event.instance_id
    member.is_classic = event.classic is not None
    member.names = event.subscribed_topic_names
    member.regex = event.subscribed_topic_regex


def _delete_native(group: GroupLedger, event: ConsumerMemberDeleted) -> None:
    group.turns += 1
    group.left_behind.discard(event.member_id)
    member = group.natives.pop(event.member_id, None)
    if member is not None:
        _release(group, event.member_id, member)


def _store_target(group: GroupLedger, event: TargetStored) -> None:
    group.target_epoch = event.epoch


def _delete_target(group: GroupLedger, _: TargetDeleted) -> None:
    group.target_epoch = -1


def _store_member_target(group: GroupLedger, event: MemberTargetStored) -> None:
    _native(group, event.member_id).target = event.target


def _delete_member_target(group: GroupLedger, event: MemberTargetDeleted) -> None:
    if (member := group.natives.get(event.member_id)) is not None:
        member.target = NOTHING


def _store_assignment(group: GroupLedger, event: MemberAssignmentStored) -> None:
    group.turns += 1
    member_id = event.member_id
    member = _native(group, member_id)
    _release(group, member_id, member)
    member.epoch, member.state = event.epoch, event.state
    assigned = epochs_of(event.assigned)
    member.assigned = frozenset(assigned)
    member.held = {**epochs_of(event.pending), **assigned} if event.pending else assigned
    group.asker.update(dict.fromkeys(member.held, member_id))


def _delete_assignment(group: GroupLedger, event: MemberAssignmentDeleted) -> None:
    group.turns += 1
    member = group.natives.get(event.member_id)
    if member is not None:
        group.former[event.member_id] = member.assigned
        _release(group, event.member_id, member)
        member.epoch, member.state = 0, MemberState.STABLE
        member.assigned, member.held = frozenset(), {}


def _release(group: GroupLedger, member_id: str, member: Native) -> None:
    for place in member.held:
        if group.asker.get(place) == member_id:
            del group.asker[place]


def _store_regex(group: GroupLedger, event: RegexStored) -> None:
    group.regexes[event.regex] = event.topics


def _delete_regex(group: GroupLedger, event: RegexDeleted) -> None:
    group.regexes.pop(event.regex, None)


def epochs_of(held: tuple[Held, ...]) -> dict[Place, int]:
    """Return the epoch in which each partition was assigned."""
    return {
        (topic_id, partition): epoch
        for topic_id, partitions, epochs in held
        for partition, epoch in zip(partitions, epochs, strict=True)
    }


_FOLDS: dict[type[Any], Callable[[GroupLedger, Any], None]] = {
    OffsetCommitted: _commit,
    OffsetDeleted: _forget_commit,
    GroupStored: _store_classic,
    GroupDeleted: _delete_classic,
    MemberRemoved: _remove,
    MemberAdded: _join,
    MemberRejoined: _join,
    StaticMemberReplaced: _replace_static,
    RoundOpened: _open_round,
    GatheringFailed: _fail_gathering,
    GroupLoaded: _load,
    GroupUnloaded: _load,
    ConsumerGroupStored: _store_group,
    ConsumerGroupDeleted: _delete_group,
    ConsumerMemberStored: _store_native,
    ConsumerMemberDeleted: _delete_native,
    TargetStored: _store_target,
    TargetDeleted: _delete_target,
    MemberTargetStored: _store_member_target,
    MemberTargetDeleted: _delete_member_target,
    MemberAssignmentStored: _store_assignment,
    MemberAssignmentDeleted: _delete_assignment,
    RegexStored: _store_regex,
    RegexDeleted: _delete_regex,
}


Hook = Callable[[GroupLedger, Any, Shard], None]
"""Called with what the log says of the group, the event, and the shard, to which the event has been applied."""


class Ledgers(Checker):
    """What the logs say. It must see an event before any checker that asks it."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: dict[str, GroupLedger] = {}
        self.shards: dict[str, Shard] = {}
        """The shard that each group was last seen in."""
        self.touched: dict[str, Shard] = {}
        """The groups that had events other than commits since a checker looked."""
        self.nodes: list[SeenNode] = []
        """Those that run."""
        self.members: dict[str, SeenMember] = {}
        """By name, those that run."""
        self.owned: dict[str, Partitions] = {}
        """By name, the partitions that they act on."""
        self.loads = 0
        """How often a shard was loaded."""
        self._before: dict[type[Any], list[Hook]] = {}
        self._after: dict[type[Any], list[Hook]] = {}

    def before(self, event_type: type[Any], hook: Hook) -> None:
        """Call `hook` with each event of a type, before the ledger takes it."""
        self._before.setdefault(event_type, []).append(hook)

    def after(self, event_type: type[Any], hook: Hook) -> None:
        """Call `hook` with each event of a type, once the ledger has taken it."""
        self._after.setdefault(event_type, []).append(hook)

    def group(self, group_id: str) -> GroupLedger:
        """Return what is known of a group; nothing, for one that the log does not know."""
        ledger = self.groups.get(group_id)
        if ledger is None:
            ledger = self.groups[group_id] = GroupLedger()
        return ledger

    # -- hooks of the world

    def member_started(self, member: SeenMember) -> None:
        """Note that a member runs."""
        self.members[member.name] = member

    def member_ended(self, member: SeenMember, how: str) -> None:
        """Note that it does not any more."""
        self.members.pop(member.name, None)
        self.owned.pop(member.name, None)

    def owns(self, member: SeenMember, partitions: Partitions) -> None:
        """Note what it acts on."""
        self.owned[member.name] = partitions

    def node_started(self, node: SeenNode) -> None:
        """Note that a node runs."""
        self.nodes.append(node)

    def node_stopped(self, node: SeenNode, how: str) -> None:
        """Note that it does not any more."""
        self.nodes.remove(node)

    def shard_loaded(self, node: SeenNode, hosted: OffsetsPartition) -> None:
        """Begin anew with what the log holds."""
        self.loads += 1
        index, count = hosted.partition.index, len(hosted.partition.topic.partitions)
        left = {each: ledger for each, ledger in self.groups.items() if group_partition(each, count) == index}
        for group_id in left:
            del self.groups[group_id]
            self.shards.pop(group_id, None)
        with undisturbed(node):
            events = events_of(hosted.partition)
        for event in events:
            fold(self.group(event.group_id), event)
        for group_id, before in left.items():
            if group_id in self.groups:
                self.groups[group_id].resume(before)

    def group_event(self, node: SeenNode, shard: Shard, event: Event, now_ms: int) -> None:
        """Call the hooks of its type, and fold it."""
        kind = type(event)
        group_id = event.group_id
        ledger = self.groups.get(group_id)
        if ledger is None:
            ledger = self.groups[group_id] = GroupLedger()
        self.shards[group_id] = shard
        for hook in self._before.get(kind, ()):
            hook(ledger, event, shard)
        if kind is OffsetCommitted:
            ledger.commits[event.topic, event.partition] = event  # type: ignore[union-attr, assignment]
        else:
            self.touched[group_id] = shard
            fold(ledger, event)
        for hook in self._after.get(kind, ()):
            hook(ledger, event, shard)


def hosted_by(node: Node) -> Sequence[OffsetsPartition]:
    """Return the offsets partitions of a node; none before the first request for a group."""
    return node.coordinator.partitions if node.context.has_coordinator else ()


@contextmanager
def undisturbed(node: SeenNode) -> Iterator[None]:
    """Look at a node's disk without meeting, or using up, the faults that it has for its node."""
    disk = getattr(node, "disk", None)
    fault = getattr(disk, "fault", None)
    if disk is None or fault is None:
        yield
        return
    disk.fault = None
    try:
        yield
    finally:
        disk.fault = fault


def events_of(partition: Partition) -> list[Event]:
    """Return what the log of an offsets partition says happened, from its bytes."""
    replay = Replay()
    events = (replay.event_of(record) for record in records_of(partition.log))
    return [event for event in events if event is not None]
