"""The ports of one gateway: a `NodePort` for each node, and what their connections have in common (`Connections`)."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kohort.broker.descriptors import budget
from kohort.gateway.gateway import Gateway
from kohort.gateway.gateway_settings import BrokerTls, GatewaySettings, ListenerTls, Mode
from kohort.gateway.relay.relay import Sink
from kohort.gateway.rewriting.address_relay import RewritingRelay
from kohort.gateway.server.node_port import STALLED_SECONDS, NodePort, Pipe, Upstream
from kohort.gateway.server.rewritten_cluster import NamesOfNodes, PortsOfNodes
from kohort.gateway.server.socket_splice import SocketSplices
from kohort.gateway.server.traffic_counters import TrafficCounters
from kohort.model.setting import SettingsError
from kohort.net.renewed_context import CertificateError, RenewedContext, load_authority, load_chain
from kohort.net.server import Clock
from kohort.node.rate_limited_log import RateLimitedLog

log = logging.getLogger("kohort.gateway")


class ListenFailed(Exception):
    """A port of the gateway cannot be listened on; the text names it and the reason."""


class GatewayPorts:
    """The open ports, by number. Raises SettingsError for certificates that cannot be used.

    It runs the timers of the gateway: `passed` is called after everything that may change them.
    """

    def __init__(self, settings: GatewaySettings, gateway: Gateway, clock: Clock) -> None:
        self.clock = clock
        self.counters = TrafficCounters()
        self.splices = SocketSplices()
        self.own_connections: set[Any] = set()
        self.trusted_proxies = settings.trusted_proxies
        self.warnings = RateLimitedLog(log)
        self.open: dict[int, NodePort] = {}
        self._settings = settings
        self._gateway = gateway
        self._listener_tls, self._broker_tls = _contexts(settings)
        self.rewritten = self._rewritten_nodes()
        """The nodes in mode `rewrite`."""
        self._serving: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._most = settings.max_connections or most_connections()
        self._refusing = False

    def change(self, settings: GatewaySettings) -> None:
        """Use these settings for the connections from now on. Raises SettingsError; then nothing has changed."""
        self._listener_tls, self._broker_tls = _contexts(settings)
        self._settings = settings
        self._most = settings.max_connections or most_connections()

    @property
    def listener_tls(self) -> ssl.SSLContext | None:
        """TLS of a new connection of a client; its certificates are read again where their files have changed."""
        if self._listener_tls is None:
            return None
        context = self._listener_tls.renew()
        if isinstance(self.rewritten, NamesOfNodes):
            context.sni_callback = self.rewritten.select
        return context

    @property
    def broker_tls(self) -> ssl.SSLContext:
        """TLS of a new connection to a broker whose listener has it."""
        return self._broker_tls if isinstance(self._broker_tls, ssl.SSLContext) else self._broker_tls.renew()

    def _rewritten_nodes(self) -> PortsOfNodes | NamesOfNodes | None:
        settings = self._settings
        if settings.mode is not Mode.REWRITE:
            return None
        is_tls = settings.broker_tls is not None or settings.security.get("tls") is not None
        if settings.node_names is None:
            return PortsOfNodes(settings.bootstrap_address, self.serve, settings.node_ports, is_tls=is_tls)
        return NamesOfNodes(settings.bootstrap_address, settings.node_names, is_tls=is_tls)

    def serve(self, port: int, upstream: Upstream) -> None:
        """Listen on a port for a node, or lead it to another one. Raises OSError."""
        if port in self.open:
            self.open[port].upstream = upstream
            return
        node_port = NodePort(upstream, self)
        node_port.bind(self._settings.listen_host, port, is_shared=self._settings.share_ports)
        self.open[port] = node_port
        task = asyncio.get_running_loop().create_task(node_port.serve())
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    def listen(self, port: int, upstream: Upstream) -> None:
        """`serve` for a node that the cluster shows. Raises ListenFailed."""
        try:
            self.serve(port, upstream)
        except OSError as error:
            raise ListenFailed(listen_failure(error, self._settings.listen_host, port, str(upstream))) from error

    async def drain(self) -> None:
        """Refuse new connections, and close each that is open as soon as it is idle."""
        for port in self.open.values():
            await port.drain()
        self.passed()

    async def close(self) -> None:
        """Close every port and connection."""
        for port in self.open.values():
            await port.close("the gateway ends")
        self.splices.close()
        if self._timer is not None:
            self._timer.cancel()

    # Connections

    def new_relay(self, client_address: str, to_client: Sink, to_broker: Sink, end: Callable[[str], None]) -> Pipe:
        """Return the relay of a new connection."""
        open_relay = partial(self._gateway.open, client_address.rpartition(":")[0])
        if self.rewritten is None:
            return open_relay(to_client, to_broker)
        address_of = self.rewritten.addresses.address_of
        return RewritingRelay(open_relay, address_of, to_client, to_broker, end, self._gateway.budget)

    def upstream_of(self, port: NodePort, transport: asyncio.BaseTransport) -> Upstream:
        """Return the node of a new connection."""
        return port.upstream if self.rewritten is None else self.rewritten.upstream_of(port.port, transport)

    def alternatives(self, port: NodePort, transport: asyncio.BaseTransport) -> Sequence[Upstream]:
        """Return the nodes that serve a new connection as well as that one."""
        return () if self.rewritten is None else self.rewritten.alternatives(port.port, transport)

    def admits(self) -> bool:
        """Whether one more connection of a client may be opened."""
        is_full = self.counters.connections > self._most
        if is_full != self._refusing:
            self._refusing = is_full
            if is_full:
                log.warning("%d connections are open: more are refused (max_connections)", self._most)
        return not is_full

    def check_alive(self, now_s: float) -> bool:
        """Note that the process runs; reset all connections of clients, and return True, if it stood still."""
        still_s, self.counters.alive_s = now_s - self.counters.alive_s, now_s
        if still_s <= STALLED_SECONDS:
            return False
        text = "the gateway stood still for %.0f s: all connections of clients are reset, since requests that wait in"
        log.warning(text + " them may be old; look for a stopped process or a paused machine", still_s)
        for link in [link for port in self.open.values() for link in port.links]:
            link.abandon()
        return True

    def passed(self) -> None:
        """Watch the earliest timer of the groups."""
        due_ms = self._gateway.next_deadline_ms()
        if due_ms is None or (self._timer is not None and self._timer_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        delay_s = max(0, due_ms - self.clock.now_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._gateway.tick(self.clock.now_ms())
        self.passed()


def most_connections() -> int:
    """Return how many connections of clients this process has descriptors for: two for each, none for log files."""
    free = budget()
    return (free.connections + free.files) // 2


def listen_failure(error: OSError, host: str, port: int, purpose: str) -> str:
    """Return a sentence for a port that cannot be listened on."""
    where = f"port {port}{f' of {host}' if host else ''}, for {purpose},"
    if error.errno == errno.EADDRINUSE:
        return f"{where} is in use by another process of this machine: is it a broker's own port?"
    if error.errno == errno.EACCES:
        return f"{where} may not be listened on by this user"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{where} cannot be listened on: {host} is not an address of this machine"
    why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
    return f"{where} cannot be listened on: {why}"


def _contexts(settings: GatewaySettings) -> tuple[RenewedContext | None, RenewedContext | ssl.SSLContext]:
    """Return TLS towards clients, if there is any, and towards brokers. Raises SettingsError."""
    listener = None if settings.listener_tls is None else listener_context(settings.listener_tls)
    given = settings.security.get("tls")
    if given is not None and settings.broker_tls is None:
        return listener, given
    return listener, broker_context(settings.broker_tls or BrokerTls())


def listener_context(settings: ListenerTls) -> RenewedContext:
    """Return the context of the gateway's ports. Raises SettingsError."""

    def load() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        load_chain(context, "listener_tls", settings.certificate, settings.key, settings.key_password)
        if settings.client_authority is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            load_authority(context, "listener_tls.client_authority", settings.client_authority)
        return context

    return _renewed(load, settings.certificate, settings.key, settings.client_authority)


def broker_context(settings: BrokerTls) -> RenewedContext:
    """Return the context of connections to brokers. Raises SettingsError."""

    def load() -> ssl.SSLContext:
        if settings.authority is None:
            context = ssl.create_default_context()
        else:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts no other authority
            load_authority(context, "broker_tls.authority", settings.authority)
        if settings.certificate is not None:
            load_chain(context, "broker_tls", settings.certificate, settings.key, settings.key_password)
        return context

    return _renewed(load, settings.authority, settings.certificate, settings.key)


def _renewed(load: Callable[[], ssl.SSLContext], *paths: str | None) -> RenewedContext:
    try:
        return RenewedContext(load, paths)
    except CertificateError as error:
        raise SettingsError(str(error)) from None
