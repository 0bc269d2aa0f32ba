"""A second statement of what the logs contain of each group: its members with their epochs, assignments and commits.

It is folded from the same events as `group/shard`, by other code that was written to be read, not to be fast, and that
knows nothing of decisions. Of soft events it takes who was removed, who has joined the round that gathers, and which
static members were replaced. When a shard is loaded its ledgers begin again from the bytes of the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kohort.group.events import (
    Assigned,
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
    MemberAdded,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberRejoined,
    MemberRemoved,
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
from kohort.model.assignment import NOTHING, IdPartitions, Partitions
from kohort.model.ids import NO_TOPIC_ID, group_partition
from kohort.node.groups.offsets_partition import OffsetsPartition, Status
from kohort.node.node import Node
from kohort.node.topics.topic import Partition
from kohort.sim.checks.checker import Checker
from kohort.sim.checks.streams_ledger import AWAY, StreamsRecords, ends_streams, is_of_streams
from kohort.sim.kernel.world_observer import SeenMember, SeenNode

Place = tuple[bytes, int]
"""A partition by its topic's id."""

NEVER = -1
"""The offset of a partition without a commit."""

RENEWAL = "recreate topic"
"""The fault that deletes a topic and creates one of the same name."""


@dataclass(slots=True)
class Native:
    """The records of one member of a consumer group; `owned` has the epoch in which each partition was assigned."""

    instance_id: str | None = None
    names: tuple[str, ...] = ()
    regex: str = ""
    epoch: int = 0
    assigned: frozenset[Place] = frozenset()
    owned: dict[Place, int] = field(default_factory=dict)
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
    streams: StreamsRecords | None = None
    """A streams group."""

    def is_out(self, member_id: str) -> bool:
        """Whether a member was removed or left behind, or has left for a while: its knowledge may be outdated."""
        if member_id in self.left_behind:
            return True
        if self.streams is not None:
            return self.streams.is_out(member_id)
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
        if self.streams is not None:
            return self.streams.why_no_commit(member_id, epoch, place[1])
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
        since = member.owned.get(place)
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
        """Continue after a load: what the log does not have, or a cleaning took from it, is as true as before."""
        if before.kind == self.kind == "consumer":
            self.left_behind = before.left_behind & self.natives.keys()
        elif before.kind == self.kind and before.generation == self.generation:
            self.left_behind = before.left_behind & self.members.keys()
            self.former = {id_: had for id_, had in before.former.items() if id_ in self.members} | self.former

    def fold(self, event: Event) -> None:
        match event:
            case OffsetCommitted():
                self.commits[event.topic, event.partition] = event
            case OffsetDeleted():
                self.commits.pop((event.topic, event.partition), None)
            case _ if is_of_streams(event):
                self._fold_streams(event)
            case _:
                self._fold_classic(event)
                self._fold_consumer(event)

    def _fold_streams(self, event: Event) -> None:
        self.turns += 1
        if ends_streams(event):
            self.kind, self.streams = "" if self.kind == "streams" else self.kind, None
            return
        if self.streams is None:
            self._end_classic("streams")
            self.streams = StreamsRecords()
        self.streams.fold(event)

    def _fold_classic(self, event: Event) -> None:
        match event:
            case GroupStored():
                self._store_generation(event)
            case GroupDeleted() if self.kind != "consumer":  # else a tombstone of the classic group that it was
                self.before = {id_: stored for id_, stored in self.members.items() if not self.is_out(id_)}
                self.turns += 1
                self._end_classic("")
            case MemberRemoved():
                self.turns += 1
                self.out.add(event.member_id)
                self.joined.discard(event.member_id)
            case MemberAdded() | MemberRejoined():
                self.turns += 1
                self.joined.add(event.member_id)
                self.out.discard(event.member_id)
            case StaticMemberReplaced():
                self.turns += 1
                self.out.add(event.old_member_id)
                self.joined.discard(event.old_member_id)
                if event.awaits_join:
                    self.joined.add(event.member_id)
            case RoundOpened():
                self.turns += 1
                self.is_gathering = True
            case GatheringFailed():
                self.turns += 1
                self.joined = set()
            case GroupLoaded() | GroupUnloaded():
                self.turns += 1
                self.is_gathering = False

    def _fold_consumer(self, event: Event) -> None:
        match event:
            case ConsumerGroupStored():
                self._become_consumer()
                self.former = {}
                self.epoch = event.epoch
            case ConsumerGroupDeleted() if self.kind == "consumer":
                self.turns += 1
                self.generation = self.epoch  # at which a classic group continues, if this one is converted
                self.natives, self.asker, self.regexes = {}, {}, {}
                self.epoch = self.target_epoch = 0
                self.kind = ""
            case ConsumerMemberStored():
                self.turns += 1
                member = self._native(event.member_id)
                member.instance_id = event.instance_id
                member.names = event.subscribed_topic_names
                member.regex = event.subscribed_topic_regex
            case ConsumerMemberDeleted():
                self.turns += 1
                self.left_behind.discard(event.member_id)
                self._release(event.member_id)
                self.natives.pop(event.member_id, None)
            case TargetStored():
                self.target_epoch = event.epoch
            case TargetDeleted():
                self.target_epoch = -1
            case MemberTargetStored():
                self._native(event.member_id).target = event.target
            case MemberTargetDeleted() if event.member_id in self.natives:
                self.natives[event.member_id].target = NOTHING
            case MemberAssignmentStored():
                self._store_assignment(event)
            case MemberAssignmentDeleted():
                self.turns += 1
                if (known := self.natives.get(event.member_id)) is not None:
                    self.former[event.member_id] = known.assigned
                    self._release(event.member_id)
                    known.epoch, known.assigned, known.owned = 0, frozenset(), {}
            case RegexStored():
                self.regexes[event.regex] = event.topics
            case RegexDeleted():
                self.regexes.pop(event.regex, None)

    def _store_generation(self, event: GroupStored) -> None:
        is_new = event.generation != self.generation
        if is_new:
            self.former = {}
        if not event.is_synced:
            self.left_behind = {stored.member_id for stored in event.members} - self.joined
        elif is_new:
            self.left_behind = set()
        if is_new or not event.is_synced:
            self.joined = set()
        self.kind = "classic"
        self.turns += 1
        self.generation = event.generation
        self.is_synced = event.is_synced
        self.is_gathering = False
        self.members = {stored.member_id: stored for stored in event.members}
        self.left_behind &= self.members.keys()
        self.out.clear()

    def _store_assignment(self, event: MemberAssignmentStored) -> None:
        self.turns += 1
        member = self._native(event.member_id)
        self._release(event.member_id)
        member.epoch = event.epoch
        assigned = epochs_of(event.assigned)
        member.assigned = frozenset(assigned)
        member.owned = {**epochs_of(event.pending), **assigned} if event.pending else assigned
        self.asker.update(dict.fromkeys(member.owned, event.member_id))

    def _end_classic(self, kind: str) -> None:
        self.kind = kind
        self.members = {}
        self.out, self.joined, self.former = set(), set(), {}
        self.is_gathering = False

    def _become_consumer(self) -> None:
        if self.kind != "consumer":
            self._end_classic("consumer")
            self.is_synced = True

    def _native(self, member_id: str) -> Native:
        self._become_consumer()
        return self.natives.setdefault(member_id, Native())

    def _release(self, member_id: str) -> None:
        """Note that a member has nothing any more, of what it was granted or asked for."""
        member = self.natives.get(member_id)
        for place in () if member is None else member.owned:
            if self.asker.get(place) == member_id:
                del self.asker[place]


def epochs_of(topics: tuple[Assigned, ...]) -> dict[Place, int]:
    """Return the epoch in which each partition was assigned."""
    return {
        (topic_id, partition): epoch
        for topic_id, partitions, epochs in topics
        for partition, epoch in zip(partitions, epochs, strict=True)
    }


Hook = Callable[[GroupLedger, Any, Shard], None]
"""Called with the group by the log, the event, and the shard, to which the event has been applied."""


class Ledgers(Checker):
    """The groups by the logs. It must see an event before any checker that asks it."""

    def __init__(self) -> None:
        super().__init__()
        self.groups: defaultdict[str, GroupLedger] = defaultdict(GroupLedger)
        """An empty one for a group that the log does not know."""
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
        self.renewed: set[str] = set()
        """Topics made anew: a position or a commit of the old one may pass for one of the new (docs/gaps.md)."""
        self._before: defaultdict[type[Any], list[Hook]] = defaultdict(list)
        self._after: defaultdict[type[Any], list[Hook]] = defaultdict(list)

    def before(self, event_type: type[Any], hook: Hook) -> None:
        """Call `hook` with each event of a type, before the ledger takes it."""
        self._before[event_type].append(hook)

    def after(self, event_type: type[Any], hook: Hook) -> None:
        """Call `hook` with each event of a type, once the ledger has taken it."""
        self._after[event_type].append(hook)

    def topic_id(self, group_id: str, topic: str) -> bytes:
        """Return the id of a topic as the group's shard sees it, NO_TOPIC_ID for one that does not exist."""
        shard = self.shards.get(group_id)
        found = None if shard is None else shard.settings.image.topic(topic)
        return NO_TOPIC_ID if found is None else found.topic_id

    # -- hooks of the world

    def fault(self, name: str, subject: str, detail: str) -> None:
        """Note topics that are made anew."""
        if name == RENEWAL:
            self.renewed.add(subject)

    def member_started(self, member: SeenMember) -> None:
        self.members[member.name] = member

    def member_ended(self, member: SeenMember, how: str) -> None:
        self.members.pop(member.name, None)
        self.owned.pop(member.name, None)

    def owns(self, member: SeenMember, partitions: Partitions) -> None:
        self.owned[member.name] = partitions

    def node_started(self, node: SeenNode) -> None:
        self.nodes.append(node)

    def node_stopped(self, node: SeenNode, how: str) -> None:
        self.nodes.remove(node)

    def shard_loaded(self, node: SeenNode, hosted: OffsetsPartition) -> None:
        """Begin anew with what the log has."""
        self.loads += 1
        index, count = hosted.partition.index, len(hosted.partition.topic.partitions)
        left = {each: ledger for each, ledger in self.groups.items() if group_partition(each, count) == index}
        for group_id in left:
            del self.groups[group_id]
            self.shards.pop(group_id, None)
        with undisturbed(node):
            events = events_of(hosted.partition)
        for event in events:
            self.groups[event.group_id].fold(event)
        for group_id, before in left.items():
            if group_id in self.groups:
                self.groups[group_id].resume(before)

    def group_event(self, node: SeenNode, shard: Shard, event: Event, now_ms: int) -> None:
        """Call the hooks of its type, and fold it."""
        kind = type(event)
        group_id = event.group_id
        ledger = self.groups[group_id]
        self.shards[group_id] = shard
        for hook in self._before[kind]:
            hook(ledger, event, shard)
        if kind is not OffsetCommitted:
            self.touched[group_id] = shard
        ledger.fold(event)
        for hook in self._after[kind]:
            hook(ledger, event, shard)


def active_in(node: Node | None) -> list[OffsetsPartition]:
    """Return the offsets partitions that a node serves; none before the first request for a group."""
    if node is None or not node.context.has_coordinator:
        return []
    return [hosted for hosted in node.coordinator.partitions if hosted.status is Status.ACTIVE]


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
    """Return what happened by the log of an offsets partition, from its bytes."""
    replay = Replay()
    events = (replay.event_of(record) for record in records_of(partition.log))
    return [event for event in events if event is not None]
