"""Who may commit and read a group's offsets, and which topics it still reads.

A classic group takes commits of its generation. A consumer group takes those of a member's epoch, and of an older one
for partitions that the member has held since then or before (KIP-1251): a commit that was under way when the epoch went
on is not lost. What comes from outside a group (no generation, no member) is for groups without members.
"""

from __future__ import annotations

from kohort.group.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, Phase
from kohort.group.commands import CommitOffsets
from kohort.group.consumer.group import ConsumerGroup, ConsumerMember
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.identity import identity_error
from kohort.model.errors import ErrorCode

Group = ClassicGroup | ConsumerGroup


def commit_error(group: Group | None, command: CommitOffsets, settings: GroupSettings) -> ErrorCode:
    """Return why the sender may not commit, or NONE.

    GROUP_ID_NOT_FOUND is ILLEGAL_GENERATION to versions below 9: the API module says it in its version's words.
    """
    if group is None:
        return ErrorCode.NONE if command.generation < 0 else ErrorCode.GROUP_ID_NOT_FOUND
    if type(group) is ConsumerGroup:
        return _consumer_commit_error(group, command, settings)
    assert isinstance(group, ClassicGroup), "a group is of one of two types"
    return _classic_commit_error(group, command)


def _classic_commit_error(group: ClassicGroup, command: CommitOffsets) -> ErrorCode:
    phase = group.phase
    if phase is Phase.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if phase is Phase.EMPTY and command.generation < 0:
        return ErrorCode.NONE
    if command.generation < 0 and not command.member_id and command.instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if error := identity_error(group, command.member_id, command.instance_id):
        return error
    if command.generation != group.generation:
        # What a member was granted by the consumer group that this has just been is its own until the round ends.
        is_behind = group.is_behind(command.member_id, command.generation)
        return ErrorCode.NONE if is_behind else ErrorCode.ILLEGAL_GENERATION
    if phase is Phase.COMPLETING_REBALANCE:
        # The member has seen the new generation but not its assignment: what it commits may not be its own any more.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _consumer_commit_error(group: ConsumerGroup, command: CommitOffsets, settings: GroupSettings) -> ErrorCode:
    """Return why the sender may not commit to a consumer group, or NONE. As in Kafka, instance ids are not asked."""
    if group.is_dead:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    epoch = command.generation
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    member = group.members.get(command.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.classic is None and not command.knows_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return ErrorCode.NONE
    if epoch > member.epoch or not _has_held_since(member, epoch, command, settings.offset_metadata_max_bytes):
        return _stale(member)
    return ErrorCode.NONE


def _has_held_since(member: ConsumerMember, epoch: int, command: CommitOffsets, longest_metadata: int) -> bool:
    """Whether every partition of a commit was the member's in `epoch` and is still, or is just asked back."""
    assigned_at = {
        (held.topic_id, partition): assigned_epoch
        for held in (*member.pending, *member.assigned)
        for partition, assigned_epoch in zip(held.partitions, held.epochs, strict=True)
    }
    return all(
        0 <= assigned_at.get((offset.topic_id, offset.partition), -1) <= epoch
        for offset in command.offsets
        if len(offset.metadata) <= longest_metadata  # the others are refused anyway
    )


def fetch_error(group: Group | None, member_id: str | None, epoch: int) -> ErrorCode:
    """Return why a sender that says who it is may not read offsets, or NONE.

    Who says nothing (no member id, epoch -1) is an administrator. A classic group does not ask.
    """
    if type(group) is not ConsumerGroup or group.is_dead or (member_id is None and epoch < 0):
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if epoch == member.epoch else _stale(member)


def _stale(member: ConsumerMember) -> ErrorCode:
    """Return the error that a member with another epoch knows: a classic one calls it a generation."""
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION


def subscribed_among(topics: set[str], group: Group, settings: GroupSettings) -> set[str]:
    """Return those of `topics` that a member subscribes to: all of them if what one says cannot be read."""
    if type(group) is ConsumerGroup:
        found = topics & group.subscribers.keys()
        for regex in group.regex_subscribers:
            resolved = group.regexes.get(regex)
            if resolved is not None:
                found |= topics.intersection(resolved.topics)
        return found
    assert isinstance(group, ClassicGroup), "a group is of one of two types"
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
