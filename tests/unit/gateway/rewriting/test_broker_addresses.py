"""Addresses in responses are replaced, in every version, and every other byte is as it came."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from tests.properties.random_messages import any_number, random_message
from tests.unit.wire.responses import encode_response

from kohort.gateway.rewriting.broker_addresses import NoAddress, address_walker
from kohort.gateway.rewriting.offered_apis import PASSED_VERSIONS
from kohort.wire.apis import VERSIONS, Api, response_class
from kohort.wire.codec import decode
from kohort.wire.frames import decode_response
from kohort.wire.message import Message, message_class
from kohort.wire.message_schemas import Field, MessageSchema, Struct, Versions
from kohort.wire.messages import FetchResponse, FindCoordinatorResponse, MetadataResponse, ProduceResponse
from kohort.wire.primitives import MalformedMessage

BEHIND_HEAD = 8
ADDRESSED = [
    (api, version) for api in Api for version in VERSIONS[api] if address_walker(api, version) is not None
]  # fmt: skip


def gateway_address(node_id: int, host: str, port: int) -> tuple[str, int]:
    del host, port
    return f"gateway-{node_id}" * 12, 20_000 + node_id % 1000


def no_negative(field: Field, random: Random) -> int:
    number = any_number(field, random)
    return number & 0x7FFFFFFF if field.name in ("node_id", "broker_id") else number


def with_unknown_tags(shape: Struct, flexible: Versions) -> Struct:
    """Return a struct that has a tagged field more than the schema, and so have those in it."""
    fields = [
        replace(field, element=with_unknown_tags(field.element, flexible))
        if isinstance(field.element, Struct)
        else field
        for field in shape.fields
    ]
    unknown = Field("Unknown", "unknown", "bytes", tag=500, default=b"", versions=flexible)
    return Struct(shape.name, (*fields, unknown))


def later_class(cls: type[Message]) -> type[Message]:
    """Return a message as a later release may have it: with tagged fields that the schema lacks."""
    return message_class(MessageSchema(cls.SCHEMA.head, with_unknown_tags(cls.SCHEMA.struct, cls.FLEXIBLE)), "later")


def replace_addresses(value: Any, is_struct_of: Struct) -> None:
    """Replace the addresses in a decoded message, as the gateway should in its bytes."""
    names = [field.name for field in is_struct_of.fields]
    if "host" in names and getattr(value, "host", ""):
        node_id = value.broker_id if "broker_id" in names else value.node_id
        value.host, value.port = gateway_address(node_id, value.host, value.port)
    for field in is_struct_of.fields:
        if isinstance(field.element, Struct):
            inner = getattr(value, field.name)
            for each in (inner or ()) if field.is_array else [inner]:
                if each is not None:
                    replace_addresses(each, field.element)


def frame_of(message: Message, version: int) -> bytes:
    return b"".join(encode_response(message, version, 7))


def replaced(api: int, version: int, frame: bytes) -> bytes:
    walker = address_walker(api, version)
    assert walker is not None
    return b"".join(walker.replaced(frame, BEHIND_HEAD, gateway_address))


@pytest.mark.parametrize(("api", "version"), ADDRESSED)
def test_only_addresses_change_and_unknown_tagged_fields_survive(api: Api, version: int) -> None:
    random = Random(f"{api} {version}")
    later = later_class(response_class(api))
    for _ in range(40):
        message = random_message(later, version, random, no_negative)
        frame = frame_of(message, version)
        found = replaced(api, version, frame)
        replace_addresses(message, later.SCHEMA.struct)
        assert found[4:] == frame_of(message, version)[4:]


OTHER_HOSTS = (Api.STREAMS_GROUP_HEARTBEAT, Api.STREAMS_GROUP_DESCRIBE, Api.DESCRIBE_ACLS, Api.DELETE_ACLS)
"""Hosts that are no brokers': of applications, for interactive queries, and of rules about clients."""


def test_every_version_with_a_host_is_known_to_have_addresses() -> None:
    def has_host(shape: Struct, version: int) -> bool:
        present = [field for field in shape.fields if version in field.versions]
        inner = [field.element for field in present if isinstance(field.element, Struct)]
        return any(field.name == "host" for field in present) or any(has_host(each, version) for each in inner)

    with_host = [
        (api, version)
        for api in Api
        if api not in OTHER_HOSTS
        for version in VERSIONS[api]
        if has_host(response_class(api).SCHEMA.struct, version)
    ]
    assert with_host == ADDRESSED


def test_an_offered_version_with_addresses_has_a_schema() -> None:
    for api in {api for api, _ in ADDRESSED}:
        passed, schema = PASSED_VERSIONS[api], response_class(api).VERSIONS
        assert passed.highest <= schema.highest
        if api not in (Api.PRODUCE, Api.FETCH):  # their oldest versions have none
            assert passed.lowest >= schema.lowest


def test_fetch_is_offered_up_to_the_version_before_addresses() -> None:
    assert PASSED_VERSIONS[Api.FETCH] == Versions(0, 15)
    assert [version for api, version in ADDRESSED if api is Api.FETCH] == [16, 17, 18]


def test_the_records_of_a_fetch_are_not_copied() -> None:
    records = bytes(1 << 20)
    partition = FetchResponse.Response.Partition(records=records)
    endpoint = FetchResponse.NodeEndpoint(node_id=3, host="broker-3", port=9092)
    message = FetchResponse(responses=[FetchResponse.Response(partitions=[partition])], node_endpoints=[endpoint])
    frame = frame_of(message, 16)
    walker = address_walker(Api.FETCH, 16)
    assert walker is not None
    first, *_ = walker.replaced(frame, BEHIND_HEAD, gateway_address)
    assert isinstance(first, memoryview)
    assert len(first) > len(records)


def test_a_tagged_field_that_grows_has_its_new_length() -> None:
    endpoint = ProduceResponse.NodeEndpoint(node_id=3, host="b", port=9092)
    frame = replaced(Api.PRODUCE, 10, frame_of(ProduceResponse(node_endpoints=[endpoint]), 10))
    _, found = decode_response(ProduceResponse, 10, frame[4:])
    assert [(each.host, each.port) for each in found.node_endpoints] == [gateway_address(3, "", 0)]


def test_a_coordinator_that_is_not_available_stays_as_it_is() -> None:
    frame = frame_of(FindCoordinatorResponse(error_code=15, node_id=-1, host="", port=-1), 3)
    assert replaced(Api.FIND_COORDINATOR, 3, frame) == frame


def test_an_address_without_a_node_id_is_refused() -> None:
    frame = frame_of(FindCoordinatorResponse(node_id=-1, host="broker", port=9092), 3)
    with pytest.raises(NoAddress, match="broker:9092 without a node id"):
        replaced(Api.FIND_COORDINATOR, 3, frame)


def test_nothing_is_read_behind_the_last_address() -> None:
    broker = MetadataResponse.Broker(node_id=1, host="b", port=9092)
    frame = frame_of(MetadataResponse(brokers=[broker]), 12)
    brokers_end = frame.index(b"b\0\0#\x84") + 7
    cut = frame[:brokers_end] + b"what stands here is the client's business"
    assert replaced(Api.METADATA, 12, cut).endswith(cut[brokers_end:])


@pytest.mark.parametrize(("api", "version"), ADDRESSED)
def test_a_response_that_is_cut_short_is_malformed_or_has_lost_no_address(api: Api, version: int) -> None:
    random = Random(f"cut {api} {version}")
    for _ in range(5):
        frame = frame_of(random_message(response_class(api), version, random, no_negative), version)
        whole = replaced(api, version, frame)
        for end in range(BEHIND_HEAD, len(frame), 1 + len(frame) // 60):
            try:
                found = replaced(api, version, frame[:end])
            except MalformedMessage:
                continue
            assert whole.startswith(found)


@pytest.mark.parametrize(("api", "version"), ADDRESSED)
def test_rubbish_is_malformed_or_refused_in_no_time(api: Api, version: int) -> None:
    random = Random(f"rubbish {api} {version}")
    for _ in range(200):
        body = random.randbytes(random.choice((0, 1, 8, 40, 300)))
        with suppress(MalformedMessage, NoAddress):
            replaced(api, version, bytes(BEHIND_HEAD) + body)


def test_a_count_beyond_the_bytes_costs_nothing() -> None:
    body = b"\0" * 4 + b"\x7f\xff\xff\xff"
    with pytest.raises(MalformedMessage):
        replaced(Api.METADATA, 3, bytes(BEHIND_HEAD) + body)


def test_an_unknown_tagged_field_of_a_response_is_decoded_by_a_later_release() -> None:
    later = later_class(MetadataResponse)
    broker = later.Broker(node_id=5, host="b", port=1, unknown=b"inner")  # type: ignore[attr-defined]
    message = later(brokers=[broker], unknown=b"outer")  # type: ignore[call-arg]
    found, _ = decode(later, 12, replaced(Api.METADATA, 12, frame_of(message, 12))[BEHIND_HEAD + 1 :])
    assert found.unknown == b"outer"  # type: ignore[attr-defined]
    assert found.brokers[0].unknown == b"inner"  # type: ignore[attr-defined]
    assert found.brokers[0].host == gateway_address(5, "", 0)[0]  # type: ignore[attr-defined]
