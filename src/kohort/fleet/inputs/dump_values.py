"""Keys and values of `__consumer_offsets` from the JSON that Kafka's own tools make of them.

Names are Kafka's in camel case, ids are its 22 letters, bytes are base64. What members of a classic group put into
their metadata is JSON too where the tool could read it; which version that had it does not say, so that the oldest is
taken that holds what is there.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from struct import Struct as Packing
from typing import Any

from kohort.fleet.decode.value_json import kinds, value_class
from kohort.wire import messages
from kohort.wire.codec import encode
from kohort.wire.message import is_present
from kohort.wire.message_schemas import Field, Struct
from kohort.wire.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription

_SHORT = Packing(">h")
_ASSIGNMENT_VERSION = 0


def key_bytes(shown: Mapping[str, Any]) -> bytes:
    """Return a key. Raises ValueError, KeyError, TypeError, UnencodableMessage where the JSON is none of a key."""
    kind = int(shown["type"])
    if kind not in kinds():
        return _SHORT.pack(kind)
    cls = getattr(messages, f"{kinds()[kind]}Key")
    return _SHORT.pack(kind) + encode(_message(cls, cls.SCHEMA.struct, 0, shown["data"]), 0)


def value_bytes(kind: int, shown: Mapping[str, Any]) -> bytes:
    """Return a value; raises as `key_bytes`."""
    version = int(shown["version"])
    cls = value_class(kind)
    if cls is None or version not in cls.VERSIONS:
        return _SHORT.pack(version)
    told = dict(shown["data"])
    if kind == 2:
        told["members"] = [_member(each) for each in told["members"]]
    return _SHORT.pack(version) + encode(_message(cls, cls.SCHEMA.struct, version, told), version)


def _member(shown: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        **shown,
        "subscription": _blob(ConsumerProtocolSubscription, shown["subscription"]),
        "assignment": _blob(ConsumerProtocolAssignment, shown["assignment"]),
    }


def _blob(cls: type[Any], shown: Any) -> bytes:
    """Return a member's metadata, of which the tool shows the fields when it is of the consumer protocol."""
    if not isinstance(shown, Mapping):
        return _base64(shown)
    version = _ASSIGNMENT_VERSION
    if cls is ConsumerProtocolSubscription:
        version = next(
            (number for number, name in ((3, "rackId"), (2, "generationId"), (1, "ownedPartitions")) if name in shown),
            0,
        )
    return _SHORT.pack(version) + encode(_message(cls, cls.SCHEMA.struct, version, shown), version)


def _message(cls: type[Any], struct: Struct, version: int, shown: Mapping[str, Any]) -> Any:
    given = {}
    for field in struct.fields:
        name = field.json_name
        if is_present(field, version) and name in shown:
            given[field.name] = _value(cls, field, version, shown[name])
    return cls(**given)


def _value(cls: type[Any], field: Field, version: int, shown: Any) -> Any:
    if shown is None:
        return None
    if field.is_array:
        return [_element(cls, field, version, each) for each in shown]
    return _element(cls, field, version, shown)


def _element(cls: type[Any], field: Field, version: int, shown: Any) -> Any:
    if isinstance(field.element, Struct):
        return _message(getattr(cls, field.element.name), field.element, version, shown)
    if field.element == "uuid":
        return base64.urlsafe_b64decode(f"{shown}==")
    if field.element == "bytes":
        return shown if isinstance(shown, bytes) else _base64(shown)
    return shown


def _base64(shown: Any) -> bytes:
    try:
        return base64.b64decode(shown, validate=True)
    except binascii.Error as error:
        raise ValueError(f"bytes that are no base64: {error}") from None
