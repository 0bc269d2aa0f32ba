"""JSON of the values of records other than commits, in the format of `schema.FIELDS`.

The names of record types and the versions of their values come from the wire schemas. Embedded subscriptions and
assignments are decoded where the protocol type is `consumer`; of other bytes the first few are shown as hex.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import cache, lru_cache, wraps
from typing import Any, Final

from kohort.fleet.decode.json_source import JsonWriter, json_writer
from kohort.wire import messages
from kohort.wire.consumer_protocol import NEWEST
from kohort.wire.message import Message
from kohort.wire.message_schemas import headlines
from kohort.wire.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kohort.wire.primitives import MalformedMessage

LARGEST_VALUE: Final = 16 << 20
"""Largest value in bytes that is decoded; a broker's default limit is a megabyte."""

SHOWN_BYTES: Final = 64

REMEMBERED: Final = 1024
"""How many rendered subscriptions, assignments and ids are cached: members repeat them in every generation."""
LARGEST_REMEMBERED: Final = 4 << 10

_OF_OTHER_TOPICS = ("TransactionLog", "ShareSnapshot", "ShareUpdate")


def topic_id(content: bytes) -> str:
    """Return an id as Kafka shows it."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _remembering(make: Callable[[bytes], str]) -> Callable[[bytes], str]:
    """Cache a function of bytes, except for long ones."""
    known = lru_cache(REMEMBERED)(make)

    @wraps(make)
    def shown(blob: bytes) -> str:
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
    """Return the class of a record type's value, None of an unknown one."""
    name = kinds().get(record_type)
    return getattr(messages, f"{name}Value") if name else None


def fields_of(record_type: int, value: bytes) -> str | None:
    """Return a value as JSON, None of an unknown record type. Raises MalformedMessage."""
    if len(value) > LARGEST_VALUE and value_class(record_type) is not None:
        raise MalformedMessage(f"a value of {len(value)} bytes, {LARGEST_VALUE} are the most that are read")
    write = _writer_of(record_type, value[:2])
    return None if write is None else write(value, 2)[0]


@lru_cache(REMEMBERED)
def _writer_of(record_type: int, stored_version: bytes) -> JsonWriter | None:
    """Return what writes the values of a type in a version as JSON. Raises MalformedMessage."""
    cls = value_class(record_type)
    if cls is None:
        return None
    if len(stored_version) < 2:
        raise MalformedMessage("the value ends before its version")
    version = int.from_bytes(stored_version, "big", signed=True)
    if version not in cls.VERSIONS:
        raise MalformedMessage(
            f"version {version} of a {kinds()[record_type]} value is not known, {cls.VERSIONS.highest} is the newest"
        )
    return _writer(cls, version)


def _of_bytes(blob: bytes) -> str:
    return f'{{"hex":"{blob[:SHOWN_BYTES].hex()}","length":{len(blob)}}}'


def _of_user_data(content: bytes) -> str:
    return f'"{content[:SHOWN_BYTES].hex()}"'


@lru_cache(REMEMBERED)
def _of_id(content: bytes) -> str:
    return f'"{topic_id(content)}"'


@_remembering
def _subscription(blob: bytes) -> str:
    """Return a member's subscription by its fields, or its first bytes when it is none."""
    return _embedded(ConsumerProtocolSubscription, blob)


@_remembering
def _assignment(blob: bytes) -> str:
    """Return a member's assignment by its fields, or its first bytes when it is none; null when there is none."""
    return _embedded(ConsumerProtocolAssignment, blob) if blob else "null"


def _embedded(cls: Any, blob: bytes) -> str:
    """Return the JSON of embedded metadata, its version first, which may be newer than the newest known one."""
    try:
        if len(blob) < 2 or (version := int.from_bytes(blob[:2], "big", signed=True)) < 0:
            raise MalformedMessage("these bytes are not of the consumer protocol")
        shown, _ = _writer(cls, min(version, NEWEST))(blob, 2)
    except MalformedMessage:
        return _of_bytes(blob)
    return f'{{"version":{version},{shown[1:]}'


_NAMES: Final = {
    "show_id": _of_id,
    "show_bytes": _of_bytes,
    "show_subscription": _subscription,
    "show_assignment": _assignment,
    "show_user_data": _of_user_data,
}
_IS_KAFKAS: Final = '{message}_protocol_type == "consumer"'
_SHOWN: Final[Mapping[type[Message], Mapping[str, str]]] = {
    messages.GroupMetadataValue: {
        "subscription": f"(show_subscription if {_IS_KAFKAS} else show_bytes)({{value}})",
        "assignment": f"(show_assignment if {_IS_KAFKAS} else show_bytes)({{value}})",
    },
    messages.ConsumerGroupMemberMetadataValue: {"metadata": "show_subscription({value})"},
    ConsumerProtocolSubscription: {"user_data": "show_user_data({value})"},
    ConsumerProtocolAssignment: {"user_data": "show_user_data({value})"},
}
"""How to render embedded bytes, by message and field."""


@cache
def _writer(cls: Any, version: int) -> JsonWriter:
    return json_writer(cls, version, _NAMES, _SHOWN.get(cls, {}))
