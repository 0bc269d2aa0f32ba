"""Records of consumer groups (KIP-848): Kafka's bytes, both ways, for every type and its tombstone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kohort.group.events import (
    Assigned,
    ClassicMemberMetadata,
    ClassicPhase,
    ConsumerGroupDeleted,
    ConsumerGroupStored,
    ConsumerMemberDeleted,
    ConsumerMemberStored,
    HardEvent,
    MemberAssignmentDeleted,
    MemberAssignmentStored,
    MemberState,
    MemberTargetDeleted,
    MemberTargetStored,
    PartitionMetadataDeleted,
    PartitionMetadataStored,
    RegexDeleted,
    RegexStored,
    TargetDeleted,
    TargetStored,
)
from kohort.log.offsets_topic import CorruptOffsetsRecord, Replay, encode_events, record_of
from kohort.model.cause import Cause, CauseKind
from kohort.model.errors import KafkaError
from kohort.wire.codec import encode
from kohort.wire.messages import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupTargetAssignmentMemberValue,
)
from kohort.wire.record_batches import Record, encode_batch

LOADED = Cause(CauseKind.COORDINATOR_LOADED, -1)
NOW = 1_700_000_000_000
A, B = bytes(range(16)), bytes(range(16, 32))

GROUP = ConsumerGroupStored("g", 2, 0x08C46756A8AD2529, LOADED)
NATIVE = ConsumerMemberStored("g", "m", None, None, "rdkafka", "/127.0.0.1", ("t",), "", 300_000, None, None, LOADED)
CLASSIC = replace(
    NATIVE,
    instance_id="i",
    rack_id="r",
    subscribed_topic_names=("t", "u"),
    server_assignor="uniform",
    classic=ClassicMemberMetadata(45_000, (("range", b"\x00\x03"), ("cooperative-sticky", b""))),
)
LAGGING = replace(NATIVE, lags=((A, ((0, 5), (3, 1 << 40))), (B, ((1, 0),))), acceptable_recovery_lag=500)
TARGET = TargetStored("g", 2, NOW, LOADED)
MEMBER_TARGET = MemberTargetStored("g", "m", ((A, (0, 2)), (B, (1,))), LOADED)
ASSIGNMENT = MemberAssignmentStored(
    "g",
    "m",
    4,
    3,
    MemberState.UNREVOKED_PARTITIONS,
    (Assigned(A, (0, 2), (2, 4)),),
    (Assigned(B, (1,), (3,)),),
    LOADED,
)
REGEX = RegexStored("g", "t.*", ("t", "tu"), 7, NOW, LOADED)
STORED: list[HardEvent] = [
    GROUP,
    replace(GROUP, metadata_hash=0),
    replace(GROUP, metadata_hash=-1),
    NATIVE,
    CLASSIC,
    LAGGING,
    replace(NATIVE, subscribed_topic_names=(), subscribed_topic_regex="t.*"),
    TARGET,
    replace(TARGET, timestamp_ms=0),
    MEMBER_TARGET,
    replace(MEMBER_TARGET, target=()),
    ASSIGNMENT,
    replace(ASSIGNMENT, epoch=-2, state=MemberState.STABLE, assigned=(), pending=()),
    replace(ASSIGNMENT, classic_phase=ClassicPhase.PREPARE_REBALANCE, state=MemberState.UNRELEASED_PARTITIONS),
    replace(ASSIGNMENT, classic_phase=ClassicPhase.COMPLETING_REBALANCE),
    replace(ASSIGNMENT, assigned=(Assigned(A, tuple(range(500)), (9,) * 500),)),
    REGEX,
    replace(REGEX, topics=()),
]
TOMBSTONES: list[tuple[int, HardEvent]] = [
    (3, ConsumerGroupDeleted("g", LOADED)),
    (4, PartitionMetadataDeleted("g", LOADED)),
    (5, ConsumerMemberDeleted("g", "m", LOADED)),
    (6, TargetDeleted("g", LOADED)),
    (7, MemberTargetDeleted("g", "m", LOADED)),
    (8, MemberAssignmentDeleted("g", "m", LOADED)),
    (16, RegexDeleted("g", "t.*", LOADED)),
]


def value_of(event: HardEvent) -> str:
    value = record_of(event)[1]
    assert value is not None
    return value.hex()


def read(*records: Record) -> list[HardEvent]:
    return list(Replay().read(encode_batch(records)))


# -- writing


def test_member_is_written_as_kafka_writes_it_its_null_classic_metadata_too() -> None:
    key, _ = record_of(NATIVE)
    assert key.hex() == "000500016700016d"
    assert value_of(NATIVE) == (
        "0000" "00" "00" "0872646b61666b61" "0b2f3132372e302e302e31" "020274" "01" "000493e0" "00" "01000100" ""
    )  # fmt: skip


def test_classic_member_is_written_with_what_it_offers() -> None:
    assert value_of(replace(CLASSIC, subscribed_topic_names=("t",))) == (
        "0000" "0269" "0272" "0872646b61666b61" "0b2f3132372e302e302e31" "020274" "01" "000493e0" "08756e69666f726d"
        "01" "0026" "01" "0000afc8" "03" "0672616e6765" "030003" "00"
        "13636f6f70657261746976652d737469636b79" "01" "00" "00"
    )  # fmt: skip


def test_group_is_written_as_kafka_writes_it() -> None:
    assert record_of(GROUP)[0].hex() == "0003000167"
    assert value_of(GROUP) == "0000" "00000002" "01000808c46756a8ad2529"  # fmt: skip
    assert value_of(replace(GROUP, metadata_hash=0)) == "0000" "00000002" "00"  # fmt: skip


def test_target_is_written_as_kafka_writes_it() -> None:
    assert record_of(TARGET)[0].hex() == "0006000167"
    assert value_of(TARGET) == "0000" "00000002" "0100080000018bcfe56800"  # fmt: skip
    assert record_of(MEMBER_TARGET)[0].hex() == "0007" "000167" "00016d"  # fmt: skip
    assert value_of(MEMBER_TARGET) == (
        "0000" "03" f"{A.hex()}" "030000000000000002" "00" f"{B.hex()}" "0200000001" "00" "00"
    )  # fmt: skip


def test_assignment_is_written_with_the_epoch_of_every_partition() -> None:
    assert record_of(ASSIGNMENT)[0].hex() == "0008" "000167" "00016d"  # fmt: skip
    assert value_of(ASSIGNMENT) == (
        "0000" "00000004" "00000003" "01"
        "02" f"{A.hex()}" "030000000000000002" "010009" "030000000200000004"
        "02" f"{B.hex()}" "0200000001" "010005" "0200000003"
        "00"
    )  # fmt: skip


def test_regex_is_written_as_kafka_writes_it() -> None:
    assert record_of(REGEX)[0].hex() == "0010" "000167" "0003742e2a"  # fmt: skip
    assert value_of(REGEX) == "0000" "03" "0274" "037475" "0000000000000007" "0000018bcfe56800" "00"  # fmt: skip


@pytest.mark.parametrize(("kind", "event"), TOMBSTONES)
def test_end_of_anything_is_a_tombstone_of_its_type(kind: int, event: HardEvent) -> None:
    key, value = record_of(event)
    assert (int.from_bytes(key[:2], "big"), value) == (kind, None)


@pytest.mark.parametrize("target", [(), ((A, (0,)),), ((A, tuple(range(70))), (B, (2**31 - 1,)))])
def test_target_bytes_are_those_of_the_schema(target: tuple[tuple[bytes, tuple[int, ...]], ...]) -> None:
    topic = ConsumerGroupTargetAssignmentMemberValue.TopicPartition
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[topic(topic_id=topic_id, partitions=list(numbers)) for topic_id, numbers in target]
    )
    assert record_of(replace(MEMBER_TARGET, target=target))[1] == b"\x00\x00" + encode(value, 0)


@pytest.mark.parametrize("event", [event for event in STORED if isinstance(event, MemberAssignmentStored)])
def test_assignment_bytes_are_those_of_the_schema(event: MemberAssignmentStored) -> None:
    values = ConsumerGroupCurrentMemberAssignmentValue
    value = values(
        member_epoch=event.epoch,
        previous_member_epoch=event.previous_epoch,
        state=event.state,
        assigned_partitions=[
            values.AssignedPartition(
                topic_id=held.topic_id, partitions=list(held.partitions), assignment_epochs=list(held.epochs)
            )
            for held in event.assigned
        ],
        partitions_pending_revocation=[
            values.PartitionPendingRevocation(
                topic_id=held.topic_id, partitions=list(held.partitions), assignment_epochs=list(held.epochs)
            )
            for held in event.pending
        ],
        classic_phase=event.classic_phase,
    )
    assert record_of(event)[1] == b"\x00\x00" + encode(value, 0)


@pytest.mark.parametrize("name", ["x" * 32_768, "\ud800"])
def test_name_that_fits_no_record_is_refused(name: str) -> None:
    for event in (replace(NATIVE, member_id=name), replace(ASSIGNMENT, group_id=name), replace(REGEX, regex=name)):
        with pytest.raises(KafkaError):
            encode_events([event], NOW)


def test_what_is_only_read_is_never_written() -> None:
    with pytest.raises(KeyError):
        record_of(PartitionMetadataStored("g", LOADED))


# -- reading


@pytest.mark.parametrize("event", [*STORED, *(event for _, event in TOMBSTONES)])
def test_what_was_written_is_read(event: HardEvent) -> None:
    assert list(Replay().read(encode_events([event], NOW))) == [event]


def test_what_kafka_4_0_stored_about_topics_is_met_and_nothing_more() -> None:
    values = ConsumerGroupPartitionMetadataValue
    partition = values.Topic.PartitionMetadata(partition=0, racks=["r"])
    topic = values.Topic(topic_id=A, topic_name="t", num_partitions=1, partition_metadata=[partition])
    key = b"\x00\x04" + encode(ConsumerGroupPartitionMetadataKey(group_id="g"), 0)
    value = b"\x00\x00" + encode(values(topics=[topic]), 0)
    assert read(Record(0, NOW, key, value)) == [PartitionMetadataStored("g", LOADED)]
    assert read(Record(0, NOW, key, None)) == [PartitionMetadataDeleted("g", LOADED)]
    with pytest.raises(CorruptOffsetsRecord, match="type 4"):
        read(Record(0, NOW, key, value[:-3]))


@pytest.mark.parametrize(
    ("member_epoch", "epochs", "expected"),
    [
        (5, None, (5, 5)),
        (5, [], (5, 5)),
        (5, [3], (5, 5)),
        (5, [3, 4, 5], (5, 5)),
        (5, [3, 4], (3, 4)),
        (-2, None, (0, 0)),
        (-2, [3, 4], (3, 4)),
    ],
)
def test_partition_without_an_epoch_of_its_own_was_assigned_at_its_members(
    member_epoch: int, epochs: list[int] | None, expected: tuple[int, ...]
) -> None:
    values = ConsumerGroupCurrentMemberAssignmentValue
    topic = values.AssignedPartition(topic_id=A, partitions=[0, 2], assignment_epochs=epochs)
    value = values(member_epoch=member_epoch, assigned_partitions=[topic])
    (event,) = read(Record(0, NOW, record_of(ASSIGNMENT)[0], b"\x00\x00" + encode(value, 0)))
    assert isinstance(event, MemberAssignmentStored)
    assert event.assigned == (Assigned(A, (0, 2), expected),)


def test_partitions_are_put_in_order_with_their_epochs() -> None:
    values = ConsumerGroupCurrentMemberAssignmentValue
    topics = [
        values.AssignedPartition(topic_id=B, partitions=[2, 0], assignment_epochs=[7, 6]),
        values.AssignedPartition(topic_id=A, partitions=[1], assignment_epochs=[5]),
        values.AssignedPartition(topic_id=bytes(16), partitions=[], assignment_epochs=[]),
        values.AssignedPartition(topic_id=B, partitions=[1], assignment_epochs=[4]),
    ]
    value = values(member_epoch=7, assigned_partitions=topics)
    (event,) = read(Record(0, NOW, record_of(ASSIGNMENT)[0], b"\x00\x00" + encode(value, 0)))
    assert isinstance(event, MemberAssignmentStored)
    assert event.assigned == (Assigned(A, (1,), (5,)), Assigned(B, (0, 1, 2), (6, 4, 7)))


@pytest.mark.parametrize("state", [3, 127, -1])
def test_state_of_a_newer_kafka_is_unknown(state: int) -> None:
    value = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=1, state=state, classic_phase=9)
    (event,) = read(Record(0, NOW, record_of(ASSIGNMENT)[0], b"\x00\x00" + encode(value, 0)))
    assert isinstance(event, MemberAssignmentStored)
    assert (event.state, event.classic_phase) == (MemberState.UNKNOWN, ClassicPhase.STABLE)


def test_member_that_is_away_owes_nothing_although_kafka_stores_the_state_that_it_was_in() -> None:
    value = ConsumerGroupCurrentMemberAssignmentValue(member_epoch=-2, state=MemberState.UNREVOKED_PARTITIONS)
    (event,) = read(Record(0, NOW, record_of(ASSIGNMENT)[0], b"\x00\x00" + encode(value, 0)))
    assert isinstance(event, MemberAssignmentStored)
    assert (event.epoch, event.state) == (-2, MemberState.STABLE)


def test_member_of_kafka_3_7_which_knew_no_classic_members_is_native() -> None:
    value = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="c",
        client_host="/h",
        subscribed_topic_names=["u", "t", "u"],
        subscribed_topic_regex=None,
        server_assignor=None,
    )
    blob = encode(value, 0)
    assert blob.endswith(b"\x00"), "an empty classic metadata is left out"
    key = b"\x00\x05" + encode(ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"), 0)
    (event,) = read(Record(0, NOW, key, b"\x00\x00" + blob))
    assert isinstance(event, ConsumerMemberStored)
    assert (event.classic, event.subscribed_topic_regex) == (None, "")
    assert event.subscribed_topic_names == ("t", "u")


def test_tag_of_a_newer_kafka_is_skipped() -> None:
    key, value = record_of(replace(TARGET, timestamp_ms=0))
    assert value is not None
    assert read(Record(0, NOW, key, value[:-1] + b"\x01\x09\x02??")) == [replace(TARGET, timestamp_ms=0)]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"\x00\x03\x00\x05g", None, "type 3 is malformed: the key ends"),
        (b"\x00\x08\x00\x01g", None, "type 8 is malformed: the key ends"),
        (b"\x00\x05\x00\x01g\x00\x01\xff", None, "not UTF-8"),
        (b"\x00\x10\x00\x01g\xff\xff", None, "type 16 is malformed: the key ends"),
        (b"\x00\x03\x00\x01g", b"\x00", "ends before its version"),
        (b"\x00\x03\x00\x01g", b"\x00\x01\x00\x00\x00\x01\x00", "value version 1 is not known"),
        (b"\x00\x06\x00\x01g", b"\x00\x00\x00\x00", "type 6 is malformed"),
        (b"\x00\x07\x00\x01g\x00\x01m", b"\x00\x00\xff\xff\xff\xff\x7f", "type 7 is malformed"),
        (b"\x00\x08\x00\x01g\x00\x01m", b"\x00\x00" + bytes(9) + b"\x02" + A + b"\xff", "type 8 is malformed"),
    ],
)
def test_record_that_cannot_be_read_states_where_it_is(key: bytes, value: bytes | None, reason: str) -> None:
    batch = encode_batch([Record(0, NOW, *record_of(GROUP)), Record(0, NOW, key, value)], base_offset=70)
    with pytest.raises(CorruptOffsetsRecord, match=reason) as caught:
        list(Replay().read(batch))
    assert caught.value.offset == 71
