"""A second statement of what the log says of a group: who is in it with which epoch, what each has, what is committed.

It is folded from the same events as `group/shard`, by other code that was written to be read, not to be fast, and that
knows nothing of how decisions are made. Of soft events it takes only who is out, who has joined the round that gathers,
and whose id was issued. Whatever is soft is forgotten when a shard is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kohort.group.consumer.events import (
    ConsumerGroupDeleted,
    ConsumerGroupStored,
    ConsumerMemberDeleted,
    ConsumerMemberStored,
    Held,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberState,
    MemberTargetDeleted,
    MemberTargetStored,
    RegexDeleted,
    RegexStored,
    TargetDeleted,
    TargetStored,
)
from kohort.group.events import (
    Event,
    GatheringFailed,
    GroupDeleted,
    GroupLoaded,
    GroupStored,
    GroupUnloaded,
    MemberAdded,
    MemberRejoined,
    MemberRemoved,
    OffsetCommitted,
    OffsetDeleted,
    RoundOpened,
    StaticMemberReplaced,
    StoredMember,
)
from kohort.model.id_partitions import NOTHING, IdPartitions

Place = tuple[bytes, int]
"""A partition by its topic's id."""

AWAY = -2
"""The epoch of a static member that said it would come back."""


class Native:
    """What the records say of one member of a consumer group; `held` has the epoch in which each partition came."""

    __slots__ = ("assigned", "epoch", "held", "instance_id", "is_classic", "names", "regex", "state", "target")

    def __init__(self) -> None:
        self.instance_id: str | None = None
        self.is_classic = False
        self.names: tuple[str, ...] = ()
        self.regex = ""
        self.epoch = 0
        self.state = MemberState.STABLE
        self.assigned: frozenset[Place] = frozenset()
        self.held: dict[Place, int] = {}
        self.target: IdPartitions = NOTHING


class GroupLedger:
    """What is known of one group. `kind` is empty for a group that has offsets only."""

    __slots__ = (
        "asker",
        "before",
        "commits",
        "epoch",
        "former",
        "generation",
        "is_gathering",
        "is_synced",
        "joined",
        "kind",
        "left_behind",
        "members",
        "natives",
        "out",
        "regexes",
        "target_epoch",
        "turns",
    )

    def __init__(self) -> None:
        self.kind = ""
        self.turns = 0
        """How often anything changed that says who may commit."""
        self.commits: dict[tuple[str, int], OffsetCommitted] = {}
        # a classic group
        self.generation = 0
        self.is_synced = True
        self.members: dict[str, StoredMember] = {}
        self.out: set[str] = set()
        """Who was put out since the generation was stored."""
        self.joined: set[str] = set()
        """Whose JoinGroup came for the round that gathers."""
        self.left_behind: set[str] = set()
        """Static members that did not join a generation and stay in it: they know nothing of it until they ask."""
        self.is_gathering = False
        self.former: dict[str, frozenset[Place]] = {}
        """What the members of the consumer group that this was until now were granted."""
        self.before: dict[str, StoredMember] = {}
        """The members of the classic group that this was, but for those it had left behind."""
        # a consumer group
        self.epoch = 0
        self.target_epoch = 0
        self.natives: dict[str, Native] = {}
        self.asker: dict[Place, str] = {}
        """Who has a partition, granted or asked back."""
        self.regexes: dict[str, tuple[str, ...]] = {}

    def is_out(self, member_id: str) -> bool:
        """Whether a member was put out or left behind, or has left for a while: it may not know what holds now."""
        if member_id in self.left_behind:
            return True
        if self.kind == "consumer":
            member = self.natives.get(member_id)
            return member is None or member.epoch == AWAY
        if member_id in self.out:
            return True
        return member_id not in self.members and member_id not in self.joined

    def hear(self, member_id: str, epoch: int) -> None:
        """Note that a member shows a generation or epoch: if it is the log's, it was told, and is not left behind."""
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
            return f"{member_id} was put out"
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

    def take(self, event: Event) -> None:
        """Fold one event."""
        fold = _FOLDS.get(type(event))
        if fold is not None:
            fold(self, event)


# -- folding


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


def _put_out(group: GroupLedger, event: MemberRemoved) -> None:
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
    MemberRemoved: _put_out,
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
