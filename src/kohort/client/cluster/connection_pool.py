"""Connection pool of a client: one connection for each address and lane, opened when needed and again after it broke.

An address that failed is not tried again before its wait is over (`reconnect.backoff.ms`), so that a broker that is
down is not flooded with attempts. Callers meanwhile wait for it. Where a host has several addresses, each connection
that ends leads to the next one: a machine that hangs still accepts connections.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field

from kohort.client.cluster.metadata import Broker
from kohort.client.cluster.retry import Waits
from kohort.model.errors import KafkaError
from kohort.net.connection import Connection, why_not_connected
from kohort.net.sasl import Sasl
from kohort.net.tls import ListenerMismatch, TlsFailed

log = logging.getLogger(__name__)


@dataclass(eq=False)
class _BrokerConnection:
    waits: Waits
    connection: Connection | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0
    turn: int = 0
    not_before_s: float = 0.0

    @property
    def open(self) -> Connection | None:
        """The connection, if it can be used."""
        return None if self.connection is None or self.connection.is_closed else self.connection


@dataclass(eq=False)
class Pool:
    """Connections by address and lane. Brokers answer each connection in order, so what waits has a lane of its own."""

    client_id: str
    random: Callable[[], float]
    connect_timeout_ms: int
    tls: ssl.SSLContext | None
    sasl: Sasl | None
    _peers: dict[tuple[str, int, str], _BrokerConnection] = field(default_factory=dict)
    _apart: dict[Connection, None] = field(default_factory=dict)
    _turns: dict[tuple[str, int], int] = field(default_factory=dict)
    """By host and port, how many of its addresses have failed."""
    _reached: dict[str, None] = field(default_factory=dict)
    _unreached: dict[str, int] = field(default_factory=dict)
    """By address that another broker advertises, how often it was not reached."""
    _is_closed: bool = False

    async def connection(self, broker: Broker, lane: str = "") -> Connection:
        """Return the connection to a broker that all requests of a lane share. Raises `KafkaError`."""
        key = broker.host, broker.port, lane
        peer = self._peers.get(key)
        if peer is None:
            peer = self._peers[key] = _BrokerConnection(Waits(self.random, initial_ms=50))
        # A caller that comes while others wait for the connection waits behind them: requests stay in order.
        if not peer.waiting and (connection := peer.open) is not None:
            return connection
        peer.waiting += 1
        try:
            return await self._connect(peer, broker)
        finally:
            peer.waiting -= 1

    async def _connect(self, peer: _BrokerConnection, broker: Broker) -> Connection:
        async with peer.lock:
            if (connection := peer.open) is not None:
                return connection
            now_s = asyncio.get_running_loop().time()
            if now_s < peer.not_before_s:
                await asyncio.sleep(peer.not_before_s - now_s)
            if peer.connection is not None:
                self._failed(broker, peer.turn)
            peer.turn = self._turn(broker)
            try:
                peer.connection = await self._open(broker)
            except KafkaError:
                peer.not_before_s = asyncio.get_running_loop().time() + peer.waits.next_s()
                raise
            peer.waits.reset()
            self._reached[broker.address] = None
            return peer.connection

    def connected(self, broker: Broker, lane: str = "") -> Connection | None:
        """Return the connection to a broker if it is open and no caller waits for it."""
        peer = self._peers.get((broker.host, broker.port, lane))
        return None if peer is None or peer.waiting else peer.open

    async def open_apart(self, broker: Broker) -> Connection:
        """Open a connection of the caller's own, for requests that others must not queue behind."""
        connection = await self._open(broker)
        self._apart = {other: None for other in self._apart if not other.is_closed} | {connection: None}
        return connection

    def drop(self) -> None:
        """Close every connection; others may be opened."""
        for peer in self._peers.values():
            if peer.connection is not None:
                peer.connection.close()
        for connection in self._apart:
            connection.close()
        self._peers.clear()
        self._apart.clear()

    def close(self) -> None:
        """Close every connection, for good."""
        self._is_closed = True
        self.drop()

    def _turn(self, broker: Broker) -> int:
        return self._turns.get((broker.host, broker.port), 0)

    def _failed(self, broker: Broker, turn: int) -> None:
        """A connection to the address of that turn has failed; another one may have shown it already."""
        if self._turn(broker) == turn:
            self._turns[broker.host, broker.port] = turn + 1

    async def _open(self, broker: Broker) -> Connection:
        turn = self._turn(broker)
        try:
            connection = await Connection.open(
                broker.host,
                broker.port,
                self.client_id,
                tls=self.tls,
                sasl=self.sasl,
                timeout_ms=self.connect_timeout_ms,
                turn=turn,
            )
        except KafkaError as error:
            self._failed(broker, turn)
            if not isinstance(error.__cause__, OSError) or broker.node_id < 0 or not self._reached:
                raise
            raise self._wrongly_advertised(broker, error) from error.__cause__
        if self._is_closed:
            connection.close()
        return connection

    def _wrongly_advertised(self, broker: Broker, error: KafkaError) -> KafkaError:
        """Return the error of a broker that cannot be reached where another one advertises it.

        It is logged with the second try, or the first that took long: a caller that tries again does not raise it.
        """
        if isinstance(error, TlsFailed | ListenerMismatch) or broker.address in self._reached:
            return error
        cause = error.__cause__
        why = "the name does not resolve" if isinstance(cause, socket.gaierror) else error.text
        if isinstance(cause, OSError) and not isinstance(cause, TimeoutError | socket.gaierror):
            why = why_not_connected(cause)
        text = (
            f"the broker at {next(iter(self._reached))} advertises {broker.address} for broker {broker.node_id}"
            f" (advertised.listeners), which this machine cannot reach: {why}"
        )
        self._unreached[broker.address] = tries = self._unreached.get(broker.address, 0) + 1
        if tries == (1 if isinstance(cause, TimeoutError) else 2):
            log.warning("%s; it is tried again", text)
        return KafkaError(error.code, text)
