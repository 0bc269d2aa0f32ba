"""One connection to a broker whose answers get the gateway's addresses.

It stands between whatever writes requests and the broker. Answers that can have an address are read whole and changed,
all else passes as it comes. What could bring a broker's own address to the client ends the connection, with a sentence.
`RewritingRelay` is such a connection whose groups are seen as the client sees them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from kohort.gateway.relay.frame_cutter import LENGTH_BYTES, FrameCutter, Whole
from kohort.gateway.relay.read_budget import ReadBudget
from kohort.gateway.relay.relay import Relay, Sink
from kohort.gateway.rewriting.broker_addresses import AddressOf, NoAddress, address_walker
from kohort.gateway.rewriting.offered_apis import (
    API_VERSIONS,
    PASSED_VERSIONS,
    SASL_HANDSHAKE,
    is_passed,
    with_passed_versions,
)
from kohort.wire.codec import Buffer
from kohort.wire.frames import join_small
from kohort.wire.primitives import MalformedMessage

MOST_ENTRIES = 1000
"""Entries without an answer at most."""


class UnclearAnswers(ValueError):
    """The answer to a request would not be distinguishable from that of another; the text is a sentence."""


class AwaitedRequest(NamedTuple):
    """What the answer to a request looks like."""

    api_key: int
    api_version: int


@dataclass(slots=True)
class _Run:
    """Requests of one API and version, with these correlation ids and any between."""

    request: AwaitedRequest
    first: int
    last: int


class AwaitedAnswers:
    """The requests whose answers are to come, in the order in which they were sent.

    Kafka answers in that order, but Produce with acks=0 has no answer: what is older than the request that an answer
    belongs to has none. Requests of one API and version with growing correlation ids are one entry, so that a producer
    with acks=0 that never gets an answer takes no memory.
    """

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: deque[_Run] = deque()

    def __len__(self) -> int:
        return len(self._runs)

    def sent(self, api_key: int, api_version: int, correlation_id: int) -> None:
        """A request goes to the broker. Raises `UnclearAnswers`."""
        runs = self._runs
        if runs:
            last = runs[-1]
            if last.last < correlation_id and last.request == (api_key, api_version):
                last.last = correlation_id
                return
        run = _Run(AwaitedRequest(api_key, api_version), correlation_id, correlation_id)
        if any(each.first <= correlation_id <= each.last and each.request != run.request for each in runs):
            raise UnclearAnswers(
                f"the client sent another request with the correlation id {correlation_id} before the answer to the"
                " first one"
            )
        if len(runs) == MOST_ENTRIES:
            raise UnclearAnswers(f"the broker has not answered the client's last {MOST_ENTRIES} requests and more")
        runs.append(run)

    def answered(self, correlation_id: int) -> AwaitedRequest | None:
        """Return the request of an answer, or None where nothing was sent that it could belong to."""
        runs = self._runs
        while runs:
            run = runs[0]
            if run.first <= correlation_id <= run.last:
                if correlation_id == run.last:
                    runs.popleft()
                else:
                    run.first = correlation_id + 1
                return run.request
            runs.popleft()
        return None


_REQUEST_HEAD = Struct(">ihhi")
_RESPONSE_HEAD = Struct(">ii")
_LENGTH = Struct(">i")

READ_BYTES = 64 << 20
"""An answer with addresses that is longer than this ends the connection."""

_UNKNOWN_VERSION = 0x7FFF
"""A version of ApiVersions that no broker knows: it answers in version 0 and names those that it does (KIP-511)."""


class AddressRelay:
    """The two directions of a connection. `end` is called once, with the reason, when it has to be closed.

    After that, or after `closed`, nothing passes any more.
    """

    def __init__(
        self,
        address_of: AddressOf,
        to_client: Sink,
        to_broker: Sink,
        end: Callable[[str], None],
        budget: ReadBudget | None = None,
    ) -> None:
        self._reserved = (budget or ReadBudget()).reservation()
        self._address_of = address_of
        self._to_client = to_client
        self._to_broker = to_broker
        self._end = end
        self._is_ended = False
        self._awaited = AwaitedAnswers()
        self._requests = FrameCutter(_REQUEST_HEAD.size, lambda _head, _length: False)
        self._answers = FrameCutter(_RESPONSE_HEAD.size, self._is_answer_read)
        self._reading: AwaitedRequest | None = None
        """The request whose answer is being read."""
        self._sends_tokens = False
        """Whether frames of the client may be SASL tokens without a header, as after SaslHandshake v0."""
        self._tokens = 0
        """Tokens of the client to which the broker has not sent one in return."""

    @property
    def buffered_bytes(self) -> int:
        """How many bytes this connection buffers."""
        return self._requests.buffered_bytes + self._answers.buffered_bytes

    @property
    def passing_bytes(self) -> int:
        """How many bytes the broker still sends of an answer that passes unread."""
        return 0 if self._is_ended else self._answers.passing_bytes

    def passed_elsewhere(self, count: int) -> None:
        """So many of these bytes have passed without `from_broker`."""
        self._answers.passed_elsewhere(count)

    def from_client(self, chunk: Buffer) -> None:
        """Take bytes of the client's requests."""
        if self._is_ended:
            return
        try:
            for piece in self._requests.feed(chunk):
                assert not isinstance(piece, Whole), "requests are not read"
                if piece.head is None:
                    self._to_broker(piece.data)
                else:
                    self._forward_request(piece.head, piece.data)
        except (_Refusal, UnclearAnswers) as refusal:
            self._stop(str(refusal))
        except MalformedMessage as error:
            self._stop(f"the client sent what is not Kafka's protocol: {error}")

    def from_broker(self, chunk: Buffer) -> None:
        """Take bytes of the broker's answers."""
        if self._is_ended:
            return
        try:
            for piece in self._answers.feed(chunk):
                if isinstance(piece, Whole):
                    self._forward_answer(piece.frame)
                else:
                    if piece.head is not None and len(piece.head) < _RESPONSE_HEAD.size and not self._answers_token():
                        raise _Refusal("the broker sent an answer that is too short to have a correlation id")
                    self._to_client(piece.data)
        except (_Refusal, NoAddress) as refusal:
            self._stop(str(refusal))
        except MalformedMessage as error:
            self._stop(f"an answer of the broker cannot be read, and could hold its own address: {error}")

    def closed(self) -> None:
        """The connection has ended."""
        self._is_ended = True
        self._reserved.release()

    def _stop(self, reason: str) -> None:
        self._is_ended = True
        self._end(reason)

    def _forward_request(self, head: bytes, data: Buffer) -> None:
        """Pass the first bytes of a request on."""
        if len(head) < _REQUEST_HEAD.size:
            if not self._sends_tokens:
                raise _Refusal(f"the client sent a request of {len(head) - LENGTH_BYTES} bytes, which lacks a header")
            self._tokens += 1
            self._to_broker(data)
            return
        length, api_key, version, correlation_id = _REQUEST_HEAD.unpack(head)
        is_known = is_passed(api_key, version)
        if self._sends_tokens and not is_known and not _is_like_request(api_key, version):
            self._tokens += 1
            self._to_broker(data)
            return
        self._sends_tokens = api_key == SASL_HANDSHAKE and version == 0
        if not is_known:
            if api_key != API_VERSIONS:
                raise _Refusal(_not_passed(api_key, version))
            self._awaited.sent(api_key, 0, correlation_id)
            self._to_broker(_REQUEST_HEAD.pack(length, api_key, _UNKNOWN_VERSION, correlation_id))
            self._to_broker(memoryview(data)[_REQUEST_HEAD.size :])
        else:
            self._awaited.sent(api_key, version, correlation_id)
            self._to_broker(data)

    def _is_answer_read(self, head: bytes, length: int) -> bool:
        _, correlation_id = _RESPONSE_HEAD.unpack(head)
        if self._answers_token():
            return False
        request = self._awaited.answered(correlation_id)
        if request is None:
            raise _Refusal(f"the broker sent an answer with the correlation id {correlation_id}, which no request has")
        if request.api_key != API_VERSIONS and address_walker(*request) is None:
            return False
        if length > READ_BYTES:
            raise _Refusal(
                f"the answer to a request of API {request.api_key} v{request.api_version} has {length} bytes:"
                f" no more than {READ_BYTES} are searched for addresses"
            )
        if not self._reserved.reserve(length):
            raise _Refusal(
                f"too many large answers are searched for addresses at once: one of API {request.api_key} has {length}"
                " bytes more"
            )
        self._reading = request
        return True

    def _answers_token(self) -> bool:
        """Whether a frame of the broker answers a SASL token, which has no correlation id either."""
        if not self._tokens or len(self._awaited):
            return False
        self._tokens -= 1
        return True

    def _forward_answer(self, frame: bytes) -> None:
        self._reserved.release()
        request = self._reading
        assert request is not None, "an answer that is read has a request"
        if request.api_key == API_VERSIONS:
            parts = with_passed_versions(frame, _RESPONSE_HEAD.size, request.api_version)
        else:
            walker = address_walker(*request)
            assert walker is not None, "an answer is read for its addresses"
            parts = walker.replaced(frame, _RESPONSE_HEAD.size, self._address_of)
        length = _LENGTH.pack(sum(map(len, parts)) - LENGTH_BYTES)
        parts[:1] = [length, memoryview(parts[0])[LENGTH_BYTES:]]
        for part in join_small(parts):
            self._to_client(part)


def _is_like_request(api_key: int, version: int) -> bool:
    """Whether a frame begins like a request, and not like a token of any mechanism.

    Where a request has its version, tokens have text (PLAIN, SCRAM, OAUTHBEARER); GSSAPI begins with larger numbers.
    """
    return 0 <= api_key < 256 and 0 <= version < ord(" ")


class _Refusal(ValueError):
    """Something may not pass; the text is a sentence."""


def _not_passed(api_key: int, version: int) -> str:
    versions = PASSED_VERSIONS.get(api_key)
    offered = "it is not offered here" if versions is None else f"the versions {versions} are offered here"
    return (
        f"the client sent a request of API {api_key} in version {version}, whose answer could hold a broker's own"
        f" address: {offered}"
    )


class RewritingRelay:
    """A connection as `Relay` is one; the address relay stands on its broker's side.

    `open_relay` makes the relay of groups from its two sinks. `end` is called with the reason when the connection has
    to be closed.
    """

    def __init__(
        self,
        open_relay: Callable[[Sink, Sink], Relay],
        address_of: AddressOf,
        to_client: Sink,
        to_broker: Sink,
        end: Callable[[str], None],
        budget: ReadBudget | None = None,
    ) -> None:
        self._now_ms = 0
        self._addresses = AddressRelay(address_of, self._pass_answer, to_broker, end, budget)
        self._relay = open_relay(to_client, self._addresses.from_client)

    @property
    def is_idle(self) -> bool:
        """Whether no request of the client awaits its answer."""
        return self._relay.is_idle

    @property
    def buffered_bytes(self) -> int:
        """How many bytes this connection buffers."""
        return self._relay.buffered_bytes + self._addresses.buffered_bytes

    @property
    def passing_bytes(self) -> int:
        """How many bytes the broker still sends of an answer that passes unread; 0 while it waits behind another."""
        return min(self._relay.passing_bytes, self._addresses.passing_bytes)

    def passed_elsewhere(self, count: int) -> None:
        """So many of these bytes have passed without `from_broker`."""
        self._addresses.passed_elsewhere(count)
        self._relay.passed_elsewhere(count)

    def from_client(self, chunk: Buffer, now_ms: int) -> None:
        """Take bytes of the client. Raises `MalformedMessage`: the connection is to be closed."""
        self._relay.from_client(chunk, now_ms)

    def from_broker(self, chunk: Buffer, now_ms: int) -> None:
        """Take bytes of the broker."""
        self._now_ms = now_ms
        self._addresses.from_broker(chunk)

    def _pass_answer(self, data: Buffer) -> None:
        self._relay.from_broker(data, self._now_ms)

    def release(self, now_ms: int) -> None:
        """Let what waits pass now."""
        self._relay.release(now_ms)

    def closed(self, now_ms: int, *, is_by_client: bool) -> None:
        """The connection has ended; `is_by_client`: neither gateway nor broker ended it."""
        self._addresses.closed()
        self._relay.closed(now_ms, is_by_client=is_by_client)
