"""The values of records that are no commits, as JSON: `schema.FIELDS` says how.

What a record type is called and which versions its value has comes from the wire schemas, so that none is forgotten.
What members put into their metadata is shown where the protocol is Kafka's `consumer`; of any other bytes the first
few are.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from functools import cache, lru_cache, wraps
from typing import Any, Final, TypeVar

from kohort.wire import messages
from kohort.wire.codec import MalformedMessage, decode
from kohort.wire.consumer_protocol import NEWEST
from kohort.wire.message import is_present
from kohort.wire.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kohort.wire.notation import Field, Struct
from kohort.wire.schemas import headlines

LARGEST_VALUE: Final = 16 << 20
"""Bytes of the largest value that is taken apart; brokers take a megabyte unless they are told otherwise."""

SHOWN_BYTES: Final = 64

REMEMBERED: Final = 1024
"""How many subscriptions and assignments are kept as they are shown: members say the same in every generation."""
LARGEST_REMEMBERED: Final = 4 << 10

_OF_OTHER_TOPICS = ("TransactionLog", "ShareSnapshot", "ShareUpdate")

_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
_Converter = Callable[[Any], Any]
ShownT = TypeVar("ShownT")


def _remembering(make: Callable[[bytes], ShownT]) -> Callable[[bytes], ShownT]:
    """Make what has been made of the same bytes before only once, unless they are many. Nobody changes it."""
    known = lru_cache(REMEMBERED)(make)

    @wraps(make)
    def shown(blob: bytes) -> ShownT:
        return known(blob) if len(blob) <= LARGEST_REMEMBERED else make(blob)

    return shown


@cache
def kinds() -> dict[int, str]:
    """Return the names of the record types, by their numbers."""
    return {
        head.record_type: name.removesuffix("Key")
        for name, head in headlines().items()
        if head.record_type is not None and name.endswith("Key") and not name.startswith(_OF_OTHER_TOPICS)
    }


@cache
def value_class(record_type: int) -> Any:
    """Return the class of a record type's value, None of one that no Kafka has."""
    name = kinds().get(record_type)
    return getattr(messages, f"{name}Value") if name else None


def fields_of(record_type: int, value: bytes) -> str | None:
    """Return a value as JSON, None of a record type that no Kafka has. Raises MalformedMessage."""
    cls = value_class(record_type)
    if cls is None:
        return None
    if len(value) > LARGEST_VALUE:
        raise MalformedMessage(f"a value of {len(value)} bytes, {LARGEST_VALUE} are the most that are read")
    if len(value) < 2:
        raise MalformedMessage("the value ends before its version")
    version = int.from_bytes(value[:2], "big", signed=True)
    if version not in cls.VERSIONS:
        raise MalformedMessage(
            f"version {version} of a {kinds()[record_type]} value is not known, {cls.VERSIONS.highest} is the newest"
        )
    message, _ = decode(cls, version, value, 2)
    shown = _shower(cls, version)(message)
    if record_type == 2 and shown["protocolType"] == "consumer":
        for member, stored in zip(shown["members"], message.members, strict=True):
            member["subscription"] = subscription(stored.subscription)
            member["assignment"] = assignment(stored.assignment)
    elif record_type == 5 and message.classic_member_metadata is not None:
        classic = message.classic_member_metadata
        for protocol, stored in zip(
            shown["classicMemberMetadata"]["supportedProtocols"], classic.supported_protocols, strict=True
        ):
            protocol["metadata"] = subscription(stored.metadata)
    return _to_json(shown)


@_remembering
def subscription(blob: bytes) -> Mapping[str, Any]:
    """Return a member's subscription by its fields, or its first bytes when it is none."""
    try:
        version = _version(blob)
        message, _ = decode(ConsumerProtocolSubscription, min(version, NEWEST), blob, 2)
    except MalformedMessage:
        return _bytes(blob)
    shown = _shower(ConsumerProtocolSubscription, min(version, NEWEST))(message)
    return {"version": version, **shown, "userData": _user_data(message.user_data)}


@_remembering
def assignment(blob: bytes) -> Mapping[str, Any] | None:
    """Return a member's assignment by its fields, or its first bytes when it is none; None when there is none."""
    if not blob:
        return None
    try:
        version = _version(blob)
        message, _ = decode(ConsumerProtocolAssignment, min(version, NEWEST), blob, 2)
    except MalformedMessage:
        return _bytes(blob)
    shown = _shower(ConsumerProtocolAssignment, min(version, NEWEST))(message)
    return {"version": version, **shown, "userData": _user_data(message.user_data)}


def _version(blob: bytes) -> int:
    version = int.from_bytes(blob[:2], "big", signed=True)
    if len(blob) < 2 or version < 0:
        raise MalformedMessage("these bytes are not of the consumer protocol")
    return version


def _user_data(content: bytes | None) -> str | None:
    return None if content is None else bytes(content[:SHOWN_BYTES]).hex()


def _bytes(content: bytes) -> Mapping[str, Any]:
    return {"hex": bytes(content[:SHOWN_BYTES]).hex(), "length": len(content)}


def topic_id(content: bytes) -> str:
    """Return an id as Kafka shows it."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


@cache
def _shower(cls: Any, version: int) -> _Converter:
    return _struct(cls.SCHEMA.struct, version)


def _struct(struct: Struct, version: int) -> _Converter:
    """Return what makes a dict of a struct as it is in a version."""
    converters = [
        (_camel(field.kafka_name), field.name, _converter(field, version), field.is_extension)
        for field in struct.fields
        if is_present(field, version)
    ]

    def convert(value: Any) -> dict[str, Any]:
        shown = {}
        for name, attribute, make, is_ours in converters:
            held = getattr(value, attribute)
            if is_ours and not held:
                continue
            shown[name] = held if make is None or held is None else make(held)
        return shown

    return convert


def _converter(field: Field, version: int) -> _Converter | None:
    """Return what makes a field's value one that JSON has; None where it is one already."""
    element: _Converter | None = None
    if isinstance(field.element, Struct):
        element = _struct(field.element, version)
    elif field.element == "uuid":
        element = topic_id
    elif field.element == "bytes":
        element = _bytes
    if element is None or not field.is_array:
        return element
    return lambda items: [element(item) for item in items]


def _camel(kafka_name: str) -> str:
    return kafka_name[0].lower() + kafka_name[1:]
