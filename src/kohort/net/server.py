"""TCP server of a node: accepts sockets, also with TLS, passes bytes in and buffers out, and runs the timers.

Everything runs on one event loop, so the node is never entered twice. What one wake-up brings is served and
flushed together. A client that does not read is not served further; it costs at most one response of memory.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from kohort.net.byte_stream import write
from kohort.net.renewed_context import RenewedContext
from kohort.net.tls_stream import TlsStream
from kohort.node.client_connection import Connection
from kohort.node.configuration.listeners import Listener
from kohort.node.connection_limit import ConnectionCounts
from kohort.node.durability import Flush
from kohort.node.node import Node
from kohort.wire.codec import Buffer

log = logging.getLogger("kohort.net")

HIGH_WATER_BYTES = 256 * 1024
"""A connection with more unsent bytes than this is paused until its client has read them."""

BACKLOG = 1024
ACCEPTS = 32
"""Connections taken in one turn of the loop: a burst must not use up the descriptors before the first is refused."""

NO_DESCRIPTOR_SECONDS = 1.0
"""How long nothing is accepted after the system had no descriptor for a connection."""

LINGER_SECONDS = 5.0
"""How long a closed connection may take to send what is buffered."""


class Clock:
    """The clock of a process: wall time when the clock was made, plus what the monotonic clock has counted since."""

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return (self._offset_ns + time.monotonic_ns()) // 1_000_000


@dataclass(frozen=True, slots=True)
class Port:
    """The listening socket of one listener. `tls` encrypts its connections."""

    listener: Listener
    socket: socket.socket
    tls: RenewedContext | None


class Server:
    """The listening sockets of a node and the timers the node asks for."""

    def __init__(self, node: Node, clock: Clock) -> None:
        self.node = node
        self.connections = node.connections
        self.clock = clock
        self.clients: set[Client] = set()
        self._loop = asyncio.get_running_loop()
        self._ports: list[Port] = []
        self._accepted = ConnectionCounts()
        """Sockets of clients that are open, those included that are no `Client` yet."""
        self._opening: set[asyncio.Task[None]] = set()
        self._handshakes: set[TlsStream] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._is_flush_due = False
        self._flusher: ThreadPoolExecutor | None = None
        """The thread in which logs are flushed, of a broker whose responses wait for that."""
        self._flush_under_way: tuple[Flush, asyncio.Future[None]] | None = None

    async def bind(self, listener: Listener, tls: RenewedContext | None = None) -> int:
        """Take a listener's address, without listening yet, and return the real port. Raises OSError."""
        host, port = listener.address
        # A name with several addresses would get another port for each of them when any port will do.
        found = await self._loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind(address)
        except OSError:
            listening.close()
            raise
        self._ports.append(Port(listener, listening, tls))
        real: int = listening.getsockname()[1]
        return real

    def serve(self) -> None:
        """Listen on the addresses that were taken. Raises OSError."""
        assert self._ports, "bind comes first"
        for port in self._ports:
            port.socket.listen(BACKLOG)
            self._begin_accepting(port)
        self.watch()

    def _begin_accepting(self, port: Port) -> None:
        if port in self._ports:
            self._loop.add_reader(port.socket.fileno(), self._accept, port)

    def _accept(self, port: Port) -> None:
        """Take the connections that wait, as many as one turn and `max.connections` allow."""
        limit = self.node.connections.limit
        for _ in range(ACCEPTS):
            if delay_ms := limit.creation_delay_ms(self.clock.now_ms()):
                self._pause_accepting(port, delay_ms / 1000)
                return
            try:
                accepted, peer = port.socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("no connection can be accepted for %g s: %s", NO_DESCRIPTOR_SECONDS, error)
                self._pause_accepting(port, NO_DESCRIPTOR_SECONDS)
                return
            host = str(peer[0])
            if not limit.admits(self._accepted, host, self.clock.now_ms()):
                accepted.close()
                continue
            accepted.setblocking(False)
            limit.created()
            self._accepted.add(host)
            task = self._loop.create_task(self._open(accepted, host, port))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    def _pause_accepting(self, port: Port, seconds: float) -> None:
        self._loop.remove_reader(port.socket.fileno())
        self._loop.call_later(seconds, self._begin_accepting, port)

    async def _open(self, accepted: socket.socket, host: str, port: Port) -> None:
        client = Client(self, host, port.listener)
        protocol = client if port.tls is None else self._encrypted(client, host, port.tls.renew())
        try:
            await self._loop.connect_accepted_socket(lambda: protocol, accepted)
        except OSError:  # the client has gone already
            accepted.close()
            self._accepted.remove(host)
            if isinstance(protocol, TlsStream):
                self._handshakes.discard(protocol)

    def _encrypted(self, client: Client, host: str, context: ssl.SSLContext) -> TlsStream:
        """Return the TLS of a client, which is one of ours only when its handshake is complete."""

        def is_over(failure: str | None) -> None:
            self._handshakes.discard(stream)
            if failure is not None:
                self._accepted.remove(host)
                log.info("listener %s: no TLS with %s: %s", client.listener.name, host, failure)

        stream = TlsStream(context, client, is_over, self.node.config.kohort_authentication_timeout_ms)
        self._handshakes.add(stream)
        return stream

    def ended(self, client: Client) -> None:
        """Forget a client whose socket is closed."""
        self.clients.discard(client)
        self._accepted.remove(client.host)

    async def stop(self) -> None:
        """Stop listening and close every connection after what it still has to send."""
        under_way = self._flush_under_way
        self.abandon()
        if under_way is not None:
            flush, done = under_way
            await asyncio.wait([done])
            self.node.end_flush(flush, self.clock.now_ms())
            self.node.flush(self.clock.now_ms())
        for client in list(self.clients):
            client.close("the broker stops")
        await asyncio.sleep(0)

    def abandon(self) -> None:
        """Stop listening and forget the timers; connections are left as they are."""
        for port in self._ports:
            self._loop.remove_reader(port.socket.fileno())
            port.socket.close()
        self._ports.clear()
        for stream in list(self._handshakes):
            stream.abort()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = 0
        self._flush_under_way = None
        if self._flusher is not None:
            self._flusher.shutdown(wait=False)
            self._flusher = None

    def watch(self) -> None:
        """After each call of the node: schedule its next flush and timer."""
        node = self.node
        if not self._is_flush_due and node.needs_flush:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)
        deadline_ms = node.next_deadline_ms()
        if deadline_ms is None or (self._timer is not None and self._timer_ms <= deadline_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = deadline_ms
        delay_ms = max(0, deadline_ms - self.clock.now_ms())
        self._timer = self._loop.call_later(delay_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        try:
            self.node.tick(self.clock.now_ms())
        finally:
            self.watch()  # one timer that fails must not stop the others

    def _flush(self) -> None:
        self._is_flush_due = False
        try:
            flush = self.node.begin_flush(self.clock.now_ms())
            if flush is not None and not self._ports:
                flush.run()
                self.node.end_flush(flush, self.clock.now_ms())
            elif flush is not None:
                if self._flusher is None:
                    self._flusher = ThreadPoolExecutor(1, "kohort-flush")
                done = self._loop.run_in_executor(self._flusher, flush.run)
                self._flush_under_way = flush, done
                done.add_done_callback(self._end_flush)
        finally:
            self.watch()

    def _end_flush(self, done: asyncio.Future[None]) -> None:
        """Release what waited for a flush; what was appended meanwhile is flushed next, together."""
        if self._flush_under_way is None or self._flush_under_way[1] is not done:
            return  # the server has stopped
        flush, self._flush_under_way = self._flush_under_way[0], None
        try:
            self.node.end_flush(flush, self.clock.now_ms())
        finally:
            self.watch()


class Client(asyncio.Protocol):
    """One accepted socket."""

    __slots__ = ("_connection", "_server", "_transport", "host", "listener")

    _transport: Any
    _connection: Connection

    def __init__(self, server: Server, host: str, listener: Listener) -> None:
        self._server = server
        self.host = host
        self.listener = listener

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._server.clients.add(self)
        certificate = transport.get_extra_info("peer_certificate")
        open_one = self._server.connections.open
        self._connection = open_one(self.host, self.send, self.close, self.throttle, self.listener, certificate)

    def data_received(self, chunk: bytes) -> None:
        server = self._server
        server.connections.receive(self._connection, chunk, server.clock.now_ms())
        server.watch()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        server = self._server
        server.ended(self)
        server.connections.drop(self._connection, server.clock.now_ms())

    def pause_writing(self) -> None:
        self._server.connections.pause(self._connection)

    def resume_writing(self) -> None:
        server = self._server
        server.connections.resume(self._connection, server.clock.now_ms())
        server.watch()

    def send(self, buffers: list[Buffer]) -> None:
        """Send buffers in order; they must not change afterwards."""
        write(self._transport, buffers)

    def close(self, reason: str) -> None:  # noqa: ARG002
        """Close the socket once what was sent has left, but wait no longer than a few seconds for that."""
        transport = self._transport
        transport.close()
        if transport.get_write_buffer_size():
            asyncio.get_running_loop().call_later(LINGER_SECONDS, transport.abort)

    def abort(self) -> None:
        """Close the socket at once."""
        self._transport.abort()

    def throttle(self, is_on: bool) -> None:
        """Stop reading from the socket, or resume."""
        if self._transport.is_closing():
            return
        if is_on:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()
