"""Fold one event into a consumer group. Nothing else may change a group or a member.

The same function serves a live coordinator and the replay of its log, and a log may have been compacted: of one key
only the last record is sure to be there. So what a record has of its own key is taken as it stands, whatever came
before, and nothing is expected of other keys:

 - What a member owns may be known before what it subscribes to. It is in the group from the first record of it.
 - A partition may be granted to one member before the record by which another released it. The later record is the
   truth, so the partition's owner is the member that had it by the last record, and to release what another has does
   nothing (KAFKA-19862, KAFKA-16147).
 - A tombstone of what is not known means nothing.
"""

from __future__ import annotations

from collections import Counter

from kohort.group.consumer.group import FIRST_EPOCH, ConsumerGroup, ConsumerMember, retry_after_ms
from kohort.group.events import (
    Assigned,
    ClassicJoinAnswered,
    ClassicJoinParked,
    ClassicPhase,
    ConsumerGroupStored,
    ConsumerHardEvent,
    ConsumerMemberDeleted,
    ConsumerMemberOut,
    ConsumerMemberStored,
    GroupConverted,
    GroupLoaded,
    GroupUnloaded,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberState,
    MemberTargetDeleted,
    MemberTargetStored,
    PartitionMetadataDeleted,
    PartitionMetadataStored,
    RegexDeleted,
    RegexStored,
    SoftEvent,
    TargetDeleted,
    TargetFailed,
    TargetStored,
    TargetTimed,
)
from kohort.model.assignment import NOTHING, IdPartitions
from kohort.model.cause import CauseKind


def apply(group: ConsumerGroup, event: ConsumerHardEvent | SoftEvent) -> None:
    """Change `group` by what happened. Raises AssertionError when the event cannot follow on the group's state."""
    match event:
        case MemberAssignmentStored():
            _store_assignment(group, event)
        case MemberTargetStored(member_id=member_id, target=target):
            _set_target(group, _member(group, member_id), target)
        case TargetStored(epoch=epoch, timestamp_ms=timestamp_ms):
            _store_target(group, epoch, timestamp_ms)
        case ConsumerGroupStored(epoch=epoch, metadata_hash=metadata_hash, cause=cause):
            # A log that was read while it was cleaned may have a group of before, and not that it was deleted.
            is_read = cause.kind is CauseKind.COORDINATOR_LOADED
            assert is_read or epoch >= group.epoch or group.epoch == FIRST_EPOCH, f"{group.group_id}: epochs only grow"
            group.epoch, group.metadata_hash, group.epoch_cause = epoch, metadata_hash, cause
        case ConsumerMemberStored():
            _store_member(group, event)
        case ConsumerMemberDeleted(member_id=member_id):
            _delete_member(group, member_id)
        case MemberAssignmentDeleted(member_id=member_id):
            _delete_assignment(group, member_id)
        case MemberTargetDeleted(member_id=member_id):
            if (member := group.members.get(member_id)) is not None:
                _set_target(group, member, NOTHING)
        case TargetDeleted():
            _store_target(group, -1, 0)
        case RegexStored(regex=regex):
            group.regexes[regex] = event
        case RegexDeleted(regex=regex):
            group.regexes.pop(regex, None)
        case TargetFailed(message=message, cause=cause):
            group.target_retry_ms = cause.at_ms + retry_after_ms(group.target_failures)
            group.target_failure = message
            group.target_failures += 1
            group.failed_epoch = group.epoch
        case TargetTimed(cost_us=cost_us):
            group.target_cost_us = cost_us
        case ClassicJoinParked(member_id=member_id):
            group.awaiting_join.add(member_id)
        case ClassicJoinAnswered(member_id=member_id):
            group.awaiting_join.discard(member_id)
        case GroupUnloaded():
            group.is_dead = True
            group.awaiting_join.clear()
        case PartitionMetadataStored():
            group.has_partition_metadata = True
        case PartitionMetadataDeleted():
            group.has_partition_metadata = False
        case ConsumerMemberOut() | GroupConverted() | GroupLoaded():
            pass  # for people


def _member(group: ConsumerGroup, member_id: str) -> ConsumerMember:
    member = group.members.get(member_id)
    if member is None:
        member = group.members[member_id] = ConsumerMember(group.group_id, member_id)
        _update_unsettled(group, member)
    return member


def _update_unsettled(group: ConsumerGroup, member: ConsumerMember) -> None:
    if member.epoch == group.assignment_epoch and member.state is MemberState.STABLE:
        group.unsettled.discard(member.member_id)
    else:
        group.unsettled.add(member.member_id)


def _store_member(group: ConsumerGroup, event: ConsumerMemberStored) -> None:
    member = _member(group, event.member_id)
    if member.is_stored:
        _uncount(group, member)
    member.store(event)
    if event.classic is None:
        member.classic_phase = ClassicPhase.STABLE
    _count(group, member)


def _count(group: ConsumerGroup, member: ConsumerMember) -> None:
    if member.instance_id is not None:
        group.static_members[member.instance_id] = member.member_id
    for name in member.subscribed_topic_names:
        group.subscribers[name] += 1
        if group.subscribers[name] == 1:
            group.followers.setdefault(name, set()).add(group.group_id)
    if member.subscribed_topic_regex:
        group.regex_subscribers[member.subscribed_topic_regex] += 1
    if member.server_assignor is not None:
        group.assignors[member.server_assignor] += 1
    group.natives += member.classic is None
    if member.classic is not None:
        group.classic_protocols.update({name for name, _ in member.classic.protocols})


def _uncount(group: ConsumerGroup, member: ConsumerMember) -> None:
    if member.instance_id is not None and group.static_members.get(member.instance_id) == member.member_id:
        del group.static_members[member.instance_id]
    for name in member.subscribed_topic_names:
        if _decrease(group.subscribers, name):
            following = group.followers[name]
            following.discard(group.group_id)
            if not following:
                del group.followers[name]
    if member.subscribed_topic_regex:
        _decrease(group.regex_subscribers, member.subscribed_topic_regex)
    if member.server_assignor is not None:
        _decrease(group.assignors, member.server_assignor)
    if member.classic is None:
        group.natives -= 1
    else:
        for name in {name for name, _ in member.classic.protocols}:
            _decrease(group.classic_protocols, name)


def _decrease(counts: Counter[str], key: str) -> bool:
    """Count one less; return whether none is left."""
    counts[key] -= 1
    if counts[key]:
        return False
    del counts[key]
    return True


def _delete_member(group: ConsumerGroup, member_id: str) -> None:
    member = group.members.get(member_id)
    if member is None:
        return
    if member.is_stored:
        _uncount(group, member)
    _release(group, member)
    _set_target(group, member, NOTHING)
    group.unsettled.discard(member_id)
    group.awaiting_join.discard(member_id)
    del group.members[member_id]


def _store_assignment(group: ConsumerGroup, event: MemberAssignmentStored) -> None:
    member = _member(group, event.member_id)
    _hand_over(group, member, event.assigned, event.pending)
    member.epoch = event.epoch
    member.previous_epoch = event.previous_epoch
    member.state = event.state
    member.classic_phase = event.classic_phase
    _update_unsettled(group, member)


def _hand_over(
    group: ConsumerGroup, member: ConsumerMember, assigned: tuple[Assigned, ...], pending: tuple[Assigned, ...]
) -> None:
    """Let a member have these partitions, granted or asked back, and no others."""
    if member.assigned != assigned or member.pending != pending:
        _release(group, member)
    member.assigned = assigned
    member.pending = pending
    for topic in (*assigned, *pending):
        group.owners.setdefault(topic.topic_id, {}).update(dict.fromkeys(topic.partitions, member.member_id))


def _delete_assignment(group: ConsumerGroup, member_id: str) -> None:
    member = group.members.get(member_id)
    if member is None:
        return
    _release(group, member)
    member.epoch = member.previous_epoch = 0
    member.state = MemberState.STABLE
    member.assigned = member.pending = ()
    member.classic_phase = ClassicPhase.STABLE
    _update_unsettled(group, member)


def _release(group: ConsumerGroup, member: ConsumerMember) -> None:
    for topic in (*member.assigned, *member.pending):
        _drop(group.owners, topic, member.member_id)


def _drop(index: dict[bytes, dict[int, str]], topic: Assigned | tuple[bytes, tuple[int, ...]], member_id: str) -> None:
    """Take partitions of one topic from a member in an index, but for those that are another's by now."""
    topic_id, partitions = topic[0], topic[1]
    of_topic = index.get(topic_id)
    if of_topic is None:
        return
    for partition in partitions:
        if of_topic.get(partition) == member_id:
            del of_topic[partition]
    if not of_topic:
        del index[topic_id]


def _set_target(group: ConsumerGroup, member: ConsumerMember, target: IdPartitions) -> None:
    for topic in member.target:
        _drop(group.claims, topic, member.member_id)
    member.target = target
    for topic_id, partitions in target:
        group.claims.setdefault(topic_id, {}).update(dict.fromkeys(partitions, member.member_id))


def _store_target(group: ConsumerGroup, epoch: int, timestamp_ms: int) -> None:
    group.assignment_epoch = epoch
    group.assignment_timestamp_ms = timestamp_ms
    group.target_failure = None
    group.target_failures = group.target_retry_ms = group.failed_epoch = 0
    group.unsettled = {
        member_id
        for member_id, member in group.members.items()
        if member.epoch != epoch or member.state is not MemberState.STABLE
    }
