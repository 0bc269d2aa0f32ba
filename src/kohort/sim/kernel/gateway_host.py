"""A gateway of a world: `kohort.gateway` on a host, between the clients and the brokers of the simulated network.

It listens for each broker at an address of its own, and opens a connection to that broker for each client's. A process
that is killed loses its state; the clients connect again, perhaps to another gateway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kohort.gateway.assigning.assignments import AssignorRunner
from kohort.gateway.gateway import Gateway
from kohort.gateway.policies.policies import Policy, PolicyTable, Treatment
from kohort.gateway.relay.relay import Relay
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.events import Event
from kohort.group.shard import Shard
from kohort.sim.kernel.host import Alarm, Host
from kohort.sim.kernel.instance_links import InstanceLinks
from kohort.sim.kernel.network import Address, End, Network
from kohort.sim.kernel.world_observer import Observer
from kohort.wire.codec import Buffer
from kohort.wire.primitives import MalformedMessage

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
            InstanceLinks(self.host, self._network, self.gateway, self._watch).start(self._names)
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
