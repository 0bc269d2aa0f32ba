"""Records of `__consumer_offsets`: Kafka's bytes, both ways, and what a replay makes of them."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from kohort.group.events import (
    GroupDeleted,
    GroupStored,
    HardEvent,
    OffsetCommitted,
    OffsetDeleted,
    OffsetPending,
    StoredMember,
)
from kohort.log.offsets_topic import CorruptOffsetsRecord, Replay, encode_events, record_of
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import ErrorCode, KafkaError
from kohort.wire.codec import encode
from kohort.wire.messages import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from kohort.wire.record_batches import ControlType, Record, check_batch, control_record, encode_batch, read_header

LOADED = Cause(CauseKind.COORDINATOR_LOADED, -1)
ID = bytes(range(16))
NOW = 1_700_000_000_000
OFFSET = OffsetCommitted("group", "topic", 3, 42, 7, "note", NOW, -1, ID)
MEMBER = StoredMember("m-1", "instance", "client", "/127.0.0.1", 60_000, 45_000, b"sub", b"assigned")
STORED = GroupStored("group", "consumer", 5, "range", "m-1", NOW, (MEMBER,), LOADED)


def read(*records: Record) -> list[HardEvent]:
    return list(Replay().read(encode_batch(records)))


def record(key: bytes | None, value: bytes | None = b"\x00\x00") -> Record:
    return Record(0, NOW, key, value)


# -- writing


def test_offset_is_written_as_kafka_writes_it() -> None:
    key, value = record_of(OFFSET)
    assert key.hex() == "0001000567726f75700005746f70696300000003"
    assert value is not None
    assert value.hex() == (
        "0004000000000000002a00000007056e6f74650000018bcfe56800010010000102030405060708090a0b0c0d0e0f"
    )


def test_offset_that_expires_by_request_is_written_in_the_version_that_can_express_it() -> None:
    _, value = record_of(OFFSET._replace(expire_ms=NOW + 1))
    assert value is not None
    assert value.hex() == "0001000000000000002a00046e6f74650000018bcfe568000000018bcfe56801"


def test_group_is_written_as_kafka_writes_it() -> None:
    key, value = record_of(STORED)
    assert key.hex() == "0002000567726f7570"
    assert value is not None
    assert value.hex() == (
        "0003" "0008636f6e73756d6572" "00000005" "000572616e6765" "00036d2d31" "0000018bcfe56800" "00000001"
        "00036d2d31" "0008696e7374616e6365" "0006636c69656e74" "000a2f3132372e302e302e31" "0000ea60" "0000afc8"
        "00000003737562" "0000000861737369676e6564"
    )  # fmt: skip


def test_generation_that_awaits_its_sync_is_a_record_that_kafka_reads_with_a_tag_that_it_skips() -> None:
    _, value = record_of(replace(STORED, is_synced=False, members=()))
    assert value is not None
    assert value.hex() == (
        "0004" "09636f6e73756d6572" "00000005" "0672616e6765" "046d2d31" "0000018bcfe56800" "01"
        "01" "ecd601" "01" "01"
    )  # fmt: skip


def test_empty_group_has_no_protocol_and_no_leader() -> None:
    empty = GroupStored("group", None, 0, None, None, NOW, (), LOADED)
    _, value = record_of(empty)
    assert value is not None
    assert value.hex() == "0003000000000000ffffffff0000018bcfe5680000000000"


def test_end_is_a_tombstone() -> None:
    assert record_of(OffsetDeleted("group", "topic", 3, LOADED)) == (record_of(OFFSET)[0], None)
    assert record_of(GroupDeleted("group", LOADED)) == (record_of(STORED)[0], None)


@pytest.mark.parametrize(
    "event",
    [
        OFFSET,
        OFFSET._replace(metadata=""),
        OFFSET._replace(metadata="", topic_id=bytes(16)),
        OFFSET._replace(metadata="é" * 300, topic_id=bytes(16)),
        OFFSET._replace(leader_epoch=-1, metadata="x" * 40_000),
    ],
)
def test_offset_bytes_are_those_of_the_schema(event: OffsetCommitted) -> None:
    key = OffsetCommitKey(group=event.group_id, topic=event.topic, partition=event.partition)
    value = OffsetCommitValue(
        offset=event.offset,
        leader_epoch=event.leader_epoch,
        metadata=event.metadata,
        commit_timestamp=event.commit_ms,
        topic_id=event.topic_id,
    )
    assert record_of(event) == (b"\x00\x01" + encode(key, 0), b"\x00\x04" + encode(value, 4))


def test_batch_of_events_is_the_batch_of_their_records() -> None:
    events: list[HardEvent] = [OFFSET, STORED, OffsetDeleted("group", "topic", 3, LOADED)]
    events += [OFFSET._replace(partition=partition) for partition in range(200)]
    batch = encode_events(events, NOW)
    assert batch == encode_batch([Record(0, NOW, *record_of(event)) for event in events])
    assert check_batch(batch).record_count == len(events)


@pytest.mark.parametrize("name", ["x" * 32_768, "\ud800"])
def test_name_that_fits_no_record_is_refused(name: str) -> None:
    with pytest.raises(KafkaError) as caught:
        encode_events([OFFSET._replace(group_id=name)], NOW)
    assert caught.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(KafkaError):
        encode_events([replace(STORED, leader=name)], NOW)


# -- reading


@pytest.mark.parametrize(
    "event",
    [
        OFFSET,
        OFFSET._replace(metadata=""),
        OFFSET._replace(topic_id=bytes(16)),
        OFFSET._replace(expire_ms=NOW, leader_epoch=-1, topic_id=bytes(16)),
        OffsetDeleted("group", "topic", 3, LOADED),
        STORED,
        replace(STORED, is_synced=False),
        replace(STORED, members=(), protocol_name=None, leader=None, protocol_type=None),
        GroupDeleted("group", LOADED),
    ],
)
def test_what_was_written_is_read(event: HardEvent) -> None:
    assert list(Replay().read(encode_events([event], NOW))) == [event]


@pytest.mark.parametrize("version", range(5))
def test_groups_of_every_version_are_read(version: int) -> None:
    member = GroupMetadataValue.Member(
        member_id="m-1",
        group_instance_id="instance",
        client_id="client",
        client_host="/127.0.0.1",
        rebalance_timeout=60_000,
        session_timeout=45_000,
        subscription=b"sub",
        assignment=b"assigned",
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=5,
        protocol="range",
        leader="m-1",
        current_state_timestamp=NOW,
        members=[member],
    )
    blob = struct.pack(">h", version) + encode(value, version)
    key = b"\x00\x02" + encode(GroupMetadataKey(group="group"), 0)
    expected_member = MEMBER
    if version < 3:
        expected_member = expected_member._replace(instance_id=None)
    if version < 1:
        expected_member = expected_member._replace(rebalance_timeout_ms=45_000)
    timestamp = NOW if version >= 2 else -1
    assert read(record(key, blob)) == [replace(STORED, members=(expected_member,), state_timestamp_ms=timestamp)]


@pytest.mark.parametrize("version", range(5))
def test_offsets_of_every_version_are_read(version: int) -> None:
    value = OffsetCommitValue(
        offset=42, leader_epoch=7, metadata="note", commit_timestamp=NOW, expire_timestamp=NOW + 1, topic_id=ID
    )
    blob = struct.pack(">h", version) + encode(value, version)
    expected = OFFSET._replace(
        leader_epoch=7 if version >= 3 else -1,
        expire_ms=NOW + 1 if version == 1 else -1,
        topic_id=ID if version == 4 else bytes(16),
    )
    assert read(record(record_of(OFFSET)[0], blob)) == [expected]


def test_legacy_key_is_read_as_an_offset() -> None:
    key = b"\x00\x00" + record_of(OFFSET)[0][2:]
    value = b"\x00\x00" + struct.pack(">qh4sq", 42, 4, b"note", NOW)
    assert read(record(key, value)) == [OffsetCommitted("group", "topic", 3, 42, -1, "note", NOW)]


@pytest.mark.parametrize("kind", [9, 10, 15, 18, 24, 999, -1])
def test_records_of_other_groups_and_of_the_future_are_counted_and_skipped(kind: int) -> None:
    replay = Replay()
    key = struct.pack(">h", kind) + b"\x00\x05group"
    assert list(replay.read(encode_batch([record(key), record(key), record(key, None)]))) == []
    assert replay.skipped == {kind: 3}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (record(None), "no record type"),
        (record(b"\x00"), "no record type"),
        (record(b"\x00\x01\x00\x05gro"), "middle of a name"),
        (record(b"\x00\x01\x00\x01g\x00\x01t\x00"), "before its partition"),
        (record(b"\x00\x01\x00\x01\xff\x00\x01t\x00\x00\x00\x00"), "not UTF-8"),
        (record(b"\x00\x02\x00\x09group"), "type 2"),
        (record(record_of(OFFSET)[0], b""), "before its version"),
        (record(record_of(OFFSET)[0], b"\x00\x05" + bytes(40)), "version 5"),
        (record(record_of(OFFSET)[0], b"\xff\xff" + bytes(40)), "version -1"),
        (record(record_of(OFFSET)[0], b"\x00\x03\x00\x00"), "type 1"),
        (record(record_of(STORED)[0], b"\x00\x03\x00\x08cons"), "type 2"),
    ],
)
def test_record_that_cannot_be_read_states_where_it_is(bad: Record, reason: str) -> None:
    batch = encode_batch([record(*record_of(OFFSET)), bad], base_offset=70)
    with pytest.raises(CorruptOffsetsRecord, match=reason) as caught:
        list(Replay().read(batch))
    assert caught.value.offset == 71


def test_batch_whose_bytes_were_damaged_states_where_it_is() -> None:
    batch = bytearray(encode_batch([record(*record_of(OFFSET))], base_offset=70))
    batch[-3] ^= 1
    with pytest.raises(CorruptOffsetsRecord, match="wrong CRC") as caught:
        list(Replay().read(batch))
    assert caught.value.offset == 70


def test_offsets_that_the_operator_ignores_are_skipped_and_reported() -> None:
    batch = encode_batch([record(*record_of(OFFSET)), record(None), record(b"\x00\x02\x00\x09group")], base_offset=70)
    replay = Replay(ignored={71, 72})
    assert list(replay.read(batch)) == [OFFSET]
    assert replay.lost == [71, 72]
    damaged = bytearray(batch)
    damaged[-1] ^= 1
    replay = Replay(ignored={70})
    assert list(replay.read(damaged)) == []
    assert replay.lost == [70]


def test_what_can_be_read_is_never_left_out() -> None:
    replay = Replay(ignored={70})
    assert list(replay.read(encode_batch([record(*record_of(OFFSET))], base_offset=70))) == [OFFSET]
    assert replay.lost == []


# -- transactions


def transactional(offset: int, *events: HardEvent) -> bytes:
    records = [Record(0, NOW, *record_of(event)) for event in events]
    return encode_batch(records, base_offset=offset, producer_id=9, producer_epoch=0, transactional=True)


def marker(offset: int, kind: ControlType) -> bytes:
    records = [control_record(kind, NOW)]
    return encode_batch(records, base_offset=offset, producer_id=9, producer_epoch=0, transactional=True, control=True)


def plain(offset: int, *events: HardEvent) -> bytes:
    return encode_batch([Record(0, NOW, *record_of(event)) for event in events], base_offset=offset)


def fold(*batches: bytes) -> list[HardEvent]:
    replay = Replay()
    return [event for batch in batches for event in replay.read(batch)]


def test_offsets_of_a_transaction_count_from_its_commit() -> None:
    assert fold(transactional(0, OFFSET)) == []
    assert fold(transactional(0, OFFSET), marker(1, ControlType.COMMIT)) == [OFFSET]


def test_offsets_of_an_aborted_transaction_never_count() -> None:
    assert fold(transactional(0, OFFSET), marker(1, ControlType.ABORT)) == []


def test_commit_after_the_transactions_own_wins() -> None:
    later = OFFSET._replace(offset=99)
    other = OFFSET._replace(partition=4)
    batches = (transactional(0, OFFSET, other), plain(2, later), marker(3, ControlType.COMMIT))
    assert fold(*batches) == [later, other]


def test_commit_before_the_transaction_loses() -> None:
    earlier = OFFSET._replace(offset=1)
    batches = (plain(0, earlier), transactional(1, OFFSET), marker(2, ControlType.COMMIT))
    assert fold(*batches) == [earlier, OFFSET]


def test_what_an_open_transaction_commits_is_written_as_its_record_and_pending_after_a_load() -> None:
    later = OFFSET._replace(offset=99)
    superseded = OffsetPending(9, 2, OFFSET)
    other = OffsetPending(9, 2, OFFSET._replace(partition=4))
    batch = encode_events([superseded, other], NOW)
    header = read_header(batch)
    assert (header.is_transactional, header.producer_id, header.producer_epoch) == (True, 9, 2)
    _, replay = load(batch, plain(2, later))
    assert list(replay.pending()) == [
        replace(superseded, producer_epoch=-1, is_superseded=True),
        replace(other, producer_epoch=-1),
    ]


# -- loads


def load(*batches: bytes) -> tuple[list[HardEvent], Replay]:
    replay = Replay()
    for each in batches:
        replay.take(read_header(each), each)
    return list(replay.events()), replay


OTHER = OFFSET._replace(partition=4)
NEWER = OFFSET._replace(offset=43)
FORGOTTEN = OffsetDeleted("group", "topic", 3, LOADED)


def test_load_returns_the_last_record_of_each_key_in_the_order_of_the_log() -> None:
    found, replay = load(plain(0, OFFSET, OTHER), plain(2, STORED, NEWER))
    assert found == [OTHER, STORED, NEWER]
    assert replay.offset == 3
    assert list(replay.events()) == [], "they are forgotten once they are returned"


def test_load_returns_no_deleted_record() -> None:
    assert load(plain(0, OFFSET, STORED), plain(2, FORGOTTEN))[0] == [STORED]
    assert load(plain(0, FORGOTTEN), plain(1, OFFSET))[0] == [OFFSET]


def test_load_counts_the_records_of_a_transaction_as_a_replay_does() -> None:
    committed = (plain(0, NEWER), transactional(1, OFFSET, OTHER), marker(3, ControlType.COMMIT))
    assert load(*committed)[0] == [OFFSET, OTHER]
    assert load(*committed[:2], marker(3, ControlType.ABORT))[0] == [NEWER]
    assert load(*committed[:2], plain(3, FORGOTTEN), marker(4, ControlType.COMMIT))[0] == [OTHER]
    assert load(*committed[:2])[0] == [NEWER]


def test_load_stops_at_what_nothing_has_replaced_and_cannot_be_read() -> None:
    key, _ = record_of(OFFSET)
    bad = encode_batch([record(key, b"\x00\x05" + bytes(40))], base_offset=70)
    with pytest.raises(CorruptOffsetsRecord, match="version 5") as caught:
        load(bad)
    assert caught.value.offset == 70
    assert load(bad, plain(71, OFFSET))[0] == [OFFSET]


@pytest.mark.parametrize(
    "bad", [record(None), record(None, None), record(b"\x00", None), record(b"\x00\x08\x00\x05gro", None)]
)
def test_load_stops_at_a_key_that_cannot_be_read(bad: Record) -> None:
    with pytest.raises(CorruptOffsetsRecord) as caught:
        load(encode_batch([record(*record_of(OFFSET)), bad], base_offset=70))
    assert caught.value.offset == 71


def test_load_stores_no_more_than_what_is_alive() -> None:
    replay = Replay()
    for n in range(100):
        written = plain(2 * n, OFFSET._replace(partition=n), OffsetDeleted("group", "topic", n, LOADED))
        replay.take(read_header(written), written)
    assert not replay._last
