"""A listening socket that takes one connection after another: of load balancers, whose connections begin with a PROXY
header, and of others.

Where a connection comes from decides that, and never its bytes: otherwise each client could name any address. Of the
socket the header is read and no byte more, so what follows passes as on every other connection, TLS too.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Network, IPv6Network, ip_address
from struct import pack

from kohort.gateway.relay.proxy_header import client_address, missing_bytes
from kohort.gateway.server.traffic_counters import TrafficCounters
from kohort.wire.primitives import MalformedMessage

log = logging.getLogger("kohort.gateway")

Address = tuple[str, int]
Networks = tuple[IPv4Network | IPv6Network, ...]

HEADER_SECONDS = 5.0
"""How long a header may take to come: TCP repeats a packet that was lost after up to 3 s."""

RETRY_SECONDS = 1.0
"""The pause after the system has had no descriptor for a connection."""

NO_LINGER = pack("ii", 1, 0)
"""SO_LINGER that has a close send RST instead of FIN."""


class ProxiedListener:
    """Accepts connections until `close`. `serve` gets each with its client's address, if a header names one.

    `admits` decides whether one more header is waited for; `refused` gets why a connection of a balancer was reset.
    """

    def __init__(
        self,
        listening: socket.socket,
        trusted: Networks,
        counters: TrafficCounters,
        admits: Callable[[], bool],
        serve: Callable[[socket.socket, Address | None], Awaitable[object]],
        refused: Callable[[str], None],
        header_s: float = HEADER_SECONDS,
    ) -> None:
        self._listening = listening
        self._trusted = trusted
        self._counters = counters
        self._admits = admits
        self._serve = serve
        self._refused = refused
        self._header_s = header_s
        self._loop = asyncio.get_running_loop()
        self._tasks = {self._loop.create_task(self._accept())}

    def close(self) -> None:
        """Refuse new connections, and reset those whose header has not come whole."""
        for task in self._tasks:
            task.cancel()

    async def _accept(self) -> None:
        self._listening.setblocking(False)
        with self._listening:
            while True:
                try:
                    client, peer = await self._loop.sock_accept(self._listening)
                except OSError as error:
                    log.error("no connection can be accepted: %s", error)
                    await asyncio.sleep(RETRY_SECONDS)
                else:
                    task = self._loop.create_task(self._begin(client, (host_of(peer), int(peer[1]))))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)

    async def _begin(self, client: socket.socket, peer: Address) -> None:
        address = None
        try:
            if any(ip_address(peer[0]) in network for network in self._trusted):
                address = await self._client_of(client)
        except MalformedMessage as error:
            self._refused(f"{peer[0]}:{peer[1]} is reset: {error}")
            _reset(client)
            return
        except (OSError, asyncio.CancelledError) as error:  # a health check without a byte, or the gateway ends
            log.debug("the connection of load balancer %s:%d ends: %r", *peer, error)
            _reset(client)
            return
        try:
            await self._serve(client, address)
        except OSError as error:
            log.debug("the connection of %s:%d is no TLS: %r", *peer, error)

    async def _client_of(self, proxy: socket.socket) -> Address | None:
        """Return the client that a header names. Raises MalformedMessage, OSError where the balancer ends it."""
        header = b""
        self._counters.in_header += 1
        try:
            if not self._admits():
                raise ConnectionRefusedError("too many connections are open")
            async with asyncio.timeout(self._header_s):
                while count := missing_bytes(header):
                    chunk = await self._loop.sock_recv(proxy, count)
                    if not chunk and not header:
                        raise ConnectionResetError("it has sent nothing")
                    if not chunk:
                        raise MalformedMessage(f"it ended after {len(header)} bytes of a PROXY header")
                    header += chunk
        except TimeoutError:
            text = f"its PROXY header is not whole after {self._header_s:g} s: {len(header)} bytes have come"
            raise MalformedMessage(text) from None
        finally:
            self._counters.in_header -= 1
        return client_address(header)


def host_of(address: tuple[object, ...]) -> str:
    """Return the host of a socket's address; one of IPv4 that a socket of IPv6 shows as it is known."""
    host = str(address[0])
    return host.removeprefix("::ffff:") if "." in host else host


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
    client.close()
