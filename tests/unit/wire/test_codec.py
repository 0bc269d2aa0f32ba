"""Messages to bytes and back: golden bytes, defaults, absent fields, tagged fields, batches by reference."""

from __future__ import annotations

import linecache
import traceback

import pytest

from kohort.wire import codec
from kohort.wire.message import Message
from kohort.wire.messages import (
    ApiVersionsResponse,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupMemberMetadataValue,
    FetchRequest,
    FetchResponse,
    FindCoordinatorResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    MetadataRequest,
    OffsetFetchRequest,
    ProduceRequest,
    RequestHeader,
    SaslHandshakeResponse,
    SyncGroupResponse,
    TransactionLogValue,
)
from kohort.wire.primitives import MalformedMessage, UnencodableMessage, UnsupportedVersion

TOPIC_ID = bytes(range(16))


# Bytes computed by hand from Kafka's protocol guide.
GOLDEN: list[tuple[Message, int, str]] = [
    (HeartbeatRequest(group_id="g", generation_id=5, member_id="m"), 0, "0001 67 00000005 0001 6d"),
    (HeartbeatRequest(group_id="g", generation_id=5, member_id="m"), 3, "0001 67 00000005 0001 6d ffff"),
    (HeartbeatRequest(group_id="g", generation_id=5, member_id="m"), 4, "02 67 00000005 02 6d 00 00"),
    (
        HeartbeatRequest(group_id="g", generation_id=-1, member_id="m", group_instance_id="i"),
        4,
        "02 67 ffffffff 02 6d 02 69 00",
    ),
    (
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10000,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=b"\1\2")],
        ),
        0,
        "0001 67 00002710 0000 0008 636f6e73756d6572 00000001 0005 72616e6765 00000002 0102",
    ),
    (LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.Member(member_id="m")]), 3,
     "0001 67 00000001 0001 6d ffff"),
    (SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN"]), 1, "0021 00000001 0005 504c41494e"),
    (MetadataRequest(topics=None), 1, "ffffffff"),
    (MetadataRequest(topics=None), 12, "00 01 00 00"),
    (OffsetFetchRequest(group_id="g", topics=None, require_stable=True), 7, "02 67 00 01 00"),
    (
        ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=1, heartbeat_interval_ms=5000),
        0,
        "00000000 0000 00 02 6d 00000001 00001388 ff 00",
    ),
    (
        ConsumerGroupHeartbeatResponse(
            member_epoch=1,
            assignment=ConsumerGroupHeartbeatResponse.Assignment(
                topic_partitions=[
                    ConsumerGroupHeartbeatResponse.Assignment.TopicPartition(topic_id=TOPIC_ID, partitions=[0, 7])
                ]
            ),
        ),
        0,
        "00000000 0000 00 00 00000001 00000000 01 02 000102030405060708090a0b0c0d0e0f 03 00000000 00000007 00 00 00",
    ),
    (
        ApiVersionsResponse(
            api_keys=[ApiVersionsResponse.ApiKey(api_key=18, min_version=0, max_version=4)],
            finalized_features_epoch=3,
        ),
        3,
        "0000 02 0012 0000 0004 00 00000000 01 01 08 0000000000000003",
    ),
    (RequestHeader(request_api_key=12, request_api_version=4, correlation_id=7, client_id="c"), 2,
     "000c 0004 00000007 0001 63 00"),
    (SyncGroupResponse(error_code=-1, error_message="x"), 4, "00000000 ffff 01 01 ecd601 02 0278"),
    (SyncGroupResponse(error_code=-1, error_message=None), 4, "00000000 ffff 01 00"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "version", "expected"), GOLDEN)
def test_golden_bytes(message: Message, version: int, expected: str) -> None:
    blob = codec.encode(message, version)
    assert blob.hex() == expected.replace(" ", "")
    assert codec.decode(type(message), version, blob) == (message, len(blob))


def test_a_field_that_a_version_lacks_is_dropped_and_comes_back_as_its_default() -> None:
    request = JoinGroupRequest(group_id="g", rebalance_timeout_ms=9, group_instance_id="i", reason="because")
    read, _ = codec.decode(JoinGroupRequest, 4, codec.encode(request, 4))
    assert (read.rebalance_timeout_ms, read.group_instance_id, read.reason) == (9, None, None)
    read, _ = codec.decode(JoinGroupRequest, 0, codec.encode(request, 0))
    assert read.rebalance_timeout_ms == -1


def test_defaults_of_mutable_values_are_not_shared() -> None:
    first, second = JoinGroupRequest(), JoinGroupRequest()
    first.protocols.append(JoinGroupRequest.Protocol())
    assert second.protocols == []
    blob = codec.encode(FetchRequest(), 4)
    one, _ = codec.decode(FetchRequest, 4, blob)
    two, _ = codec.decode(FetchRequest, 4, blob)
    one.forgotten_topics_data.append(FetchRequest.ForgottenTopic())
    assert two.forgotten_topics_data == []


def test_reading_may_begin_anywhere_and_states_where_it_ended() -> None:
    blob = codec.encode(HeartbeatRequest(group_id="g", member_id="m"), 4)
    read, position = codec.decode(HeartbeatRequest, 4, b"xxx" + blob + b"yy", 3)
    assert (read.group_id, position) == ("g", 3 + len(blob))


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("version", [3, 13])
def test_any_buffer_is_read_alike(buffer: type, version: int) -> None:
    request = ProduceRequest(
        acks=1,
        topic_data=[
            ProduceRequest.TopicData(
                name="t" if version < 13 else "",
                topic_id=bytes(16) if version < 13 else TOPIC_ID,
                partition_data=[ProduceRequest.TopicData.PartitionData(index=1, records=b"batch")],
            )
        ],
    )
    blob = codec.encode(request, version)
    assert codec.decode(ProduceRequest, version, buffer(blob)) == (request, len(blob))
    joined = JoinGroupRequest(group_id="g", protocols=[JoinGroupRequest.Protocol(name="p", metadata=b"m")])
    read, _ = codec.decode(JoinGroupRequest, 9, buffer(codec.encode(joined, 9)))
    assert read == joined
    assert type(read.protocols[0].metadata) is bytes


def test_batches_are_read_as_views_and_written_by_reference() -> None:
    batch = bytearray(b"x" * 500)
    partition = FetchResponse.Response.Partition(records=batch)
    message = FetchResponse(responses=[FetchResponse.Response(topic="t", partitions=[partition])])
    written: list[codec.Buffer] = []
    codec.gather(message, 11, written)
    assert any(part is batch for part in written)
    blob = codec.encode(message, 11)
    read, _ = codec.decode(FetchResponse, 11, blob)
    records = read.responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert records.obj is blob


def test_batches_may_be_given_as_the_buffers_that_a_log_read() -> None:
    partition = FetchResponse.Response.Partition
    split = FetchResponse(
        responses=[FetchResponse.Response(partitions=[partition(records=[b"ab", memoryview(b"cd")])])]
    )
    whole = FetchResponse(responses=[FetchResponse.Response(partitions=[partition(records=b"abcd")])])
    for version in FetchResponse.VERSIONS:
        assert codec.encode(split, version) == codec.encode(whole, version)


def test_no_batches_and_null_batches_differ() -> None:
    def sent(records: bytes | None) -> object:
        partition = FetchResponse.Response.Partition(records=records)
        message = FetchResponse(responses=[FetchResponse.Response(partitions=[partition])])
        read, _ = codec.decode(FetchResponse, 12, codec.encode(message, 12))
        return read.responses[0].partitions[0].records

    assert sent(None) is None
    assert sent(b"") == b""


@pytest.mark.parametrize("length", [0, 1, 126, 127, 128, 16381, 16382, 16383, 16384, 70000])
def test_lengths_of_every_width(length: int) -> None:
    request = JoinGroupRequest(protocols=[JoinGroupRequest.Protocol(metadata=b"x" * length)])
    for version in (5, 6):
        assert codec.decode(JoinGroupRequest, version, codec.encode(request, version))[0] == request


@pytest.mark.parametrize("count", [0, 1, 62, 63, 64, 65, 127, 128, 20000])
def test_runs_of_numbers_of_every_length(count: int) -> None:
    partition = OffsetFetchRequest.Topic(name="t", partition_indexes=list(range(count)))
    request = OffsetFetchRequest(group_id="g", topics=[partition])
    for version in (5, 6):
        assert codec.decode(OffsetFetchRequest, version, codec.encode(request, version))[0] == request


def test_null_lists_and_empty_lists_differ() -> None:
    either: list[list[str] | None] = [None, []]
    for names in either:
        request = ConsumerGroupHeartbeatRequest(subscribed_topic_names=names)
        assert (
            codec.decode(ConsumerGroupHeartbeatRequest, 1, codec.encode(request, 1))[0].subscribed_topic_names == names
        )


class TestTaggedFields:
    def test_a_tagged_field_at_its_default_is_not_written(self) -> None:
        assert codec.encode(FetchRequest(), 12).endswith(b"\1\1\1\0")

    def test_a_tagged_struct_that_was_not_sent_is_none(self) -> None:
        blob = codec.encode(FetchResponse(responses=[FetchResponse.Response(partitions=[_partition()])]), 16)
        assert codec.decode(FetchResponse, 16, blob)[0].responses[0].partitions[0].current_leader is None

    def test_a_tagged_struct_of_defaults_is_not_written(self) -> None:
        leader = FetchResponse.Response.Partition.CurrentLeader()
        bare, full = (
            FetchResponse(responses=[FetchResponse.Response(partitions=[_partition(current_leader=each)])])
            for each in (None, leader)
        )
        assert codec.encode(bare, 16) == codec.encode(full, 16)

    def test_tagged_fields_are_written_by_rising_tag(self) -> None:
        value = TransactionLogValue(client_transaction_version=2, next_producer_epoch=3, previous_producer_id=1)
        tags = "03 00 08 0000000000000001 02 02 0002 03 02 0003"
        assert codec.encode(value, 1).endswith(bytes.fromhex(tags))

    def test_a_tagged_field_is_dropped_before_flexible_versions(self) -> None:
        value = TransactionLogValue(client_transaction_version=2)
        assert codec.decode(TransactionLogValue, 0, codec.encode(value, 0))[0].client_transaction_version == 0

    def test_null_and_absent_differ_where_a_tagged_struct_is_nullable(self) -> None:
        """As in Kafka's generated classes: an absent struct is one of defaults, so null is sent as null."""
        metadata = ConsumerGroupMemberMetadataValue.ClassicMemberMetadata
        for sent, tags in [
            (None, "01 00 01 00"),
            (metadata(), "00"),
            (metadata(session_timeout_ms=7), "01 00 07 01 00000007 01 00"),
        ]:
            value = ConsumerGroupMemberMetadataValue(classic_member_metadata=sent)
            blob = codec.encode(value, 0)
            assert codec.decode(ConsumerGroupMemberMetadataValue, 0, blob) == (value, len(blob))
            assert blob[11:] == bytes.fromhex(tags)

    def test_null_and_empty_differ_where_a_tagged_list_is_nullable(self) -> None:
        partitions = ConsumerGroupCurrentMemberAssignmentValue.AssignedPartition
        for epochs, tags in [(None, "01 00 01 00"), ([], "00"), ([5], "01 00 05 02 00000005")]:
            value = ConsumerGroupCurrentMemberAssignmentValue(
                assigned_partitions=[partitions(assignment_epochs=epochs)],
            )
            blob = codec.encode(value, 0)
            read, _ = codec.decode(ConsumerGroupCurrentMemberAssignmentValue, 0, blob)
            assert read == value
            assert blob[27:-2] == bytes.fromhex(tags)

    def test_unknown_tagged_fields_are_skipped_wherever_they_are(self) -> None:
        blob = bytes.fromhex("02 67 00000005 02 6d 00" + "02 05 03 aabbcc 8001 00")
        read, position = codec.decode(HeartbeatRequest, 4, blob)
        assert (read.generation_id, position) == (5, len(blob))
        unknown = bytes.fromhex("0000 01 00000000 02 07 01 ff 01 08 0000000000000009")
        read_versions, position = codec.decode(ApiVersionsResponse, 3, unknown)
        assert (read_versions.finalized_features_epoch, position) == (9, len(unknown))


class TestJoinGroupResponseProtocolName:
    """KIP-559: null exists from version 7 on; before, the empty name stands for it, and never after."""

    @pytest.mark.parametrize("name", ["", None])
    def test_no_protocol_name_is_empty_before_version_7_and_null_since(self, name: str | None) -> None:
        for version in JoinGroupResponse.VERSIONS:
            blob = codec.encode(JoinGroupResponse(protocol_name=name), version)
            read, _ = codec.decode(JoinGroupResponse, version, blob)
            assert read.protocol_name == ("" if version < 7 else None)

    def test_a_protocol_name_is_itself_in_every_version(self) -> None:
        for version in JoinGroupResponse.VERSIONS:
            blob = codec.encode(JoinGroupResponse(protocol_name="range"), version)
            assert codec.decode(JoinGroupResponse, version, blob)[0].protocol_name == "range"


class TestWhatCannotBeEncoded:
    @pytest.mark.parametrize(
        ("message", "version", "words"),
        [
            (HeartbeatRequest(group_id=None), 4, "group_id: may not be null"),  # type: ignore[arg-type]
            (HeartbeatRequest(group_id=3), 0, "group_id: a str is wanted, not int"),  # type: ignore[arg-type]
            (HeartbeatRequest(generation_id=1 << 31), 4, "generation_id: 2147483648 does not fit i32"),
            (HeartbeatRequest(member_id="\ud800"), 4, "member_id: .*surrogates"),
            (JoinGroupRequest(protocols=[JoinGroupRequest.Protocol(metadata="x")]), 9,  # type: ignore[arg-type]
             r"protocols\[0\].metadata: bytes are wanted"),
            (JoinGroupRequest(protocols=7), 9, "protocols: a list is wanted"),  # type: ignore[arg-type]
            (JoinGroupRequest(protocols=[None]), 9, "protocols"),  # type: ignore[list-item]
            (MetadataRequest(topics=None), 0, "topics: may not be null in this version"),
            (HeartbeatRequest(member_id="m" * 40000), 0, "does not fit|format requires"),
        ],
    )  # fmt: skip
    def test_the_field_is_named(self, message: Message, version: int, words: str) -> None:
        for _ in range(2):
            with pytest.raises(UnencodableMessage, match=words):
                codec.encode(message, version)

    @pytest.mark.parametrize("version", [-1, 5])
    def test_a_version_that_is_not_is_refused(self, version: int) -> None:
        with pytest.raises(UnsupportedVersion, match="0-4"):
            codec.encode(HeartbeatRequest(), version)
        with pytest.raises(UnsupportedVersion, match="0-4"):
            codec.decode(HeartbeatRequest, version, b"")


def test_a_text_has_at_most_32767_bytes_in_flexible_versions_too() -> None:
    most = HeartbeatRequest(group_id="g", member_id="m" * 32_767, group_instance_id="i" * 32_767)
    assert codec.decode(HeartbeatRequest, 4, codec.encode(most, 4))[0] == most
    for more in ({"member_id": "m" * 32_768}, {"group_instance_id": "\u00e9" * 16_384}):
        octets = codec.encode(HeartbeatRequest(group_id="g", **more), 4)
        with pytest.raises(MalformedMessage, match="has 32768 bytes; a text has at most 32767"):
            codec.decode(HeartbeatRequest, 4, octets)


@pytest.mark.parametrize("version", [4, 6])
def test_a_sentence_about_names_of_any_length_is_cut(version: int) -> None:
    answer = FindCoordinatorResponse.Coordinator(key="k", error_message="\U0001f980" * 32_767)
    octets = codec.encode(FindCoordinatorResponse(coordinators=[answer]), version)
    [found] = codec.decode(FindCoordinatorResponse, version, octets)[0].coordinators
    assert found.error_message == "\U0001f980" * 8_191


def test_a_fault_in_compiled_code_shows_its_line() -> None:
    codec.encode(HeartbeatRequest(), 4)
    try:
        codec.encode(HeartbeatRequest(group_id=7), 4)  # type: ignore[arg-type]
    except UnencodableMessage as error:
        shown = "".join(traceback.format_exception(error))
    assert "message.group_id" in shown or ".encode()" in shown
    assert linecache.getlines("<kohort.wire HeartbeatRequest v4 encode>")


def test_compiled_functions_are_handed_out_for_hot_paths() -> None:
    parts: list[codec.Buffer] = []
    request = HeartbeatRequest(group_id="g", member_id="m")
    codec.gatherer(HeartbeatRequest, 4)(request, parts)
    assert b"".join(parts) == codec.encode(request, 4)
    assert codec.decoder(HeartbeatRequest, 4)(b"".join(parts), 0)[0] == request


def _partition(
    current_leader: FetchResponse.Response.Partition.CurrentLeader | None = None,
) -> FetchResponse.Response.Partition:
    return FetchResponse.Response.Partition(current_leader=current_leader)
