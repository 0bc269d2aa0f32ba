"""A connection with other addresses: what passes unchanged, what changes, and what ends it."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gateway.relay.test_relay import pieces_of
from tests.unit.wire.responses import encode_response

from kohort.gateway.relay.read_budget import ReadBudget
from kohort.gateway.rewriting.address_relay import READ_BYTES, AddressRelay
from kohort.gateway.rewriting.broker_addresses import MOST_ENTRIES, NoAddress
from kohort.wire.frames import decode_response
from kohort.wire.message import Message
from kohort.wire.messages import ApiVersionsResponse, FindCoordinatorResponse, HeartbeatResponse, MetadataResponse

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, HEARTBEAT, SASL_HANDSHAKE, API_VERSIONS = 0, 1, 3, 10, 12, 17, 18
REAL = b"real-host"


def request(api_key: int, version: int, correlation_id: int, body: bytes = b"") -> bytes:
    return pack(">ihhi", 8 + len(body), api_key, version, correlation_id) + body


def answer(correlation_id: int, body: bytes = b"") -> bytes:
    return pack(">ii", 4 + len(body), correlation_id) + body


def response(message: Message, version: int, correlation_id: int) -> bytes:
    return b"".join(encode_response(message, version, correlation_id))


def metadata(host: str, port: int, node_id: int = 1) -> MetadataResponse:
    return MetadataResponse(brokers=[MetadataResponse.Broker(node_id=node_id, host=host, port=port)])


class Ends:
    """An address relay, and what it wrote to both sides."""

    def __init__(self, budget: ReadBudget | None = None) -> None:
        self.client, self.broker = bytearray(), bytearray()
        self.reasons: list[str] = []
        self.relay = AddressRelay(self.address_of, self.client.extend, self.broker.extend, self.reasons.append, budget)

    def address_of(self, node_id: int, host: str, port: int) -> tuple[str, int]:
        if node_id == 666:
            raise NoAddress(f"no port can be opened for node 666 at {host}:{port}")
        return "gateway", 9000 + node_id

    def answer(self, api_key: int, version: int, message: Message) -> bytes:
        """Return what the client sees of an answer."""
        self.relay.from_client(request(api_key, version, 1))
        self.client.clear()
        self.relay.from_broker(response(message, version, 1))
        return bytes(self.client)


def test_an_address_is_replaced_and_the_length_of_the_frame_follows() -> None:
    seen = Ends().answer(METADATA, 12, metadata("real-host", 9092))
    assert seen == response(metadata("gateway", 9001), 12, 1)


def test_a_large_answer_is_not_copied_to_be_changed() -> None:
    pieces: list[object] = []
    relay = AddressRelay(lambda *_: ("gateway", 9001), pieces.append, lambda _: None, pieces.append)
    topics = [MetadataResponse.Topic(name=f"topic-{number}" * 20) for number in range(1000)]
    message = metadata("real-host", 9092)
    message.topics = topics
    relay.from_client(request(METADATA, 12, 1))
    relay.from_broker(response(message, 12, 1))
    *_, rest = pieces
    assert isinstance(rest, memoryview)
    assert len(rest) > 100_000
    expected = metadata("gateway", 9001)
    expected.topics = topics
    assert b"".join(pieces) == response(expected, 12, 1)  # type: ignore[arg-type]


def coordinators(count: int, host: str, port: int) -> FindCoordinatorResponse:
    one = FindCoordinatorResponse.Coordinator(key="g", node_id=1, host=host, port=port)
    return FindCoordinatorResponse(coordinators=[one] * count)


def test_an_answer_with_many_addresses_is_written_at_once() -> None:
    """150,000 keys were written in 300,000 pieces, for two seconds, in which no other client was served."""
    pieces: list[object] = []
    relay = AddressRelay(lambda *_: ("gateway", 9001), pieces.append, lambda _: None, pieces.append)
    relay.from_client(request(FIND_COORDINATOR, 6, 1))
    relay.from_broker(response(coordinators(10_000, "real-host", 9092), 6, 1))
    assert pieces == [response(coordinators(10_000, "gateway", 9001), 6, 1)]


def test_an_answer_with_more_entries_than_are_searched_ends_the_connection() -> None:
    ends = Ends()
    assert ends.answer(FIND_COORDINATOR, 6, coordinators(MOST_ENTRIES + 1, "real-host", 9092)) == b""
    [reason] = ends.reasons
    assert "FindCoordinatorResponse v6 have 100001 entries: no more than 100000 are searched" in reason


def test_an_answer_without_addresses_leaves_as_it_comes() -> None:
    ends = Ends()
    ends.relay.from_client(request(FETCH, 12, 1))
    ends.relay.from_broker(answer(1, bytes(1000))[:500])
    assert len(ends.client) == 500
    assert ends.relay.buffered_bytes == 0


@given(
    st.lists(st.sampled_from([PRODUCE, FETCH, METADATA, FIND_COORDINATOR, HEARTBEAT, API_VERSIONS]), max_size=12),
    st.lists(st.integers(0, 600), max_size=12),
)
def test_however_the_bytes_come_answers_leave_in_order_and_only_addresses_change(
    keys: list[int], cuts: list[int]
) -> None:
    def answers(host: str, port: int) -> bytes:
        parts = []
        for number, key in enumerate(keys):
            if key == METADATA:
                parts.append(response(metadata(host, port), 12, number))
            elif key == FIND_COORDINATOR:
                parts.append(response(FindCoordinatorResponse(node_id=1, host=host, port=port), 2, number))
            elif key == API_VERSIONS:
                parts.append(response(ApiVersionsResponse(), 2, number))
            elif key == HEARTBEAT:
                parts.append(response(HeartbeatResponse(error_code=27), 4, number))
            else:
                parts.append(answer(number, bytes(50)))
        return b"".join(parts)

    versions = {PRODUCE: 9, FETCH: 13, METADATA: 12, FIND_COORDINATOR: 2, HEARTBEAT: 4, API_VERSIONS: 2}
    ends = Ends()
    requests = b"".join(request(key, versions[key], number, b"..") for number, key in enumerate(keys))
    for chunk in pieces_of(requests, cuts):
        ends.relay.from_client(chunk)
    for chunk in pieces_of(answers("real-host", 9092), cuts):
        ends.relay.from_broker(chunk)
    assert bytes(ends.broker) == requests
    assert bytes(ends.client) == answers("gateway", 9001)
    assert ends.reasons == []
    assert ends.relay.buffered_bytes == 0


def test_acks_0_has_no_answer_and_the_next_answer_is_read_as_its_own() -> None:
    ends = Ends()
    for number in range(5):
        ends.relay.from_client(request(PRODUCE, 9, number))
    ends.relay.from_client(request(METADATA, 12, 5))
    ends.relay.from_broker(response(metadata("real-host", 9092), 12, 5))
    assert bytes(ends.client) == response(metadata("gateway", 9001), 12, 5)


@pytest.mark.parametrize(("api_key", "version"), [(FETCH, 16), (METADATA, 14), (999, 0), (52, 0), (METADATA, -1)])
def test_a_request_that_is_not_offered_ends_the_connection(api_key: int, version: int) -> None:
    ends = Ends()
    ends.relay.from_client(request(api_key, version, 1))
    [reason] = ends.reasons
    assert f"a request of API {api_key} in version {version}" in reason
    assert not ends.broker


def test_a_version_of_api_versions_that_is_not_known_is_answered_by_the_broker_in_version_0() -> None:
    ends = Ends()
    ends.relay.from_client(request(API_VERSIONS, 9, 1, b"body"))
    assert bytes(ends.broker) == request(API_VERSIONS, 0x7FFF, 1, b"body")
    key = ApiVersionsResponse.ApiKey(api_key=API_VERSIONS, min_version=0, max_version=9)
    ends.relay.from_broker(response(ApiVersionsResponse(error_code=35, api_keys=[key]), 0, 1))
    _, seen = decode_response(ApiVersionsResponse, 0, bytes(ends.client)[4:])
    assert (seen.error_code, [each.max_version for each in seen.api_keys]) == (35, [5])


def test_an_answer_that_cannot_be_read_ends_the_connection() -> None:
    ends = Ends()
    ends.relay.from_client(request(METADATA, 12, 1))
    ends.relay.from_broker(answer(1, b"\0\0\0\0\0" + b"\xff\xff\xff\xff\x0f" + REAL))
    [reason] = ends.reasons
    assert "cannot be read, and could hold its own address" in reason
    assert not ends.client


def test_a_node_without_an_address_of_the_gateway_ends_the_connection() -> None:
    ends = Ends()
    assert ends.answer(METADATA, 12, metadata("real-host", 9092, node_id=666)) == b""
    assert ends.reasons == ["no port can be opened for node 666 at real-host:9092"]


def test_an_answer_that_no_request_has_ends_the_connection() -> None:
    ends = Ends()
    ends.relay.from_client(request(METADATA, 12, 1))
    ends.relay.from_broker(response(metadata("real-host", 9092), 12, 2))
    assert ends.reasons == ["the broker sent an answer with the correlation id 2, which no request has"]
    assert not ends.client


def test_an_answer_with_addresses_over_the_limit_ends_the_connection_at_its_length() -> None:
    ends = Ends()
    ends.relay.from_client(request(METADATA, 12, 1))
    ends.relay.from_broker(pack(">ii", READ_BYTES + 1, 1))
    [reason] = ends.reasons
    assert f"has {READ_BYTES + 1} bytes" in reason


def test_a_request_with_the_id_of_another_that_may_have_no_answer_ends_the_connection() -> None:
    ends = Ends()
    ends.relay.from_client(request(PRODUCE, 9, 1) + request(METADATA, 12, 1))
    [reason] = ends.reasons
    assert "another request with the correlation id 1" in reason
    assert bytes(ends.broker) == request(PRODUCE, 9, 1)


@pytest.mark.parametrize("chunk", [b"\xff\xff\xff\xff" + bytes(8), b"\0\0\0\1x", bytes(4)])
def test_what_is_no_request_ends_the_connection(chunk: bytes) -> None:
    ends = Ends()
    ends.relay.from_client(chunk)
    [reason] = ends.reasons
    assert reason.startswith("the client sent")
    ends.relay.from_client(request(METADATA, 12, 1))
    assert not ends.broker


@pytest.mark.parametrize("token", [b"", b"\0u\0p", b"\0alice\0secret", b"n,,n=alice,r=nonce", b"\x60\x82\1\2" * 3])
def test_sasl_tokens_without_a_header_pass_after_a_handshake_of_version_0(token: bytes) -> None:
    ends = Ends()
    ends.relay.from_client(request(SASL_HANDSHAKE, 0, 1, b"\0\5PLAIN"))
    ends.relay.from_broker(answer(1, b"\0\0\0\0\0\0"))
    for reply in (b"r=nonce,s=salt", b""):
        ends.client.clear()
        ends.broker.clear()
        frame = pack(">i", len(token)) + token
        ends.relay.from_client(frame)
        assert bytes(ends.broker) == frame
        ends.relay.from_broker(pack(">i", len(reply)) + reply)
        assert bytes(ends.client) == pack(">i", len(reply)) + reply
    assert ends.answer(METADATA, 12, metadata("real-host", 9092)) == response(metadata("gateway", 9001), 12, 1)
    ends.relay.from_client(pack(">i", len(token)) + token)
    assert ends.reasons


def test_a_request_in_place_of_a_sasl_token_ends_the_connection() -> None:
    ends = Ends()
    ends.relay.from_client(request(SASL_HANDSHAKE, 0, 1, b"\0\5PLAIN"))
    ends.relay.from_broker(answer(1, b"\0\0\0\0\0\0"))
    ends.broker.clear()
    ends.relay.from_client(request(METADATA, 14, 2))  # a version that is not known here, and may be to the broker
    assert ends.reasons
    assert not ends.broker


def test_answers_that_are_searched_share_a_budget_with_other_connections() -> None:
    budget = ReadBudget(limit=10_000)
    first, second = Ends(budget), Ends(budget)
    large = response(metadata("real-host" * 700, 9092), 12, 1)
    for ends in (first, second):
        ends.relay.from_client(request(METADATA, 12, 1))
        ends.relay.from_broker(large[:100])
    assert not first.reasons
    assert "too many large answers" in second.reasons[0]
    first.relay.from_broker(large[100:])
    assert budget.reserved == 0


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=6), st.sampled_from(["framed", "raw"]))
def test_rubbish_passes_unchanged_or_ends_the_connection(rubbish: bytes, cuts: list[int], form: str) -> None:
    if form == "framed":
        rubbish = pack(">i", len(rubbish)) + rubbish
    ends = Ends()
    for chunk in pieces_of(rubbish, cuts):
        ends.relay.from_client(chunk)
    assert rubbish.startswith(ends.broker) or ends.broker[4:6] == b"\0\x12"
    ends = Ends()
    ends.relay.from_client(request(METADATA, 12, 1) + request(HEARTBEAT, 4, 2))
    for chunk in pieces_of(rubbish, cuts):
        ends.relay.from_broker(chunk)
    assert rubbish.startswith(ends.client) or ends.reasons


@given(st.binary(max_size=120), st.sampled_from([(METADATA, 0), (METADATA, 12), (FIND_COORDINATOR, 4), (PRODUCE, 10)]))
def test_a_rubbish_answer_never_shows_an_address_it_could_have(body: bytes, api: tuple[int, int]) -> None:
    ends = Ends()
    ends.relay.from_client(request(*api, 1))
    ends.relay.from_broker(answer(1, body))
    assert bool(ends.client) != bool(ends.reasons)
