"""Records of committed offsets: type 1, and type 0, which was written before it and is read like it.

Written in value v4, in v1 where the request named a retention, because only that one can say it. Commits are many,
so their bytes are put together by hand; a test compares them with those of the schema.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct

from kohort.group.events import OffsetCommitted, OffsetDeleted
from kohort.log.record_parts import LOADED, read_text, read_version, short, text
from kohort.model.ids import NO_TOPIC_ID
from kohort.wire.codec import MalformedMessage, decode
from kohort.wire.messages import LegacyOffsetCommitValue, OffsetCommitValue
from kohort.wire.primitives import varint

LEGACY_OFFSET_COMMIT, OFFSET_COMMIT = 0, 1
_VERSION, _VERSION_WITH_EXPIRY, _LEGACY_VERSION = 4, 1, 0

_INT = Struct(">i")
partition_bytes = _INT.pack
_long = Struct(">q").pack
_head = Struct(">hqi").pack
_plain = Struct(">hqiBqBBB16s").pack


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Return the key of a committed offset."""
    return offset_key_head(group_id, topic) + partition_bytes(partition)


@lru_cache(maxsize=8192)
def offset_key_head(group_id: str, topic: str) -> bytes:
    """Return the key of a committed offset without its last field, the partition."""
    return short(OFFSET_COMMIT) + text(group_id) + text(topic)


def offset_value(event: OffsetCommitted) -> bytes:
    """Return the value of a committed offset. Only v1 can say when it expires, so a retention takes that version."""
    if event.expire_ms >= 0:
        head = short(_VERSION_WITH_EXPIRY) + _long(event.offset) + text(event.metadata)
        return head + _long(event.commit_ms) + _long(event.expire_ms)
    if not event.metadata and event.topic_id != NO_TOPIC_ID:
        return _plain(_VERSION, event.offset, event.leader_epoch, 1, event.commit_ms, 1, 0, 16, event.topic_id)
    content = event.metadata.encode()
    tags = b"\x00" if event.topic_id == NO_TOPIC_ID else b"\x01\x00\x10" + event.topic_id
    head = _head(_VERSION, event.offset, event.leader_epoch)
    return b"".join((head, varint(len(content) + 1), content, _long(event.commit_ms), tags))


def read_offset(key: bytes, value: bytes | None) -> OffsetCommitted | OffsetDeleted:
    """Return what a record of type 1 says. Raises MalformedMessage."""
    group_id, topic, partition = _read_key(key)
    if value is None:
        return OffsetDeleted(group_id, topic, partition, LOADED)
    found, _ = decode(OffsetCommitValue, read_version(value, _VERSION), value, 2)
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
    """Return what a record of type 0 says. Raises MalformedMessage."""
    group_id, topic, partition = _read_key(key)
    if value is None:
        return OffsetDeleted(group_id, topic, partition, LOADED)
    found, _ = decode(LegacyOffsetCommitValue, read_version(value, _LEGACY_VERSION), value, 2)
    return OffsetCommitted(group_id, topic, partition, found.offset, -1, found.metadata, found.commit_timestamp)


def _read_key(key: bytes) -> tuple[str, str, int]:
    group_id, position = read_text(key, 2)
    topic, position = read_text(key, position)
    if len(key) < position + 4:
        raise MalformedMessage("the key ends before its partition")
    return group_id, topic, _INT.unpack_from(key, position)[0]
