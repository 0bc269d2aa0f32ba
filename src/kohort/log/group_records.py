"""Records of `__consumer_offsets` that every group may have: committed offsets (types 0 and 1), classic groups (2).

Offsets are written in value v4, in v1 where the request named a retention, because only that one has it; type 0
was written before type 1 and is read like it. Commits are many, so their bytes are put together by hand; a test
compares them with those of the schema. A classic group is written in value v3, and read in every version. A generation
that awaits its sync is written in v4, which has tags: one of ours marks it, and Kafka skips it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from struct import Struct

from kohort.group.events import GroupDeleted, GroupStored, OffsetCommitted, OffsetDeleted, StoredMember
from kohort.model.cause import Cause, CauseKind
from kohort.model.ids import NO_TOPIC_ID
from kohort.wire.codec import decode, encode
from kohort.wire.messages import GroupMetadataValue, LegacyOffsetCommitValue, OffsetCommitValue
from kohort.wire.primitives import MalformedMessage, varint

LEGACY_OFFSET_COMMIT, OFFSET_COMMIT, GROUP_METADATA = 0, 1, 2
_OFFSET_VERSION, _OFFSET_VERSION_WITH_EXPIRY, _LEGACY_OFFSET_VERSION = 4, 1, 0
_GROUP_VERSION, _GROUP_VERSION_WITH_TAGS = 3, 4

LOADED = Cause(CauseKind.COORDINATOR_LOADED, -1)
"""Why something happened that only the log knows of."""

_SHORT = Struct(">h")
short = _SHORT.pack
_INT = Struct(">i")
partition_bytes = _INT.pack
_long = Struct(">q").pack
_head = Struct(">hqi").pack
_plain = Struct(">hqiBqBBB16s").pack


# -- keys and values of all record types


def text(content: str) -> bytes:
    """Return a text as it stands in keys: length, then UTF-8. Raises struct.error, UnicodeEncodeError."""
    octets = content.encode()
    return short(len(octets)) + octets


def read_text(key: bytes, position: int) -> tuple[str, int]:
    """Read a text of a key; return it and the position after it. Raises MalformedMessage."""
    if len(key) < position + 2:
        raise MalformedMessage("the key ends in the middle of a name")
    (length,) = _SHORT.unpack_from(key, position)
    end = position + 2 + length
    if length < 0 or end > len(key):
        raise MalformedMessage("the key ends in the middle of a name")
    try:
        return key[position + 2 : end].decode(), end
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"a name is not UTF-8: {error}") from error


def read_version(value: bytes, newest: int) -> int:
    """Return the version of a value, which must be one that is known. Raises MalformedMessage."""
    if len(value) < 2:
        raise MalformedMessage("the value ends before its version")
    (version,) = _SHORT.unpack_from(value)
    if not 0 <= version <= newest:
        raise MalformedMessage(f"value version {version} is not known, {newest} is the newest")
    return int(version)


# -- committed offsets


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Return the key of a committed offset."""
    return offset_key_head(group_id, topic) + partition_bytes(partition)


@lru_cache(maxsize=1024)
def offset_key_head(group_id: str, topic: str) -> bytes:
    """Return the key of a committed offset without its last field, the partition."""
    return short(OFFSET_COMMIT) + text(group_id) + text(topic)


def offset_value(event: OffsetCommitted) -> bytes:
    """Return the value of a committed offset. Only v1 has an expiry time, so a retention takes that version."""
    if event.expire_ms >= 0:
        head = short(_OFFSET_VERSION_WITH_EXPIRY) + _long(event.offset) + text(event.metadata)
        return head + _long(event.commit_ms) + _long(event.expire_ms)
    if not event.metadata and event.topic_id != NO_TOPIC_ID:
        return _plain(_OFFSET_VERSION, event.offset, event.leader_epoch, 1, event.commit_ms, 1, 0, 16, event.topic_id)
    content = event.metadata.encode()
    tags = b"\x00" if event.topic_id == NO_TOPIC_ID else b"\x01\x00\x10" + event.topic_id
    head = _head(_OFFSET_VERSION, event.offset, event.leader_epoch)
    return b"".join((head, varint(len(content) + 1), content, _long(event.commit_ms), tags))


def read_offset(key: bytes, value: bytes | None) -> OffsetCommitted | OffsetDeleted:
    """Return the event of a record of type 1. Raises MalformedMessage."""
    group_id, topic, partition = _read_key(key)
    if value is None:
        return OffsetDeleted(group_id, topic, partition, LOADED)
    found, _ = decode(OffsetCommitValue, read_version(value, _OFFSET_VERSION), value, 2)
    return OffsetCommitted(
        group_id,
        topic,
        partition,
        found.offset,
        found.leader_epoch,
        found.metadata,
        found.commit_timestamp,
        found.expire_timestamp,
        found.topic_id,
    )


def read_legacy_offset(key: bytes, value: bytes | None) -> OffsetCommitted | OffsetDeleted:
    """Return the event of a record of type 0. Raises MalformedMessage."""
    group_id, topic, partition = _read_key(key)
    if value is None:
        return OffsetDeleted(group_id, topic, partition, LOADED)
    found, _ = decode(LegacyOffsetCommitValue, read_version(value, _LEGACY_OFFSET_VERSION), value, 2)
    return OffsetCommitted(group_id, topic, partition, found.offset, -1, found.metadata, found.commit_timestamp)


def _read_key(key: bytes) -> tuple[str, str, int]:
    group_id, position = read_text(key, 2)
    topic, position = read_text(key, position)
    if len(key) < position + 4:
        raise MalformedMessage("the key ends before its partition")
    return group_id, topic, _INT.unpack_from(key, position)[0]


# -- classic groups


def group_key(group_id: str) -> bytes:
    """Return the key of a classic group's record."""
    return short(GROUP_METADATA) + text(group_id)


def group_value(event: GroupStored) -> bytes:
    """Return the value of a classic group's record."""
    value = GroupMetadataValue(
        protocol_type=event.protocol_type or "",
        generation=event.generation,
        protocol=event.protocol_name,
        leader=event.leader,
        current_state_timestamp=event.state_timestamp_ms,
        members=[
            GroupMetadataValue.Member(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.subscription,
                assignment=member.assignment,
            )
            for member in event.members
        ],
        awaits_sync=not event.is_synced,
    )
    version = _GROUP_VERSION if event.is_synced else _GROUP_VERSION_WITH_TAGS
    return short(version) + encode(value, version)


def read_group(key: bytes, value: bytes | None) -> GroupStored | GroupDeleted:
    """Return the event of a record of type 2. Raises MalformedMessage."""
    group_id, _ = read_text(key, 2)
    if value is None:
        return GroupDeleted(group_id, LOADED)
    found, _ = decode(GroupMetadataValue, read_version(value, _GROUP_VERSION_WITH_TAGS), value, 2)
    return GroupStored(
        group_id=group_id,
        protocol_type=found.protocol_type or None,
        generation=found.generation,
        protocol_name=found.protocol,
        leader=found.leader,
        state_timestamp_ms=found.current_state_timestamp,
        members=tuple(_stored_members(found.members)),
        cause=LOADED,
        is_synced=not found.awaits_sync,
    )


def _stored_members(members: Iterable[GroupMetadataValue.Member]) -> Iterator[StoredMember]:
    for member in members:
        # Before v1 a member had one timeout for both.
        has_own = member.rebalance_timeout >= 0
        yield StoredMember(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout if has_own else member.session_timeout,
            session_timeout_ms=member.session_timeout,
            subscription=member.subscription,
            assignment=member.assignment,
        )
