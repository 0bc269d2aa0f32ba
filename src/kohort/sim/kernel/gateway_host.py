"""A gateway of a world: `kohort.gateway` on a host, between the clients and the brokers of the simulated network.

It listens for each broker at an address of its own, and opens a connection to that broker for each client's. A process
that is killed loses its state; the clients connect again, perhaps to another gateway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct

from kohort.gateway.assigning.assignments import AssignorRunner
from kohort.gateway.gateway import Gateway
from kohort.gateway.peers.instance_messages import MOST_MESSAGE_BYTES
from kohort.gateway.policies.policies import Policy, PolicyTable, Treatment
from kohort.gateway.relay.relay import Relay
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.events import Event
from kohort.group.shard import Shard
from kohort.sim.kernel.host import Alarm, Host
from kohort.sim.kernel.network import Address, End, Network
from kohort.sim.kernel.world_observer import Observer
from kohort.wire.codec import Buffer
from kohort.wire.frames import FrameSplitter
from kohort.wire.primitives import MalformedMessage

PORT = 9404
RETRY_US = 500_000
IDLE_US = 5_000_000
"""A link on which nothing arrives for so long is closed."""

_LENGTH = Struct(">i")


class _SimulatedLink:
    """One end of a connection to another gateway, and the instance at the other end once it is known."""

    def __init__(self, end: End, instance_id: str, now_us: int) -> None:
        self.end = end
        self.instance_id = instance_id
        self.splitter = FrameSplitter(MOST_MESSAGE_BYTES)
        self.received_us = now_us

    def send(self, message: bytes) -> None:
        self.end.send(_LENGTH.pack(len(message)) + message)


class SimulatedLinks:
    """The links of one process to other gateways. `changed` is called after each message.

    Of two gateways the one whose name comes first connects to the other, and again after each failure. A link on which
    nothing arrives for some time is closed: a path may lose everything without a word.
    """

    def __init__(self, host: Host, network: Network, gateway: Gateway, changed: Callable[[], None]) -> None:
        self._host = host
        self._network = network
        self._gateway = gateway
        self._changed = changed
        self._links: dict[str, _SimulatedLink] = {}

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
        link = _SimulatedLink(end, name, self._host.elapsed_us())
        self._attach(link)
        link.send(self._host.name.encode())
        self._up(link)

    def _accept(self, end: End) -> None:
        if end.is_open:
            self._attach(_SimulatedLink(end, "", self._host.elapsed_us()))

    def _attach(self, link: _SimulatedLink) -> None:
        link.end.on_bytes = lambda chunk: self._take(link, chunk)
        link.end.on_closed = lambda _: self._down(link)
        self._host.after_us(IDLE_US, self._check, link)

    def _up(self, link: _SimulatedLink) -> None:
        self._links[link.instance_id] = link
        self._gateway.instances.connected(link.instance_id, link.send, self._host.now_ms())
        self._changed()

    def _take(self, link: _SimulatedLink, chunk: bytes) -> None:
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

    def _check(self, link: _SimulatedLink) -> None:
        if not link.end.is_open:
            return
        if self._host.elapsed_us() - link.received_us >= IDLE_US:
            link.end.abort()
            self._down(link)
        else:
            self._host.after_us(IDLE_US // 5, self._check, link)

    def _down(self, link: _SimulatedLink) -> None:
        name = link.instance_id
        if self._links.get(name) is link:
            del self._links[name]
            self._gateway.instances.disconnected(name, self._host.now_ms())
            self._changed()
        if name > self._host.name:
            self._retry(name)


_PARKED = PolicyTable((Policy(client_ids="m*", treatment=Treatment.PARK),))
"""Every member is parked, also where its client does not name itself."""

LookUp = Callable[["GatewayHost", str, int | None], None]
"""Takes a gateway, a group that it does not know, and the group's generation, None for a consumer group."""


class GatewayHost:
    """One gateway. `routes` are the brokers' addresses by the address at which the gateway stands for each.

    `runner` assigns in place of leaders. `names` are the gateways of the world, which exchange what they see.
    """

    def __init__(
        self,
        host: Host,
        network: Network,
        routes: Mapping[Address, Address],
        settings: GroupSettings,
        look_up: LookUp,
        observer: Observer,
        runner: AssignorRunner | None = None,
        names: tuple[str, ...] = (),
    ) -> None:
        self.name = host.name
        self.host = host
        self.gateway: Gateway | None = None
        self._network = network
        self._routes = routes
        self._settings = settings
        self._look_up = look_up
        self._observer = observer
        self._runner = runner
        self._names = names
        self._alarm = Alarm(host, self._tick)

    def start(self) -> None:
        """Boot the process and listen."""
        assert self.gateway is None, "a gateway runs once"
        self.host.boot()
        instance_id = self.name if len(self._names) > 1 else ""
        self.gateway = Gateway(
            self._settings,
            _ignore,
            self._looked_up,
            policies=_PARKED,
            runner=self._runner,
            instance_id=instance_id,
        )
        self._alarm.forget()
        for address, broker in self._routes.items():
            self._network.listen(address, self.host, self._acceptor(broker))
        if instance_id:
            SimulatedLinks(self.host, self._network, self.gateway, self._watch).start(self._names)
        self._observer.gateway_started(self)

    def end(self) -> None:
        """Kill the process, if it runs."""
        if self.gateway is not None:
            self.gateway = None
            self._network.close_all(self.host)
            self.host.kill()

    def _looked_up(self, group_id: str, generation: int | None) -> None:
        self._look_up(self, group_id, generation)

    def _acceptor(self, broker: Address) -> Callable[[End], None]:
        return lambda end: self._accept(end, broker)

    def _accept(self, client: End, broker: Address) -> None:
        if self.gateway is None or not client.is_open:
            return
        client.pause_reading()
        self._network.connect(
            self.host, broker, lambda upstream: self._connected(client, upstream), lambda _: client.abort()
        )

    def _connected(self, client: End, upstream: End) -> None:
        gateway, now_ms = self.gateway, self.host.now_ms
        assert gateway is not None, "a process that has ended connects to nothing"
        if not client.is_open:
            upstream.close()
            return

        def to_client(data: Buffer) -> None:
            client.send(bytes(data))

        def to_broker(data: Buffer) -> None:
            upstream.send(bytes(data))

        relay: Relay = gateway.open(client.peer_host, to_client, to_broker)

        def from_client(chunk: bytes) -> None:
            gateway.clock.advance(now_ms())
            try:
                relay.from_client(chunk, now_ms())
            except MalformedMessage:
                client_lost("")
                client.abort()
            self._watch()

        def from_broker(chunk: bytes) -> None:
            gateway.clock.advance(now_ms())
            relay.from_broker(chunk, now_ms())
            self._watch()

        def client_lost(_: str) -> None:
            relay.closed(now_ms(), is_by_client=True)
            upstream.close()
            self._watch()

        def broker_lost(_: str) -> None:
            relay.closed(now_ms(), is_by_client=False)
            client.close()
            self._watch()

        client.on_bytes, client.on_closed = from_client, client_lost
        upstream.on_bytes, upstream.on_closed = from_broker, broker_lost
        client.resume_reading()

    def _watch(self) -> None:
        if self.gateway is not None:
            self._alarm.set(self.gateway.next_deadline_ms())

    def _tick(self) -> None:
        if self.gateway is not None:
            self.gateway.tick(self.host.now_ms())
            self._watch()


def _ignore(_: Shard, __: Event, ___: int) -> None:
    """Drop an event: what a gateway reports is not read in a world."""
