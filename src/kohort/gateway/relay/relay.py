"""One client's connection and its connection to the broker: frames pass in both directions, and a few are read.

The laws. Bytes that are not read pass unchanged, in their order. Answers leave in the order of their requests, as in
Kafka, but for those that go ahead of one that waits, of a client that matches them by id. At most one thing waits: a
request that has not gone to the broker, or an answer that has not gone to the client; a further request of the client
ends the wait first, unless the one that waits lets its answer wait behind, or go ahead. A request whose answer waits
may be repeated: then the broker's newer answer takes the place of the one that waits.

Answers are matched to requests by their correlation id and never counted: Produce with acks=0 has no answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any, Protocol

from kohort.gateway.relay.frame_cutter import LENGTH_BYTES, FrameCutter, Whole
from kohort.gateway.relay.read_budget import SMALL_BYTES, ReadBudget
from kohort.wire.codec import Buffer, decode, encode
from kohort.wire.frames import decode_request_header
from kohort.wire.message import Request, Response
from kohort.wire.primitives import MalformedMessage

Sink = Callable[[Buffer], None]

_REQUEST_HEAD = Struct(">ihhi")
_RESPONSE_HEAD = Struct(">ii")
REQUEST_HEAD_BYTES = _REQUEST_HEAD.size

READ_BYTES = 8 << 20
"""A longer frame is not read: it passes, and `TrafficReader` learns of it; so does one beyond `ReadBudget`."""

MOST_OPEN = 1_000
"""How many requests that were read may await their answers; a client that sends more has them passed unread."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """What the first bytes of a request contain."""

    length: int
    api_key: int
    api_version: int
    correlation_id: int


class Exchange:
    """A request that is read, and its answer. It is changed only by its relay and by what reads it."""

    __slots__ = ("arrived_ms", "context", "frame", "head", "is_answered", "number", "relay", "static_key")

    def __init__(self, relay: Relay, head: RequestHead, frame: bytes, arrived_ms: int) -> None:
        self.relay = relay
        self.head = head
        self.arrived_ms = arrived_ms
        self.frame = frame
        """The request with its length; its reader may replace it before it is passed on."""
        self.context: object = None
        """What its reader has to remember for the answer."""
        self.is_answered = False
        """Whether the client has its answer."""
        self.number = 0
        """By which other instances know it, 0 where they do not."""
        self.static_key: tuple[str, str] | None = None
        """Group and client id, of a request that was changed for a static member of the gateway."""

    @property
    def is_last(self) -> bool:
        """Whether the client has sent nothing behind this request that waits for its answer; else that passes now."""
        return self.relay.last is self

    def pass_on(self) -> None:
        """Send a request that waits to the broker; nothing happens where it waits no longer."""
        self.relay.pass_on(self)

    def repeat(self) -> None:
        """Send a request whose answer waits to the broker once more; nothing happens where none waits."""
        self.relay.repeat(self)

    def answer(self, frame: Buffer) -> None:
        """Send the answer that waits, or another in its place, to the client; nothing happens where none waits."""
        self.relay.answer(self, frame)


class TrafficReader(Protocol):
    """Who reads the frames of one connection, and decides which ones wait."""

    def reads(self, head: RequestHead) -> bool:
        """Whether a request, and its answer, are read."""
        ...

    def request(self, exchange: Exchange, now_ms: int) -> bool:
        """Take a request that is read; return whether it passes now. If not, `Exchange.pass_on` passes it."""
        ...

    def answered(self, exchange: Exchange, frame: bytes, now_ms: int) -> Buffer | None:
        """Take the answer to a request that was read; return what passes now, or None: `Exchange.answer` sends it."""
        ...

    def goes_ahead(self, head: RequestHead) -> bool:
        """Whether the answer to a request that is read may go ahead of one that waits."""
        ...

    def passed(self, head: RequestHead, now_ms: int) -> None:
        """A request passes unread."""
        ...

    def followed(self, waiting: Exchange, behind: Exchange | None, now_ms: int) -> bool:
        """A request arrived behind one that waits, `behind` if it is read.

        Return whether it continues to wait; else it must have been passed on or answered.
        """
        ...

    def closed(self, unanswered: tuple[Exchange, ...], now_ms: int, *, is_by_client: bool) -> None:
        """The connection has ended before these requests were answered; what waits is dropped.

        `is_by_client`: neither gateway nor broker ended it.
        """
        ...

    def oversized(self, head: RequestHead) -> None:
        """A request that would be read passes: it, or all that is read now, takes too much memory."""
        ...

    def answer_oversized(self, exchange: Exchange, now_ms: int) -> None:
        """The answer to a request that was read passes unread, for the same reason."""
        ...


class Relay:
    """The two directions of one connection. The sinks write to the client and to the broker."""

    def __init__(
        self, reader: TrafficReader, to_client: Sink, to_broker: Sink, budget: ReadBudget | None = None
    ) -> None:
        self._reader = reader
        budget = budget or ReadBudget()
        self._max_request_bytes = budget.max_request_bytes
        self._request_bytes, self._answer_bytes = budget.reservation(), budget.reservation()
        self._to_client = to_client
        self._to_broker = to_broker
        self._requests = FrameCutter(REQUEST_HEAD_BYTES, self._is_request_read)
        self._answers = FrameCutter(_RESPONSE_HEAD.size, self._is_answer_read)
        self._open: dict[int, Exchange] = {}
        """Requests that were read and passed on, by correlation id."""
        self._waiting: Exchange | None = None
        self._is_answer_waiting = False
        self.last: Exchange | None = None
        """The last request of the client, but for those whose answers go ahead, where it is read."""
        self._behind: list[Buffer] = []
        """Answers that wait behind one that waits."""
        self._sent_id: int | None = None
        """The correlation id of the last request that was passed on; that of the last answer is equal in the end."""
        self._answered_id: int | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether a request or an answer waits."""
        return self._waiting is not None

    @property
    def buffered_bytes(self) -> int:
        """How many bytes this connection buffers."""
        waiting = len(self._waiting.frame) if self._waiting is not None else 0
        behind = sum(map(len, self._behind))
        return self._requests.buffered_bytes + self._answers.buffered_bytes + waiting + behind

    @property
    def is_idle(self) -> bool:
        """Whether no request of the client awaits its answer; one after which no answer comes is as one that does."""
        is_answered = self._sent_id == self._answered_id and self._waiting is None
        return is_answered and self._requests.is_between_frames and self._answers.is_between_frames

    @property
    def passing_bytes(self) -> int:
        """How many bytes the broker still sends of an answer that passes unread; 0 while it waits behind another."""
        return 0 if self._is_blocked else self._answers.passing_bytes

    def passed_elsewhere(self, count: int) -> None:
        """So many of these bytes have passed without `from_broker`."""
        self._answers.passed_elsewhere(count)

    def release(self, now_ms: int) -> None:
        """Let what waits pass now."""
        self._follow(None, now_ms)

    def closed(self, now_ms: int, *, is_by_client: bool) -> None:
        """The connection has ended; `is_by_client`: neither gateway nor broker ended it."""
        self._waiting = None
        self._behind.clear()
        self._request_bytes.release()
        self._answer_bytes.release()
        unanswered = tuple(self._open.values())
        self._open.clear()
        self._reader.closed(unanswered, now_ms, is_by_client=is_by_client)

    # From the client

    def from_client(self, chunk: Buffer, now_ms: int) -> None:
        """Take bytes of the client. Raises `MalformedMessage`: the connection is to be closed."""
        for piece in self._requests.feed(chunk):
            if isinstance(piece, Whole):
                self._request_bytes.release()
                self._request_received(piece.frame, now_ms)
            else:
                if piece.head is not None:
                    self._follow(None, now_ms)
                    self.last = None
                    if len(piece.head) == REQUEST_HEAD_BYTES:
                        head = request_head(piece.head)
                        self._sent_id = head.correlation_id
                        self._reader.passed(head, now_ms)
                self._to_broker(piece.data)

    def _is_request_read(self, head: bytes, length: int) -> bool:
        if length > self._max_request_bytes:
            raise MalformedMessage(
                f"a request of {length} bytes is longer than max_request_bytes = {self._max_request_bytes}"
            )
        request = request_head(head)
        if not self._reader.reads(request):
            return False
        if len(self._open) >= MOST_OPEN or length > READ_BYTES or not self._request_bytes.reserve(length):
            self._reader.oversized(request)
            return False
        return True

    def _request_received(self, frame: bytes, now_ms: int) -> None:
        exchange = Exchange(self, request_head(frame), frame, now_ms)
        self._follow(exchange, now_ms)
        if not self._reader.goes_ahead(exchange.head):
            self.last = exchange
        if self._reader.request(exchange, now_ms):
            self._pass(exchange)
        else:
            self._waiting, self._is_answer_waiting = exchange, False

    def _follow(self, behind: Exchange | None, now_ms: int) -> None:
        waiting = self._waiting
        if waiting is not None and not self._reader.followed(waiting, behind, now_ms):
            assert self._waiting is not waiting, "what waits no longer was passed on or answered"

    def pass_on(self, exchange: Exchange) -> None:
        """Send a request that waits to the broker."""
        if self._waiting is exchange and not self._is_answer_waiting:
            self._waiting = None
            self._pass(exchange)

    def _pass(self, exchange: Exchange) -> None:
        self._sent_id = exchange.head.correlation_id
        self._open[exchange.head.correlation_id] = exchange
        self._to_broker(exchange.frame)
        if len(exchange.frame) > SMALL_BYTES:
            exchange.frame = b""  # only heartbeats are repeated

    # From the broker

    def from_broker(self, chunk: Buffer, now_ms: int) -> None:
        """Take bytes of the broker. Raises `MalformedMessage`: the connection is to be closed."""
        for piece in self._answers.feed(chunk):
            if isinstance(piece, Whole):
                self._answer_bytes.release()
                self._answer_received(piece.frame, now_ms)
            else:
                if piece.head is not None and len(piece.head) == _RESPONSE_HEAD.size:
                    oversized = self._open.pop(_RESPONSE_HEAD.unpack(piece.head)[1], None)
                    if oversized is not None:
                        self._reader.answer_oversized(oversized, now_ms)
                self._send(piece.data)

    def _is_answer_read(self, head: bytes, length: int) -> bool:
        correlation_id = self._answered_id = _RESPONSE_HEAD.unpack(head)[1]
        exchange = self._open.get(correlation_id)
        if exchange is None:
            return False
        if exchange.is_answered or exchange is self._waiting:
            return True  # its request was repeated: the client must not get both answers
        return length <= READ_BYTES and self._answer_bytes.reserve(length)

    def _answer_received(self, frame: bytes, now_ms: int) -> None:
        exchange = self._open.pop(_RESPONSE_HEAD.unpack_from(frame)[1])
        passing = self._reader.answered(exchange, frame, now_ms)
        if exchange.is_answered or exchange is self._waiting:
            if passing is not None:  # of a request that was repeated
                self.answer(exchange, passing)
        elif passing is not None:
            exchange.is_answered = True
            if self._reader.goes_ahead(exchange.head):
                self._to_client(passing)
            else:
                self._send(passing)
        else:
            assert self._waiting is None, "one thing waits at a time"
            assert exchange.is_last, "only the last request's answer may wait"
            self._waiting, self._is_answer_waiting = exchange, True

    @property
    def _is_blocked(self) -> bool:
        """Whether answers wait behind one that waits."""
        return self._waiting is not None and self._is_answer_waiting

    def _send(self, data: Buffer) -> None:
        if self._is_blocked:
            self._behind.append(bytes(data))
        else:
            self._to_client(data)

    def repeat(self, exchange: Exchange) -> None:
        """Send a request whose answer waits to the broker once more."""
        if self._waiting is exchange and self._is_answer_waiting:
            self._pass(exchange)

    def answer(self, exchange: Exchange, frame: Buffer) -> None:
        """Send an answer that waits to the client, and those behind it."""
        if self._waiting is exchange and self._is_answer_waiting:
            self._waiting = None
            exchange.is_answered = True
            self._to_client(frame)
            behind, self._behind = self._behind, []
            for data in behind:
                self._to_client(data)


def request_head(frame: Buffer) -> RequestHead:
    """Return the head of a request with its length, of which there are `REQUEST_HEAD_BYTES` at least."""
    return RequestHead(*_REQUEST_HEAD.unpack_from(frame))


def changed_frame(exchange: Exchange, kind: type[Request[Any]], change: Callable[[Any], None]) -> bytes | None:
    """Return a request's frame after a change of its message, None where it has fields that the codec does not know.

    All else stays as it is. Raises MalformedMessage.
    """
    body, version = memoryview(exchange.frame)[LENGTH_BYTES:], exchange.head.api_version
    _, position = decode_request_header(body)
    message, _ = decode(kind, version, body, position)
    if encode(message, version) != body[position:]:
        return None
    change(message)
    changed = bytes(body[:position]) + encode(message, version)
    return len(changed).to_bytes(LENGTH_BYTES, "big") + changed


def encode_answer(head: RequestHead, message: Response) -> bytes:
    """Return the frame of an answer to a request, with its length, that the gateway itself sends."""
    body = encode(message, head.api_version)
    tags = b"\0" if head.api_version in message.FLEXIBLE else b""
    return _RESPONSE_HEAD.pack(4 + len(tags) + len(body), head.correlation_id) + tags + body
