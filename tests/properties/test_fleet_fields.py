"""The JSON of a value is what its message holds, for every record type in every version; of other bytes there is none.

What is expected walks over the decoded message, field by field of its schema; what is tested never makes one.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from tests.properties.random_messages import random_message

from kohort.fleet.decode.value_json import LARGEST_VALUE, fields_of, kinds, topic_id, value_class
from kohort.wire.codec import decode, encode
from kohort.wire.message_schemas import Field, Struct
from kohort.wire.primitives import MalformedMessage

EVERY = [(kind, version) for kind in kinds() for version in value_class(kind).VERSIONS]
SEEDS = range(40)


def stored(kind: int, version: int, seed: int) -> tuple[Any, bytes]:
    message = random_message(value_class(kind), version, Random(f"{kind} v{version} {seed}"))
    return message, version.to_bytes(2, "big") + encode(message, version)


def expected(struct: Struct, version: int, value: Any) -> dict[str, Any]:
    return {
        field.json_name: held if held is None else shown(field, version, held)
        for field in struct.fields
        if version in field.versions
        for held in [getattr(value, field.name)]
        if held or not field.is_extension
    }


def shown(field: Field, version: int, held: Any) -> Any:
    items = held if field.is_array else [held]
    match field.element:
        case Struct() as struct:
            items = [expected(struct, version, item) for item in items]
        case "uuid":
            items = [topic_id(item) for item in items]
        case "bytes":
            items = [{"hex": item[:64].hex(), "length": len(item)} for item in items]
    return items if field.is_array else items[0]


def without_subscriptions(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out what random bytes may be taken for: a subscription of Kafka's `consumer`."""
    for protocol in (fields.get("classicMemberMetadata") or {}).get("supportedProtocols", ()):
        assert {"hex", "length"} == protocol["metadata"].keys() or "version" in protocol.pop("metadata")
        protocol.pop("metadata", None)
    return fields


@pytest.mark.parametrize(("kind", "version"), EVERY)
def test_the_json_of_a_value_holds_what_its_message_holds(kind: int, version: int) -> None:
    for seed in SEEDS:
        message, value = stored(kind, version, seed)
        decoded = json.loads(fields_of(kind, value) or "")
        assert without_subscriptions(decoded) == without_subscriptions(
            expected(type(message).SCHEMA.struct, version, message)
        ), f"seed {seed}"


@pytest.mark.parametrize(("kind", "version"), EVERY)
def test_bytes_that_are_no_value_are_refused_as_the_codec_refuses_them(kind: int, version: int) -> None:
    random = Random(kind)
    for seed in SEEDS:
        _, value = stored(kind, version, seed)
        broken = bytearray(value)
        if len(broken) > 2:
            broken[random.randrange(2, len(broken))] ^= 1 << random.randrange(8)
        for blob in (bytes(broken), value[: random.randrange(2, len(value) + 1)]):
            try:
                decode(value_class(kind), version, blob, 2)
            except MalformedMessage:
                with pytest.raises(MalformedMessage):
                    fields_of(kind, blob)
            else:
                json.loads(fields_of(kind, blob) or "")


def test_a_value_too_large_to_be_read_is_refused_where_its_type_is_known_alone() -> None:
    value = bytes(LARGEST_VALUE + 1)
    assert fields_of(9, value) is None
    with pytest.raises(MalformedMessage, match="are the most that are read"):
        fields_of(2, value)
