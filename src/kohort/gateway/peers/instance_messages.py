"""What instances of the gateway send each other: one message is one `bytes`, a byte for its kind and then its fields.

Requests and answers travel as the Kafka frames that a client and a broker sent, so that a peer reads them by the same
codec. A message of another version, of an unknown kind or that is cut short is `MalformedMessage`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from struct import Struct, error

from kohort.gateway.relay.relay import READ_BYTES
from kohort.wire.codec import Buffer
from kohort.wire.primitives import MalformedMessage, read_varint, varint

VERSION = 2
"""Instances of another version do not exchange anything."""

MOST_MESSAGE_BYTES = READ_BYTES + (1 << 16)
"""No message is longer: what carries messages between instances refuses a longer one."""

_REQUEST = Struct(">Qi")
_NUMBER = Struct(">Q")
_GENERATION = Struct(">iI")
_LIVE = Struct(">iIi")


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message in each direction."""

    version: int = VERSION


@dataclass(frozen=True, slots=True)
class SharedRequest:
    """A request that the sender has passed to the broker."""

    number: int
    """By which its answer follows."""
    generation: int
    """The generation of the group as the sender knew it then, -1 where it knew none."""
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
    generation: int
    """The generation, or the epoch, of the group as the sender knows it; -1 where it knows none."""
    digest: int
    """What the sender knows of the group's members, as a checksum; 0 where it knows no such group."""
    shown: int
    """The generation in which the coordinator has answered a heartbeat lately, as the sender has seen; -1 if none."""
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LiveMembers:
    """A summary, sent each second also where it is empty: by it the receiver knows that the sender lives."""

    groups: tuple[LiveGroup, ...]


@dataclass(frozen=True, slots=True)
class Reached:
    """While an eager round is announced: members whose heartbeats the sender holds, or no longer holds."""

    group_id: str
    generation: int
    is_reached: bool
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FellBack:
    """A group in which parking did harm at the sender."""

    group_id: str


InstanceMessage = Hello | SharedRequest | SharedAnswer | RequestEnded | LiveMembers | Reached | FellBack


def encode_message(message: InstanceMessage) -> bytes:
    """Return a message as bytes."""
    match message:
        case Hello():
            return bytes((0, message.version))
        case SharedRequest():
            head = b"\1" + _REQUEST.pack(message.number, message.generation)
            return b"".join((head, _text(message.client_host), _text(message.software), message.frame))
        case SharedAnswer():
            return b"".join((b"\2", _NUMBER.pack(message.number), message.frame))
        case RequestEnded():
            return b"\3" + _NUMBER.pack(message.number)
        case LiveMembers():
            parts = [b"\4", varint(len(message.groups))]
            for group in message.groups:
                parts += (_text(group.group_id), _LIVE.pack(group.generation, group.digest, group.shown))
                parts += _texts(group.members)
            return b"".join(parts)
        case Reached():
            head = b"\5" + _GENERATION.pack(message.generation, message.is_reached)
            return b"".join((head, _text(message.group_id), *_texts(message.members)))
        case FellBack():
            return b"\6" + _text(message.group_id)


def decode_message(data: bytes) -> InstanceMessage:
    """Return the message in `data`. Raises MalformedMessage."""
    try:
        message, position = _KINDS[data[0]](data, 1)
    except (IndexError, error, UnicodeDecodeError, KeyError) as cause:
        raise MalformedMessage(f"message of another instance: {cause!r}") from cause
    if position != len(data):
        raise MalformedMessage("message of another instance: its length does not fit its fields")
    return message


def _hello(data: bytes, position: int) -> tuple[InstanceMessage, int]:
    return Hello(data[position]), position + 1


def _request(data: bytes, position: int) -> tuple[InstanceMessage, int]:
    number, generation = _REQUEST.unpack_from(data, position)
    client_host, position = _read_text(data, position + _REQUEST.size)
    software, position = _read_text(data, position)
    return SharedRequest(number, generation, client_host, software, data[position:]), len(data)


def _answer(data: bytes, position: int) -> tuple[InstanceMessage, int]:
    return SharedAnswer(_NUMBER.unpack_from(data, position)[0], data[position + _NUMBER.size :]), len(data)


def _ended(data: bytes, position: int) -> tuple[InstanceMessage, int]:
    return RequestEnded(_NUMBER.unpack_from(data, position)[0]), position + _NUMBER.size


def _live(data: bytes, position: int) -> tuple[InstanceMessage, int]:
    count, position = _read_count(data, position)
    groups = []
    for _ in range(count):
        group_id, position = _read_text(data, position)
        generation, digest, shown = _LIVE.unpack_from(data, position)
        members, position = _read_texts(data, position + _LIVE.size)
        groups.append(LiveGroup(group_id, generation, digest, shown, members))
    return LiveMembers(tuple(groups)), position


def _reached(data: bytes, position: int) -> tuple[InstanceMessage, int]:
    generation, is_reached = _GENERATION.unpack_from(data, position)
    group_id, position = _read_text(data, position + _GENERATION.size)
    members, position = _read_texts(data, position)
    return Reached(group_id, generation, bool(is_reached), members), position


def _fell_back(data: bytes, position: int) -> tuple[InstanceMessage, int]:
    group_id, position = _read_text(data, position)
    return FellBack(group_id), position


_KINDS: tuple[Callable[[bytes, int], tuple[InstanceMessage, int]], ...] = (
    _hello,
    _request,
    _answer,
    _ended,
    _live,
    _reached,
    _fell_back,
)


def _text(text: str) -> bytes:
    data = text.encode()
    return varint(len(data)) + data


def _texts(texts: Iterable[str]) -> tuple[bytes, ...]:
    encoded = tuple(map(_text, texts))
    return (varint(len(encoded)), *encoded)


def _read_count(data: bytes, position: int) -> tuple[int, int]:
    """Read a number of entries, of which each takes a byte at least."""
    count, position = read_varint(data, position)
    if count > len(data) - position:
        raise MalformedMessage(f"message of another instance: {count} entries in {len(data) - position} bytes")
    return count, position


def _read_text(data: bytes, position: int) -> tuple[str, int]:
    size, position = _read_count(data, position)
    return data[position : position + size].decode(), position + size


def _read_texts(data: bytes, position: int) -> tuple[tuple[str, ...], int]:
    count, position = _read_count(data, position)
    texts = []
    for _ in range(count):
        text, position = _read_text(data, position)
        texts.append(text)
    return tuple(texts), position
