"""Records of `__consumer_offsets` as bronze rows: every type and version, transactions, and bytes that are broken."""

from __future__ import annotations

import datetime
import json
import struct
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.depth import examples
from tests.unit.fleet.written_log import COMMIT_VALUE as COMMIT
from tests.unit.fleet.written_log import (
    NOW_MS,
    batch_of,
    commit_key,
    end_of,
    name,
    quarantine_of,
    read,
    records_of,
    short,
    value_of,
)

from kohort.fleet.decode.quarantine import MOST_OF_A_REASON, MOST_REASONS, Fault, Quarantine
from kohort.fleet.decode.value_json import kinds, value_class
from kohort.fleet.inputs.kafka_dump import value_bytes
from kohort.model.assignment import Assignment
from kohort.model.ids import TopicPartition
from kohort.model.subscription import Subscription
from kohort.wire.compression import Compression
from kohort.wire.consumer_protocol import encode_assignment, encode_subscription
from kohort.wire.crc32c import crc32c
from kohort.wire.messages import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupTargetAssignmentMemberValue,
    GroupMetadataValue,
    OffsetCommitValue,
)
from kohort.wire.record_batches import (
    ControlType,
    Record,
    control_record,
    decode_batch,
    encode_batch,
    read_header,
    retain_records,
)

TOPIC_ID = uuid.UUID("5197e33a-7b5b-4c34-ba63-fca79917a254").bytes
ALL_CODECS = list(Compression)


def commit(version: int, **fields: Any) -> dict[str, Any]:
    value = value_of(
        OffsetCommitValue(**{"offset": 42, "commit_timestamp": NOW_MS - 5, "metadata": "m", **fields}), version
    )
    (row,) = records_of(batch_of([(commit_key("g", "t", 3), value)]))
    return row


@pytest.mark.parametrize("version", range(5))
def test_a_commit_of_every_version_is_read(version):
    row = commit(version, leader_epoch=9, expire_timestamp=NOW_MS + 1, topic_id=TOPIC_ID)
    assert (row["group"], row["topic"], row["topic_partition"]) == ("g", "t", 3)
    assert (row["committed_offset"], row["commit_metadata"], row["commit_at_ms"]) == (42, "m", NOW_MS - 5)
    assert row["value_version"] == version
    assert row["leader_epoch"] == (9 if version >= 3 else None)
    assert row["expire_at_ms"] == (NOW_MS + 1 if version == 1 else None)
    assert row["topic_id"] == ("UZfjOntbTDS6Y_ynmReiVA" if version == 4 else None)
    assert row["fields"] is None


def test_a_row_states_where_it_stands():
    rows = records_of(batch_of([(commit_key("g", "t", 0), COMMIT), (commit_key("g", "t", 1), None)], base_offset=100))
    assert [(row["source"], row["partition"], row["offset"], row["at_ms"]) for row in rows] == [
        ("here", 7, 100, NOW_MS),
        ("here", 7, 101, NOW_MS),
    ]
    assert [row["tombstone"] for row in rows] == [False, True]
    assert rows[0]["day"] == datetime.date(2026, 9, 21)
    assert rows[0]["bucket"] == 7


def test_a_commit_without_an_epoch_or_an_expiry_has_none():
    row = commit(4, leader_epoch=-1)
    assert (row["leader_epoch"], row["expire_at_ms"], row["topic_id"], row["transaction"]) == (None, None, None, None)


def test_the_legacy_type_of_a_commit_is_read():
    value = short(0) + (42).to_bytes(8, "big") + name("") + NOW_MS.to_bytes(8, "big")
    (row,) = records_of(batch_of([(commit_key("g", "t", 3, kind=0), value)]))
    assert (row["record_type"], row["committed_offset"], row["commit_metadata"]) == (0, 42, "")


@pytest.mark.parametrize("kind", sorted(set(kinds()) - {0, 1}))
def test_a_record_of_every_type_is_read_in_every_version(kind):
    cls = value_class(kind)
    key = short(kind) + name("a group") + name("a member")
    for version in cls.VERSIONS:
        content = batch_of([(key, value_of(cls(), version)), (key, None)])
        stored, deleted = records_of(content)
        assert (stored["record_type"], stored["group"], stored["value_version"]) == (kind, "a group", version)
        assert (deleted["tombstone"], deleted["fields"], deleted["value_version"]) == (True, None, None)
        fields = json.loads(stored["fields"])
        # Kafka's own names: what is shown can be made into the record again.
        if kind != 2:
            assert value_bytes(kind, {"version": version, "data": fields}) == value_of(cls(), version)
        has_part = kind in (5, 7, 8, 10, 13, 14, 16, 19, 21, 22)
        assert (stored["member"], deleted["member"]) == (("a member",) * 2 if has_part else (None, None))
    assert quarantine_of(content) == []


def test_subscriptions_and_assignments_of_a_classic_group_are_decoded():
    subscription = Subscription(("t",), owned=(TopicPartition("t", 1),), generation=4, rack="r", version=3)
    member = GroupMetadataValue.Member(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout=10,
        subscription=encode_subscription(subscription),
        assignment=encode_assignment(Assignment(frozenset({TopicPartition("t", 0)}), b"\x01\xff")),
    )
    silent = GroupMetadataValue.Member(member_id="n", subscription=b"\x00", assignment=b"")
    value = GroupMetadataValue(protocol_type="consumer", generation=5, protocol="sticky", members=[member, silent])
    (row,) = records_of(batch_of([(short(2) + name("g"), value_of(value, 3))]))
    shown, other = json.loads(row["fields"])["members"]
    assert shown["subscription"] == {
        "version": 3,
        "topics": ["t"],
        "userData": None,
        "ownedPartitions": [{"topic": "t", "partitions": [1]}],
        "generationId": 4,
        "rackId": "r",
    }
    assert shown["assignment"] == {
        "version": 3,
        "assignedPartitions": [{"topic": "t", "partitions": [0]}],
        "userData": "01ff",
    }
    assert (other["subscription"], other["assignment"]) == ({"hex": "00", "length": 1}, None)


def test_metadata_of_another_protocol_is_shown_by_its_first_bytes():
    member = GroupMetadataValue.Member(member_id="m", subscription=b"x" * 100, assignment=b"y")
    value = GroupMetadataValue(protocol_type="connect", members=[member])
    (row,) = records_of(batch_of([(short(2) + name("g"), value_of(value, 3))]))
    (shown,) = json.loads(row["fields"])["members"]
    assert shown["subscription"] == {"hex": b"x".hex() * 64, "length": 100}


def test_a_classic_member_of_a_consumer_group_shows_its_subscriptions():
    classic = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata(
        session_timeout_ms=1,
        supported_protocols=[
            ConsumerGroupMemberMetadataValue.ClassicMemberMetadata.SupportedProtocol(
                name="range", metadata=encode_subscription(Subscription(("t",), version=1))
            )
        ],
    )
    value = ConsumerGroupMemberMetadataValue(client_id="c", classic_member_metadata=classic)
    (row,) = records_of(batch_of([(short(5) + name("g") + name("m"), value_of(value, 0))]))
    (protocol,) = json.loads(row["fields"])["classicMemberMetadata"]["supportedProtocols"]
    assert (protocol["name"], protocol["metadata"]["version"], protocol["metadata"]["topics"]) == ("range", 1, ["t"])


def test_ids_of_topics_are_shown_as_kafka_shows_them():
    target = ConsumerGroupTargetAssignmentMemberValue.TopicPartition(topic_id=TOPIC_ID, partitions=[0, 2])
    value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=[target])
    (row,) = records_of(batch_of([(short(7) + name("g") + name("m"), value_of(value, 0))]))
    assert json.loads(row["fields"]) == {
        "topicPartitions": [{"topicId": "UZfjOntbTDS6Y_ynmReiVA", "partitions": [0, 2]}]
    }


@pytest.mark.parametrize("kind", [9, 18, 24, 32767, -1])
def test_a_record_of_an_unknown_type_is_a_row_as_well(kind):
    (row,) = records_of(batch_of([(short(kind) + b"\xff" * 9, b"\x00\x01anything")]))
    assert (row["record_type"], row["group"], row["fields"], row["value_version"]) == (kind, None, None, 1)


@pytest.mark.parametrize("codec", ALL_CODECS)
def test_every_compression_is_read(codec):
    pairs = [(commit_key("g", "t", number), COMMIT) for number in range(100)]
    content = batch_of(pairs, compression=codec) + batch_of(pairs[:1], 100) + batch_of(pairs, 101, compression=codec)
    rows = records_of(content)
    assert [row["offset"] for row in rows] == list(range(201))
    assert quarantine_of(content) == []


def test_records_before_the_wanted_offset_are_passed_over_inside_a_batch_too():
    pairs = [(commit_key("g", "t", number), COMMIT) for number in range(10)]
    content = batch_of(pairs) + batch_of(pairs, 10)
    assert [row["offset"] for row in records_of(content, (7, 12))] == [7, 8, 9, 10, 11]


# -- transactions


def transactional(offset: int, producer: int = 5) -> bytes:
    return batch_of(
        [(commit_key("g", "t", 0), COMMIT)], offset, producer_id=producer, producer_epoch=1, transactional=True
    )


def marker(offset: int, kind: ControlType, producer: int = 5) -> bytes:
    record = control_record(kind, NOW_MS)
    return encode_batch(
        [record], base_offset=offset, producer_id=producer, producer_epoch=1, transactional=True, control=True
    )


def outcomes(content: bytes) -> list[tuple[int, str | None]]:
    return [(row["offset"], row["transaction"]) for row in records_of(content) if row["record_type"] is not None]


def test_offsets_of_a_transaction_show_how_it_ended():
    content = (
        transactional(0)
        + transactional(1, producer=6)
        + marker(2, ControlType.COMMIT)
        + transactional(3)
        + marker(4, ControlType.ABORT)
        + transactional(5)
        + batch_of([(commit_key("g", "t", 0), COMMIT)], 6)
    )
    assert outcomes(content) == [(0, "committed"), (1, "open"), (3, "aborted"), (5, "open"), (6, None)]
    by_offset = {row["offset"]: (row["producer_id"], row["producer_epoch"]) for row in records_of(content)}
    assert (by_offset[0], by_offset[6]) == ((5, 1), (None, None))


def test_a_marker_is_a_row_for_those_whose_commits_lie_elsewhere():
    markers = [row for row in records_of(marker(9, ControlType.COMMIT)) if row["record_type"] is None]
    assert [(row["offset"], row["transaction"], row["producer_id"]) for row in markers] == [(9, "committed", 5)]


def test_the_marker_of_a_cleaned_log_is_understood():
    # KIP-534: the cleaner writes the horizon where the base timestamp was, so that the record's delta is large.
    plain = marker(1, ControlType.ABORT)
    cleaned = retain_records(read_header(plain), decode_batch(plain), delete_horizon_ms=NOW_MS + 86_400_000)
    assert outcomes(transactional(0) + cleaned) == [(0, "aborted")]


def test_a_marker_behind_a_broken_batch_ends_its_transaction():
    broken = bytearray(sound(0))
    broken[16] = 9
    content = bytes(broken) + transactional(1) + marker(2, ControlType.COMMIT)
    assert outcomes(content) == [(1, "committed")]


# -- what is broken


def sound(offset: int = 0, count: int = 1) -> bytes:
    return batch_of([(commit_key("g", "t", number), COMMIT) for number in range(count)], offset)


def test_a_batch_that_rotted_is_put_aside_and_the_rest_is_read():
    first, second, third = sound(0), bytearray(sound(1)), sound(2)
    second[80] ^= 1
    content = first + bytes(second) + third
    assert [row["offset"] for row in records_of(content)] == [0, 2]
    (fault,) = quarantine_of(content)
    assert (fault["position"], fault["offset"], fault["partition"], fault["file"]) == (len(first), 1, 7, "a.log")
    assert fault["reason"] == "wrong CRC in the batch"
    assert fault["sample"] == bytes(second[:64]).hex()
    assert end_of(content) == 3


def test_a_length_that_rotted_costs_only_its_batch():
    first, second, third = sound(0), bytearray(sound(1)), sound(2)
    for length in (0, 1, 48, 60, 5000, 0x7FFFFFFF, 0xFFFFFFFF):
        second[8:12] = length.to_bytes(4, "big")
        assert [row["offset"] for row in records_of(first + bytes(second) + third)] == [0, 2], length
        assert len(quarantine_of(first + bytes(second) + third)) == 1


def test_a_file_that_ends_inside_a_batch_reports_it():
    whole = sound(0) + sound(1)
    for length in range(len(sound(0)) + 8, len(whole)):  # the seven bytes before are zeros
        (fault,) = quarantine_of(whole[:length])
        assert (fault["position"], end_of(whole[:length])) == (len(sound(0)), 1)
        assert "end" in fault["reason"]


def test_zeros_behind_the_last_batch_were_only_allocated():
    content = sound(0) + bytes(5000)
    assert (len(records_of(content)), quarantine_of(content)) == (1, [])


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\x1a\n" + b"pixels" * 100, b"x", b"\x00" * 16 + b"\x02" * 4096])
def test_a_file_of_something_else_is_one_fault(content):
    (fault,) = quarantine_of(content)
    assert (fault["position"], records_of(content)) == (0, [])


def test_messages_of_before_record_batches_are_counted_not_read():
    old = b"\x00" * 8 + (30).to_bytes(4, "big") + b"\x00" * 4 + b"\x01" + b"\x00" * 25
    content = old * (MOST_OF_A_REASON + 50) + sound(3)
    faults = quarantine_of(content)
    assert len(faults) == MOST_OF_A_REASON + 1
    assert faults[0]["reason"].startswith("a message of format v1")
    assert faults[-1]["reason"].startswith("and 50 more: ")
    assert [row["offset"] for row in records_of(content)] == [3]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, COMMIT, "its key has no record type"),
        (b"\x00", COMMIT, "its key has no record type"),
        (short(1) + name("g"), COMMIT, "the key ends in the middle of a name"),
        (short(1) + short(99) + b"g", COMMIT, "the key ends in the middle of a name"),
        (short(1) + short(-5) + b"g", COMMIT, "the key ends in the middle of a name"),
        (short(2), b"", "the key ends in the middle of a name"),
        (commit_key("g", "t", 0)[:-1], COMMIT, "the key ends before its partition"),
        (commit_key("g", "t", 0), b"\x00", "the value ends before its version"),
        (commit_key("g", "t", 0), short(5) + COMMIT, "the version of a commit's value is not known, 4 is the newest"),
        (commit_key("g", "t", 0), COMMIT[:-1], "the value of a commit ends before its last field"),
        (commit_key("g", "t", 0), COMMIT[:12], "the value of a commit ends before its last field"),
        (commit_key(b"\xff", "t", 0), COMMIT, "the group in its key is not UTF-8"),
        (commit_key("g", b"\xc0", 0), COMMIT, "the topic in its key is not UTF-8"),
        (short(5) + name("g") + name(b"\xff"), None, "the member in its key is not UTF-8"),
        (short(3) + name("g"), short(7), "version 7 of a ConsumerGroupMetadata value is not known, 0 is the newest"),
        (short(3) + name("g"), b"", "the value ends before its version"),
    ],
)
def test_a_record_that_cannot_be_read_is_put_aside_alone(key, value, reason):
    content = batch_of([(commit_key("g", "t", 0), COMMIT), (key, value), (commit_key("g", "t", 1), COMMIT)], 10)
    assert [row["offset"] for row in records_of(content)] == [10, 12]
    (fault,) = quarantine_of(content)
    assert (fault["reason"], fault["offset"], fault["position"]) == (reason, 11, 0)


def test_a_batch_of_nothing_but_broken_records_does_not_fill_the_quarantine():
    broken = 10_000
    content = batch_of([(b"", None)] * broken + [(commit_key("g", "t", 0), COMMIT)])
    assert [row["offset"] for row in records_of(content)] == [broken]
    faults = quarantine_of(content)
    assert len(faults) == MOST_OF_A_REASON + 1
    assert faults[-1]["reason"] == f"and {broken - MOST_OF_A_REASON} more: its key has no record type"


def test_a_packed_batch_that_claims_more_records_than_it_can_have_is_put_aside():
    content = bytearray(batch_of([(commit_key("g", "t", 0), COMMIT)], compression=Compression.GZIP))
    struct.pack_into(">i", content, 23, (1 << 31) - 1)
    struct.pack_into(">i", content, 57, (1 << 31) - 1)
    struct.pack_into(">I", content, 17, crc32c(bytes(content[21:])))
    (fault,) = quarantine_of(bytes(content) + sound(1 << 31))
    assert fault["reason"] == "the batch header has a count of 2147483647 records, too many for its offsets or its size"


def test_reasons_of_which_each_is_another_do_not_fill_the_quarantine():
    quarantine = Quarantine()
    for number in range(100 * MOST_OF_A_REASON):
        quarantine.add(Fault(f"line {number} is odd"))
    faults = quarantine.finish()
    assert len(faults) == MOST_REASONS + MOST_OF_A_REASON + 1
    assert faults[-1].reason.startswith(f"and {99 * MOST_OF_A_REASON - MOST_REASONS} more: line 9999 ")


def test_metadata_that_is_no_text_is_stored_as_hex():
    values = [COMMIT[:14] + bytes([len(text) + 1]) + text + COMMIT[15:] for text in (b"\xff\x00", "é".encode(), b"ok")]
    rows = records_of(batch_of([(commit_key("gr\u00fcn", "t", 0), value) for value in values]))
    assert [(row["group"], row["commit_metadata"]) for row in rows] == [
        ("grün", "0xff00"),
        ("grün", "é"),
        ("grün", "ok"),
    ]


def test_a_clock_far_off_gives_a_day_that_spark_has():
    for at_ms, year in ((-1, 1969), (1 << 62, 9999), (-(1 << 62), 1)):
        content = encode_batch([Record(0, at_ms, commit_key("g", "t", 0), COMMIT)])
        (row,) = records_of(content)
        assert (row["at_ms"], row["day"].year) == (at_ms, year)


# -- any bytes

PAIRS = st.lists(
    st.tuples(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=60)), min_size=1, max_size=5
)


@given(PAIRS, st.integers(0, 23))
@settings(max_examples=examples(150), deadline=None)
def test_whatever_a_record_has_it_is_a_row_or_a_fault(pairs, kind):
    typed = [(None if key is None else short(kind) + key, value) for key, value in pairs]
    rows = read(batch_of(typed))
    seen = [row["offset"] for row in rows if row["offset"] is not None]
    assert sorted(seen) == list(range(len(pairs)))


@given(st.binary(max_size=400))
@settings(max_examples=examples(150), deadline=None)
def test_whatever_a_file_has_the_reading_ends(content):
    assert read(content)


@given(st.integers(0, 700), st.integers(1, 255), st.sampled_from(ALL_CODECS))
@settings(max_examples=examples(200), deadline=None)
def test_one_wrong_byte_costs_one_batch_at_most(at, flip, codec):
    pairs = [(commit_key("g", "t", number), COMMIT) for number in range(4)]
    batches = [batch_of(pairs, 4 * index, compression=codec) for index in range(3)]
    content = bytearray(b"".join(batches))
    at %= len(content)
    content[at] ^= flip
    offsets = [row["offset"] for row in records_of(bytes(content))]
    hit = 0
    while at >= len(batches[hit]):
        at -= len(batches[hit])
        hit += 1
    spared = [offset for offset in range(12) if offset // 4 != hit]
    # Base offset and leader epoch lie outside the CRC: a batch may come out where it was not.
    assert [offset for offset in offsets if offset in spared] == spared or at < 8
