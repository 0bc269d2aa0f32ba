"""TCP of the gateway: a listening port for each node, and for each client a connection of its own to that node.

With one connection to the broker for each client authentication is end to end. A side that does not read is not written
to: the other side's socket is not read meanwhile. A client's connection ends as its broker's does, by FIN or by RST:
clients treat an end before the first answer as another protocol, and a reset as a broker that is away.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Protocol, cast

from kohort.gateway.relay.proxy_header import BINARY, TEXT
from kohort.gateway.relay.relay import Relay, Sink
from kohort.gateway.rewriting.address_relay import RewritingRelay
from kohort.gateway.server.proxied_listener import NO_LINGER, Address, Networks, ProxiedListener, host_of
from kohort.gateway.server.socket_splice import WORTH_BYTES, SocketSplice, SocketSplices
from kohort.gateway.server.traffic_counters import TrafficCounters
from kohort.net.server import Clock
from kohort.net.tls import tls_failure
from kohort.node.rate_limited_log import RateLimitedLog
from kohort.wire.codec import Buffer
from kohort.wire.primitives import MalformedMessage

log = logging.getLogger("kohort.gateway")

HIGH_WATER_BYTES = 1 << 20
"""A side with more unsent bytes than this pauses the reading of the other."""

BACKLOG = 1024

CONNECT_SECONDS = 10.0
"""How long a broker may take to accept a connection, and a client to complete its TLS handshake."""

STALLED_SECONDS = 10.0
"""Clients are reset of a process that stood still for so long: its users' health checks have led them elsewhere."""

STAND_IN_SECONDS = 2.0
"""How long a broker may take to accept a connection that another one could serve."""

LINGER_SECONDS = 5.0
"""How long a connection that ends may take to send what it has not sent."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """A node of the cluster as the gateway reaches it."""

    node_id: int
    host: str
    port: int
    is_tls: bool = False

    def __str__(self) -> str:
        return f"node {self.node_id} at {self.host}:{self.port}"


Pipe = Relay | RewritingRelay
"""What relays the bytes of a connection."""


class PortConnections(Protocol):
    """What the ports of one gateway have in common."""

    clock: Clock
    counters: TrafficCounters
    splices: SocketSplices
    warnings: RateLimitedLog
    trusted_proxies: Networks
    """Whose connections begin with a PROXY header."""
    own_connections: set[Any]
    """Both addresses of the gateway's own connections to brokers, its own first: a client's connection that has the
    same two is the gateway's. One of them is not enough, since systems use a port again for another destination."""

    @property
    def listener_tls(self) -> ssl.SSLContext | None:
        """TLS of a new connection of a client."""

    @property
    def broker_tls(self) -> ssl.SSLContext | None:
        """TLS of a new connection to a broker whose listener has it."""

    def new_relay(self, client_address: str, to_client: Sink, to_broker: Sink, end: Callable[[str], None], /) -> Pipe:
        """Return the relay of a connection, which may `end` it with a reason."""
        ...

    def upstream_of(self, port: NodePort, transport: asyncio.BaseTransport, /) -> Upstream:
        """Return the node of a new connection to a port."""
        ...

    def alternatives(self, port: NodePort, transport: asyncio.BaseTransport, /) -> Iterable[Upstream]:
        """Return the nodes that serve a new connection as well as the one that `upstream_of` returned."""
        ...

    def admits(self) -> bool:
        """Whether one more connection of a client may be opened."""
        ...

    def check_alive(self, now_s: float, /) -> bool:
        """Note that the process runs; return whether it stood still, and all connections of clients have been reset.

        They may have sent the same elsewhere. Not only a timer calls it: with thousands of clients that join, one turn
        of the event loop takes longer than `STALLED_SECONDS`.
        """
        ...

    def passed(self) -> None:
        """Bytes have passed, or a connection has ended: timers may have changed."""
        ...


class NodePort:
    """The listening socket that stands for one node. `upstream` may change: new connections go there."""

    def __init__(self, upstream: Upstream, connections: PortConnections) -> None:
        self.upstream = upstream
        self.connections = connections
        self.links: set[ClientLink] = set()
        self.is_draining = False
        self.port = 0
        """Where it listens."""
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | ProxiedListener | None = None

    def bind(self, host: str, port: int, *, is_shared: bool = False) -> int:
        """Listen at once, and return the port; `is_shared` with other processes of this machine. Raises OSError.

        PortConnections wait until `serve`.
        """
        if host:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family = min(found, key=lambda entry: entry[0] != socket.AF_INET)[0]
            is_dual = False
        else:
            is_dual = socket.has_dualstack_ipv6()
            family = socket.AF_INET6 if is_dual else socket.AF_INET
        self._socket = socket.create_server(
            (host, port), family=family, backlog=BACKLOG, reuse_port=is_shared, dualstack_ipv6=is_dual
        )
        self.port = int(self._socket.getsockname()[1])
        return self.port

    async def serve(self) -> None:
        """Take connections of clients."""
        if self._socket is None:
            return  # closed before it was served
        loop, shared = asyncio.get_running_loop(), self.connections
        listening, self._socket = self._socket, None
        if shared.trusted_proxies or shared.listener_tls is not None:  # whose context each connection has anew
            self._server = ProxiedListener(
                listening, shared.trusted_proxies, shared.counters, shared.admits, self._serve_client, self._refused
            )
        else:
            new_link = partial(ClientLink, self)
            self._server = await loop.create_server(new_link, sock=listening, backlog=BACKLOG)

    async def _serve_client(self, client: socket.socket, address: Address | None) -> None:
        tls, new_link = self.connections.listener_tls, partial(ClientLink, self, address)
        timeout_s = None if tls is None else CONNECT_SECONDS
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(new_link, client, ssl=tls, ssl_handshake_timeout=timeout_s)

    def _refused(self, reason: str) -> None:
        shared = self.connections
        shared.counters.node(self.upstream.node_id).without_header += 1
        text = "the load balancer's connection %s; it has to send the PROXY protocol, or leave proxy_protocol_from"
        shared.warnings.warning("no header", shared.clock.now_ms(), text, reason)

    async def stop_listening(self) -> None:
        """Refuse new connections; those that are open continue."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._server is not None:
            self._server.close()

    async def drain(self) -> None:
        """Refuse new connections, and close each one as soon as none of its requests awaits an answer."""
        await self.stop_listening()
        self.is_draining = True
        for link in list(self.links):
            link.drain()

    async def close(self, reason: str) -> None:
        """Stop listening and close every connection, after what it still has to send."""
        await self.stop_listening()
        for link in list(self.links):
            link.close(reason)
        await asyncio.sleep(0)


class _Side(asyncio.Protocol):
    """What the two ends of a relayed connection have in common."""

    transport: asyncio.Transport
    other: _Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        raw: Any = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def write(self, data: Buffer) -> None:
        self.transport.write(data)

    def end(self) -> None:
        """Close the connection once what was written has left, or has not left for a while."""
        if not self.transport.is_closing():
            self.transport.close()
            if self.transport.get_write_buffer_size():
                asyncio.get_running_loop().call_later(LINGER_SECONDS, self.transport.abort)

    def reset(self) -> None:
        """End the connection by RST; what was not sent yet is lost."""
        raw: Any = self.transport.get_extra_info("socket")
        if raw is not None and not self.transport.is_closing():
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.transport.abort()


class _BrokerSide(_Side):
    """The connection to the broker."""

    def __init__(self, link: ClientLink) -> None:
        self.other = link
        self._link = link

    def data_received(self, data: bytes) -> None:
        self._link.from_broker(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.broker_lost(exc)


class ClientLink(_Side):
    """The connection of a client, and the relay to its broker."""

    def __init__(self, port: NodePort, client: Address | None = None) -> None:
        """Begin with the address of the client where a load balancer has named it."""
        self._port = port
        self._client = client
        self._shared = port.connections
        self._upstream = port.upstream
        self._traffic = self._shared.counters.node(port.upstream.node_id)
        self._relay: Pipe | None = None
        self._opening: asyncio.Task[None] | None = None
        self._early: list[bytes] = []
        """What the client has sent before its broker was connected."""
        self._splice: SocketSplice | None = None
        """What moves the rest of a large answer."""
        self._is_splicing = False
        """Whether the rest of a large answer moves, or will as soon as the client has what came before."""
        self._own_connection: object = None
        self._is_ending = False
        """Whether the gateway or the broker ends the connection, and not the client."""
        self._is_answered = False
        """Whether the client has been sent anything."""
        self.address = ""

    @property
    def buffered_bytes(self) -> int:
        """How many bytes of the connection are buffered, those included that a socket does not take yet."""
        sides = [self] if self.other is None else [self, self.other]
        unsent = sum(side.transport.get_write_buffer_size() for side in sides)
        spliced = 0 if self._splice is None else self._splice.buffered_bytes
        return unsent + spliced + (self._relay.buffered_bytes if self._relay is not None else 0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = self._client or _address_of(transport, "peername")
        self.address = f"{peer[0]}:{peer[1]}" if peer else "unknown"
        self._port.links.add(self)
        self._upstream = self._shared.upstream_of(self._port, transport)
        self._traffic = self._shared.counters.node(self._upstream.node_id)
        self._traffic.connections += 1
        self._traffic.opened += 1
        self.transport.pause_reading()
        if not self._shared.admits():
            self._traffic.refused += 1
            self.reset()
        else:
            self._opening = asyncio.get_running_loop().create_task(self._open())

    def _is_loop(self) -> bool:
        """Whether the client is the gateway itself."""
        ends = _address_of(self.transport, "peername"), _address_of(self.transport, "sockname")
        is_loop = None not in ends and ends in self._shared.own_connections
        if is_loop:
            log.error("%s is this gateway itself: correct the address of that node's listener", self._upstream)
        return is_loop

    async def _connect(self, upstream: Upstream, seconds: float) -> _BrokerSide | None:
        """Connect to a node; None, with a warning, where that fails."""
        tls = self._shared.broker_tls if upstream.is_tls else None
        try:
            async with asyncio.timeout(seconds):
                _, broker = await asyncio.get_running_loop().create_connection(
                    lambda: _BrokerSide(self),
                    upstream.host,
                    upstream.port,
                    ssl=tls,
                    server_hostname=upstream.host if tls is not None else None,
                )
        except (OSError, TimeoutError, UnicodeError) as error:
            self._traffic.failed += 1
            level = logging.DEBUG if self._traffic.is_away else logging.WARNING
            self._traffic.is_away = True
            reason: object = str(error) or "it does not answer"
            if isinstance(error, ssl.SSLError):
                reason = tls_failure(f"{upstream.host}:{upstream.port}", error)
            text = "client %s: no connection to %s: %s; further ones are counted as connections_failed_total"
            log.log(level, text, self.address, upstream, reason)
            return None
        if self._traffic.is_away:
            log.info("%s is reached again", upstream)
        self._traffic.is_away = self._shared.counters.is_cluster_away = False
        return broker

    async def _connect_to_any(self) -> _BrokerSide | None:
        others = [each for each in self._shared.alternatives(self._port, self.transport) if each != self._upstream]
        broker = await self._connect(self._upstream, STAND_IN_SECONDS if others else CONNECT_SECONDS)
        for upstream in others:
            if broker is not None or self.transport.is_closing():
                break
            self._traffic.connections -= 1
            self._upstream = upstream
            self._traffic = self._shared.counters.node(upstream.node_id)
            self._traffic.connections += 1
            broker = await self._connect(upstream, STAND_IN_SECONDS)
        return broker

    async def _open(self) -> None:
        broker = await self._connect_to_any()
        if broker is None:
            self.reset()
            return
        self._own_connection = _address_of(broker.transport, "sockname"), _address_of(broker.transport, "peername")
        self._shared.own_connections.add(self._own_connection)
        self.other = broker
        if self.transport.is_closing() or self._is_loop():
            self.reset()
            return
        self._relay = self._shared.new_relay(self.address, self.write, broker.write, self.refuse)
        early, self._early = self._early, []
        for data in early:
            self.data_received(data)
        self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        relay = self._relay
        if relay is None:  # an event loop may read once more after it was requested to pause
            self._early.append(data)
            self.transport.pause_reading()
            return
        began_s = perf_counter()
        if self._shared.check_alive(began_s):
            return
        self._traffic.bytes_from_clients += len(data)
        try:
            relay.from_client(data, self._shared.clock.now_ms())
        except MalformedMessage as error:
            if data.startswith((TEXT, BINARY)) and not self._is_answered:
                text = "client %s sent a PROXY header: it is to stand in proxy_protocol_from if it is a load balancer"
                self._shared.warnings.warning("a header", self._shared.clock.now_ms(), text, self.address)
            self.close(f"it sent what is not Kafka's protocol: {error}")
        self._passed(began_s)

    def from_broker(self, data: bytes) -> None:
        """Take bytes of the broker."""
        assert self._relay is not None, "a broker is connected before it is read"
        began_s = perf_counter()
        if self._shared.check_alive(began_s):
            return
        self._is_answered = True
        self._traffic.bytes_from_broker += len(data)
        try:
            self._relay.from_broker(data, self._shared.clock.now_ms())
        except MalformedMessage as error:
            self.close(f"{self._upstream} sent what is not Kafka's protocol: {error}")
        self._passed(began_s)
        if self._port.is_draining:
            self.close_if_idle()
        if self._relay.passing_bytes >= WORTH_BYTES and self._may_splice:
            self._splice_rest()

    # Large answers

    @property
    def _may_splice(self) -> bool:
        """Whether the kernel can move bytes between the two sockets as they are."""
        is_plain = self.transport.get_extra_info("sslcontext") is None and not self._upstream.is_tls
        return is_plain and self._shared.splices.has_room and not self.transport.is_closing()

    def _splice_rest(self) -> None:
        """Let the kernel move the rest of an answer, once the client's socket has what came before."""
        assert self.other is not None, "a broker is connected before it is read"
        self._is_splicing = True
        self.other.transport.pause_reading()
        self.transport.set_write_buffer_limits(high=0)
        if not self.transport.get_write_buffer_size():
            self._begin_splice()

    def resume_writing(self) -> None:
        if self._is_splicing:
            self._begin_splice()
        else:
            super().resume_writing()

    def _begin_splice(self) -> None:
        assert self.other is not None
        assert self._relay is not None
        if self._splice is not None or self.transport.is_closing() or self.other.transport.is_closing():
            return
        broker, client = (side.transport.get_extra_info("socket").fileno() for side in (self.other, self))
        count = self._relay.passing_bytes
        self._splice = self._shared.splices.begin(broker, client, count, self._spliced, self._splice_ended)
        if self._splice is None:
            self._splice_ended()

    def _spliced(self, count: int) -> None:
        assert self._relay is not None
        self._traffic.bytes_from_broker += count
        self._relay.passed_elsewhere(count)

    def _splice_ended(self, rest: bytes = b"", error: OSError | None = None) -> None:
        """Take the broker's bytes as before; `rest` are those that the client did not take.

        With `error` the broker's socket has failed, which shows it once: its transport would see the end of the stream.
        """
        self._splice = None
        self._is_splicing = False
        if error is not None:
            self.broker_lost(error)
            return
        if not self.transport.is_closing():
            self.transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
            super().resume_writing()
            if rest:
                self._spliced(len(rest))
                self.write(rest)
        if self._port.is_draining:
            self.close_if_idle()

    def _stop_splice(self) -> None:
        if self._splice is not None:
            self._splice.stop()
            self._splice = None

    def end(self) -> None:
        self._stop_splice()
        super().end()

    def reset(self) -> None:
        self._stop_splice()
        super().reset()

    # Ends

    def _passed(self, began_s: float) -> None:
        self._shared.counters.passing.observe(perf_counter() - began_s)
        self._shared.passed()

    def broker_lost(self, error: Exception | None) -> None:
        """The broker has closed its side, or is gone."""
        if not self.transport.is_closing():
            level = logging.DEBUG if error is None else logging.INFO
            log.log(level, "client %s: %s closed the connection%s", self.address, self._upstream, _cause_text(error))
        if error is not None:
            self.abandon()
        else:
            self._is_ending = True
            self.end()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._stop_splice()
        self._port.links.discard(self)
        self._traffic.connections -= 1
        self._shared.own_connections.discard(self._own_connection)
        if self._relay is not None:
            self._relay.closed(self._shared.clock.now_ms(), is_by_client=not self._is_ending)
            self._shared.passed()
        if self.other is not None:
            self.other.end()

    def drain(self) -> None:
        """Let what waits pass, and close the connection as soon as it is idle."""
        if self._relay is not None:
            self._relay.release(self._shared.clock.now_ms())
        self.close_if_idle()

    def close_if_idle(self) -> None:
        """Close the connection unless a request awaits its answer."""
        if self._relay is None or self._relay.is_idle:
            self.close("the gateway ends")

    def close(self, reason: str) -> None:
        """Close both sides once what was written has left; reset one whose client waits for its first answer."""
        if not self.transport.is_closing():
            log.info("client %s: the connection to %s is closed: %s", self.address, self._upstream, reason)
        self._is_ending = True
        if self._is_answered:
            self.end()
        else:
            self.reset()

    def abandon(self) -> None:
        """End both sides; what the client has sent is not passed on."""
        self._is_ending = True
        self.reset()

    def refuse(self, reason: str) -> None:
        """Close both sides since something may not pass."""
        log.warning("client %s: the connection to %s is closed: %s", self.address, self._upstream, reason)
        self._is_ending = True
        self.end()


def _address_of(transport: asyncio.BaseTransport, which: str) -> Address | None:
    address = transport.get_extra_info(which)
    return (host_of(address), int(address[1])) if address else None


def _cause_text(error: Exception | None) -> str:
    return f": {error}" if error is not None else ""
