"""What the connections of one `NodePort` share in tests of its sockets: every request passes unread."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Callable, Coroutine
from struct import pack
from typing import Any

from kohort.gateway.relay.relay import Exchange, Relay, RequestHead, Sink
from kohort.gateway.server.node_port import NodePort, Upstream
from kohort.gateway.server.proxied_listener import Networks
from kohort.gateway.server.socket_splice import SocketSplices
from kohort.gateway.server.traffic_counters import TrafficCounters
from kohort.net.server import Clock
from kohort.node.rate_limited_log import RateLimitedLog
from kohort.wire.codec import Buffer

log = logging.getLogger("kohort.gateway")

Run = Callable[[Coroutine[Any, Any, None]], None]


class NothingRead:
    """Reads no request, so that every answer passes unread."""

    def reads(self, _head: RequestHead) -> bool:
        return False

    def request(self, _exchange: Exchange, _now_ms: int) -> bool:
        raise AssertionError

    def answered(self, _exchange: Exchange, _frame: bytes, _now_ms: int) -> Buffer | None:
        raise AssertionError

    def followed(self, _waiting: Exchange, _behind: Exchange | None, _now_ms: int) -> bool:
        raise AssertionError

    def passed(self, _head: RequestHead, _now_ms: int) -> None:
        pass

    def closed(self, _unanswered: tuple[Exchange, ...], _now_ms: int, *, is_by_client: bool) -> None:
        del is_by_client

    def oversized(self, _head: RequestHead) -> None:
        pass

    def answer_oversized(self, _exchange: Exchange, _now_ms: int) -> None:
        raise AssertionError


class Shared:
    """What the connections of one port share."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.counters = TrafficCounters()
        self.splices = SocketSplices()
        self.listener_tls: ssl.SSLContext | None = None
        self.broker_tls: ssl.SSLContext | None = None
        self.warnings = RateLimitedLog(log)
        self.trusted_proxies: Networks = ()
        self.own_connections: set[Any] = set()
        self.warnings = RateLimitedLog()
        self.trusted_proxies: Networks = ()
        self.own_connections: set[Any] = set()

    def new_relay(self, _client: str, to_client: Sink, to_broker: Sink, _end: Callable[[str], None], /) -> Relay:
        return Relay(NothingRead(), to_client, to_broker)

    def upstream_of(self, port: NodePort, _transport: asyncio.BaseTransport, /) -> Upstream:
        return port.upstream

    def alternatives(self, _port: NodePort, _transport: asyncio.BaseTransport, /) -> tuple[Upstream, ...]:
        return ()

    def admits(self) -> bool:
        return True

    def check_alive(self, _now_s: float, /) -> bool:
        return False

    def passed(self) -> None:
        pass


def answer(number: int, size: int) -> bytes:
    """Return the answer of one request, whose bytes no other one has."""
    return pack(">ii", size + 4, number) + random.Random(number).randbytes(size)


def request(number: int) -> bytes:
    """Return a request."""
    return pack(">ihhih", 10, 1, 12, number, 0)
