"""Frames: a length, a header, a message. The only place that knows which header goes with which version.

A frame handed in or out here is without its length. Requests carry header v1, flexible ones v2; responses v0, flexible
ones v1, but ApiVersions always v0, so that a client reads it before it knows what the broker speaks (KIP-511).
"""

from __future__ import annotations

from struct import Struct, error
from typing import Any, NamedTuple, TypeVar

from kohort.wire.apis import Api, flexible_from
from kohort.wire.codec import Buffer, MalformedMessage, decode, gather
from kohort.wire.message import Message
from kohort.wire.primitives import skip_tags

MessageT = TypeVar("MessageT", bound=Message)

_LENGTH = Struct(">i")
_REQUEST_HEAD = Struct(">hhih")
_FIRST_FLEXIBLE = {int(api): flexible_from(api) for api in Api}
_NEVER = 1 << 15


class FrameTooLarge(MalformedMessage):
    """A frame's length is over the limit."""


class RequestHeader(NamedTuple):
    """The header of a request. `api_key` and `api_version` are as sent: they may be ones that nobody knows."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Read a request's header; return it and the position of the body. Raises `MalformedMessage`.

    The header of a version newer than we know is read as flexible; of an API we do not know, as not.
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST_HEAD.unpack_from(frame)
        position = _REQUEST_HEAD.size
        client_id = None
        if length >= 0:
            client_id = str(frame[position : position + length], "utf-8")
            position += length
        if api_version >= _FIRST_FLEXIBLE.get(api_key, _NEVER):
            count = frame[position]
            position += 1
            if count:
                position = skip_tags(frame, position, count)
    except (IndexError, error, UnicodeDecodeError) as cause:
        raise MalformedMessage(f"request header: {cause}") from cause
    if position > len(frame):
        raise MalformedMessage("the request header is cut short")
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def encode_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return a request with its length and header. Raises as `codec.encode` does."""
    return b"".join(gather_request(message, version, correlation_id, client_id))


def gather_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """Return a request as `encode_request` does, in buffers: record batches by reference."""
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    head = _REQUEST_HEAD.pack(message.API_KEY, version, correlation_id, length) + name
    if version in message.FLEXIBLE:
        head += b"\0"
    return _framed(head, message, version)


def encode_response(message: Message, version: int, correlation_id: int) -> list[Buffer]:
    """Return a response with its length and header, in buffers: record batches by reference. Raises as `encode`."""
    head = _LENGTH.pack(correlation_id)
    if version in message.FLEXIBLE and message.API_KEY != Api.API_VERSIONS:
        head += b"\0"
    return _framed(head, message, version)


def decode_response(cls: type[MessageT], version: int, frame: Buffer) -> tuple[int, MessageT]:
    """Read a response; return its correlation id and the message. Raises `MalformedMessage`, `UnsupportedVersion`."""
    try:
        (correlation_id,) = _LENGTH.unpack_from(frame)
        position = _LENGTH.size
        if version in cls.FLEXIBLE and cls.API_KEY != Api.API_VERSIONS:
            count = frame[position]
            position += 1
            if count:
                position = skip_tags(frame, position, count)
    except (IndexError, error) as cause:
        raise MalformedMessage(f"response header: {cause}") from cause
    message, _ = decode(cls, version, frame, position)
    return correlation_id, message


class FrameSplitter:
    """Cuts a stream of bytes into frames.

    `limit` is the largest frame in bytes (Kafka's `socket.request.max.bytes`). A frame too large is refused as soon as
    its length is seen; after an error the splitter must be thrown away with its connection.
    """

    __slots__ = ("_limit", "_pending", "_wanted")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._wanted = 4

    def feed(self, chunk: Buffer) -> list[bytes]:
        """Take bytes as they came; return the frames now whole. Raises `FrameTooLarge`, `MalformedMessage`."""
        pending = self._pending
        if pending:
            pending += chunk
            if len(pending) < self._wanted:
                return []
            chunk = bytes(pending)
            pending.clear()
        frames: list[bytes] = []
        position, end = 0, len(chunk)
        while end - position >= 4:
            (length,) = _LENGTH.unpack_from(chunk, position)
            if length < 0:
                raise MalformedMessage(f"a frame's length is {length}")
            if length > self._limit:
                raise FrameTooLarge(f"a frame of {length} bytes is over the limit of {self._limit}")
            stop = position + 4 + length
            if stop > end:
                self._wanted = 4 + length
                break
            frames.append(bytes(chunk[position + 4 : stop]))
            position = stop
        else:
            self._wanted = 4
        if position < end:
            pending += chunk[position:]
        return frames


def _framed(head: bytes, message: Message, version: int) -> list[Buffer]:
    """Put a length before a head and a message, and join what lies between record batches."""
    parts: list[Buffer] = [b"", head]
    gather(message, version, parts)
    parts[0] = _LENGTH.pack(sum([len(part) for part in parts]))
    if max(map(len, parts)) < _WORTH_A_BUFFER:
        return [b"".join(parts)]
    buffers: list[Buffer] = []
    small: list[Any] = []
    for part in parts:
        if len(part) < _WORTH_A_BUFFER:
            small.append(part)
            continue
        if small:
            buffers.append(b"".join(small))
            small = []
        buffers.append(part)
    if small:
        buffers.append(b"".join(small))
    return buffers


_WORTH_A_BUFFER = 4096
"""Buffers of fewer bytes are cheaper copied than written apart."""
