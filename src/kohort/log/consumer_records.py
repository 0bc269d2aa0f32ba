"""Records of consumer groups (KIP-848): types 3 to 8 and 16, as Kafka 4.3 writes them, each in value v0.

A native member's classic metadata is null and written so: left out it would be an empty struct, a classic member's.
Every partition is written with its assignment epoch (KIP-1251); where an older Kafka left them out it is the member's
own. Type 4 is what 4.0 stored about topics: read to be taken out of the log. Targets and assignments are many when a
large group changes, so their bytes are put together by hand; a test compares them with those of the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, Protocol

from kohort.group.commands import LEAVE_STATIC_EPOCH
from kohort.group.events import (
    Assigned,
    ClassicMemberMetadata,
    ClassicPhase,
    ConsumerGroupDeleted,
    ConsumerGroupStored,
    ConsumerHardEvent,
    ConsumerMemberDeleted,
    ConsumerMemberStored,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberState,
    MemberTargetDeleted,
    MemberTargetStored,
    PartitionMetadataDeleted,
    PartitionMetadataStored,
    RegexDeleted,
    RegexStored,
    StoredEvent,
    TargetDeleted,
    TargetStored,
)
from kohort.log.group_records import LOADED, read_text, read_version, short, text
from kohort.model.assignment import IdPartitions, id_partitions
from kohort.wire.codec import decode, encode
from kohort.wire.message import Message
from kohort.wire.messages import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from kohort.wire.primitives import compact, pack_run, varint

GROUP, PARTITION_METADATA, MEMBER, TARGET, MEMBER_TARGET, MEMBER_ASSIGNMENT, REGEX = 3, 4, 5, 6, 7, 8, 16
_VERSION = 0
_VERSION_BYTES = short(_VERSION)
_CLASSIC_PHASE_TAG = varint(27500)
_member_values = ConsumerGroupMemberMetadataValue
_assignment_head = Struct(">hiib").pack
_phase = Struct(">b").pack


# -- writing


def group_key(kind: int, group_id: str) -> bytes:
    """Return the key of a record that a group has once: of type 3, 4 or 6."""
    return short(kind) + text(group_id)


def part_key(kind: int, group_id: str, part: str) -> bytes:
    """Return the key of a record that a group has for each member (5, 7, 8) or expression (16)."""
    return short(kind) + text(group_id) + text(part)


def encoded(value: Message) -> bytes:
    """Return the value of a record, version 0."""
    return _VERSION_BYTES + encode(value, _VERSION)


def group_value(event: ConsumerGroupStored) -> bytes:
    """Return the value of type 3."""
    return encoded(ConsumerGroupMetadataValue(epoch=event.epoch, metadata_hash=event.metadata_hash))


def member_value(event: ConsumerMemberStored) -> bytes:
    """Return the value of type 5."""
    classic = event.classic
    value = _member_values(
        instance_id=event.instance_id,
        rack_id=event.rack_id,
        client_id=event.client_id,
        client_host=event.client_host,
        subscribed_topic_names=list(event.subscribed_topic_names),
        subscribed_topic_regex=event.subscribed_topic_regex,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        server_assignor=event.server_assignor,
        classic_member_metadata=None
        if classic is None
        else _member_values.ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[
                _member_values.ClassicMemberMetadata.SupportedProtocol(name=name, metadata=metadata)
                for name, metadata in classic.protocols
            ],
        ),
        standby_lags=[
            _member_values.StandbyLag(
                topic_id=topic_id,
                partitions=[
                    _member_values.StandbyLag.Partition(partition_index=index, lag=lag) for index, lag in partitions
                ],
            )
            for topic_id, partitions in event.lags
        ],
        acceptable_recovery_lag=-1 if event.acceptable_recovery_lag is None else event.acceptable_recovery_lag,
    )
    return encoded(value)


def target_value(event: TargetStored) -> bytes:
    """Return the value of type 6."""
    epoch, timestamp = event.epoch, event.timestamp_ms
    return encoded(ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp))


def member_target_value(target: IdPartitions) -> bytes:
    """Return the value of type 7."""
    parts = [_VERSION_BYTES, compact(len(target))]
    for topic_id, partitions in target:
        parts += (topic_id, pack_run("B", "i", partitions), b"\x00")
    parts.append(b"\x00")
    return b"".join(parts)


def member_assignment_value(event: MemberAssignmentStored) -> bytes:
    """Return the value of type 8."""
    parts = [_assignment_head(_VERSION, event.epoch, event.previous_epoch, event.state)]
    _add_assigned(parts, event.assigned)
    _add_assigned(parts, event.pending)
    phase = event.classic_phase
    parts.append(b"\x01" + _CLASSIC_PHASE_TAG + b"\x01" + _phase(phase) if phase else b"\x00")
    return b"".join(parts)


def _add_assigned(parts: list[bytes], several: tuple[Assigned, ...]) -> None:
    parts.append(compact(len(several)))
    for topic_id, partitions, epochs in several:
        written = pack_run("B", "i", epochs)
        tags = b"\x01\x00" + varint(len(written)) + written if epochs else b"\x00"
        parts += (topic_id, pack_run("B", "i", partitions), tags)


def regex_value(event: RegexStored) -> bytes:
    """Return the value of type 16."""
    topics, timestamp = list(event.topics), event.timestamp_ms
    return encoded(ConsumerGroupRegularExpressionValue(topics=topics, version=event.version, timestamp=timestamp))


def group_writer(kind: int, value: Callable[[Any], bytes | None]) -> Callable[[Any], tuple[bytes, bytes | None]]:
    """Return what makes the record of an event that a group has once."""
    return lambda event: (group_key(kind, event.group_id), value(event))


def part_writer(kind: int, value: Callable[[Any], bytes | None]) -> Callable[[Any], tuple[bytes, bytes | None]]:
    """Return what makes the record of an event that a group has for each member."""
    return lambda event: (part_key(kind, event.group_id, event.member_id), value(event))


def tombstone(_: Any) -> None:
    """Return the value of a tombstone."""


WRITERS: dict[type[Any], Callable[[Any], tuple[bytes, bytes | None]]] = {
    ConsumerGroupStored: group_writer(GROUP, group_value),
    ConsumerGroupDeleted: group_writer(GROUP, tombstone),
    PartitionMetadataDeleted: group_writer(PARTITION_METADATA, tombstone),
    ConsumerMemberStored: part_writer(MEMBER, member_value),
    ConsumerMemberDeleted: part_writer(MEMBER, tombstone),
    TargetStored: group_writer(TARGET, target_value),
    TargetDeleted: group_writer(TARGET, tombstone),
    MemberTargetStored: part_writer(MEMBER_TARGET, lambda event: member_target_value(event.target)),
    MemberTargetDeleted: part_writer(MEMBER_TARGET, tombstone),
    MemberAssignmentStored: part_writer(MEMBER_ASSIGNMENT, member_assignment_value),
    MemberAssignmentDeleted: part_writer(MEMBER_ASSIGNMENT, tombstone),
    RegexStored: lambda event: (part_key(REGEX, event.group_id, event.regex), regex_value(event)),
    RegexDeleted: lambda event: (part_key(REGEX, event.group_id, event.regex), None),
}
"""By event, what makes the key and the value of its record."""


# -- reading


def _read_group(group_id: str, found: ConsumerGroupMetadataValue) -> ConsumerHardEvent:
    return ConsumerGroupStored(group_id, found.epoch, found.metadata_hash, LOADED)


def _read_partition_metadata(group_id: str, _: ConsumerGroupPartitionMetadataValue) -> ConsumerHardEvent:
    return PartitionMetadataStored(group_id, LOADED)


def _read_member(group_id: str, member_id: str, found: _member_values) -> ConsumerHardEvent:
    return ConsumerMemberStored(
        group_id=group_id,
        member_id=member_id,
        instance_id=found.instance_id,
        rack_id=found.rack_id,
        client_id=found.client_id,
        client_host=found.client_host,
        subscribed_topic_names=tuple(sorted(set(found.subscribed_topic_names))),
        subscribed_topic_regex=found.subscribed_topic_regex or "",
        rebalance_timeout_ms=found.rebalance_timeout_ms,
        server_assignor=found.server_assignor,
        classic=_classic_metadata(found.classic_member_metadata),
        cause=LOADED,
        lags=tuple(
            (topic.topic_id, tuple((each.partition_index, each.lag) for each in topic.partitions))
            for topic in found.standby_lags
        ),
        acceptable_recovery_lag=found.acceptable_recovery_lag if found.acceptable_recovery_lag >= 0 else None,
    )


def _classic_metadata(found: _member_values.ClassicMemberMetadata | None) -> ClassicMemberMetadata | None:
    # Kafka 3.7 did not know classic members and wrote nothing; a classic member offers something.
    if found is None or not found.supported_protocols:
        return None
    protocols = tuple((protocol.name, protocol.metadata) for protocol in found.supported_protocols)
    return ClassicMemberMetadata(found.session_timeout_ms, protocols)


def _read_target(group_id: str, found: ConsumerGroupTargetAssignmentMetadataValue) -> ConsumerHardEvent:
    return TargetStored(group_id, found.assignment_epoch, found.assignment_timestamp, LOADED)


def _read_member_target(
    group_id: str, member_id: str, found: ConsumerGroupTargetAssignmentMemberValue
) -> ConsumerHardEvent:
    target = id_partitions((topic.topic_id, topic.partitions) for topic in found.topic_partitions)
    return MemberTargetStored(group_id, member_id, target, LOADED)


def _read_member_assignment(
    group_id: str, member_id: str, found: ConsumerGroupCurrentMemberAssignmentValue
) -> ConsumerHardEvent:
    return MemberAssignmentStored(
        group_id=group_id,
        member_id=member_id,
        epoch=found.member_epoch,
        previous_epoch=found.previous_member_epoch,
        state=_state(found.state, found.member_epoch),
        assigned=_assigned(found.assigned_partitions, found.member_epoch),
        pending=_assigned(found.partitions_pending_revocation, found.member_epoch),
        cause=LOADED,
        classic_phase=ClassicPhase(found.classic_phase) if found.classic_phase in _PHASES else ClassicPhase.STABLE,
    )


def _state(number: int, member_epoch: int) -> MemberState:
    """Return a member's state. Of one that is away (-2) Kafka stores the state it was in: it owes nothing any more."""
    if member_epoch == LEAVE_STATIC_EPOCH:
        return MemberState.STABLE
    return MemberState(number) if number in _STATES else MemberState.UNKNOWN


_STATES = frozenset(MemberState)
_PHASES = frozenset(ClassicPhase)


class _StoredTopic(Protocol):
    """One topic of a member's assignment, granted or asked back."""

    topic_id: bytes
    partitions: list[int]
    assignment_epochs: list[int] | None


def _assigned(topics: Iterable[_StoredTopic], member_epoch: int) -> tuple[Assigned, ...]:
    """Return partitions with their epochs, in order; without epochs of their own they have that of the member."""
    found: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs or []
        if len(epochs) != len(topic.partitions):
            # What a static member that is away (epoch -2) owns counts as assigned long ago.
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        found.setdefault(topic.topic_id, {}).update(zip(topic.partitions, epochs, strict=True))
    return tuple(
        Assigned(topic_id, tuple(sorted(epochs)), tuple(epochs[index] for index in sorted(epochs)))
        for topic_id, epochs in sorted(found.items())
        if epochs
    )


def _read_regex(group_id: str, regex: str, found: ConsumerGroupRegularExpressionValue) -> ConsumerHardEvent:
    return RegexStored(group_id, regex, tuple(sorted(set(found.topics))), found.version, found.timestamp, LOADED)


MakeEvent = Callable[..., StoredEvent]


def reader(
    message: type[Message], stored: MakeEvent, deleted: MakeEvent, texts: int
) -> Callable[[bytes, bytes | None], StoredEvent]:
    """Return what reads a record whose key has so many texts: the group, and a member or an expression."""

    def read(key: bytes, value: bytes | None) -> StoredEvent:
        names, position = [], 2
        for _ in range(texts):
            name, position = read_text(key, position)
            names.append(name)
        if value is None:
            return deleted(*names, LOADED)
        found, _ = decode(message, read_version(value, _VERSION), value, 2)
        return stored(*names, found)

    return read


READERS: dict[int, Callable[[bytes, bytes | None], StoredEvent]] = {
    GROUP: reader(ConsumerGroupMetadataValue, _read_group, ConsumerGroupDeleted, 1),
    PARTITION_METADATA: reader(
        ConsumerGroupPartitionMetadataValue, _read_partition_metadata, PartitionMetadataDeleted, 1
    ),
    MEMBER: reader(_member_values, _read_member, ConsumerMemberDeleted, 2),
    TARGET: reader(ConsumerGroupTargetAssignmentMetadataValue, _read_target, TargetDeleted, 1),
    MEMBER_TARGET: reader(ConsumerGroupTargetAssignmentMemberValue, _read_member_target, MemberTargetDeleted, 2),
    MEMBER_ASSIGNMENT: reader(
        ConsumerGroupCurrentMemberAssignmentValue, _read_member_assignment, MemberAssignmentDeleted, 2
    ),
    REGEX: reader(ConsumerGroupRegularExpressionValue, _read_regex, RegexDeleted, 2),
}
"""By record type, what reads the key and the value of a record. Raises MalformedMessage."""
