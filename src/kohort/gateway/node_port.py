"""TCP of the gateway: a listening port for each node, and for each client a connection of its own to that node.

One connection to the broker for each client keeps authentication end to end. A side that does not read is not written
to: the other side's socket is not read meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from kohort.gateway.core.relay import Relay, Sink
from kohort.net.clock import Clock
from kohort.wire.codec import Buffer
from kohort.wire.primitives import MalformedMessage

log = logging.getLogger("kohort.gateway")

HIGH_WATER_BYTES = 1 << 20
"""A side with more unsent bytes than this pauses the reading of the other."""

CONNECT_SECONDS = 10.0
"""How long a broker may take to accept a connection."""

NewRelay = Callable[["Upstream", str, Sink, Sink], Relay]
"""Makes the relay of a connection to a node, for a client's address, with the sinks to client and broker."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """A node of the cluster as the gateway reaches it."""

    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return f"node {self.node_id} at {self.host}:{self.port}"


class NodePort:
    """The listening socket that stands for one node."""

    def __init__(self, upstream: Upstream, clock: Clock, new_relay: NewRelay) -> None:
        self.upstream = upstream
        self.clock = clock
        self.new_relay = new_relay
        self.links: set[_ClientSide] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int, *, is_shared: bool = False) -> int:
        """Listen, and return the port; `is_shared` with other processes of this machine. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _ClientSide(self), host, port, reuse_port=is_shared or None, backlog=1024
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def stop_listening(self) -> None:
        """Refuse new connections; those that are open go on."""
        if self._server is not None:
            self._server.close()

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

    def __init__(self, client: _ClientSide) -> None:
        self.other = client
        self._client = client

    def data_received(self, data: bytes) -> None:
        self._client.from_broker(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.broker_lost(exc)


class _ClientSide(_Side):
    """The connection of a client, and the relay to its broker."""

    def __init__(self, port: NodePort) -> None:
        self._port = port
        self._relay: Relay | None = None
        self._opening: asyncio.Task[None] | None = None
        self.address = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self.address = f"{peer[0]}:{peer[1]}" if peer else "unknown"
        self._port.links.add(self)
        self.transport.pause_reading()
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        loop, upstream = asyncio.get_running_loop(), self._port.upstream
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, broker = await loop.create_connection(lambda: _BrokerSide(self), upstream.host, upstream.port)
        except (OSError, TimeoutError) as error:
            log.warning("client %s: no connection to %s: %s", self.address, upstream, error or "it does not answer")
            self.transport.abort()
            return
        if self.transport.is_closing():
            broker.transport.abort()
            return
        self.other = broker
        self._relay = self._port.new_relay(upstream, self.address, self.write, broker.write)
        self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        relay = self._relay
        assert relay is not None, "a client is read once its broker is connected"
        try:
            relay.from_client(data, self._port.clock.now_ms())
        except MalformedMessage as error:
            self.close(f"it sent what is not Kafka's protocol: {error}")

    def from_broker(self, data: bytes) -> None:
        assert self._relay is not None, "a broker is connected before it is read"
        try:
            self._relay.from_broker(data, self._port.clock.now_ms())
        except MalformedMessage as error:
            self.close(f"{self._port.upstream} sent what is not Kafka's protocol: {error}")

    def broker_lost(self, error: Exception | None) -> None:
        """The broker has closed its side, or is gone."""
        if not self.transport.is_closing():
            log.info("client %s: %s closed the connection%s", self.address, self._port.upstream, _because(error))
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._port.links.discard(self)
        if self._relay is not None:
            self._relay.closed(self._port.clock.now_ms())
        if self.other is not None:
            self.other.transport.close()

    def close(self, reason: str) -> None:
        """Close both sides once what was written has left."""
        log.info("client %s: the connection to %s is closed: %s", self.address, self._port.upstream, reason)
        self.transport.close()


def _because(error: Exception | None) -> str:
    return f": {error}" if error is not None else ""
