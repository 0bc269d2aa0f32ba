"""Committed offsets: what is stored, what is deleted and when, and which member may commit and fetch.

An offset is stored as the event that committed it. Groups of both types have theirs in the shard, so that they outlive
a change of the group's type. A classic group takes commits of its generation. A consumer group takes those of a
member's epoch, and of an older one for partitions that the member has owned since then or before (KIP-1251): a commit
that was under way when the epoch rose is not lost. What comes from outside a group (no generation, no member) is for
groups without members.
"""

from __future__ import annotations

from collections.abc import Iterable

from kohort.group.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, Phase, identity_error
from kohort.group.commands import CommitOffsets, DeleteGroup, DeleteOffsets, ExpireOffsets, ForgetTopic, GrowTopic
from kohort.group.consumer import exit as consumer_exit
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.effects import Append, Arm, Disarm, Effect, Effects, Reply
from kohort.group.events import GroupDeleted, OffsetCommitted, OffsetDeleted, OffsetPending
from kohort.group.group_timers import session_timer
from kohort.group.results import CommitResult, DeleteGroupResult, DeleteOffsetsResult
from kohort.group.shard import Group, Shard
from kohort.group.streams import exit as streams_exit
from kohort.group.streams.group import StreamsGroup, StreamsMember
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode
from kohort.model.ids import NO_TOPIC_ID

_COMMITTED = CommitResult(ErrorCode.NONE)


def decide_commit(shard: Shard, command: CommitOffsets, now_ms: int) -> Effects:
    """Store a batch of offsets. Runs often: it returns a list.

    In a classic group a plain commit counts as a sign of life, one in a transaction does not.
    """
    group_id = command.group_id
    group: Group | None = shard.groups.get(group_id)
    error = commit_error(group, command, shard.settings)
    if error:
        return [Reply(CommitResult(error))]
    longest = shard.settings.offset_metadata_max_bytes
    expire_ms = -1 if command.retention_ms < 0 else now_ms + command.retention_ms
    effects: list[Effect] = []
    too_large: list[tuple[str, int]] = []
    member_id = command.member_id
    for topic, partition, offset, leader_epoch, metadata, topic_id in command.offsets:
        if len(metadata) > longest:
            too_large.append((topic, partition))
            continue
        event = OffsetCommitted(
            group_id, topic, partition, offset, leader_epoch, metadata, now_ms, expire_ms, topic_id, member_id
        )
        effects.append(Append(event if command.producer is None else OffsetPending(*command.producer, event)))
    effects.append(Reply(CommitResult(ErrorCode.NONE, tuple(too_large)) if too_large else _COMMITTED))
    if member_id and command.producer is None and type(group) is ClassicGroup:
        member = group.members.get(member_id)
        if member is not None:
            effects.append(Arm(member.session, now_ms + member.session_timeout_ms))
    return effects


def fetch_offset(shard: Shard, group_id: str, topic: str, partition: int, topic_id: bytes) -> OffsetCommitted | None:
    """Return the committed offset of a partition, or None.

    An offset of another topic id belongs to a topic of that name that was deleted, and does not count.
    """
    committed = shard.offsets.get(group_id, {}).get((topic, partition))
    if committed is None:
        return None
    is_other_topic = topic_id not in (NO_TOPIC_ID, committed.topic_id) and committed.topic_id != NO_TOPIC_ID
    return None if is_other_topic else committed


def decide_delete_offsets(shard: Shard, command: DeleteOffsets, now_ms: int) -> Effects:
    """Forget offsets of partitions that no member reads."""
    if not command.group_id:
        yield Reply(DeleteOffsetsResult(ErrorCode.INVALID_GROUP_ID))
        return
    group: Group | None = shard.groups.get(command.group_id)
    if group is None or _is_dead(group):
        yield Reply(DeleteOffsetsResult(ErrorCode.GROUP_ID_NOT_FOUND))
        return
    if not _is_empty(group) and isinstance(group, ClassicGroup) and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        yield Reply(DeleteOffsetsResult(ErrorCode.NON_EMPTY_GROUP))
        return
    subscribed = subscribed_among({topic for topic, _ in command.partitions}, group, shard.settings)
    cause = Cause(CauseKind.ADMIN_REQUEST, now_ms)
    offsets = shard.offsets.get(command.group_id, {})
    for topic, partition in dict.fromkeys(command.partitions):
        if topic not in subscribed and (topic, partition) in offsets:
            yield Append(OffsetDeleted(command.group_id, topic, partition, cause))
    yield Reply(DeleteOffsetsResult(ErrorCode.NONE, frozenset(subscribed)))


def decide_delete_group(shard: Shard, command: DeleteGroup, now_ms: int) -> Effects:
    """Delete an empty group and everything it committed."""
    group: Group | None = shard.groups.get(command.group_id)
    if group is None or _is_dead(group):
        yield Reply(DeleteGroupResult(ErrorCode.GROUP_ID_NOT_FOUND))
    elif not _is_empty(group):
        yield Reply(DeleteGroupResult(ErrorCode.NON_EMPTY_GROUP))
    else:
        cause = Cause(CauseKind.ADMIN_REQUEST, now_ms)
        pending = {(each.topic, each.partition) for each in shard.pending.of_group(command.group_id)}
        for topic, partition in sorted(pending.union(shard.offsets.get(command.group_id, {}))):
            yield Append(OffsetDeleted(command.group_id, topic, partition, cause))
        yield from _delete(group, cause)
        yield Reply(DeleteGroupResult(ErrorCode.NONE))


def decide_expiry(shard: Shard, command: ExpireOffsets, now_ms: int) -> Effects:
    """Forget offsets that no member has needed for their retention, and a group that then has nothing left."""
    group: Group | None = shard.groups.get(command.group_id)
    if group is None or _is_dead(group):
        return
    offsets = shard.offsets.get(command.group_id, {})
    pending = shard.pending
    expired = [
        key
        for key, committed in sorted(offsets.items())
        if _is_expired(group, committed, now_ms, shard.settings) and not pending.is_pending(command.group_id, *key)
    ]
    cause = Cause(CauseKind.OFFSETS_EXPIRED, now_ms)
    for topic, partition in expired:
        yield Append(OffsetDeleted(command.group_id, topic, partition, cause))
    is_awaited = isinstance(group, ClassicGroup) and group.pending
    is_needed = is_awaited or pending.has_group(command.group_id)
    if _is_empty(group) and not is_needed and len(expired) == len(offsets):
        yield from _delete(group, cause)


def decide_forget_topic(shard: Shard, command: ForgetTopic, now_ms: int) -> Effects:
    """Forget what was committed for a topic that is deleted."""
    cause = Cause(CauseKind.TOPIC_DELETED, now_ms, detail=command.topic)
    for topic, partition in sorted(shard.offsets.get(command.group_id, {})):
        if topic == command.topic:
            yield Append(OffsetDeleted(command.group_id, topic, partition, cause))


def decide_grow_topic(shard: Shard, command: GrowTopic, now_ms: int) -> Effects:
    """Commit the first offset of new partitions for a group that reads their topic.

    With `auto.offset.reset=latest` a client would begin at their end, when it notices them (KIP-1327). A group without
    members reads the topics that it has committed offsets of, unless it was never more than offsets.
    """
    group: Group | None = shard.groups.get(command.group_id)
    if group is None or _is_dead(group) or (isinstance(group, ClassicGroup) and group.is_simple):
        return
    committed = shard.offsets.get(command.group_id, {})
    if _is_empty(group):
        reads_topic = any(topic == command.topic for topic, _ in committed)
    else:
        reads_topic = bool(subscribed_among({command.topic}, group, shard.settings))
    if not reads_topic:
        return
    for partition in range(command.first, command.end):
        if (command.topic, partition) not in committed:
            event = OffsetCommitted(command.group_id, command.topic, partition, 0, -1, "", now_ms, -1, command.topic_id)
            yield Append(event)


def _is_dead(group: Group) -> bool:
    return group.phase is Phase.DEAD if isinstance(group, ClassicGroup) else group.is_dead


def _is_empty(group: Group) -> bool:
    return group.phase is Phase.EMPTY if isinstance(group, ClassicGroup) else not group.members


def _delete(group: Group, cause: Cause) -> Iterable[Effect]:
    if isinstance(group, ConsumerGroup):
        yield from consumer_exit.delete_effects(group, cause)
        return
    if isinstance(group, StreamsGroup):
        yield from streams_exit.delete_effects(group, cause)
        return
    for member_id in sorted(group.pending):
        yield Disarm(session_timer(group.group_id, member_id))
    yield Append(GroupDeleted(group.group_id, cause))


def _is_expired(group: Group, committed: OffsetCommitted, now_ms: int, settings: GroupSettings) -> bool:
    since_ms = _unneeded_since(group, committed, settings)
    if since_ms is None:
        return False
    if committed.expire_ms >= 0:
        return now_ms >= committed.expire_ms
    return now_ms - since_ms >= settings.offsets_retention_ms


def _unneeded_since(group: Group, committed: OffsetCommitted, settings: GroupSettings) -> int | None:
    """Return since when no member needs an offset, or None while one does."""
    if isinstance(group, ClassicGroup) and group.protocol_type is not None:
        if group.phase is Phase.EMPTY:
            return group.state_timestamp_ms if group.state_timestamp_ms >= 0 else committed.commit_ms
        if group.phase is not Phase.STABLE or group.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
    return None if subscribed_among({committed.topic}, group, settings) else committed.commit_ms


def commit_error(group: Group | None, command: CommitOffsets, settings: GroupSettings) -> ErrorCode:
    """Return why the sender may not commit, or NONE.

    GROUP_ID_NOT_FOUND is ILLEGAL_GENERATION to versions below 9: the API module puts it in its version's words.
    """
    if group is None:
        missing = ErrorCode.GROUP_ID_NOT_FOUND if command.producer is None else ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.NONE if command.generation < 0 else missing
    if type(group) is ConsumerGroup:
        return _consumer_commit_error(group, command, settings)
    if isinstance(group, StreamsGroup):
        return _streams_commit_error(group, command)
    assert isinstance(group, ClassicGroup), "a group is of one of three types"
    return _classic_commit_error(group, command)


def _classic_commit_error(group: ClassicGroup, command: CommitOffsets) -> ErrorCode:
    phase = group.phase
    if phase is Phase.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if phase is Phase.EMPTY and command.generation < 0:
        return ErrorCode.NONE
    if _names_no_member(command):
        return ErrorCode.UNKNOWN_MEMBER_ID if command.producer is None else ErrorCode.NONE
    if error := identity_error(group, command.member_id, command.instance_id):
        return error
    if command.generation != group.generation:
        # What a member was granted by the consumer group that this has just been is its own until the round ends.
        is_behind = group.is_behind(command.member_id, command.generation)
        return ErrorCode.NONE if is_behind else ErrorCode.ILLEGAL_GENERATION
    if phase is Phase.COMPLETING_REBALANCE and command.producer is None:
        # The member has seen the new generation but not its assignment: what it commits may not be its own any more.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _names_no_member(command: CommitOffsets) -> bool:
    """Whether a sender names no group: a transaction may commit so, since its producer is fenced itself."""
    return command.generation < 0 and not command.member_id and command.instance_id is None


def _consumer_commit_error(group: ConsumerGroup, command: CommitOffsets, settings: GroupSettings) -> ErrorCode:
    """Return why the sender may not commit to a consumer group, or NONE. As in Kafka, instance ids are not asked."""
    if group.is_dead:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    epoch = command.generation
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    if command.producer is not None and _names_no_member(command):
        return ErrorCode.NONE
    member = group.members.get(command.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None and not command.can_report_stale_epoch:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return ErrorCode.NONE
    if epoch > member.epoch or not _has_owned_since(member, epoch, command, settings.offset_metadata_max_bytes):
        return _stale(member)
    return ErrorCode.NONE


def _streams_commit_error(group: StreamsGroup, command: CommitOffsets) -> ErrorCode:
    """Return why the sender may not commit to a streams group, or NONE: of an older epoch it may for its tasks."""
    if group.is_dead:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    epoch = command.generation
    is_outside = epoch < 0 and not group.members
    if is_outside or (command.producer is not None and _names_no_member(command)):
        return ErrorCode.NONE
    member = group.members.get(command.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not command.can_report_stale_epoch:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return ErrorCode.NONE
    assigned_at = {**member.pending.active, **member.assigned.active}
    subtopology_of = {} if group.topology is None else group.topology.readers
    tasks = ((subtopology_of.get(offset.topic, ""), offset.partition) for offset in command.offsets)
    is_owned = epoch < member.epoch and all(0 <= assigned_at.get(task, -1) <= epoch for task in tasks)
    return ErrorCode.NONE if is_owned else ErrorCode.STALE_MEMBER_EPOCH


def _has_owned_since(member: ConsumerMember, epoch: int, command: CommitOffsets, longest_metadata: int) -> bool:
    """Whether every partition of a commit was the member's in `epoch` and is still, or is just asked back."""
    assigned_at = {
        (topic.topic_id, partition): assigned_epoch
        for topic in (*member.pending, *member.assigned)
        for partition, assigned_epoch in zip(topic.partitions, topic.epochs, strict=True)
    }
    return all(
        0 <= assigned_at.get((offset.topic_id, offset.partition), -1) <= epoch
        for offset in command.offsets
        if len(offset.metadata) <= longest_metadata  # the others are refused anyway
    )


def fetch_error(group: Group | None, member_id: str | None, epoch: int) -> ErrorCode:
    """Return why a sender that names itself may not read offsets, or NONE.

    Who names nothing (no member id, epoch -1) is an administrator. A classic group does not ask.
    """
    if group is None or isinstance(group, ClassicGroup) or group.is_dead or (member_id is None and epoch < 0):
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else _stale(member)


def _stale(member: ConsumerMember | StreamsMember) -> ErrorCode:
    """Return the error that a member with another epoch knows: a classic one calls it a generation."""
    is_classic = isinstance(member, ConsumerMember) and member.classic is not None
    return ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH


def subscribed_among(topics: set[str], group: Group, settings: GroupSettings) -> set[str]:
    """Return those of `topics` that a member subscribes to: all of them if what one sends cannot be read."""
    if type(group) is ConsumerGroup:
        found = topics & group.subscribers.keys()
        for regex in group.regex_subscribers:
            resolved = group.regexes.get(regex)
            if resolved is not None:
                found |= topics.intersection(resolved.topics)
        return found
    if isinstance(group, StreamsGroup):
        return topics & group.topology.readers.keys() if group.members and group.topology is not None else set()
    assert isinstance(group, ClassicGroup), "a group is of one of three types"
    return _subscribed_among_classic(topics, group, settings)


def _subscribed_among_classic(topics: set[str], group: ClassicGroup, settings: GroupSettings) -> set[str]:
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return set()
    found: set[str] = set()
    for member in group.members.values():
        subscribed = settings.topics_of(member.metadata(group.protocol_name))
        if subscribed is None:
            return topics
        found |= topics & subscribed
    return found
