"""The links between the gateways of a world: connections of the simulated network, over which instances exchange.

Of two gateways the one whose name comes first connects to the other, and again after each failure. A link on which
nothing arrives for some time is closed: a path may lose everything without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from kohort.gateway.gateway import Gateway
from kohort.gateway.peers.instance_messages import MOST_MESSAGE_BYTES
from kohort.sim.kernel.host import Host
from kohort.sim.kernel.network import End, Network
from kohort.wire.frames import FrameSplitter
from kohort.wire.primitives import MalformedMessage

PORT = 9404
RETRY_US = 500_000
IDLE_US = 5_000_000
"""A link on which nothing arrives for so long is closed."""

_LENGTH = Struct(">i")


class _Link:
    """One end of a connection to another gateway, and the instance at the other end once it is known."""

    def __init__(self, end: End, instance_id: str, now_us: int) -> None:
        self.end = end
        self.instance_id = instance_id
        self.splitter = FrameSplitter(MOST_MESSAGE_BYTES)
        self.received_us = now_us

    def send(self, message: bytes) -> None:
        """Send one message."""
        self.end.send(_LENGTH.pack(len(message)) + message)


class InstanceLinks:
    """The links of one process. `changed` is called after each message."""

    def __init__(self, host: Host, network: Network, gateway: Gateway, changed: Callable[[], None]) -> None:
        self._host = host
        self._network = network
        self._gateway = gateway
        self._changed = changed
        self._links: dict[str, _Link] = {}

    def start(self, names: tuple[str, ...]) -> None:
        """Listen, and connect to the gateways of these names that come after this one."""
        self._network.listen((self._host.name, PORT), self._host, self._accept)
        for name in names:
            if name > self._host.name:
                self._connect(name)

    def _connect(self, name: str) -> None:
        self._network.connect(
            self._host, (name, PORT), lambda end: self._connected(end, name), lambda _: self._retry(name)
        )

    def _retry(self, name: str) -> None:
        self._host.after_us(RETRY_US, self._connect, name)

    def _connected(self, end: End, name: str) -> None:
        link = _Link(end, name, self._host.elapsed_us())
        self._attach(link)
        link.send(self._host.name.encode())
        self._up(link)

    def _accept(self, end: End) -> None:
        if end.is_open:
            self._attach(_Link(end, "", self._host.elapsed_us()))

    def _attach(self, link: _Link) -> None:
        link.end.on_bytes = lambda chunk: self._take(link, chunk)
        link.end.on_closed = lambda _: self._down(link)
        self._host.after_us(IDLE_US, self._check, link)

    def _up(self, link: _Link) -> None:
        self._links[link.instance_id] = link
        self._gateway.instances.connected(link.instance_id, link.send, self._host.now_ms())
        self._changed()

    def _take(self, link: _Link, chunk: bytes) -> None:
        link.received_us = self._host.elapsed_us()
        try:
            for frame in link.splitter.feed(chunk):
                if not link.instance_id:
                    link.instance_id = bytes(frame).decode()
                    self._up(link)
                elif self._links.get(link.instance_id) is link:
                    self._gateway.instances.received(link.instance_id, bytes(frame), self._host.now_ms())
        except MalformedMessage as error:
            raise AssertionError(f"{self._host.name} cannot read what {link.instance_id} sent: {error}") from error
        self._changed()

    def _check(self, link: _Link) -> None:
        if not link.end.is_open:
            return
        if self._host.elapsed_us() - link.received_us >= IDLE_US:
            link.end.abort()
            self._down(link)
        else:
            self._host.after_us(IDLE_US // 5, self._check, link)

    def _down(self, link: _Link) -> None:
        name = link.instance_id
        if self._links.get(name) is link:
            del self._links[name]
            self._gateway.instances.disconnected(name, self._host.now_ms())
            self._changed()
        if name > self._host.name:
            self._retry(name)
