"""The connections of a simulated client: requests out as they come, responses back, over one or several.

A request is answered once: by its response, or by NETWORK_EXCEPTION or REQUEST_TIMED_OUT. A broker answers in order,
but for commits of clients that match answers by id; a request that times out takes the connection with it. Failures are
reported in an event of their own, never from inside the call that caused them. Which requests to the coordinator share
a connection differs between client libraries (`client_kinds.Layout`); the coordinator is looked up once, and again when
a connection to it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from random import Random
from struct import Struct
from typing import Any, NamedTuple

from kohort.member.deadlines import Backoff
from kohort.model.errors import ErrorCode
from kohort.parking.client_software import software_named
from kohort.sim.kernel.host import Host
from kohort.sim.kernel.network import Address, End, Network
from kohort.sim.kernel.scheduler import Due
from kohort.sim.kernel.world_observer import Observer
from kohort.sim.peers.client_kinds import Layout
from kohort.wire.apis import VERSIONS, Api, response_class
from kohort.wire.frames import FrameSplitter, decode_response, encode_request
from kohort.wire.message import Message
from kohort.wire.messages import ApiVersionsRequest, FindCoordinatorRequest
from kohort.wire.primitives import MalformedMessage

Answered = Callable[[ErrorCode, Any], None]
"""Called with NONE and the message, or with why there is none, and None."""
Read = Callable[[bytes], Any]
"""What makes a message of a frame."""

CONNECT_US = 3_000_000
"""How long a connection may take to open."""
MAX_FRAME_BYTES = 16 << 20

_CORRELATION = Struct(">i")
_OPENING_VERSION = 3
SOFTWARE_VERSION = "9"
"""Which version a peer calls itself: newer than all whose habits are known, which it therefore has."""


class ClientPlace(NamedTuple):
    """Where a simulated client runs: its host and network, the brokers it begins with, and its random numbers."""

    host: Host
    network: Network
    bootstrap: Sequence[Address]
    random: Random
    observer: Observer


class _Call(NamedTuple):
    """A request that is not answered yet."""

    frame: bytes
    read: Read
    answered: Answered
    deadline_us: int


@cache
def reader(api: Api, version: int) -> Read:
    """Return what reads the answers of an API in a version."""
    kind = response_class(api)

    def read(frame: bytes) -> Any:
        return decode_response(kind, version, frame)[1]

    return read


class PeerConnection:
    """A connection to the address that `where` returns; None where that is not known now, and `retry` comes later.

    `opening` is a request to send first on each connection, whose response is ignored. `lost` is called at each end.
    `is_ordered`: whether responses must come in the order of their requests.
    """

    def __init__(
        self, host: Host, network: Network, where: Callable[[], Address | None], lost: Callable[[], None]
    ) -> None:
        self.opening: bytes | None = None
        self.is_ordered = True
        self._host = host
        self._network = network
        self._where = where
        self._lost = lost
        self._end: End | None = None
        self._splitter = FrameSplitter(MAX_FRAME_BYTES)
        self._attempt = 0
        self._is_connecting = False
        self._waiting: list[_Call] = []
        """What is to be sent once there is a connection."""
        self._pending: dict[int, _Call] = {}
        """By correlation id, in the order in which they were sent."""
        self._sent = 0
        self._alarm: Due | None = None
        self._is_closed = False

    @property
    def is_wanted(self) -> bool:
        """Whether a request waits for a connection."""
        return bool(self._waiting)

    def send(self, frame: bytes, read: Read, answered: Answered, timeout_ms: int) -> None:
        """Send a request, whose correlation id is filled in here."""
        if self._is_closed:
            return
        deadline_us = self._host.scheduler.now_us + timeout_ms * 1000
        call = _Call(frame, read, answered, deadline_us)
        if self._end is not None:
            self._send(call)
        else:
            self._waiting.append(call)
            self.connect()
        alarm = self._alarm
        if alarm is None:
            self._alarm = self._host.at_us(deadline_us, self._look_at_the_clock)
        elif deadline_us < alarm.when_us:
            alarm.cancel()
            self._alarm = self._host.at_us(deadline_us, self._look_at_the_clock)

    def connect(self) -> None:
        """Open the connection, if a request waits for it and the address is known."""
        if self._is_connecting or self._end is not None or not self._waiting or self._is_closed:
            return
        address = self._where()
        if address is None:
            return
        self._is_connecting = True
        attempt = self._attempt = self._attempt + 1
        self._network.connect(
            self._host, address, lambda end: self._opened(attempt, end), lambda _: self._failed(attempt)
        )
        self._host.after_us(CONNECT_US, self._failed, attempt)

    def drop(self) -> None:
        """Close the connection; requests without a response on it fail with NETWORK_EXCEPTION."""
        end, self._end = self._end, None
        if end is not None:
            end.close()
        self._abandon(ErrorCode.NETWORK_EXCEPTION)

    def close(self) -> None:
        """Close the connection for good; no request is answered any more."""
        self._is_closed = True
        self._waiting.clear()
        self._pending.clear()
        if self._end is not None:
            self._end.close()
            self._end = None

    # -- the connection

    def _opened(self, attempt: int, end: End) -> None:
        if attempt != self._attempt or not self._is_connecting or self._is_closed:
            end.close()
            return
        self._is_connecting = False
        self._end = end
        self._splitter = FrameSplitter(MAX_FRAME_BYTES)
        end.on_bytes, end.on_closed = self._take, self._ended
        if self.opening is not None:
            self._send(_Call(self.opening, bytes, _ignore, self._host.scheduler.now_us + CONNECT_US))
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            self._send(call)

    def _failed(self, attempt: int) -> None:
        if attempt == self._attempt and self._is_connecting:
            self._is_connecting = False
            self._lost()
            self._abandon(ErrorCode.NETWORK_EXCEPTION)

    def _ended(self, _: str) -> None:
        self._end = None
        self._lost()
        self._abandon(ErrorCode.NETWORK_EXCEPTION)

    def _break(self, code: ErrorCode) -> None:
        end, self._end = self._end, None
        if end is not None:
            end.abort()
        self._is_connecting = False
        self._lost()
        self._abandon(code)

    def _abandon(self, code: ErrorCode) -> None:
        failed = [*self._pending.values(), *self._waiting]
        self._pending.clear()
        self._waiting.clear()
        if failed:
            self._host.after_us(0, self._fail, failed, code)

    def _fail(self, failed: list[_Call], code: ErrorCode) -> None:
        for call in failed:
            if not self._is_closed:
                call.answered(code, None)

    # -- requests and answers

    def _send(self, call: _Call) -> None:
        assert self._end is not None, "only an open connection carries requests"
        self._sent = self._sent + 1 & 0x7FFFFFFF
        self._pending[self._sent] = call
        frame = call.frame
        self._end.send(frame[:8] + _CORRELATION.pack(self._sent) + frame[12:])

    def _take(self, chunk: bytes) -> None:
        try:
            frames = self._splitter.feed(chunk)
        except MalformedMessage:
            self._break(ErrorCode.NETWORK_EXCEPTION)
            return
        for frame in frames:
            if not self._pending:
                return  # the answer before this one had the connection dropped
            (correlation_id,) = _CORRELATION.unpack_from(frame)
            assert not self.is_ordered or correlation_id == next(iter(self._pending)), "a broker answers in order"
            call = self._pending.pop(correlation_id)
            call.answered(ErrorCode.NONE, call.read(frame))

    def _look_at_the_clock(self) -> None:
        self._alarm = None
        if not self._pending and not self._waiting:
            return
        now_us = self._host.scheduler.now_us
        next_us = min([call.deadline_us for call in (*self._pending.values(), *self._waiting)])
        if next_us <= now_us:
            self._break(ErrorCode.REQUEST_TIMED_OUT)
        else:
            self._alarm = self._host.at_us(next_us, self._look_at_the_clock)


def _ignore(_: ErrorCode, __: object) -> None:
    """Ignore the response to an opening."""


class PeerConnections:
    """The connections of one peer. `versions` are the newest that it speaks, where they are not the newest of all.

    `coordinator_type` is what the coordinator coordinates: a group, or with 1 a transactional id, named `group_id`.
    """

    def __init__(
        self,
        client_id: str,
        group_id: str,
        place: ClientPlace,
        *,
        versions: Mapping[Api, int],
        request_timeout_ms: int = 30_000,
        software: str | None = None,
        layout: Layout = "apart",
        coordinator_type: int = 0,
    ) -> None:
        self.client_id = client_id
        self.group_id = group_id
        self.host, network, bootstrap, self.random, _ = place
        self.request_timeout_ms = request_timeout_ms
        self.brokers: tuple[Address, ...] = ()
        """The brokers that metadata has shown last."""
        self._bootstrap = tuple(bootstrap)
        self._versions = versions
        self._turn = self.random.randrange(len(self._bootstrap))
        self._coordinator: Address | None = None
        self._coordinator_type = coordinator_type
        self._is_looking = False
        self._waits = Backoff(self.random.random)
        connect = partial(PeerConnection, self.host, network)
        to_coordinator = partial(connect, self._find_coordinator, self.forget_coordinator)
        self.group = to_coordinator()
        self.joins = to_coordinator() if layout == "joins apart" else self.group
        self.offsets = to_coordinator() if layout == "apart" else self.group
        self.records = connect(self._leader, self._turn_away)
        self.any = connect(self._any_broker, self._turn_away)
        self._coordinated = tuple(dict.fromkeys((self.group, self.joins, self.offsets)))
        if software is not None:
            self.group.opening = self.joins.opening = self.opening(software)
            for connection in self._coordinated:
                connection.is_ordered = not software_named(software, SOFTWARE_VERSION).habits.matches_by_id

    def version(self, api: Api) -> int:
        """Return the version in which this peer speaks an API."""
        return min(self._versions.get(api, 1 << 15), VERSIONS[api].highest)

    def frame(self, request: Message, version: int | None = None) -> bytes:
        """Return the bytes of a request without its correlation id."""
        chosen = self.version(Api(request.API_KEY)) if version is None else version
        return encode_request(request, chosen, 0, self.client_id)

    def send(
        self,
        connection: PeerConnection,
        request: Message,
        answered: Answered,
        *,
        timeout_ms: int | None = None,
        version: int | None = None,
    ) -> None:
        """Send a request; `answered` is called with its response or failure."""
        api = Api(request.API_KEY)
        chosen = self.version(api) if version is None else version
        timeout_ms = self.request_timeout_ms if timeout_ms is None else timeout_ms
        connection.send(self.frame(request, chosen), reader(api, chosen), answered, timeout_ms)

    def opening(self, software: str) -> bytes:
        """Return an ApiVersions request, which any broker answers at once."""
        request = ApiVersionsRequest(client_software_name=software, client_software_version=SOFTWARE_VERSION)
        return encode_request(request, _OPENING_VERSION, 0, self.client_id)

    def rediscover(self) -> None:
        """Forget the coordinator and the connection to it; the next request looks it up."""
        self.forget_coordinator()
        for connection in dict.fromkeys((self.group, self.joins)):
            connection.drop()

    def forget_coordinator(self) -> None:
        """Note that the known coordinator is not, or may not be, the coordinator."""
        self._coordinator = None

    def close(self) -> None:
        """Close every connection; no request is answered any more."""
        for connection in (*self._coordinated, self.records, self.any):
            connection.close()

    # -- where to

    def _any_broker(self) -> Address | None:
        known = tuple(dict.fromkeys((*self.brokers, *self._bootstrap)))
        return known[self._turn % len(known)]

    def _leader(self) -> Address | None:
        # One node leads everything; which one it is, is in the metadata.
        return self.brokers[0] if self.brokers else self._any_broker()

    def _turn_away(self) -> None:
        self._turn += 1

    def _find_coordinator(self) -> Address | None:
        if self._coordinator is None:
            self._look_up()
        return self._coordinator

    def _look_up(self) -> None:
        if self._is_looking:
            return
        self._is_looking = True
        request = FindCoordinatorRequest(
            key=self.group_id, key_type=self._coordinator_type, coordinator_keys=[self.group_id]
        )
        self.send(self.any, request, self._looked_up)

    def _looked_up(self, code: ErrorCode, answer: Any) -> None:
        found = None
        if code is ErrorCode.NONE:
            found = answer.coordinators[0] if answer.coordinators else answer
        if found is None or found.error_code:
            self.host.after_us(self._waits.next_ms() * 1000, self._look_again)
            return
        self._is_looking = False
        self._waits.reset()
        self._coordinator = (found.host, found.port)
        for connection in self._coordinated:
            connection.connect()

    def _look_again(self) -> None:
        self._is_looking = False
        if any(connection.is_wanted for connection in self._coordinated):
            self._look_up()
