"""All client connections of one node: frames in, requests to their handlers, responses out in order.

The law: whatever a client sends, no exception leaves `receive`: the client gets Kafka's error, or its connection is
closed with one log line, and no other client is affected.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from struct import Struct
from types import GeneratorType
from typing import Any

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.context import ApiContext
from kohort.node.apis.routes import Routes
from kohort.node.client_connection import NO_REPLY, Connection, Request
from kohort.node.configuration.listeners import Listener
from kohort.node.connection_limit import ConnectionCounts, ConnectionLimit
from kohort.node.request_memory import RequestMemory
from kohort.node.route import Route
from kohort.node.step_scheduler import SHORT_FRAME, UNFINISHED, Steps
from kohort.wire.apis import Api
from kohort.wire.codec import Buffer
from kohort.wire.frames import FrameSplitter, FrameTooLarge, decode_request_header, join_small
from kohort.wire.primitives import MalformedMessage, TooManyEntries

log = logging.getLogger("kohort.node")

_HEADER = Struct(">hhih")
_HEAD, _HEAD_BYTES = _HEADER.unpack_from, _HEADER.size
_REPLY_HEAD = Struct(">ii").pack
_JOIN_BYTES = 16 << 10
_MOST_PARTS = 256
"""A response in more buffers is sent in fewer: each costs the socket more than its copy."""
SEND_BYTES = 64 << 10
"""Responses of one batch of requests leave together up to this size; then the client must have read them."""

CLOCK_EVERY = 8
"""After so many short requests of one turn the clock is read: that costs a hundredth of a heartbeat."""

MEASURED_EVERY = 64
"""Of so many requests of an API in one version the handler is timed once: a clock at each would cost some percent."""

OVERTAKING_BYTES = 16 << 10
"""A larger request waits for those before it: it would be decoded twice."""

_NAMES = {int(api): api.name for api in Api}
_BEFORE_LOGIN = frozenset({Api.API_VERSIONS, Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE})

_HTTP = (b"GET ", b"POST", b"HEAD", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ")


class Connections:
    """The open connections of one node, and the requests on them."""

    def __init__(self, context: ApiContext) -> None:
        services = context.services
        self._context = context
        self._config = services.config
        self.clock = services.clock
        self._timers = services.timers
        self._durability = services.durability
        self._steps = services.steps
        self._open: set[Connection] = set()
        self.limit = ConnectionLimit(services.config)
        self._counts = ConnectionCounts()
        self.memory = RequestMemory(services.config, services.clock, services.timers, self.reject)
        is_guarded = context.access.authorizer is not None
        self.routes = Routes(services.config.newest_versions, is_guarded=is_guarded)
        """The code of each API."""
        if is_guarded:
            services.state.acls.on_change.append(lambda _: self._answer_all_parked())
        self._known = self.routes.known
        self._touched: dict[Connection, None] = {}
        """Connections with responses to send, or with requests that may continue."""
        self.behind: dict[Connection, None] = {}
        """Connections with requests for which this turn had no steps left."""

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._open)

    def __contains__(self, connection: Connection) -> bool:
        return connection in self._open

    # -- connections

    def open(
        self,
        peer_host: str,
        send: Callable[[list[Buffer]], None],
        close: Callable[[str], None],
        throttle: Callable[[bool], None] | None = None,
        listener: Listener | None = None,
        certificate: bytes | None = None,
    ) -> Connection:
        """Add a new client. `throttle(True)` asks to stop reading from its socket, `throttle(False)` to continue.

        It came by `listener`, by default the first; `certificate` is its own, in DER.
        """
        now_ms = self.clock.now_ms
        config, listener = self._config, listener or self._context.listener
        splitter = FrameSplitter(
            config.sasl_server_max_receive_size if listener.has_sasl else config.socket_request_max_bytes
        )
        connection = Connection(peer_host, listener, send, close, throttle, splitter, not listener.has_sasl, now_ms)
        if self.limit.admits(self._counts, peer_host, now_ms):
            self._open.add(connection)
            self._counts.add(peer_host)
            if not connection.is_authenticated:
                limit_ms = self._config.kohort_authentication_timeout_ms
                text = f"no login on listener {listener.name} within {limit_ms} ms"
                self._timers.arm(connection.login_timer, now_ms + limit_ms, lambda _: self.reject(connection, text))
        else:
            connection.is_closed = True
            connection.close("a limit of connections is reached")
        try:
            connection.principal = listener.principal_of(certificate)
        except ValueError as error:
            self.reject(connection, str(error))
        return connection

    def drop(self, connection: Connection, now_ms: int) -> None:
        """Forget a client whose socket is closed; responses to its parked requests are discarded."""
        self.clock.advance(now_ms)
        self._forget(connection)

    def pause(self, connection: Connection) -> None:
        """Serve no further request of a client that does not read its responses, until `resume`."""
        connection.is_paused = True

    def resume(self, connection: Connection, now_ms: int) -> None:
        """Serve a client again that has read its responses."""
        self.clock.advance(now_ms)
        connection.is_paused = False
        self._steps.begin_turn()
        self._touched[connection] = None
        self.settle()

    def receive(self, connection: Connection, chunk: Buffer, now_ms: int) -> None:
        """Take bytes from a client and serve every whole request in them."""
        clock = self.clock
        if now_ms > clock.now_ms:
            clock.now_ms = now_ms
        if connection.is_closed:
            return
        connection.last_ms = now_ms
        splitter = connection.splitter
        try:
            frames = splitter.feed(chunk)
        except (FrameTooLarge, MalformedMessage) as error:
            self.reject(connection, describe_foreign_protocol(chunk) or str(error))
            return
        self._steps.begin_turn()
        if connection.backlog or connection.is_blocked:
            self._put_back(connection, frames)
        else:
            self._serve(connection, frames)
        if splitter.buffered or connection.buffered or connection.backlog_bytes:
            self.memory.update(connection, connection.request_bytes)
        if self._touched or self._durability.woken:
            self.settle()

    def reject(self, connection: Connection, reason: str) -> None:
        """Close a connection whose client broke the protocol, with one log line."""
        if connection.is_closed:
            return
        log.warning("closed connection from %s: %s", connection.peer_host, reason)
        if connection.out:
            connection.send_out()
        self._forget(connection)
        connection.close(reason)

    def close_idle(self, now_ms: int) -> None:
        """Close the connections without a request for connections.max.idle.ms."""
        oldest_ms = now_ms - self._config.connections_max_idle_ms
        for connection in [c for c in self._open if c.last_ms < oldest_ms and not c.outstanding]:
            self._forget(connection)
            connection.close("idle")

    def _forget(self, connection: Connection) -> None:
        connection.is_closed = True
        connection.out.clear()
        connection.backlog.clear()
        for request in connection.outstanding:
            request.response = NO_REPLY
            if request.dropped is not None:
                request.dropped()
        connection.outstanding.clear()
        self.memory.forget(connection)
        if connection in self._open:
            self._open.discard(connection)
            self._counts.remove(connection.peer_host)
            self.limit.left(self._counts)
        if connection.listener.has_sasl:
            self._timers.disarm(connection.login_timer)
            self._timers.disarm(connection.session_timer)
        self._touched.pop(connection, None)
        self.behind.pop(connection, None)

    # -- turns of the event loop

    def settle(self) -> None:
        """Complete the fetches that were woken, send what is ready and serve the requests that may start now."""
        durability, touched = self._durability, self._touched
        while True:
            if durability.woken:
                durability.wake(self.clock.now_ms)
            if not touched:
                return
            connection = next(iter(touched))
            del touched[connection]
            if connection.is_closed:
                continue
            if connection.out:
                connection.send_out()
            if connection.backlog and not connection.is_blocked:
                self._serve(connection, connection.take_backlog())
            if connection.buffered:
                self.memory.update(connection, connection.request_bytes)
            if connection.is_throttled:
                connection.update_throttle()

    def run_slice(self) -> None:
        """Spend one turn's steps on the unfinished work, and one turn's on the requests left behind."""
        steps = self._steps
        steps.run_slice()
        steps.begin_turn()
        while self.behind and steps.left > 0:
            connection = next(iter(self.behind))
            del self.behind[connection]
            self._touched[connection] = None
            self.settle()
        self.settle()

    # -- requests

    def _serve(self, connection: Connection, frames: Iterable[bytes | Request]) -> None:
        steps = self._steps
        waiting = iter(frames)
        for frame in waiting:
            if isinstance(frame, Request):  # it has overtaken; those before it are served now
                self._answer_parked(connection, frame.message)
                connection.outstanding.append(frame)
                self._release(frame)
                continue
            if steps.left <= 0:
                connection.queue((frame, *waiting))
                self.behind[connection] = None
                break
            steps.left -= 1
            self._dispatch(connection, frame)
            if not steps.left % CLOCK_EVERY:
                steps.look_at_clock()
            if connection.is_closed:
                return
            if connection.out_bytes > SEND_BYTES:
                connection.send_out()
            if connection.is_blocked:
                self._put_back(connection, waiting)
                break
        if connection.out:
            connection.send_out()

    def _put_back(self, connection: Connection, frames: Iterable[bytes | Request]) -> None:
        """Queue frames behind the request that blocks the connection, except those that may be served before it."""
        for frame in frames:
            if connection.is_closed:
                return
            if not isinstance(frame, Request) and self._is_overtaking(connection, frame):
                self._dispatch(connection, frame, is_overtaking=True)
            else:
                connection.queue((frame,))

    def _is_overtaking(self, connection: Connection, frame: bytes) -> bool:
        """Whether a request may be served before the one that blocks its connection, and be answered behind it."""
        blocker = connection.blocker
        if blocker is None or connection.is_paused or connection.is_closed:
            return False
        if not _HEAD_BYTES <= len(frame) <= OVERTAKING_BYTES:
            return False
        api_key, version, _, length = _HEAD(frame)
        route = self._known.get(api_key << 16 | version) or self.routes.get(api_key, version)
        if route is None or route.overtakes is None:
            return False
        try:
            message = route.decode(frame, _read_client(connection, frame, length, route))[0]
        except Exception:  # it is refused when its turn comes
            return False
        return route.overtakes(self._context, blocker, message, version)

    def _dispatch(self, connection: Connection, frame: bytes, *, is_overtaking: bool = False) -> None:
        was_in = connection.is_authenticated
        if not was_in and not self._may_precede_login(connection, frame):
            return
        try:
            api_key, version, correlation_id, length = _HEAD(frame)
            route = self._known.get(api_key << 16 | version) or self.routes.get(api_key, version)
            is_short = len(frame) <= SHORT_FRAME
            position = 0 if route is None else _read_client(connection, frame, length, route)
            message = route.decode(frame, position)[0] if is_short and route is not None else None
        except Exception as error:  # whatever a malformed frame raises is the client's fault
            self.reject(connection, describe_foreign_protocol(frame) or f"malformed request: {error}")
            return
        is_ahead = (is_short or route is None) and self._answer_parked(connection, message)
        if route is None:
            self._refuse_version(connection, api_key, version, correlation_id, frame)
            return
        request = Request(self, connection, route, correlation_id, message)
        request.blocks, request.is_ahead = not is_overtaking, is_ahead
        if not is_short:
            connection.long_bytes = len(frame)
            request.work = self._read(request, frame, position)
        route.served += 1
        response = self._handle(request) if route.served % MEASURED_EVERY else self._measured(request)
        if not was_in and connection.is_authenticated:
            connection.splitter.limit = self._config.socket_request_max_bytes
        if response is None:
            response = request.response
        if response is None or response is UNFINISHED:
            (connection.backlog or connection.outstanding).append(request)
            if request.blocks:
                connection.blocker = request
            if response is None:
                request.is_parked = True
            else:
                self._postpone(request)
        elif response is not NO_REPLY and not connection.is_closed:
            self._respond(request, response)

    def _may_precede_login(self, connection: Connection, frame: bytes) -> bool:
        """Whether a frame is of an API that is served before the login; else its connection is closed, unread."""
        api_key = int.from_bytes(frame[:2], "big", signed=True)
        if api_key in _BEFORE_LOGIN:
            return True
        name = _NAMES.get(api_key, f"API key {api_key}")
        when = "after the session ended, without another" if connection.has_session else "before"
        self.reject(connection, describe_foreign_protocol(frame) or f"{name} {when} SASL authentication")
        return False

    def _answer_parked(self, connection: Connection, message: Any) -> bool:
        """Have the parked request answered, unless it may stay parked; return whether a later one's reply is ahead.

        The message is that of the later request.
        """
        if connection.followed is None:
            return False
        if connection.followed(message, self.clock.now_ms):
            return connection.client_software.habits.matches_by_id
        connection.followed = None
        return False

    def _answer_all_parked(self) -> None:
        """Have every parked request answered: its sender may have lost the right to it, and finds out with the next."""
        for connection in list(self._open):
            self._answer_parked(connection, None)

    def _read(self, request: Request, frame: bytes, position: int) -> Steps[Any]:
        """Decode a request that may be long, and handle it."""
        route, limit = request.route, self._config.kohort_request_max_entries
        message, _ = yield from route.decode_in_steps(frame, position, limit)
        request.message = message
        request.is_ahead = self._answer_parked(request.connection, message)
        response = route.handle(self._context, request, request.message)
        if type(response) is GeneratorType:
            response = yield from response
        return response

    def _handle(self, request: Request) -> Any:
        """Handle a request or continue with it; return its response, None if that comes later, or UNFINISHED."""
        try:
            if request.work is None:
                response = request.route.handle(self._context, request, request.message)
                if type(response) is not GeneratorType:
                    return response
                request.work = response
            return self._steps.do(request.work)
        except KafkaError as error:
            return request.refusal(error.code, error.text)
        except StorageError as error:
            self._context.state.disk_health.unreadable(error)
            return request.refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        except Exception as error:
            if request.message is None:  # it could not be decoded
                self.reject(request.connection, _malformed(request, error))
                return NO_REPLY
            log.exception("%s v%d from %s failed", request.route.api.name, request.api_version, request.peer_host)
        try:
            return request.refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
        except Exception:
            self.reject(request.connection, f"{request.route.api.name} failed, and so did its error response")
            return NO_REPLY

    def _measured(self, request: Request) -> Any:
        """Handle a request, and count how long that took."""
        if (clock := self._steps.elapsed_us) is None:
            return self._handle(request)
        began_us = clock()
        response = self._handle(request)
        request.route.handled.observe((clock() - began_us) / 1e6)
        return response

    # -- requests that take more than one turn

    def proceed(self, request: Request, work: Steps[Any]) -> None:
        """Answer a parked request with what `work` returns, in this turn or a later one."""
        request.is_parked = False
        request.work = work
        self._continue(request)

    def _postpone(self, request: Request) -> None:
        is_first, request.is_long = not request.is_long, True
        if is_first:
            self.memory.update(request.connection, request.connection.request_bytes)
        self._steps.waiting.append(partial(self._continue, request))

    def _continue(self, request: Request) -> None:
        if request.connection.is_closed:
            request.work = None
            return
        response = self._handle(request)
        if response is UNFINISHED:
            self._postpone(request)
            return
        request.work = None
        if response is None:
            response = request.response
        connection = request.connection
        if response is None:
            request.is_parked = True
            if not request.blocks and connection.blocker is request:
                connection.blocker = None
                self._touched[connection] = None
        elif not connection.is_closed:
            request.response = response
            self.answer(request)

    # -- responses

    def answer(self, request: Request) -> None:
        """Write the response of a parked request: it leaves after those of the requests before it."""
        if request.connection.is_closed:
            return
        if request.is_long and request.response is not NO_REPLY:
            parts: list[Buffer] = []
            steps = request.route.gather_in_steps(request.response, parts)
            self._steps.waiting.append(partial(self._write_on, request, steps, parts, [b""]))
            return
        self._write(request)
        self._release(request)

    def farewell(self, request: Request, response: Any, reason: str) -> None:
        """Send one last response, behind those that are ready, and close the connection."""
        request.response = response
        self._write(request)
        request.connection.add_out(request)
        self.reject(request.connection, reason)

    def _release(self, request: Request) -> None:
        connection = request.connection
        if connection.blocker is request:
            connection.blocker = None
        outstanding = connection.outstanding
        while outstanding and outstanding[0].buffers is not None:
            connection.add_out(outstanding.popleft())
        if request.is_ahead and request in outstanding:
            outstanding.remove(request)
            connection.add_out(request)
        self._touched[connection] = None

    def _write_on(self, request: Request, steps: Steps[None], parts: list[Buffer], written: list[Buffer]) -> None:
        """Encode on, a turn's `parts` at a time, which are joined: millions of small ones cannot be sent."""
        if request.connection.is_closed:
            return
        try:
            outcome = self._steps.do(steps)
        except Exception:
            self._fail_to_write(request)
            return
        if parts:
            written += join_small(parts)
            parts.clear()
        if outcome is UNFINISHED:
            self._steps.waiting.append(partial(self._write_on, request, steps, parts, written))
            return
        _frame(request, written)
        self._release(request)

    def _refuse_version(
        self, connection: Connection, api_key: int, version: int, correlation_id: int, frame: bytes
    ) -> None:
        route = self.routes.get(Api.API_VERSIONS, 0)
        if api_key != Api.API_VERSIONS or route is None:
            reason = f"API key {api_key} version {version} is not served here"
            self.reject(connection, describe_foreign_protocol(frame) or reason)
            return
        # KIP-511: a client newer than we are learns our versions from a v0 answer and steps down.
        request = Request(self, connection, route, correlation_id, None)
        response = request.refusal(ErrorCode.UNSUPPORTED_VERSION)
        for key in response.api_keys:
            key.max_version = self._config.newest_versions.get(key.api_key, key.max_version)
        self._respond(request, response)

    def _respond(self, request: Request, response: Any) -> None:
        """Write the response of a request that was not parked."""
        request.response = response
        self._write(request)
        connection = request.connection
        before = connection.backlog or connection.outstanding
        if before and not request.is_ahead:
            before.append(request)
        else:
            connection.add_out(request)

    def _write(self, request: Request) -> None:
        if request.response is NO_REPLY:
            request.buffers = []
            return
        parts: list[Buffer] = [b""]
        try:
            request.route.gather(request.response, parts)
        except Exception:
            self._fail_to_write(request)
            return
        _frame(request, parts)

    def _fail_to_write(self, request: Request) -> None:
        route = request.route
        log.exception("%s v%d: the response cannot be encoded", route.api.name, route.version)
        self.reject(request.connection, f"{route.api.name} has a response that cannot be encoded")
        request.buffers = []


def _frame(request: Request, parts: list[Buffer]) -> None:
    """Take the buffers of a response, of which the first is left free for its header."""
    route = request.route
    size = sum(map(len, parts)) + 4
    if route.has_tagged_response:
        parts[0] = _REPLY_HEAD(size + 1, request.correlation_id) + b"\0"
    else:
        parts[0] = _REPLY_HEAD(size, request.correlation_id)
    request.size = size
    if size < _JOIN_BYTES:
        request.buffers = [b"".join(parts)]
    else:
        request.buffers = join_small(parts) if len(parts) > _MOST_PARTS else parts


def _malformed(request: Request, error: Exception) -> str:
    what = f"{request.route.api.name} v{request.api_version} of client {request.client_id!r}"
    if isinstance(error, TooManyEntries):
        return f"{what} has {error.count} entries in its lists or more; kohort.request.max.entries is {error.limit}"
    return f"malformed request: {what}: {error}"


def _read_client(connection: Connection, frame: bytes, length: int, route: Route) -> int:
    """Note the client id of a request's header, and return where the request's body begins."""
    if length >= 0:
        position = 10 + length
        client = frame[10:position]
        if client != connection.client_id_bytes:
            if len(client) != length:
                raise MalformedMessage("the client id is longer than the frame")
            connection.client_id_bytes = client
            connection.client_id = client.decode()
    else:
        position = 10
        connection.client_id = connection.client_id_bytes = None
    if route.has_tagged_request:
        if frame[position]:
            return decode_request_header(frame)[1]
        position += 1
    return position


def describe_foreign_protocol(first_bytes: bytes | bytearray | memoryview) -> str | None:
    """Return a sentence about bytes that begin a foreign protocol, or None when they are not known."""
    head = bytes(first_bytes[:8])
    if head[:4] in _HTTP:
        return "this is an HTTP request; kohort speaks Kafka's protocol only"
    if head[:2] == b"\x16\x03":
        return "this is a TLS handshake, but the listener is PLAINTEXT (set security.protocol=PLAINTEXT in the client)"
    if head[:4] == b"SSH-":
        return "this is an SSH client; kohort speaks Kafka's protocol only"
    return None
