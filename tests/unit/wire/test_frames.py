"""Frames: which header goes with which version, lengths, and streams cut anywhere."""

from __future__ import annotations

import pytest
from tests.unit.wire.responses import encode_response

from kohort.wire import codec
from kohort.wire.frames import (
    FrameSplitter,
    FrameTooLarge,
    RequestHeader,
    decode_request_header,
    decode_response,
    encode_request,
    gather_request,
)
from kohort.wire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ProduceRequest,
    ResponseHeader,
)
from kohort.wire.messages import RequestHeader as RequestHeaderMessage
from kohort.wire.primitives import MalformedMessage

BEAT = HeartbeatRequest(group_id="g", generation_id=5, member_id="m")


def test_a_request_before_flexible_versions_carries_header_v1() -> None:
    frame = encode_request(BEAT, 3, 7, "me")
    assert frame == bytes.fromhex("00000018 000c 0003 00000007 0002 6d65 0001 67 00000005 0001 6d ffff")
    assert decode_request_header(frame[4:]) == (RequestHeader(12, 3, 7, "me"), 12)


def test_a_flexible_request_carries_header_v2_with_a_classic_client_id() -> None:
    frame = encode_request(BEAT, 4, 7, "me")[4:]
    header, position = decode_request_header(frame)
    assert header == RequestHeader(12, 4, 7, "me")
    assert frame[position - 1] == 0, "the header's own tagged fields"
    assert codec.decode(HeartbeatRequest, 4, frame, position) == (BEAT, len(frame))


@pytest.mark.parametrize("client_id", [None, "", "é" * 10])
@pytest.mark.parametrize("version", [3, 4])
def test_headers_are_those_of_the_schema(client_id: str | None, version: int) -> None:
    frame = encode_request(BEAT, version, 9, client_id)[4:]
    by_schema, position = codec.decode(RequestHeaderMessage, 2 if version == 4 else 1, frame)
    assert by_schema == RequestHeaderMessage(
        request_api_key=12, request_api_version=version, correlation_id=9, client_id=client_id
    )
    assert decode_request_header(frame) == (RequestHeader(12, version, 9, client_id), position)


def test_a_request_newer_than_we_know_still_has_a_readable_header() -> None:
    frame = bytes.fromhex("0012 0063 00000001 0001 63 00 ffff")
    assert decode_request_header(frame)[0] == RequestHeader(18, 99, 1, "c")


def test_an_unknown_api_has_a_readable_header() -> None:
    assert decode_request_header(bytes.fromhex("7fff 0000 00000001 ffff"))[0] == RequestHeader(32767, 0, 1, None)


def test_tagged_fields_of_a_request_header_are_skipped() -> None:
    frame = bytes.fromhex("000c 0004 00000001 0001 63 01 00 02 aabb") + codec.encode(BEAT, 4)
    _, position = decode_request_header(frame)
    assert codec.decode(HeartbeatRequest, 4, frame, position)[0] == BEAT


@pytest.mark.parametrize(
    "frame",
    ["", "000c", "000c 0003 00000001", "000c 0003 00000001 0005 61", "000c 0003 00000001 0001 ff",
     "000c 0004 00000001 0001 63", "000c 0004 00000001 0001 63 01 00 7f", "000c 0004 00000001 ffff ffffffffff"],
)  # fmt: skip
def test_a_malformed_request_header_is_refused(frame: str) -> None:
    with pytest.raises(MalformedMessage):
        decode_request_header(bytes.fromhex(frame))


@pytest.mark.parametrize(("version", "header"), [(3, 0), (4, 1)])
def test_a_response_carries_header_v0_and_since_flexible_versions_v1(version: int, header: int) -> None:
    (frame,) = encode_response(HeartbeatResponse(error_code=27), version, 7)
    body = codec.encode(HeartbeatResponse(error_code=27), version)
    head = codec.encode(ResponseHeader(correlation_id=7), header)
    assert frame == len(head + body).to_bytes(4, "big") + head + body
    assert decode_response(HeartbeatResponse, version, memoryview(frame)[4:]) == (7, HeartbeatResponse(error_code=27))


@pytest.mark.parametrize("version", list(ApiVersionsResponse.VERSIONS))
def test_an_api_versions_response_always_carries_header_v0(version: int) -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersionsResponse.ApiKey(api_key=18, max_version=4)])
    (frame,) = encode_response(response, version, 1)
    assert frame[4:] == (1).to_bytes(4, "big") + codec.encode(response, version)
    assert decode_response(ApiVersionsResponse, version, frame[4:]) == (1, response)


@pytest.mark.parametrize("version", list(ApiVersionsResponse.VERSIONS))
@pytest.mark.parametrize("keys", [0, 1, 80])
def test_a_refusal_in_version_0_is_read_whatever_version_was_asked_for(version: int, keys: int) -> None:
    ranges = [ApiVersionsResponse.ApiKey(api_key=key, max_version=4) for key in range(keys)]
    refusal = ApiVersionsResponse(error_code=35, api_keys=ranges)
    (frame,) = encode_response(refusal, 0, 1)
    assert decode_response(ApiVersionsResponse, version, frame[4:]) == (1, refusal)


def test_an_api_versions_request_is_flexible_as_any_other() -> None:
    frame = encode_request(ApiVersionsRequest(client_software_name="kohort"), 3, 1, None)[4:]
    header, position = decode_request_header(frame)
    assert (header.client_id, frame[position - 1]) == (None, 0)
    assert codec.decode(ApiVersionsRequest, 3, frame, position)[0].client_software_name == "kohort"


def test_batches_of_a_response_are_not_copied() -> None:
    large: list[bytearray | memoryview] = [memoryview(bytes(10_000)), bytearray(20_000)]
    partitions = [FetchResponse.Response.Partition(partition_index=n, records=each) for n, each in enumerate(large)]
    response = FetchResponse(responses=[FetchResponse.Response(partitions=partitions)])
    buffers = encode_response(response, 13, 7)
    assert [each for each in buffers if any(each is batch for batch in large)] == large
    frame = b"".join(buffers)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert decode_response(FetchResponse, 13, frame[4:]) == (7, response)


def test_small_batches_go_with_their_neighbours() -> None:
    partitions = [FetchResponse.Response.Partition(records=b"x" * 100) for _ in range(10)]
    response = FetchResponse(responses=[FetchResponse.Response(partitions=partitions)])
    assert len(encode_response(response, 13, 7)) == 1


def test_batches_of_a_request_are_not_copied() -> None:
    batch = bytes(10_000)
    partition = ProduceRequest.TopicData.PartitionData(records=batch)
    request = ProduceRequest(topic_data=[ProduceRequest.TopicData(name="t", partition_data=[partition])])
    buffers = gather_request(request, 9, 7, "me")
    assert any(each is batch for each in buffers)
    assert b"".join(buffers) == encode_request(request, 9, 7, "me")


@pytest.mark.parametrize("frame", ["", "000000", "00000007", "00000007 02 00 01", "00000007 ffffffffff"])
def test_a_malformed_response_is_refused(frame: str) -> None:
    with pytest.raises(MalformedMessage):
        decode_response(HeartbeatResponse, 4, bytes.fromhex(frame))


class TestFrameSplitter:
    FRAMES = (b"", b"a", b"bc" * 200, b"d" * 3)
    STREAM = b"".join(len(frame).to_bytes(4, "big") + frame for frame in FRAMES)

    @pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 100, 405, 1000])
    @pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
    def test_a_stream_cut_anywhere_gives_the_same_frames(self, size: int, buffer: type) -> None:
        splitter = FrameSplitter(1000)
        frames = []
        for at in range(0, len(self.STREAM), size):
            frames += splitter.feed(buffer(self.STREAM[at : at + size]))
        assert tuple(frames) == self.FRAMES
        assert all(type(frame) is bytes for frame in frames)

    def test_frames_do_not_change_with_the_buffer_they_came_in(self) -> None:
        chunk = bytearray(self.STREAM)
        frames = FrameSplitter(1000).feed(chunk)
        chunk[:] = bytes(len(chunk))
        assert tuple(frames) == self.FRAMES

    @pytest.mark.parametrize("size", [1000, 4096, 5000, 40_000, 100_000])
    @pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
    def test_large_frames_come_in_pieces_of_any_size(self, size: int, buffer: type) -> None:
        large = tuple(bytes(at * 31 & 0xFF for at in range(length)) for length in (50_000, 4095, 4097, 90_000))
        stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in large)
        splitter = FrameSplitter(100_000)
        frames = []
        for at in range(0, len(stream), size):
            chunk = bytearray(stream[at : at + size])
            frames += splitter.feed(bytes(chunk) if buffer is bytes else buffer(chunk))
            chunk[:] = bytes(len(chunk))
        assert tuple(frames) == large

    def test_a_frame_over_the_limit_is_refused_when_its_length_is_seen(self) -> None:
        splitter = FrameSplitter(10)
        assert splitter.feed((10).to_bytes(4, "big") + bytes(10)) == [bytes(10)]
        assert splitter.feed(b"\0\0") == []
        with pytest.raises(FrameTooLarge, match="11"):
            splitter.feed(b"\0\x0b")

    def test_a_negative_length_is_malformed(self) -> None:
        with pytest.raises(MalformedMessage, match="-1"):
            FrameSplitter(10).feed(b"\xff\xff\xff\xff")

    def test_what_is_not_kafka_is_too_large(self) -> None:
        with pytest.raises(FrameTooLarge):
            FrameSplitter(100 << 20).feed(b"GET / HTTP/1.1\r\n")
