"""Records of `__consumer_offsets`: hard events to bytes and back, as Kafka writes and reads them.

Written: OffsetCommit (type 1) in value v4, in v1 where the request named a retention; GroupMetadata (type 2) in v3,
in v4 where a generation awaits its sync, which a tag of ours says; tombstones of both. Read: these in every version,
and type 0 as a type 1. Records of other groups' types are counted and skipped. What cannot be read says where it is.
It knows no log and no clock.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from struct import Struct

from kohort.group.events import GroupDeleted, GroupStored, HardEvent, OffsetCommitted, OffsetDeleted, StoredMember
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import NO_TOPIC_ID
from kohort.wire.codec import Buffer, MalformedMessage, decode, encode
from kohort.wire.crc32c import crc32c
from kohort.wire.messages import GroupMetadataKey, GroupMetadataValue, LegacyOffsetCommitValue, OffsetCommitValue
from kohort.wire.primitives import UnencodableMessage
from kohort.wire.records import ControlType, Record, control_type, decode_batch, read_header

_LEGACY_OFFSET_COMMIT, _OFFSET_COMMIT, _GROUP_METADATA = 0, 1, 2
_OFFSET_VERSION, _OFFSET_VERSION_WITH_EXPIRY = 4, 1
_GROUP_VERSION, _GROUP_VERSION_WITH_TAGS = 3, 4
_NEWEST = {_LEGACY_OFFSET_COMMIT: 0, _OFFSET_COMMIT: 4, _GROUP_METADATA: 4}


class CorruptOffsetsRecord(Exception):
    """A record that should hold a group's state cannot be read. `offset` is where it is in its partition."""

    def __init__(self, offset: int, reason: str) -> None:
        self.offset = offset
        super().__init__(f"record at offset {offset}: {reason}")


# -- writing

_short = Struct(">h").pack
_int = Struct(">i").pack
_long = Struct(">q").pack
_value_head = Struct(">hqi").pack
_plain_value = Struct(">hqiBqBBB16s").pack
_batch_head = Struct(">qiibI").pack
_batch_tail = Struct(">hiqqqhii").pack
_TAIL_SIZE = Struct(">hiqqqhii").size
_AFTER_LENGTH = 4 + 1 + 4 + _TAIL_SIZE
"""Bytes of a batch between its length field and its records."""


def _signed_varint(number: int) -> bytes:
    number = number << 1 ^ number >> 63
    octets = bytearray()
    while number > 127:
        octets.append(number & 127 | 128)
        number >>= 7
    octets.append(number)
    return bytes(octets)


_VARINTS = tuple(_signed_varint(number) for number in range(4096))


def _varint(number: int) -> bytes:
    return _VARINTS[number] if number < 4096 else _signed_varint(number)


def encode_events(events: Sequence[HardEvent], now_ms: int) -> bytes:
    """Return one batch that holds a record for each event. Raises KafkaError when one fits no record."""
    try:
        parts: list[bytes] = []
        for delta, event in enumerate(events):
            if type(event) is OffsetCommitted:
                key = _offset_key_head(event.group_id, event.topic) + _int(event.partition)
                value: bytes | None = offset_value(event)
            else:
                key, value = record_of(event)
            field = b"\x01" if value is None else _varint(len(value)) + value
            body = b"\x00\x00%b%b%b%b\x00" % (_varint(delta), _varint(len(key)), key, field)
            parts += (_varint(len(body)), body)
    except (struct.error, UnencodableMessage, UnicodeEncodeError) as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a name or text fits no record: {error}") from error
    count = len(events)
    rest = _batch_tail(0, count - 1, now_ms, now_ms, -1, -1, -1, count) + b"".join(parts)
    return _batch_head(0, len(rest) + _AFTER_LENGTH - _TAIL_SIZE, -1, 2, crc32c(rest)) + rest


def record_of(event: HardEvent) -> tuple[bytes, bytes | None]:
    """Return the key and the value of an event's record; a value of None is a tombstone."""
    match event:
        case OffsetCommitted():
            return offset_key(event.group_id, event.topic, event.partition), offset_value(event)
        case OffsetDeleted():
            return offset_key(event.group_id, event.topic, event.partition), None
        case GroupStored():
            return _group_key(event.group_id), _group_value(event)
        case GroupDeleted():
            return _group_key(event.group_id), None
        case _:
            raise AssertionError(f"{type(event).__name__} has no record yet")


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Return the key of a committed offset."""
    return _offset_key_head(group_id, topic) + _int(partition)


@lru_cache(maxsize=8192)
def _offset_key_head(group_id: str, topic: str) -> bytes:
    return _short(_OFFSET_COMMIT) + _text(group_id) + _text(topic)


def _text(text: str) -> bytes:
    content = text.encode()
    return _short(len(content)) + content


def offset_value(event: OffsetCommitted) -> bytes:
    """Return the value of a committed offset. Only v1 can say when it expires, so a retention takes that version."""
    if event.expire_ms >= 0:
        head = _short(_OFFSET_VERSION_WITH_EXPIRY) + _long(event.offset) + _text(event.metadata)
        return head + _long(event.commit_ms) + _long(event.expire_ms)
    if not event.metadata and event.topic_id != NO_TOPIC_ID:
        return _plain_value(
            _OFFSET_VERSION, event.offset, event.leader_epoch, 1, event.commit_ms, 1, 0, 16, event.topic_id
        )
    content = event.metadata.encode()
    tags = b"\x00" if event.topic_id == NO_TOPIC_ID else b"\x01\x00\x10" + event.topic_id
    head = _value_head(_OFFSET_VERSION, event.offset, event.leader_epoch)
    return b"".join((head, _unsigned_varint(len(content) + 1), content, _long(event.commit_ms), tags))


def _unsigned_varint(number: int) -> bytes:
    octets = bytearray()
    while number > 127:
        octets.append(number & 127 | 128)
        number >>= 7
    octets.append(number)
    return bytes(octets)


def _group_key(group_id: str) -> bytes:
    return _short(_GROUP_METADATA) + encode(GroupMetadataKey(group=group_id), 0)


def _group_value(event: GroupStored) -> bytes:
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
    return _short(version) + encode(value, version)


# -- reading

_SHORT = Struct(">h")
_LOADED = Cause(CauseKind.COORDINATOR_LOADED, -1)


class Replay:
    """The fold of a partition's batches into events, in the order in which they took effect.

    Offsets committed in a transaction take effect at its COMMIT marker, and lose against a plain commit that came
    after them. `skipped` counts the records left out, by type.
    """

    def __init__(self) -> None:
        self.skipped: Counter[int] = Counter()
        self._open: dict[int, list[tuple[int, HardEvent]]] = {}
        self._latest: dict[tuple[str, str, int], int] = {}

    def read(self, batch: Buffer) -> Iterator[HardEvent]:
        """Yield the events that a batch makes happen. Raises CorruptOffsetsRecord, and what `decode_batch` raises."""
        header = read_header(batch)
        records = decode_batch(batch)
        if header.is_control:
            for record in records:
                yield from self._end_transaction(header.producer_id, control_type(record))
            return
        for record in records:
            event = self.event_of(record)
            if event is None:
                continue
            if header.is_transactional:
                self._open.setdefault(header.producer_id, []).append((record.offset, event))
            elif self._open or self._latest:
                yield from self._supersede(record.offset, event)
            else:
                yield event

    def event_of(self, record: Record) -> HardEvent | None:
        """Return what a record says happened, or None for one that is skipped. Raises CorruptOffsetsRecord."""
        if record.key is None or len(record.key) < 2:
            raise CorruptOffsetsRecord(record.offset, "it has no key that says what it is")
        (record_type,) = _SHORT.unpack_from(record.key)
        newest = _NEWEST.get(record_type)
        if newest is None:
            self.skipped[record_type] += 1
            return None
        try:
            if record_type == _GROUP_METADATA:
                return _read_group(record, newest)
            return _read_offset(record, record_type, newest)
        except MalformedMessage as error:
            reason = f"a record of type {record_type} is malformed: {error}"
            raise CorruptOffsetsRecord(record.offset, reason) from error

    def _end_transaction(self, producer_id: int, marker: ControlType | None) -> Iterator[HardEvent]:
        held = self._open.pop(producer_id, [])
        if marker is ControlType.COMMIT:
            for offset, event in held:
                yield from self._supersede(offset, event)
        if not self._open:
            self._latest.clear()

    def _supersede(self, offset: int, event: HardEvent) -> Iterator[HardEvent]:
        if isinstance(event, OffsetCommitted | OffsetDeleted):
            key = (event.group_id, event.topic, event.partition)
            if self._latest.get(key, -1) > offset:
                return
            self._latest[key] = offset
        yield event


def _read_offset(record: Record, record_type: int, newest: int) -> HardEvent:
    assert record.key is not None, "only a record with a key has a type"
    group_id, position = _read_text(record.key, 2)
    topic, position = _read_text(record.key, position)
    if len(record.key) < position + 4:
        raise MalformedMessage("the key ends before its partition")
    (partition,) = _INT.unpack_from(record.key, position)
    if record.value is None:
        return OffsetDeleted(group_id, topic, partition, _LOADED)
    version = _version(record.value, newest)
    if record_type == _LEGACY_OFFSET_COMMIT:
        legacy, _ = decode(LegacyOffsetCommitValue, version, record.value, 2)
        return OffsetCommitted(group_id, topic, partition, legacy.offset, -1, legacy.metadata, legacy.commit_timestamp)
    value, _ = decode(OffsetCommitValue, version, record.value, 2)
    return OffsetCommitted(
        group_id,
        topic,
        partition,
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
    )


_INT = Struct(">i")


def _read_text(key: bytes, position: int) -> tuple[str, int]:
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


def _read_group(record: Record, newest: int) -> HardEvent:
    assert record.key is not None, "only a record with a key has a type"
    group_id = decode(GroupMetadataKey, 0, record.key, 2)[0].group
    if record.value is None:
        return GroupDeleted(group_id, _LOADED)
    value, _ = decode(GroupMetadataValue, _version(record.value, newest), record.value, 2)
    return GroupStored(
        group_id=group_id,
        protocol_type=value.protocol_type or None,
        generation=value.generation,
        protocol_name=value.protocol,
        leader=value.leader,
        state_timestamp_ms=value.current_state_timestamp,
        members=tuple(_stored_members(value.members)),
        cause=_LOADED,
        is_synced=not value.awaits_sync,
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


def _version(value: bytes, newest: int) -> int:
    if len(value) < 2:
        raise MalformedMessage("the value ends before its version")
    (version,) = _SHORT.unpack_from(value)
    if not 0 <= version <= newest:
        raise MalformedMessage(f"value version {version} is not known, {newest} is the newest")
    return int(version)
