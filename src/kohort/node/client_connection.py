"""One client's connection and its requests, without a socket.

The law: replies leave in the order of their requests, but those to commits before that to a parked heartbeat where the
client matches them by id; and as in Kafka a connection works on one request at a time, so frames behind a parked
request wait in the backlog. A request that waits only for the disk does not block the ones behind it, and what a member
asks for while its own JoinGroup or SyncGroup waits, such as a commit of its generation, is carried out when it arrives
if its API allows it; only its answer waits, in the backlog too where a frame before it is still there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kohort.model.acl import ANONYMOUS, Principal
from kohort.model.errors import ErrorCode
from kohort.node.step_scheduler import Steps
from kohort.parking.client_software import UNNAMED, ClientSoftware
from kohort.wire.codec import Buffer
from kohort.wire.frames import FrameSplitter

if TYPE_CHECKING:
    from kohort.node.authentication import Login
    from kohort.node.configuration.listeners import Listener
    from kohort.node.route import Route
    from kohort.node.timers import NodeClock

BACKLOG_FRAMES = 64
BACKLOG_BYTES = 1 << 20
"""A connection with more waiting frames or bytes than these is not read from until they are served."""


class NoReply:
    """The answer of a request that gets no reply (Produce with acks=0)."""


NO_REPLY = NoReply()


class RequestServer(Protocol):
    """What a request needs of the node that serves it."""

    clock: NodeClock

    def answer(self, request: Request) -> None:
        """Write the response of a parked request."""

    def proceed(self, request: Request, work: Steps[Any]) -> None:
        """Answer a parked request with what `work` returns."""

    def farewell(self, request: Request, response: Any, reason: str) -> None:
        """Send one last response and close the connection."""

    def reject(self, connection: Connection, reason: str) -> None:
        """Close a connection, with one log line."""


@dataclass(slots=True, eq=False)
class Request:
    """One request under way. A handler that returns None parks it and calls `reply` later, once."""

    server: RequestServer
    connection: Connection
    route: Route
    correlation_id: int
    message: Any
    is_parked: bool = False
    is_long: bool = False
    """Whether it took more than one turn of the event loop."""
    work: Steps[Any] | None = None
    """What is to be done for it in further turns."""
    is_ahead: bool = False
    """Whether its reply leaves before that of a parked request: the client matches replies by id."""
    blocks: bool = True
    """Whether later requests wait if this is not answered when its handler returns; the handler may clear it."""
    dropped: Callable[[], None] | None = None
    """Called when the client disconnects before the answer; a handler that parks may set it."""
    response: Any = None
    buffers: list[Buffer] | None = None
    size: int = 0
    """Bytes in `buffers`."""

    @property
    def api_version(self) -> int:
        """The version of the request, and of its response."""
        return self.route.version

    @property
    def client_id(self) -> str | None:
        """What the client calls itself."""
        return self.connection.client_id

    @property
    def peer_host(self) -> str:
        """The client's address, without the port."""
        return self.connection.peer_host

    @property
    def now_ms(self) -> int:
        """The node's time, milliseconds since the epoch."""
        return self.server.clock.now_ms

    def reply(self, response: Any) -> None:
        """Answer the request; a second answer, or one to a connection that is gone, is dropped."""
        if self.response is None:
            self.response = response
            if self.is_parked:
                self.server.answer(self)

    def park(self, followed: Callable[[object, int], bool], dropped: Callable[[], None]) -> None:
        """Leave the request unanswered without blocking the connection: later requests are served at once.

        `followed` is called with each of them before it is served, and the time. It answers, unless this one may
        wait on: then it returns True. `dropped` is called when the client disconnects.
        """
        self.blocks = False
        self.dropped = dropped
        self.connection.followed = followed

    def refusal(self, code: ErrorCode, text: str | None = None) -> Any:
        """Return an error response of the request's API."""
        return self.route.refuse(self.message, code, code.text if text is None else text)


@dataclass(slots=True, eq=False)
class Connection:
    """What the node knows of one client. `send`, `close` and `throttle` are the socket's side of it.

    More than 20 attributes: what each request reads is one look-up away.
    """

    peer_host: str
    listener: Listener
    send: Callable[[list[Buffer]], None]
    close: Callable[[str], None]
    throttle: Callable[[bool], None] | None
    splitter: FrameSplitter
    is_authenticated: bool
    last_ms: int
    client_id: str | None = None
    client_id_bytes: bytes | None = None
    client_software: ClientSoftware = UNNAMED
    sasl_mechanism: str | None = None
    login: Login | None = None
    """The SASL exchange that is under way."""
    has_session: bool = False
    """Whether the client logged in for a limited time, after which it must log in again."""
    principal: Principal = ANONYMOUS
    passed: dict[Any, Any] = field(default_factory=dict)
    """What the guards of an authorizer have allowed, so that they need not ask again."""
    is_closed: bool = False
    is_paused: bool = False
    is_throttled: bool = False
    followed: Callable[[object, int], bool] | None = None
    """Called with each request behind a parked one: whether that stays parked; no harm if it is answered."""
    out: list[Buffer] = field(default_factory=list)
    out_bytes: int = 0
    outstanding: deque[Request] = field(default_factory=deque)
    blocker: Request | None = None
    """The unanswered request behind which others wait; none is served behind it that could block too."""
    backlog: deque[bytes | Request] = field(default_factory=deque)
    """Frames to be served in their turn, and requests that overtook frames among them: their answers stay in order."""
    backlog_bytes: int = 0
    long_bytes: int = 0
    """Size of its last request that may take several turns, and is in memory until then."""
    buffered: int = 0
    """Bytes of its requests that `RequestMemory` knows of."""
    is_over_share: bool = False
    """Whether it is not read because it has more than its share of that memory."""

    @property
    def request_bytes(self) -> int:
        """Bytes of its requests in memory: of a frame that is not whole, of those that wait, of one under way."""
        is_long = self.blocker is not None and self.blocker.is_long
        return self.splitter.buffered + self.backlog_bytes + (self.long_bytes if is_long else 0)

    @property
    def is_blocked(self) -> bool:
        """Whether no further request may start: one is parked, or the client does not read what we send."""
        return self.is_paused or self.blocker is not None

    @property
    def login_timer(self) -> Hashable:
        """The key of the timer that ends a login which takes too long, or has failed."""
        return "login", self

    @property
    def session_timer(self) -> Hashable:
        """The key of the timer that ends the session."""
        return "session", self

    def end_session(self) -> None:
        """Let nothing but another login follow."""
        self.is_authenticated = False

    def add_out(self, request: Request) -> None:
        """Put an answered request's response behind those that will leave next."""
        self.out += request.buffers or ()
        self.out_bytes += request.size

    def send_out(self) -> None:
        """Let the responses go that are ready."""
        out, self.out = self.out, []
        self.out_bytes = 0
        self.send(out)

    def queue(self, frames: Iterable[bytes | Request]) -> None:
        """Let frames wait behind the request that is under way."""
        for frame in frames:
            self.backlog.append(frame)
            if not isinstance(frame, Request):
                self.backlog_bytes += len(frame)
        self.update_throttle()

    def take_backlog(self) -> deque[bytes | Request]:
        """Return what waits, to be served now."""
        frames, self.backlog = self.backlog, deque()
        self.backlog_bytes = 0
        return frames

    def update_throttle(self) -> None:
        """Ask the socket to stop or to continue reading, by how many frames wait and how much memory they take."""
        if self.throttle is None:
            return
        if self.is_throttled:
            if not self.backlog and not self.is_over_share:
                self.is_throttled = False
                self.throttle(False)
        elif self.is_over_share or len(self.backlog) > BACKLOG_FRAMES or self.backlog_bytes > BACKLOG_BYTES:
            self.is_throttled = True
            self.throttle(True)
