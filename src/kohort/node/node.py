"""A broker without I/O: bytes in, bytes out, timers asked for.

The runtime calls `receive`, `tick` and `flush` with its one clock; the node calls back `send` and `close`.
The law: whatever a client sends, no exception leaves `receive`: the client gets Kafka's error or its
connection is closed, with one log line, and nobody else notices. A reply that promised durability leaves
only after the flush that keeps the promise.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from struct import Struct
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from kohort.assign.server.catalog import server_assignors
from kohort.assign.server.spec import ServerAssignor
from kohort.log.disk import Disk, DiskFull, StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.apis.routes import Route, Routes
from kohort.node.broker_state import Catalog
from kohort.node.client_connection import NO_REPLY, Buffer, Connection, Request
from kohort.node.configuration.config import Config
from kohort.node.connection_limit import ConnectionLimit
from kohort.node.durability import Durability
from kohort.node.fetch.fetch_sessions import FetchSessions
from kohort.node.foreign_protocols import describe_garbage
from kohort.node.step_scheduler import SHORT_FRAME, TURN_STEPS, UNFINISHED, Steps
from kohort.node.timers import Timers
from kohort.node.topics.log_cleaner import LogCleaner
from kohort.wire.apis import Api
from kohort.wire.codec import MalformedMessage, TooManyEntries
from kohort.wire.frames import FrameTooLarge, decode_request_header, join_small

if TYPE_CHECKING:
    from kohort.group.events import Event
    from kohort.group.shard import Shard
    from kohort.node.groups.coordinator import Coordinator
    from kohort.node.groups.offsets_partition import OffsetsPartition

log = logging.getLogger("kohort.node")

_HEADER = Struct(">hhih")
_HEAD, _HEAD_BYTES = _HEADER.unpack_from, _HEADER.size
_REPLY_HEAD = Struct(">ii").pack
_JOIN_BYTES = 16 << 10
SEND_BYTES = 64 << 10
"""Replies of one batch of requests leave together up to this size; then the client must keep up."""

OVERTAKING_BYTES = 16 << 10
"""A larger request waits for those before it: it would be decoded twice."""

_BEFORE_LOGIN = frozenset({Api.API_VERSIONS, Api.SASL_HANDSHAKE, Api.SASL_AUTHENTICATE})


class Node:
    """One broker. `random_bytes(n)` gives ids; `now_ms` is milliseconds since the epoch and never goes back.

    `elapsed_us` is a clock of microseconds that tells what computing a target took; without one it took nothing.
    """

    def __init__(
        self,
        config: Config,
        disk: Disk,
        random_bytes: Callable[[int], bytes],
        now_ms: int,
        assignors: Mapping[str, ServerAssignor] | None = None,
        elapsed_us: Callable[[], int] | None = None,
    ) -> None:
        self.config = config
        self.elapsed_us = elapsed_us
        self.witness: Callable[[Shard, Event, int], None] | None = None
        """Called with each event that a decision brought about, once applied, the shard and the time; it only looks."""
        self.load_witness: Callable[[OffsetsPartition], None] | None = None
        """Called with each offsets partition that was replayed, before its groups are taken up; it only looks."""
        self.assignors = server_assignors(config.group_consumer_assignors) if assignors is None else assignors
        """The server-side assignors by name, the default first; without any given, those that the setting names."""
        self.disk = disk
        self.random_bytes = random_bytes
        self.now_ms = now_ms
        self.advertised = ("127.0.0.1", 9092)
        """Where Metadata tells clients to connect; the runtime sets it once the port is known."""
        self.timers = Timers()
        self.durability = Durability()
        self.catalog = Catalog(config, disk, random_bytes, self.durability)
        self.topics = self.catalog.topics
        self.topics.now_ms = lambda: self.now_ms
        self.cleaner = LogCleaner(config, self.topics, self.timers)
        self.fetch_sessions = FetchSessions(config.max_incremental_fetch_session_cache_slots, random_bytes)
        self.users = config.sasl_users
        self.connections: set[Connection] = set()
        self.connection_limit = ConnectionLimit(config)
        self._routes = Routes(config.newest_versions)
        self._known = self._routes.known
        self._touched: dict[Connection, None] = {}
        self._left = TURN_STEPS
        """How many steps may still be done in this turn of the event loop."""
        self._long: deque[Callable[[], None]] = deque()
        """Goes on with the requests that take more than one turn, one after the other."""
        self._behind: dict[Connection, None] = {}
        """Connections with requests that this turn had no room for."""

    # -- life

    def start(self, now_ms: int) -> None:
        """Replay what the disk holds and begin a new epoch. Raises StorageError."""
        self.now_ms = max(self.now_ms, now_ms)
        self.catalog.start(self.now_ms)
        if self.topics.get("__consumer_offsets") is not None:
            self._take_up_groups()
        self._every("retention", self.config.log_retention_check_interval_ms, self._enforce_retention)
        self.cleaner.start(self.now_ms)
        self._every("idle", max(1, min(60_000, self.config.connections_max_idle_ms // 4)), self._close_idle)

    def _take_up_groups(self) -> Coordinator:
        return self.coordinator

    @cached_property
    def coordinator(self) -> Coordinator:
        """The groups of this node; taken up at start where there are any, else when first asked for."""
        from kohort.node.groups.coordinator import Coordinator

        coordinator = Coordinator(self)
        coordinator.start(self.now_ms)
        return coordinator

    def stop(self, now_ms: int) -> None:
        """Flush and close everything; connections are the runtime's to close."""
        self.flush(now_ms)
        for connection in list(self.connections):
            self.drop_connection(connection, now_ms)
        if "coordinator" in self.__dict__:
            self.coordinator.stop(self.now_ms)
        self.catalog.stop()

    def tick(self, now_ms: int) -> None:
        """Run the timers that are due."""
        self.now_ms = max(self.now_ms, now_ms)
        self._left = TURN_STEPS
        self.durability.run_postponed()  # what came in before a deadline counts before it
        self.timers.run_due(self.now_ms)
        self._settle()

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` must be called next, or None."""
        return self.timers.next_deadline_ms()

    @property
    def needs_flush(self) -> bool:
        """Whether replies wait for `flush`, or requests for their next turn."""
        return self.durability.is_waiting or bool(self._long) or bool(self._behind)

    def flush(self, now_ms: int) -> None:
        """End a batch of input: flush what was promised, release the held replies, do a slice of long requests."""
        self.now_ms = max(self.now_ms, now_ms)
        self._left = TURN_STEPS
        self.durability.flush()
        self._settle()
        if self._long or self._behind:
            self._work_off()

    # -- connections

    def open_connection(
        self,
        peer_host: str,
        send: Callable[[list[Buffer]], None],
        close: Callable[[str], None],
        throttle: Callable[[bool], None] | None = None,
    ) -> Connection:
        """Take a new client. `throttle(True)` asks to stop reading from it, `throttle(False)` to go on."""
        limit = self.config.socket_request_max_bytes
        connection = Connection(peer_host, send, close, limit=limit, now_ms=self.now_ms, throttle=throttle)
        connection.is_authenticated = not self.users
        if self.connection_limit.admits(len(self.connections), peer_host, self.now_ms):
            self.connections.add(connection)
        else:
            connection.is_closed = True
            connection.close("max.connections is reached")
        return connection

    def drop_connection(self, connection: Connection, now_ms: int) -> None:
        """Forget a client that is gone; its parked requests will be answered to nobody."""
        self.now_ms = max(self.now_ms, now_ms)
        self._forget(connection)

    def pause(self, connection: Connection) -> None:
        """Serve nothing more to a client that does not read its replies, until `resume`."""
        connection.is_paused = True

    def resume(self, connection: Connection, now_ms: int) -> None:
        """Go on with a client that has read its replies."""
        self.now_ms = max(self.now_ms, now_ms)
        connection.is_paused = False
        self._left = TURN_STEPS
        self._touched[connection] = None
        self._settle()

    def receive(self, connection: Connection, chunk: Buffer, now_ms: int) -> None:
        """Take bytes from a client and serve every whole request in them."""
        if now_ms > self.now_ms:
            self.now_ms = now_ms
        if connection.is_closed:
            return
        connection.last_ms = now_ms
        try:
            frames = connection.splitter.feed(chunk)
        except (FrameTooLarge, MalformedMessage) as error:
            self.reject(connection, describe_garbage(chunk) or str(error))
            return
        self._left = TURN_STEPS
        if connection.backlog or connection.is_blocked:
            self._put_back(connection, frames)
        else:
            self._serve(connection, frames)
        if self._touched or self.durability.woken:
            self._settle()

    def reject(self, connection: Connection, reason: str) -> None:
        """Close a connection whose client broke the protocol, with one log line."""
        if connection.is_closed:
            return
        log.warning("closed connection from %s: %s", connection.peer_host, reason)
        if connection.out:
            connection.send_out()
        self._forget(connection)
        connection.close(reason)

    # -- replies

    def answer(self, request: Request) -> None:
        """Take the response of a parked request: it leaves when those before it have."""
        connection = request.connection
        if connection.is_closed:
            return
        if request.is_long and request.response is not NO_REPLY:
            parts: list[Buffer] = [b""]
            steps = request.route.gather_in_steps(request.response, parts)
            self._long.append(partial(self._write_on, request, steps, parts))
            return
        self._write(request)
        self._let_go(request)

    def proceed(self, request: Request, work: Steps[Any]) -> None:
        """Answer a parked request with what `work` returns, in this turn or a later one."""
        request.is_parked = False
        request.work = work
        self._go_on(request)

    def in_slices(self, work: Steps[None]) -> None:
        """Do work that no client asked for, a slice in each turn of the event loop."""
        self._long.append(partial(self._sweep_on, work))

    def _sweep_on(self, work: Steps[None]) -> None:
        try:
            if self._do(work) is UNFINISHED:
                self.in_slices(work)
        except Exception:
            log.exception("%s failed", getattr(work, "__qualname__", work))

    def _let_go(self, request: Request) -> None:
        connection = request.connection
        if connection.blocker is request:
            connection.blocker = None
        outstanding = connection.outstanding
        while outstanding and outstanding[0].buffers is not None:
            connection.add_out(outstanding.popleft())
        self._touched[connection] = None

    def refusal(self, request: Request, code: int, text: str | None = None) -> Any:
        """Return the response that says an error in the words of the request's API."""
        text = ErrorCode(code).text if text is None else text
        return request.route.refuse(request.message, ErrorCode(code), text, request.route.version)

    def farewell(self, request: Request, response: Any, reason: str) -> None:
        """Send one last response, behind those that are ready, and close the connection."""
        request.response = response
        self._write(request)
        request.connection.add_out(request)
        self.reject(request.connection, reason)

    # -- inside

    def _serve(self, connection: Connection, frames: Iterable[bytes]) -> None:
        waiting = iter(frames)
        for frame in waiting:
            if self._left <= 0:
                connection.queue((frame, *waiting))
                self._behind[connection] = None
                break
            self._left -= 1
            self._dispatch(connection, frame)
            if connection.is_closed:
                return
            if connection.out_bytes > SEND_BYTES:
                connection.send_out()
            if connection.is_blocked:
                self._put_back(connection, waiting)
                break
        if connection.out:
            connection.send_out()

    def _put_back(self, connection: Connection, frames: Iterable[bytes]) -> None:
        """Let frames wait for the request that blocks the connection, but for those that may be served before it."""
        late = []
        for frame in frames:
            if self._is_overtaking(connection, frame):
                self._dispatch(connection, frame, is_overtaking=True)
            else:
                late.append(frame)
        if not connection.is_closed:
            connection.queue(late)

    def _is_overtaking(self, connection: Connection, frame: bytes) -> bool:
        """Whether a request may be served before the one that blocks its connection, and be answered behind it."""
        blocker = connection.blocker
        if blocker is None or connection.is_paused or connection.is_closed:
            return False
        if not _HEAD_BYTES <= len(frame) <= OVERTAKING_BYTES:
            return False
        api_key, version, _, length = _HEAD(frame)
        route = self._known.get(api_key << 16 | version) or self._routes.get(api_key, version)
        if route is None or route.overtakes is None:
            return False
        try:
            message = route.decode(frame, _read_client(connection, frame, length, route))[0]
        except Exception:  # its turn will come, and its refusal
            return False
        return route.overtakes(self, blocker, message, version)

    def _dispatch(self, connection: Connection, frame: bytes, *, is_overtaking: bool = False) -> None:
        try:
            api_key, version, correlation_id, length = _HEAD(frame)
            route = self._known.get(api_key << 16 | version) or self._routes.get(api_key, version)
            is_short = len(frame) <= SHORT_FRAME
            position = 0 if route is None else _read_client(connection, frame, length, route)
            message = route.decode(frame, position)[0] if is_short and route is not None else None
        except Exception as error:  # whatever a garbled frame sets off is the client's fault
            self.reject(connection, describe_garbage(frame) or f"malformed request: {error}")
            return
        if is_short or route is None:
            self._follow(connection, message)
        if route is None:
            self._turn_away(connection, api_key, version, correlation_id, frame)
            return
        if not connection.is_authenticated and route.api not in _BEFORE_LOGIN:
            self.reject(connection, f"{route.api.name} before SASL authentication")
            return
        request = Request(self, connection, route, correlation_id, message)
        request.blocks = not is_overtaking
        if not is_short:
            request.work = self._read(request, frame, position)
        response = self._handle(request)
        if response is None:
            response = request.response
        if response is UNFINISHED:
            connection.outstanding.append(request)
            if request.blocks:
                connection.blocker = request
            self._postpone(request)
        elif response is None:
            request.is_parked = True
            connection.outstanding.append(request)
            if request.blocks:
                connection.blocker = request
        elif response is not NO_REPLY and not connection.is_closed:
            request.response = response
            self._write(request)
            if connection.outstanding:
                connection.outstanding.append(request)
            else:
                connection.add_out(request)

    def _follow(self, connection: Connection, message: Any) -> None:
        """Have the request that is kept answered, unless it may wait on behind a later one."""
        if connection.kept is not None and not connection.kept(message, self.now_ms):
            connection.kept = None

    def _read(self, request: Request, frame: bytes, position: int) -> Steps[Any]:
        """Decode a request that may be long, and handle it."""
        route, limit = request.route, self.config.kohort_request_max_entries
        message, _ = yield from route.decode_in_steps(frame, position, limit)
        request.message = message
        self._follow(request.connection, message)
        response = route.handle(self, request, request.message)
        if type(response) is GeneratorType:
            response = yield from response
        return response

    def _handle(self, request: Request) -> Any:
        """Handle a request or go on with it; return its response, None if that comes later, or UNFINISHED."""
        try:
            if request.work is None:
                response = request.route.handle(self, request, request.message)
                if type(response) is not GeneratorType:
                    return response
                request.work = response
            return self._do(request.work)
        except KafkaError as error:
            return self.refusal(request, error.code, error.text)
        except StorageError as error:
            if not isinstance(error, DiskFull):
                log.error("%s from %s: %s", request.route.api.name, request.peer_host, error)
            return self.refusal(request, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        except Exception as error:
            if request.message is None:  # it could not be decoded
                self.reject(request.connection, _malformed(request, error))
                return NO_REPLY
            log.exception("%s v%d from %s failed", request.route.api.name, request.api_version, request.peer_host)
        try:
            return self.refusal(request, ErrorCode.UNKNOWN_SERVER_ERROR)
        except Exception:
            self.reject(request.connection, f"{request.route.api.name} failed and has no words for it")
            return NO_REPLY

    # -- requests that take more than one turn

    def _do(self, work: Steps[Any]) -> Any:
        """Work until the turn's steps are used up; return the result, or UNFINISHED."""
        left = self._left
        try:
            while left > 0:
                left -= next(work)
        except StopIteration as done:
            return done.value
        finally:
            self._left = left
        return UNFINISHED

    def _postpone(self, request: Request) -> None:
        request.is_long = True
        self._long.append(partial(self._go_on, request))

    def _go_on(self, request: Request) -> None:
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

    def _write_on(self, request: Request, steps: Steps[None], parts: list[Buffer]) -> None:
        if request.connection.is_closed:
            return
        try:
            if self._do(steps) is UNFINISHED:
                self._long.append(partial(self._write_on, request, steps, parts))
                return
        except Exception:
            self._refuse_to_write(request)
            return
        self._frame(request, parts)
        self._let_go(request)

    def _work_off(self) -> None:
        """Do one slice of what earlier turns had no room for."""
        self._left = TURN_STEPS
        for _ in range(len(self._long)):
            if self._left <= 0:
                break
            self._long.popleft()()
        self._left = TURN_STEPS
        while self._behind and self._left > 0:
            connection = next(iter(self._behind))
            del self._behind[connection]
            self._touched[connection] = None
            self._settle()
        self._settle()

    # -- writing

    def _turn_away(self, connection: Connection, api_key: int, version: int, correlation_id: int, frame: bytes) -> None:
        route = self._routes.get(Api.API_VERSIONS, 0)
        if api_key != Api.API_VERSIONS or route is None:
            self.reject(
                connection, describe_garbage(frame) or f"API key {api_key} version {version} is not served here"
            )
            return
        # KIP-511: a client newer than we are learns our versions from a v0 answer and steps down.
        request = Request(self, connection, route, correlation_id, None)
        request.response = self.refusal(request, ErrorCode.UNSUPPORTED_VERSION)
        for key in request.response.api_keys:
            key.max_version = self.config.newest_versions.get(key.api_key, key.max_version)
        self._write(request)
        if connection.outstanding:
            connection.outstanding.append(request)
        else:
            connection.add_out(request)

    def _write(self, request: Request) -> None:
        route = request.route
        if request.response is NO_REPLY:
            request.buffers = []
            return
        parts: list[Buffer] = [b""]
        try:
            route.gather(request.response, parts)
        except Exception:
            self._refuse_to_write(request)
            return
        self._frame(request, parts)

    def _refuse_to_write(self, request: Request) -> None:
        route = request.route
        log.exception("%s v%d: the response cannot be written", route.api.name, route.version)
        self.reject(request.connection, f"{route.api.name} has an answer that cannot be written")
        request.buffers = []

    def _frame(self, request: Request, parts: list[Buffer]) -> None:
        """Take the buffers of a response, of which the first is kept free for its header."""
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
            request.buffers = join_small(parts) if request.is_long else parts

    def _settle(self) -> None:
        while True:
            if self.durability.woken:
                self.durability.wake(self.now_ms)
            if not self._touched:
                return
            connection = next(iter(self._touched))
            del self._touched[connection]
            if connection.is_closed:
                continue
            if connection.out:
                connection.send_out()
            if connection.backlog and not connection.is_blocked:
                self._serve(connection, connection.take_backlog())
            if connection.is_throttled:
                connection.update_throttle()

    def _forget(self, connection: Connection) -> None:
        connection.is_closed = True
        connection.out.clear()
        connection.backlog.clear()
        for request in connection.outstanding:
            request.response = NO_REPLY
            if request.dropped is not None:
                request.dropped()
        connection.outstanding.clear()
        if connection in self.connections:
            self.connections.discard(connection)
            self.connection_limit.left(len(self.connections))
        self._touched.pop(connection, None)
        self._behind.pop(connection, None)

    def _enforce_retention(self, now_ms: int) -> None:
        self.in_slices(self.catalog.enforce_retention(now_ms))

    def _close_idle(self, now_ms: int) -> None:
        oldest_ms = now_ms - self.config.connections_max_idle_ms
        for connection in [c for c in self.connections if c.last_ms < oldest_ms and not c.outstanding]:
            self._forget(connection)
            connection.close("idle")

    def _every(self, name: str, interval_ms: int, action: Callable[[int], None]) -> None:
        def run(now_ms: int) -> None:
            self.timers.arm(name, now_ms + interval_ms, run)
            action(now_ms)

        self.timers.arm(name, self.now_ms + interval_ms, run)


def _malformed(request: Request, error: Exception) -> str:
    what = f"{request.route.api.name} v{request.api_version} of client {request.client_id!r}"
    if isinstance(error, TooManyEntries):
        return f"{what} has {error.count} entries in its lists or more; kohort.request.max.entries is {error.limit}"
    return f"malformed request: {what}: {error}"


def _read_client(connection: Connection, frame: bytes, length: int, route: Route) -> int:
    """Note who the client says it is, and return where the request's body begins."""
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
