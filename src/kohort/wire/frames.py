"""Frames: a length, a header, a message. The only place that knows which header goes with which version.

A frame handed in or out here is without its length. Requests carry header v1, flexible ones v2; responses v0, flexible
ones v1, but ApiVersions always v0, so that a client reads it before it knows what the broker speaks (KIP-511).
"""

from __future__ import annotations

from struct import Struct, error
from typing import NamedTuple, TypeVar

from kohort.wire.apis import Api, flexible_from
from kohort.wire.codec import Buffer, decode, encode, gather
from kohort.wire.message import Message
from kohort.wire.primitives import MalformedMessage, skip_tags

MessageT = TypeVar("MessageT", bound=Message)

_LENGTH = Struct(">i")
_REQUEST_HEAD = Struct(">hhih")
_NEVER = 1 << 15
_REQUEST_FLEXIBLE_FROM = {int(api): flexible_from(api) for api in Api}
_RESPONSE_FLEXIBLE_FROM = {**_REQUEST_FLEXIBLE_FROM, int(Api.API_VERSIONS): _NEVER}

_WORTH_A_BUFFER = 4096
"""Buffers of fewer bytes are cheaper copied than written apart."""


class FrameTooLarge(MalformedMessage):
    """A frame's length is over the limit."""


def bad_length(length: int, limit: int) -> MalformedMessage:
    """Return the error of a frame whose length is negative or over the limit."""
    if length < 0:
        return MalformedMessage(f"a frame's length is {length}")
    return FrameTooLarge(f"a frame of {length} bytes is over the limit of {limit}")


class RequestHeader(NamedTuple):
    """The header of a request. `api_key` and `api_version` are as sent, and may be unknown."""

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
        if api_version >= _REQUEST_FLEXIBLE_FROM.get(api_key, _NEVER):
            count = frame[position]
            position += 1
            if count:
                position = skip_tags(frame, position, count)
    except (IndexError, error, UnicodeDecodeError) as cause:
        raise MalformedMessage(f"request header: {cause}") from cause
    if position > len(frame):
        raise MalformedMessage("the request header is cut short")
    # Past NamedTuple's own constructor, which costs as much as the rest of this function.
    return tuple.__new__(RequestHeader, (api_key, api_version, correlation_id, client_id)), position


def encode_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Return a request with its length and header. Raises as `codec.encode` does."""
    return b"".join(gather_request(message, version, correlation_id, client_id))


def gather_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> list[Buffer]:
    """Return a request as `encode_request` does, in buffers: record batches by reference."""
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    head = _REQUEST_HEAD.pack(message.API_KEY, version, correlation_id, length) + name
    if version >= _REQUEST_FLEXIBLE_FROM.get(message.API_KEY, _NEVER):
        head += b"\0"
    if not message.HAS_RECORDS:
        body = encode(message, version)
        return [_LENGTH.pack(len(head) + len(body)) + head + body]
    parts: list[Buffer] = [b"", head]
    gather(message, version, parts)
    parts[0] = _LENGTH.pack(sum([len(part) for part in parts]))
    return join_small(parts)


def decode_response(cls: type[MessageT], version: int, frame: Buffer) -> tuple[int, MessageT]:
    """Read a response; return its correlation id and the message. Raises `MalformedMessage`, `UnsupportedVersion`."""
    try:
        (correlation_id,) = _LENGTH.unpack_from(frame)
        position = _LENGTH.size
        if version >= _RESPONSE_FLEXIBLE_FROM.get(cls.API_KEY, _NEVER):
            count = frame[position]
            position += 1
            if count:
                position = skip_tags(frame, position, count)
    except (IndexError, error) as cause:
        raise MalformedMessage(f"response header: {cause}") from cause
    try:
        message, _ = decode(cls, version, frame, position)
    except MalformedMessage:
        # A broker that does not know the version of an ApiVersions request answers in version 0 (KIP-511).
        if cls.API_KEY != Api.API_VERSIONS or version == 0:
            raise
        message, _ = decode(cls, 0, frame, position)
    return correlation_id, message


class FrameSplitter:
    """Cuts a stream of bytes into frames.

    `limit` is the largest frame in bytes (Kafka's `socket.request.max.bytes`). A frame too large is refused as soon as
    its length is seen; after an error the splitter must be thrown away with its connection.
    """

    __slots__ = ("_head", "_missing", "_pieces", "buffered", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.buffered = 0
        """How many bytes there are of a frame that is not whole."""
        self._head = b""
        """The first bytes of a length, up to three."""
        self._pieces: list[bytearray | memoryview] = []
        self._missing = 0
        """How many bytes the frame in `_pieces` lacks."""

    @property
    def frame_bytes(self) -> int:
        """The size of the frame that is not whole."""
        return self.buffered + self._missing

    def feed(self, chunk: Buffer) -> list[bytes]:
        """Take bytes as they came; return the frames now whole. Raises `FrameTooLarge`, `MalformedMessage`."""
        frames: list[bytes] = []
        position = 0
        if self._missing:
            position = self._missing
            if len(chunk) < position:
                self._buffer(chunk)
                self._missing -= len(chunk)
                return frames
            frames.append(b"".join((*self._pieces, memoryview(chunk)[:position])))
            self._pieces.clear()
            self._missing = self.buffered = 0
        elif self._head:
            chunk = self._head + bytes(chunk)
            self._head = b""
        end = len(chunk)
        while end - position >= 4:
            (length,) = _LENGTH.unpack_from(chunk, position)
            if not 0 <= length <= self.limit:
                raise bad_length(length, self.limit)
            stop = position + 4 + length
            if stop > end:
                self._missing = stop - end
                self._buffer(memoryview(chunk)[position + 4 :] if type(chunk) is bytes else chunk[position + 4 :])
                return frames
            frames.append(bytes(chunk[position + 4 : stop]))
            position = stop
        if position < end:
            self._head = bytes(chunk[position:])
        return frames

    def _buffer(self, piece: Buffer) -> None:
        """Buffer a piece of a frame: a large one as it is, so that a large frame is copied once, when it is whole."""
        self.buffered += len(piece)
        if len(piece) >= _WORTH_A_BUFFER:
            view = memoryview(piece)
            whole = view.obj
            # A view of a small part would pin the rest in memory too.
            is_most = type(whole) is bytes and 2 * len(piece) >= len(whole)
            self._pieces.append(view if is_most else memoryview(bytes(piece)))
        elif self._pieces and type(self._pieces[-1]) is bytearray:
            self._pieces[-1] += piece  # one by one they would take more memory than the frame
        else:
            self._pieces.append(bytearray(piece))


def join_small(parts: list[Buffer]) -> list[Buffer]:
    """Return the same bytes in fewer buffers: those too small to be worth one are joined with their neighbours."""
    if max(map(len, parts)) < _WORTH_A_BUFFER:
        return [b"".join(parts)]
    buffers: list[Buffer] = []
    small: list[Buffer] = []
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
