"""JSON of the values of records other than commits, in the format of the column `fields` of `schema.RECORDS`.

Each message has a compiled function: the codec's decoder with another output. What is read becomes local names, and
each struct, once it is read, a text.

The names of record types and the versions of their values come from the wire schemas. Embedded subscriptions and
assignments are decoded where the protocol type is `consumer`; of other bytes the first few are shown as hex.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from functools import cache, lru_cache, wraps
from json.encoder import encode_basestring
from typing import Any, Final

from kohort.wire import messages
from kohort.wire.consumer_protocol import NEWEST
from kohort.wire.decoder_source import DecoderSource
from kohort.wire.message import Message, default_of, execute, is_present
from kohort.wire.message_schemas import Field, Struct, headlines
from kohort.wire.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kohort.wire.primitives import MalformedMessage

LARGEST_VALUE: Final = 16 << 20
"""Largest value in bytes that is decoded; a broker's default limit is a megabyte."""

SHOWN_BYTES: Final = 64

REMEMBERED: Final = 1024
"""How many rendered subscriptions, assignments and ids are cached: members repeat them in every generation."""
LARGEST_REMEMBERED: Final = 4 << 10

JsonWriter = Callable[[bytes, int], tuple[str, int]]
"""From bytes and a position in them to JSON and the position behind it. Raises MalformedMessage."""

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
    "quote": encode_basestring,
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
    """Return the compiled function of a message in a version."""
    source = DecoderSource(cls.SCHEMA, version, cls, JsonOutput(_SHOWN.get(cls, {})))
    source.namespace |= _NAMES
    execute(source.text, f"<kohort.fleet {cls.__name__} v{version} as JSON>", source.namespace)
    found: JsonWriter = source.namespace["decode"]
    return found


class JsonOutput:
    """Makes JSON of the values that are read.

    `of_bytes` is the JSON of fields of bytes by their names, as source: `{value}` is what was read, `{message}` begins
    the names of the message's own fields. That source has no single quotes: it stands between them.
    """

    def __init__(self, of_bytes: Mapping[str, str]) -> None:
        self._of_bytes = of_bytes
        self._outermost = ""

    def begin(self, source: DecoderSource, owner: str, path: str, cls: type[Any]) -> None:  # noqa: ARG002
        self._outermost = self._outermost or owner

    def target(self, owner: str, field: Field) -> str:
        return f"{owner}_{field.name}"

    def absent(self, source: DecoderSource, owner: str, field: Field, cls: type[Any]) -> None:
        """A field that the version lacks is not shown."""

    def default(self, source: DecoderSource, field: Field, target: str, cls: type[Any]) -> None:
        default = default_of(field)
        if not field.is_array and isinstance(field.element, Struct) and default.endswith("()"):
            default = source.lines.name("struct")
            for inner in field.element.fields:
                self.default(source, inner, self.target(default, inner), getattr(cls, field.element.name))
            self.end(source, default, field.element)
        source.lines.add(f"{target} = {default}")

    def end(self, source: DecoderSource, owner: str, shape: Struct) -> None:
        source.flush()
        fields = ""
        for field in shape.fields:
            if not is_present(field, source.version):
                continue
            value = self.target(owner, field)
            json = f'"null" if {value} is None else ' if source.version in field.nullable else ""
            json += self._items(field, value) if field.is_array else self._item(field, value)
            shown = f'{"," if fields else ""}"{field.json_name}":{{{json}}}'
            if field.is_extension:  # shown where it is not empty: Kafka's own records have none
                source.lines.add(f"{value}_shown = f'{shown}' if {value} else ''")
                shown = f"{{{value}_shown}}"
            fields += shown
        source.lines.add(f"{owner} = f'{{{{{fields}}}}}'")

    def _item(self, field: Field, value: str) -> str:
        """Return the JSON of a value, as source without single quotes."""
        match field.element:
            case "str":
                return f"quote({value})"
            case "bool":
                return f'"true" if {value} else "false"'
            case "uuid":
                return f"show_id({value})"
            case "bytes":
                found = self._of_bytes.get(field.name, "show_bytes({value})")
                return found.format(value=value, message=self._outermost)
            case Struct():
                return f'{value} or "null"'
            case _:
                return value

    def _items(self, field: Field, value: str) -> str:
        match field.element:
            case "str":
                return f'"[" + ",".join(map(quote, {value})) + "]"'
            case "uuid":
                return f'"[" + ",".join(map(show_id, {value})) + "]"'
            case Struct():
                return f'"[" + ",".join({value}) + "]"'
            case _:  # numbers
                return f'str({value}).replace(" ", "")'
