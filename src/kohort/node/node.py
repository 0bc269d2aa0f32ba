"""A broker without I/O: bytes in, bytes out, timers asked for.

The runtime calls `receive`, `tick` and `flush` with its one clock; the node calls back `send` and `close`.
The law: whatever a client sends, no exception leaves `receive`: the client gets Kafka's error or its
connection is closed, with one log line, and nobody else notices. A reply that promised durability leaves
only after the flush that keeps the promise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from struct import Struct
from typing import TYPE_CHECKING, Any

from kohort.assign.server import ServerAssignor
from kohort.assign.server_catalog import server_assignors
from kohort.log.disk import Disk, StorageError
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.catalog import Catalog
from kohort.node.cleaning import LogCleaner
from kohort.node.config import Config
from kohort.node.connection import NO_REPLY, Buffer, Connection, Request
from kohort.node.durability import Durability
from kohort.node.fetch_sessions import FetchSessions
from kohort.node.garbage import describe_garbage
from kohort.node.routes import Route, Routes
from kohort.node.timers import Timers
from kohort.wire.apis import Api
from kohort.wire.codec import MalformedMessage
from kohort.wire.frames import FrameTooLarge, decode_request_header

if TYPE_CHECKING:
    from kohort.group.events import Event
    from kohort.group.shard import Shard
    from kohort.node.coordinator import Coordinator
    from kohort.node.offsets_partition import OffsetsPartition

log = logging.getLogger("kohort.node")

_HEADER = Struct(">hhih")
_HEAD, _HEAD_BYTES = _HEADER.unpack_from, _HEADER.size
_REPLY_HEAD = Struct(">ii").pack
_JOIN_BYTES = 16 << 10
SEND_BYTES = 64 << 10
"""Replies of one batch of requests leave together up to this size; then the client must keep up."""

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
        self._routes = Routes()
        self._known = self._routes.known
        self._touched: dict[Connection, None] = {}

    # -- life

    def start(self, now_ms: int) -> None:
        """Replay what the disk holds and begin a new epoch. Raises StorageError."""
        self.now_ms = max(self.now_ms, now_ms)
        self.catalog.start(self.now_ms)
        if self.topics.get("__consumer_offsets") is not None:
            self._take_up_groups()
        self._every("retention", self.config.log_retention_check_interval_ms, self.catalog.enforce_retention)
        self.cleaner.start(self.now_ms)
        self._every("idle", max(1, min(60_000, self.config.connections_max_idle_ms // 4)), self._close_idle)

    def _take_up_groups(self) -> Coordinator:
        return self.coordinator

    @cached_property
    def coordinator(self) -> Coordinator:
        """The groups of this node; taken up at start where there are any, else when first asked for."""
        from kohort.node.coordinator import Coordinator

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
        self.durability.run_postponed()  # what came in before a deadline counts before it
        self.timers.run_due(self.now_ms)
        self._settle()

    def next_deadline_ms(self) -> int | None:
        """Return when `tick` must be called next, or None."""
        return self.timers.next_deadline_ms()

    @property
    def needs_flush(self) -> bool:
        """Whether replies wait for `flush`."""
        return self.durability.is_waiting

    def flush(self, now_ms: int) -> None:
        """End a batch of input: bring to the disk what was promised, then let the held replies go."""
        self.now_ms = max(self.now_ms, now_ms)
        self.durability.flush()
        self._settle()

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
        if len(self.connections) >= self.config.max_connections:
            self.reject(connection, f"max.connections ({self.config.max_connections}) is reached")
        else:
            self.connections.add(connection)
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
        self._write(request)
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
        if blocker is None or connection.is_paused or connection.is_closed or len(frame) < _HEAD_BYTES:
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
            message = None if route is None else route.decode(frame, _read_client(connection, frame, length, route))[0]
        except Exception as error:  # whatever a garbled frame sets off is the client's fault
            self.reject(connection, describe_garbage(frame) or f"malformed request: {error}")
            return
        if connection.kept is not None and not connection.kept(message, self.now_ms):
            connection.kept = None
        if route is None:
            self._turn_away(connection, api_key, version, correlation_id, frame)
            return
        if not connection.is_authenticated and route.api not in _BEFORE_LOGIN:
            self.reject(connection, f"{route.api.name} before SASL authentication")
            return
        request = Request(self, connection, route, correlation_id, message)
        request.blocks = not is_overtaking
        response = self._handle(request, message)
        if response is None:
            response = request.response
        if response is None:
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

    def _handle(self, request: Request, message: Any) -> Any:
        try:
            return request.route.handle(self, request, message)
        except KafkaError as error:
            return self.refusal(request, error.code, error.text)
        except StorageError as error:
            log.error("%s from %s: %s", request.route.api.name, request.peer_host, error)
            return self.refusal(request, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        except Exception:
            log.exception("%s v%d from %s failed", request.route.api.name, request.api_version, request.peer_host)
        try:
            return self.refusal(request, ErrorCode.UNKNOWN_SERVER_ERROR)
        except Exception:
            self.reject(request.connection, f"{request.route.api.name} failed and has no words for it")
            return NO_REPLY

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
            log.exception("%s v%d: the response cannot be written", route.api.name, route.version)
            self.reject(request.connection, f"{route.api.name} has an answer that cannot be written")
            request.buffers = []
            return
        size = sum(map(len, parts)) + 4
        if route.has_tagged_response:
            parts[0] = _REPLY_HEAD(size + 1, request.correlation_id) + b"\0"
        else:
            parts[0] = _REPLY_HEAD(size, request.correlation_id)
        request.size = size
        request.buffers = [b"".join(parts)] if size < _JOIN_BYTES else parts

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
        self.connections.discard(connection)
        self._touched.pop(connection, None)

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
