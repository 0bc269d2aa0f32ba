"""What instances of the gateway send each other: one message is one `bytes`, a byte for its kind and then its fields.

Requests and answers travel as the Kafka frames that a client and a broker sent, so that a peer reads them by the same
codec. Two instances agree on the newest version of the messages that both know before they send any, so releases work
beside each other: who changes a message or adds one makes a new version, sends it only where it is agreed, and
continues to read and send the older ones down to `OLDEST`. What is of another version than was agreed, of an unknown
kind or cut short is `MalformedMessage`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cache
from struct import Struct, error
from typing import Any, cast, get_args

from kohort.gateway.relay.relay import READ_BYTES
from kohort.wire.codec import Buffer
from kohort.wire.primitives import MalformedMessage, read_varint, varint

VERSION = 3
"""The newest version of the messages that this release knows."""

OLDEST = 3
"""The oldest one."""

MOST_MESSAGE_BYTES = READ_BYTES + (1 << 16)
"""No message is longer: what carries messages between instances refuses a longer one."""

Byte = int
"""A number of one byte; others have eight."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message in each direction: the version that was agreed."""

    version: Byte = VERSION


@dataclass(frozen=True, slots=True)
class SharedRequest:
    """A request that the sender has passed to the broker."""

    number: int
    """By which its answer follows."""
    generation: int | None
    """The generation of the group as the sender knew it then, None where it knew none."""
    client_host: str
    software: str
    """The client's software as ApiVersions names it, or empty."""
    frame: Buffer
    """The request with its length."""


@dataclass(frozen=True, slots=True)
class SharedAnswer:
    """The broker's answer to a `SharedRequest`, with its length."""

    number: int
    frame: Buffer


@dataclass(frozen=True, slots=True)
class RequestEnded:
    """The connection of a `SharedRequest` has ended without an answer."""

    number: int


@dataclass(frozen=True, slots=True)
class LiveGroup:
    """Members of a group that have sent something to the sender lately."""

    group_id: str
    generation: int | None
    """The generation, or the epoch, of the group as the sender knows it; None where it knows none."""
    digest: int
    """What the sender knows of the group's members, as a checksum; 0 where it knows no such group."""
    shown: int | None
    """The generation in which the coordinator has answered a heartbeat lately, as the sender has seen, or None."""
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LiveMembers:
    """A summary, sent each second also where it is empty: by it the receiver knows that the sender lives."""

    groups: tuple[LiveGroup, ...]


@dataclass(frozen=True, slots=True)
class Reached:
    """While an eager round is announced: members whose heartbeats are parked at the sender, or no longer."""

    group_id: str
    generation: int | None
    is_reached: bool
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FellBack:
    """A group in which parking did harm at the sender."""

    group_id: str


def agreed_version(oldest: int, newest: int) -> int | None:
    """Return the version in which an instance that knows these is sent messages; None where there is none."""
    version = min(newest, VERSION)
    return version if version >= max(oldest, OLDEST) else None


InstanceMessage = Hello | SharedRequest | SharedAnswer | RequestEnded | LiveMembers | Reached | FellBack


def encode_message(message: InstanceMessage) -> bytes:
    """Return a message as bytes."""
    return bytes((_KINDS.index(type(message)),)) + _encoded(message)


def decode_message(data: bytes) -> InstanceMessage:
    """Return the message in `data`. Raises MalformedMessage."""
    try:
        message, position = _decoded(_KINDS[data[0]], data, 1)
    except (IndexError, error, UnicodeDecodeError) as cause:
        raise MalformedMessage(f"message of another instance: {cause!r}") from cause
    if position != len(data):
        raise MalformedMessage("message of another instance: its length does not fit its fields")
    return cast(InstanceMessage, message)


_KINDS: tuple[type, ...] = get_args(InstanceMessage)


def _encoded(record: Any) -> bytes:
    return b"".join([write(getattr(record, name)) for name, write, _ in _fields_of(record.__class__)])


def _decoded(kind: type, data: bytes, position: int) -> tuple[Any, int]:
    values = []
    for _, _, read in _fields_of(kind):
        value, position = read(data, position)
        values.append(value)
    return kind(*values), position


_Write = Callable[[Any], Buffer]
_Read = Callable[[bytes, int], tuple[Any, int]]


@cache
def _fields_of(kind: type) -> tuple[tuple[str, _Write, _Read], ...]:
    """Return each field of a message with what writes and reads it, by its type."""
    return tuple((field.name, *_TYPES[str(field.type)]) for field in fields(kind))


def _packed(layout: str) -> tuple[_Write, _Read]:
    packed = Struct(layout)
    return packed.pack, lambda data, position: (packed.unpack_from(data, position)[0], position + packed.size)


def _write_text(text: str) -> bytes:
    data = text.encode()
    return varint(len(data)) + data


def _read_text(data: bytes, position: int) -> tuple[str, int]:
    size, position = _read_count(data, position)
    return data[position : position + size].decode(), position + size


def _read_count(data: bytes, position: int) -> tuple[int, int]:
    """Read a number of entries, of which each takes a byte at least."""
    count, position = read_varint(data, position)
    if count > len(data) - position:
        raise MalformedMessage(f"message of another instance: {count} entries in {len(data) - position} bytes")
    return count, position


def _several(write: _Write, read: _Read) -> tuple[_Write, _Read]:
    def read_all(data: bytes, position: int) -> tuple[tuple[Any, ...], int]:
        count, position = _read_count(data, position)
        entries = []
        for _ in range(count):
            entry, position = read(data, position)
            entries.append(entry)
        return tuple(entries), position

    return lambda entries: b"".join((varint(len(entries)), *map(write, entries))), read_all


def _optional(write: _Write, read: _Read) -> tuple[_Write, _Read]:
    """Return the fields of a number that is not negative, or None."""

    def read_optional(data: bytes, position: int) -> tuple[int | None, int]:
        number, position = read(data, position)
        return None if number < 0 else number, position

    return lambda number: write(-1 if number is None else number), read_optional


_TYPES: Mapping[str, tuple[_Write, _Read]] = {
    "Byte": _packed("B"),
    "bool": _packed("?"),
    "int": _packed(">Q"),
    "int | None": _optional(*_packed(">q")),
    "str": (_write_text, _read_text),
    "tuple[str, ...]": _several(_write_text, _read_text),
    "tuple[LiveGroup, ...]": _several(_encoded, lambda data, position: _decoded(LiveGroup, data, position)),
    "Buffer": (lambda frame: frame, lambda data, position: (data[position:], len(data))),
}
"""By the type of a field, what writes and reads it. A frame is the last field of its message."""
