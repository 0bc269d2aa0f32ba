"""How a log was read when it was read too strictly: each a context in which a compacted log does not load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from tests.quality.replacing import replaced

from kohort.group import shard as shard_module
from kohort.group.classic.group import ClassicGroup
from kohort.group.consumer import apply as consumer_apply
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember
from kohort.group.events import Assigned, ConsumerHardEvent
from kohort.group.shard import Shard
from kohort.group.streams.events import StreamsHardEvent
from kohort.group.streams.group import StreamsGroup
from kohort.log.group_records import LOADED
from kohort.model.assignment import each

Mutation = AbstractContextManager[None]


@contextmanager
def kafka_17306() -> Iterator[None]:
    """A tombstone of a group or a member that is not there is an error."""
    right = shard_module._consumer_group

    def consumer_group(shard: Shard, event: ConsumerHardEvent) -> ConsumerGroup | None:
        group = right(shard, event)
        assert group is not None or event.cause is not LOADED, f"consumer group {event.group_id} not found"
        return group

    with ExitStack() as mutations:
        mutations.enter_context(replaced(shard_module, "_consumer_group", consumer_group))
        for name in ("_delete_member", "_delete_assignment"):
            mutations.enter_context(replaced(consumer_apply, name, _of_members_only(getattr(consumer_apply, name))))
        yield


def _of_members_only(right: Any) -> Any:
    def delete(group: ConsumerGroup, member_id: str) -> None:
        assert member_id in group.members, f"member {member_id} is not a member of group {group.group_id}"
        right(group, member_id)

    return delete


@contextmanager
def kafka_19862() -> Iterator[None]:
    """A partition is given only if it has no owner, and taken only from its owner."""

    def release(group: ConsumerGroup, member: ConsumerMember) -> None:
        for topic_id, partition in _partitions(member.assigned, member.pending):
            holder = group.owners.get(topic_id, {}).get(partition)
            assert holder == member.member_id, f"cannot take {partition} from {member.member_id}: {holder} has it"
        for held in (*member.assigned, *member.pending):
            consumer_apply._drop(group.owners, held, member.member_id)

    def hand_over(group: ConsumerGroup, member: ConsumerMember, assigned: Any, pending: Any) -> None:
        release(group, member)
        member.assigned, member.pending = assigned, pending
        for topic_id, partition in _partitions(assigned, pending):
            holder = group.owners.get(topic_id, {}).get(partition)
            assert holder is None, f"cannot give {partition} to {member.member_id}: {holder} has it"
            group.owners.setdefault(topic_id, {})[partition] = member.member_id

    with ExitStack() as mutations:
        mutations.enter_context(replaced(consumer_apply, "_release", release))
        mutations.enter_context(replaced(consumer_apply, "_hand_over", hand_over))
        yield


def _partitions(*held: tuple[Assigned, ...]) -> Iterator[tuple[bytes, int]]:
    for part in held:
        yield from each(tuple((topic.topic_id, topic.partitions) for topic in part))


@contextmanager
def kafka_20254() -> Iterator[None]:
    """A group that is known by its offsets alone is a classic one for good."""
    with _without_classic_groups(is_simple=True):
        right = shard_module._streams_group

        def streams_group(shard: Shard, event: StreamsHardEvent) -> StreamsGroup | None:
            _demand_no_classic_group(shard, event, is_simple=True)
            return right(shard, event)

        with replaced(shard_module, "_streams_group", streams_group):
            yield


def kafka_21117() -> Mutation:
    """A record of a consumer group under the name of a classic group is an error."""
    return _without_classic_groups(is_simple=False)


def _without_classic_groups(*, is_simple: bool) -> Mutation:
    right = shard_module._consumer_group

    def consumer_group(shard: Shard, event: ConsumerHardEvent) -> ConsumerGroup | None:
        _demand_no_classic_group(shard, event, is_simple=is_simple)
        return right(shard, event)

    return replaced(shard_module, "_consumer_group", consumer_group)


def _demand_no_classic_group(shard: Shard, event: ConsumerHardEvent | StreamsHardEvent, *, is_simple: bool) -> None:
    group = shard.groups.get(event.group_id)
    if isinstance(group, ClassicGroup) and event.cause is LOADED:
        assert group.is_simple is not is_simple, f"group {event.group_id} is of another type"
