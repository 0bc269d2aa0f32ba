"""TCP of the gateway: a listening port for each node, and for each client a connection of its own to that node.

One connection to the broker for each client keeps authentication end to end. A side that does not read is not written
to: the other side's socket is not read meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol, cast

from kohort.gateway.core.relay import Relay, Sink
from kohort.gateway.traffic_counters import TrafficCounters
from kohort.net.clock import Clock
from kohort.wire.codec import Buffer
from kohort.wire.primitives import MalformedMessage

log = logging.getLogger("kohort.gateway")

HIGH_WATER_BYTES = 1 << 20
"""A side with more unsent bytes than this pauses the reading of the other."""

CONNECT_SECONDS = 10.0
"""How long a broker may take to accept a connection, and a client to complete its TLS handshake."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """A node of the cluster as the gateway reaches it."""

    node_id: int
    host: str
    port: int
    is_tls: bool = False

    def __str__(self) -> str:
        return f"node {self.node_id} at {self.host}:{self.port}"


class Connections(Protocol):
    """What the ports of one gateway have in common."""

    clock: Clock
    counters: TrafficCounters
    listener_tls: ssl.SSLContext | None
    broker_tls: ssl.SSLContext | None
    own_addresses: set[Any]
    """The addresses of the gateway's own connections to brokers: a client with one of them is the gateway."""

    def new_relay(self, upstream: Upstream, client_address: str, to_client: Sink, to_broker: Sink, /) -> Relay:
        """Return the relay of a connection to a node."""
        ...

    def admits(self) -> bool:
        """Whether one more connection of a client may be opened."""
        ...

    def passed(self) -> None:
        """Bytes have passed, or a connection has ended: timers may have changed."""
        ...


class NodePort:
    """The listening socket that stands for one node. `upstream` may change: new connections go there."""

    def __init__(self, upstream: Upstream, connections: Connections) -> None:
        self.upstream = upstream
        self.connections = connections
        self.links: set[Link] = set()
        self.is_draining = False
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int, *, is_shared: bool = False) -> int:
        """Listen, and return the port; `is_shared` with other processes of this machine. Raises OSError."""
        loop = asyncio.get_running_loop()
        tls = self.connections.listener_tls
        self._server = await loop.create_server(
            lambda: Link(self),
            host or None,
            port,
            reuse_port=is_shared or None,
            backlog=1024,
            ssl=tls,
            ssl_handshake_timeout=CONNECT_SECONDS if tls is not None else None,
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def stop_listening(self) -> None:
        """Refuse new connections; those that are open go on."""
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


class _BrokerSide(_Side):
    """The connection to the broker."""

    def __init__(self, link: Link) -> None:
        self.other = link
        self._link = link

    def data_received(self, data: bytes) -> None:
        self._link.from_broker(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.broker_lost(exc)


class Link(_Side):
    """The connection of a client, and the relay to its broker."""

    def __init__(self, port: NodePort) -> None:
        self._port = port
        self._shared = port.connections
        self._upstream = port.upstream
        self._traffic = self._shared.counters.node(port.upstream.node_id)
        self._relay: Relay | None = None
        self._opening: asyncio.Task[None] | None = None
        self._early: list[bytes] = []
        """What the client has sent before its broker was connected."""
        self._own_address: object = None
        self._is_ending = False
        """Whether the gateway or the broker ends the connection, and not the client."""
        self.address = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self.address = f"{peer[0]}:{peer[1]}" if peer else "unknown"
        self._port.links.add(self)
        self._traffic.connections += 1
        self._traffic.opened += 1
        self.transport.pause_reading()
        if not self._shared.admits():
            self._traffic.refused += 1
            self.transport.abort()
        else:
            self._opening = asyncio.get_running_loop().create_task(self._open())

    def _is_loop(self) -> bool:
        """Whether the client is the gateway itself."""
        is_loop = self.transport.get_extra_info("peername") in self._shared.own_addresses
        if is_loop:
            log.error("%s is this gateway itself: correct the address of that node's listener", self._upstream)
        return is_loop

    async def _open(self) -> None:
        loop, upstream = asyncio.get_running_loop(), self._upstream
        tls = self._shared.broker_tls if upstream.is_tls else None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, broker = await loop.create_connection(
                    lambda: _BrokerSide(self),
                    upstream.host,
                    upstream.port,
                    ssl=tls,
                    server_hostname=upstream.host if tls is not None else None,
                )
        except (OSError, TimeoutError, UnicodeError) as error:
            self._traffic.failed += 1
            log.warning("client %s: no connection to %s: %s", self.address, upstream, error or "it does not answer")
            self.transport.abort()
            return
        self._own_address = broker.transport.get_extra_info("sockname")
        self._shared.own_addresses.add(self._own_address)
        self.other = broker
        if self.transport.is_closing() or self._is_loop():
            self.transport.abort()
            return
        self._relay = self._shared.new_relay(upstream, self.address, self.write, broker.write)
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
        self._traffic.bytes_from_clients += len(data)
        try:
            relay.from_client(data, self._shared.clock.now_ms())
        except MalformedMessage as error:
            self.close(f"it sent what is not Kafka's protocol: {error}")
        self._passed(began_s)

    def from_broker(self, data: bytes) -> None:
        """Take bytes of the broker."""
        assert self._relay is not None, "a broker is connected before it is read"
        began_s = perf_counter()
        self._traffic.bytes_from_broker += len(data)
        try:
            self._relay.from_broker(data, self._shared.clock.now_ms())
        except MalformedMessage as error:
            self.close(f"{self._upstream} sent what is not Kafka's protocol: {error}")
        self._passed(began_s)
        if self._port.is_draining:
            self.close_if_idle()

    def _passed(self, began_s: float) -> None:
        self._shared.counters.passing.observe(perf_counter() - began_s)
        self._shared.passed()

    def broker_lost(self, error: Exception | None) -> None:
        """The broker has closed its side, or is gone."""
        if not self.transport.is_closing():
            log.info("client %s: %s closed the connection%s", self.address, self._upstream, _because(error))
        self._is_ending = True
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._port.links.discard(self)
        self._traffic.connections -= 1
        self._shared.own_addresses.discard(self._own_address)
        if self._relay is not None:
            self._relay.closed(self._shared.clock.now_ms(), is_by_client=not self._is_ending)
            self._shared.passed()
        if self.other is not None:
            self.other.transport.close()

    def drain(self) -> None:
        """Let pass what is held, and close the connection as soon as it is idle."""
        if self._relay is not None:
            self._relay.release(self._shared.clock.now_ms())
        self.close_if_idle()

    def close_if_idle(self) -> None:
        """Close the connection unless a request awaits its answer."""
        if self._relay is None or self._relay.is_idle:
            self.close("the gateway ends")

    def close(self, reason: str) -> None:
        """Close both sides once what was written has left."""
        if not self.transport.is_closing():
            log.info("client %s: the connection to %s is closed: %s", self.address, self._upstream, reason)
        self._is_ending = True
        self.transport.close()


def _because(error: Exception | None) -> str:
    return f": {error}" if error is not None else ""
