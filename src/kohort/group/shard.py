"""One partition of `__consumer_offsets` as state: its groups, and what they committed.

`apply` folds one event; nothing else changes a shard. So a shard is a function of its log, whichever process folds it:
a live coordinator, one that takes over, a test. What events there are to be is decided in `decisions`.

Offsets committed in a transaction that is still open (KIP-447) take effect at its end, or never. They lose against what
was committed after them, whether plainly or by a transaction that ended first: the order is that of the records, as in
Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass

from kohort.group.classic import apply as classic_apply
from kohort.group.classic.group import ClassicGroup
from kohort.group.consumer import apply as consumer_apply
from kohort.group.consumer.group import ConsumerGroup
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.events import (
    ConsumerGroupDeleted,
    ConsumerHardEvent,
    ConsumerMemberDeleted,
    ConsumerMemberStored,
    Event,
    GroupConverted,
    GroupDeleted,
    GroupStored,
    JoinRefused,
    MemberAssignmentDeleted,
    MemberTargetDeleted,
    OffsetCommitted,
    OffsetDeleted,
    OffsetPending,
    OffsetsTransactionEnded,
    PartitionMetadataDeleted,
    RegexDeleted,
    RoundAnnounced,
    TargetDeleted,
)
from kohort.group.streams import apply as streams_apply
from kohort.group.streams.events import (
    StreamsGroupDeleted,
    StreamsHardEvent,
    StreamsMemberAssignmentDeleted,
    StreamsMemberDeleted,
    StreamsMemberTargetDeleted,
    StreamsTargetDeleted,
    StreamsTopologyDeleted,
)
from kohort.group.streams.group import StreamsGroup

Key = tuple[str, str, int]
"""Group, topic and partition."""


def key_of(event: OffsetCommitted) -> Key:
    """Return what an offset was committed for."""
    return event.group_id, event.topic, event.partition


@dataclass(slots=True)
class _Pending:
    event: OffsetCommitted
    order: int
    is_superseded: bool


class PendingOffsets:
    """The pending offsets of one offsets partition, by producer id."""

    __slots__ = ("_by_producer", "_count", "_of_groups")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[Key, _Pending]] = {}
        self._of_groups: dict[str, set[int]] = {}
        """By group, the producers with an open transaction that commits its offsets."""
        self._count = 0

    def __len__(self) -> int:
        """The number of producers."""
        return len(self._by_producer)

    def has_group(self, group_id: str) -> bool:
        """Whether an open transaction commits offsets of a group."""
        return group_id in self._of_groups

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether the offset of a partition is not known before an open transaction ends (`RequireStable`)."""
        key = group_id, topic, partition
        return any(key in self._by_producer[each] for each in self._of_groups.get(group_id, ()))

    def of_group(self, group_id: str) -> list[OffsetCommitted]:
        """Return a group's pending offsets."""
        producers = sorted(self._of_groups.get(group_id, ()))
        return [
            pending.event
            for each in producers
            for pending in self._by_producer[each].values()
            if pending.event.group_id == group_id
        ]

    def add(self, producer_id: int, event: OffsetCommitted, *, is_superseded: bool = False) -> None:
        """An offset was committed in a producer's transaction."""
        self._count += 1
        key = key_of(event)
        self._by_producer.setdefault(producer_id, {})[key] = _Pending(event, self._count, is_superseded)
        self._of_groups.setdefault(event.group_id, set()).add(producer_id)

    def committed(self, event: OffsetCommitted) -> None:
        """An offset was committed plainly: pending ones of before do not count any more."""
        self.forgotten(event.group_id, event.topic, event.partition)

    def forgotten(self, group_id: str, topic: str, partition: int) -> None:
        """The offset of a partition was deleted: the same."""
        self._supersede((group_id, topic, partition), self._count)

    def end(self, producer_id: int, *, is_commit: bool) -> list[OffsetCommitted]:
        """A producer's transaction has ended: return the offsets that take effect."""
        ended = self._by_producer.pop(producer_id, {})
        for group_id in {group_id for group_id, _, _ in ended}:
            producers = self._of_groups[group_id]
            producers.discard(producer_id)
            if not producers:
                del self._of_groups[group_id]
        if not is_commit:
            return []
        effective = [pending for pending in ended.values() if not pending.is_superseded]
        for pending in effective:
            self._supersede(key_of(pending.event), pending.order)
        return [pending.event for pending in effective]

    def _supersede(self, key: Key, order: int) -> None:
        for producer_id in self._of_groups.get(key[0], ()):
            pending = self._by_producer[producer_id].get(key)
            if pending is not None and pending.order <= order:
                pending.is_superseded = True


Offsets = dict[tuple[str, int], OffsetCommitted]
"""The committed offsets of one group, by topic and partition."""

Group = ClassicGroup | ConsumerGroup | StreamsGroup

_TOMBSTONES = (
    ConsumerMemberDeleted,
    MemberAssignmentDeleted,
    MemberTargetDeleted,
    PartitionMetadataDeleted,
    RegexDeleted,
    TargetDeleted,
    StreamsMemberDeleted,
    StreamsMemberAssignmentDeleted,
    StreamsMemberTargetDeleted,
    StreamsTargetDeleted,
    StreamsTopologyDeleted,
)


class Shard:
    """The groups of one offsets partition and what they committed.

    `pending` are the offsets of open transactions. `followers` are the consumer groups that subscribe to a topic by its
    name, and the streams groups whose topology has it, `regex_followers` those that subscribe with an expression, which
    may match any.
    """

    __slots__ = ("followers", "groups", "offsets", "pending", "regex_followers", "settings")

    def __init__(self, settings: GroupSettings) -> None:
        self.settings = settings
        self.groups: dict[str, Group] = {}
        self.offsets: dict[str, Offsets] = {}
        self.pending = PendingOffsets()
        self.followers: dict[str, set[str]] = {}
        self.regex_followers: set[str] = set()

    def classic_group(self, group_id: str) -> ClassicGroup:
        """Return a group that must be a classic one."""
        group = self.groups[group_id]
        assert isinstance(group, ClassicGroup), "rounds are for classic groups"
        return group


def apply(shard: Shard, event: Event | OffsetsTransactionEnded) -> None:
    """Change the shard by what happened."""
    if type(event) is OffsetCommitted:
        _commit(shard, event)
        if shard.pending:
            shard.pending.committed(event)
        return
    match event:
        case OffsetPending():
            shard.pending.add(event.producer_id, event.committed, is_superseded=event.is_superseded)
            _commits_to(shard, event.group_id)
        case OffsetsTransactionEnded():
            for committed in shard.pending.end(event.producer_id, is_commit=event.is_commit):
                _commit(shard, committed)
        case OffsetDeleted():
            _forget_offset(shard, event)
        case GroupDeleted():
            _delete_group(shard, event.group_id)
        case GroupStored():
            classic_apply.apply(_classic_group(shard, event.group_id), event)
        case JoinRefused() | RoundAnnounced():
            pass  # whose group need not even exist
        case ConsumerGroupDeleted():
            _delete_consumer_group(shard, event.group_id)
        case _ if isinstance(event, ConsumerHardEvent):
            _apply_consumer(shard, event)
        case StreamsGroupDeleted():
            _delete_streams_group(shard, event)
        case _ if isinstance(event, StreamsHardEvent):
            if (streams := _streams_group(shard, event)) is not None:
                streams_apply.apply(streams, event)
        case _:
            group = shard.groups.get(event.group_id)
            if isinstance(group, ConsumerGroup):
                consumer_apply.apply(group, event)  # type: ignore[arg-type]
            elif isinstance(group, StreamsGroup):
                streams_apply.apply(group, event)  # type: ignore[arg-type]
            elif not isinstance(event, GroupConverted):
                classic_apply.apply(shard.groups[event.group_id], event)  # type: ignore[arg-type]


def _type_of(group: Group | None) -> str:
    return type(group).__name__.removesuffix("Group").lower()


def _classic_group(shard: Shard, group_id: str) -> ClassicGroup:
    """Return the classic group of that id, a new one if there is none or an empty consumer group."""
    group = shard.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return group
    assert group is None or not group.members, (
        f"{group_id}: a {_type_of(group)} group with members becomes no classic one"
    )
    shard.regex_followers.discard(group_id)
    group = shard.groups[group_id] = ClassicGroup(group_id)
    return group


def _apply_consumer(shard: Shard, event: ConsumerHardEvent) -> None:
    group = _consumer_group(shard, event)
    if group is None:
        return
    consumer_apply.apply(group, event)
    if isinstance(event, ConsumerMemberStored | ConsumerMemberDeleted):
        if group.regex_subscribers:
            shard.regex_followers.add(event.group_id)
        else:
            shard.regex_followers.discard(event.group_id)


def _consumer_group(shard: Shard, event: ConsumerHardEvent) -> ConsumerGroup | None:
    """Return the consumer group of an event, made if there is none; None for a tombstone of what is not there."""
    group_id = event.group_id
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if isinstance(event, _TOMBSTONES):
        return None
    # The record that made a classic group give way may have been compacted away, but not one of a member.
    assert group is None or not group.members, (
        f"{group_id}: a {_type_of(group)} group with members becomes no consumer one"
    )
    group = shard.groups[group_id] = ConsumerGroup(group_id, shard.followers)
    return group


def _streams_group(shard: Shard, event: StreamsHardEvent) -> StreamsGroup | None:
    """Return the streams group of an event, made if there is none; None for a tombstone of what is not there."""
    group = shard.groups.get(event.group_id)
    if isinstance(group, StreamsGroup):
        return group
    if isinstance(event, _TOMBSTONES):
        return None
    group_id = event.group_id
    assert group is None or not group.members, (
        f"{group_id}: a {_type_of(group)} group with members becomes no streams one"
    )
    made = shard.groups[group_id] = StreamsGroup(group_id, shard.followers)
    return made


def _delete_streams_group(shard: Shard, event: StreamsGroupDeleted) -> None:
    group = shard.groups.get(event.group_id)
    if isinstance(group, StreamsGroup):
        assert not group.members, f"{event.group_id}: a group with members is not deleted"
        streams_apply.apply(group, StreamsTopologyDeleted(event.group_id, event.cause))
        _remove(shard, event.group_id)


def _delete_consumer_group(shard: Shard, group_id: str) -> None:
    group = shard.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        assert not group.members, f"{group_id}: a group with members is not deleted"
        shard.regex_followers.discard(group_id)
        _remove(shard, group_id)


def _commit(shard: Shard, event: OffsetCommitted) -> None:
    group_id = event.group_id
    offsets = shard.offsets.get(group_id)
    if offsets is None:
        offsets = shard.offsets[group_id] = {}
        _commits_to(shard, group_id)
    offsets[event.topic, event.partition] = event


def _commits_to(shard: Shard, group_id: str) -> None:
    """Make the group of an offset, if there is none: it exists for its offsets then."""
    if group_id not in shard.groups:
        shard.groups[group_id] = ClassicGroup(group_id)


def _forget_offset(shard: Shard, event: OffsetDeleted) -> None:
    shard.pending.forgotten(event.group_id, event.topic, event.partition)
    offsets = shard.offsets.get(event.group_id, {})
    offsets.pop((event.topic, event.partition), None)
    if offsets:
        return
    shard.offsets.pop(event.group_id, None)
    group = shard.groups.get(event.group_id)
    if isinstance(group, ClassicGroup) and group.is_simple and not group.is_stored:
        # It existed only for its offsets: a compacted log would not know it any more, so neither do we.
        del shard.groups[event.group_id]


def _delete_group(shard: Shard, group_id: str) -> None:
    if isinstance(shard.groups.get(group_id), ClassicGroup | None):
        _remove(shard, group_id)


def _remove(shard: Shard, group_id: str) -> None:
    shard.groups.pop(group_id, None)
    if group_id in shard.offsets:
        # Only a replay sees offsets outlive their group's record.
        shard.groups[group_id] = ClassicGroup(group_id)


def followers_of(shard: Shard, topic: str) -> list[str]:
    """Return the groups to which a change of a topic may matter, by id."""
    return sorted(shard.followers.get(topic, set()) | shard.regex_followers)
