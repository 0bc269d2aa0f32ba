"""A gateway as a running service: its ports, the groups seen through them, and the cluster that it follows.

Everything runs on one event loop. The first look at the cluster must succeed; later ones that fail change nothing. A
port whose node has vanished stays for a while, since a broker that restarts vanishes too.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import secrets
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kohort.broker.descriptors import budget
from kohort.client import Admin, Cluster, Producer
from kohort.gateway.gateway import Gateway, GatewayLimits
from kohort.gateway.gateway_settings import BrokerTls, GatewaySettings, Mode
from kohort.gateway.relay.relay import Sink
from kohort.gateway.rewriting.rewriting_relay import RewritingRelay
from kohort.gateway.server.cluster_topics import ClusterTopics
from kohort.gateway.server.cluster_topology import Topology, TopologyError, look, unresolvable
from kohort.gateway.server.event_stores import ClusterEvents, EventFile
from kohort.gateway.server.gateway_metrics import exposition
from kohort.gateway.server.group_assignors import GroupAssignors
from kohort.gateway.server.group_lookup import GroupLookup
from kohort.gateway.server.instance_links import Identity, InstanceLinks
from kohort.gateway.server.load_assignors import LoadWatch, by_load_assignors
from kohort.gateway.server.metrics_endpoint import MetricsEndpoint
from kohort.gateway.server.node_port import NodePort, Pipe, Upstream
from kohort.gateway.server.order_follower import OrderFollower
from kohort.gateway.server.rebalance_counts import NoStore, RebalanceCounts
from kohort.gateway.server.rewritten_cluster import NamesOfNodes, PortsOfNodes, look_at_nodes
from kohort.gateway.server.socket_splice import SocketSplices
from kohort.gateway.server.tls_contexts import broker_context, listener_context
from kohort.gateway.server.traffic_counters import TrafficCounters
from kohort.group.coordinator_settings import GroupSettings, TopicImage
from kohort.group.events import Event, RoundOpened
from kohort.group.shard import Shard
from kohort.model.errors import KafkaError
from kohort.net.renewed_context import RenewedContext
from kohort.net.server import Clock
from kohort.node.configuration.config import Config
from kohort.node.groups.event_topic import EventStore, EventWriter
from kohort.node.groups.settings_from_config import group_settings as from_config
from kohort.parking.limits import WITHHELD_SYNC_MS

log = logging.getLogger("kohort.gateway")

NODE_FORGOTTEN_MS = 600_000
"""How long a port is served whose node is no longer seen."""

LAG_SECONDS = 1.0
"""How often the lateness of the event loop is measured."""

EVENTS_SECONDS = 2.0
"""How long the end waits for events that are not written yet."""

START_TIMEOUT_MS = 10_000


class ListenFailed(Exception):
    """A port of the gateway cannot be listened on; the text says which and why."""


class GatewayServer:
    """One gateway, from `start` to `stop` (`Connections` of its ports). Raises SettingsError for unusable assignors."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self.clock = Clock()
        self.counters = TrafficCounters()
        self.splices = SocketSplices()
        self._admin = Admin(settings.bootstrap_servers, start_timeout_ms=START_TIMEOUT_MS, **settings.security)
        self._cluster = Cluster(settings.bootstrap_servers, start_timeout_ms=START_TIMEOUT_MS, **settings.security)
        self._lookup = GroupLookup(self._cluster, self.clock.now_ms)
        by_load = by_load_assignors(self._admin, self.clock.now_ms)
        self._assignors = GroupAssignors(settings.assignors, self._cluster, self.clock.now_ms, self.passed, by_load)
        self.loads = LoadWatch(by_load, self._assignors.assignor_of, self.clock.now_ms, self.passed)
        self._topics = ClusterTopics(self._admin)
        self.gateway = Gateway(
            group_settings(settings, self._topics),
            self._note,
            self._lookup.look_up,
            policies=settings.policies,
            runner=self._assignors,
            instance_id="" if settings.instances_secret_file is None else secrets.token_hex(8),
            limits=GatewayLimits(settings.fallback_ms, settings.assignor_ms, settings.max_request_bytes),
        )
        self._secret = b"" if settings.instances_secret_file is None else settings.read_secret()
        self.links: InstanceLinks | None = None
        """The links with the other instances, once the cluster is known."""
        self.instances_port: int | None = None
        self._orders = OrderFollower(
            self._admin,
            self.gateway.edge,
            settings.bootstrap_servers,
            settings.security,
            self.clock.now_ms,
            self.passed,
        )
        self._cluster_events: ClusterEvents | None = None
        self._producer: Producer | None = None
        self.rebalances = RebalanceCounts(self._store())
        self._writer = EventWriter(self.gateway.timers, self.rebalances)
        self._endpoint = MetricsEndpoint(self._metrics, self._unready)
        self.metrics_port: int | None = None
        self.is_draining = False
        self.topology = Topology({})
        self.ports: dict[int, NodePort] = {}
        """By the port that the gateway listens on."""
        self.own_connections: set[Any] = set()
        self._renewed: list[RenewedContext] = []
        self.listener_tls: ssl.SSLContext | None = None
        if settings.listener_tls is not None:
            self.listener_tls = self._renewing(listener_context(settings.listener_tls))
        self.broker_tls = settings.security.get("tls")
        if self.broker_tls is None or settings.broker_tls is not None:
            self.broker_tls = self._renewing(broker_context(settings.broker_tls or BrokerTls()))
        self.rewritten = self._rewritten_nodes()
        """The nodes in mode `rewrite`."""
        self._serving: set[asyncio.Task[None]] = set()
        self._vanished_ms: dict[int, int] = {}
        """By port, when its node was first missed."""
        self._remarks: tuple[str, ...] = ()
        """What was logged about the cluster as it is."""
        self._failure = ""
        """Why the cluster could not be followed the last time, or empty."""
        self._tasks: list[asyncio.Task[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._most = settings.max_connections or most_connections()
        self._refusing = False

    def _store(self) -> EventStore:
        match self.settings.events:
            case "none":
                return NoStore(self._topics.name_of)
            case "topic":
                self._producer = Producer(self.settings.bootstrap_servers, **self.settings.security)
                self._cluster_events = ClusterEvents(self._producer, self._topics.name_of)
                return self._cluster_events
            case path:
                return EventFile(Path(path), self._topics.name_of)

    def _note(self, shard: Shard, event: Event, now_ms: int) -> None:
        self._writer.note(shard, event, now_ms)
        if isinstance(event, RoundOpened):
            self._orders.round_began(event.group_id)

    def _renewing(self, renewed: RenewedContext) -> ssl.SSLContext:
        self._renewed.append(renewed)
        return renewed.context

    # From start to end

    async def start(self) -> None:
        """Look at the cluster and listen. Raises TopologyError, ListenFailed, KafkaError."""
        try:
            await self._admin.start()
            await self._cluster.start()
            await self._topics.refresh()
            if self._cluster_events is not None:
                assert self._producer is not None, "the topic has a producer"
                await self._producer.start()
                await self._cluster_events.create(self._admin)
            if self.settings.metrics is not None:
                await self._listen_for_metrics(*self.settings.metrics)
            await self._link()
            await self._apply(await self._look(), is_first=True)
        except BaseException:
            await self.stop()
            raise
        loop = asyncio.get_running_loop()
        work = [
            self._follow(),
            self._measure_lag(),
            self._lookup.run(self.gateway.groups),
            self._topics.run(),
            self._orders.run(),
        ]
        work.append(self.loads.run(self.gateway))
        if self._cluster_events is not None:
            work.append(self._cluster_events.run())
        self._tasks = [loop.create_task(each) for each in work]

    async def _listen_for_metrics(self, host: str, port: int) -> None:
        try:
            self.metrics_port = await self._endpoint.listen(host, port)
        except OSError as error:
            raise ListenFailed(_listen_failure(error, host, port, "metrics")) from error

    async def _link(self) -> None:
        """Exchange with the other instances what is seen, if there are others."""
        if not self._secret:
            return
        cluster_id = (await self._admin.describe_cluster()).cluster_id or ""
        identity = Identity(self.gateway.instances.instance_id, cluster_id)
        links = self.links = InstanceLinks(
            identity, self._secret, self.gateway.instances, self.clock.now_ms, self.passed
        )
        if self.settings.instances_listen is not None:
            host, port = self.settings.instances_listen
            try:
                self.instances_port = await links.listen(host, port)
            except OSError as error:
                raise ListenFailed(_listen_failure(error, host, port, "other instances")) from error
        for address in self.settings.instances:
            links.call(address)

    def _unready(self) -> str:
        if self.is_draining:
            return "draining"
        return "" if self.counters.is_reachable else "no broker can be reached"

    def _metrics(self) -> str:
        return exposition(self.gateway, self.counters, self.rebalances, self.clock.now_ms(), self.links)

    async def drain(self) -> None:
        """Release what is held and close every connection as soon as it is idle; return when none is left.

        After the drain time the others are closed too.
        """
        self.is_draining = True
        drain_s = self.settings.drain_ms / 1000
        log.info("the gateway ends: %d connections have %g s to become idle", self.counters.connections, drain_s)
        self.gateway.policies.stop_parking()
        for port in self.ports.values():
            await port.drain()
        self.passed()
        deadline_s = asyncio.get_running_loop().time() + drain_s
        while (open_now := self.counters.connections) and asyncio.get_running_loop().time() < deadline_s:
            await asyncio.sleep(0.02)
        if open_now:
            log.info("%d connections are closed although requests await their answers", open_now)
        await self.stop()

    async def stop(self) -> None:
        """Close every port and connection."""
        for port in self.ports.values():
            await port.close("the gateway ends")
        self.splices.close()
        if self.links is not None:
            await self.links.stop()
        if self._timer is not None:
            self._timer.cancel()
        self._writer.flush(self.clock.now_ms(), is_last=True)
        if self._cluster_events is not None and self._tasks:
            await self._cluster_events.stop(EVENTS_SECONDS)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._assignors.stop()
        if self._producer is not None:
            await self._producer.stop()
        await self._endpoint.close()
        await self._cluster.close()
        await self._admin.stop()

    # Connections (`node_port.Connections`)

    def new_relay(self, client_address: str, to_client: Sink, to_broker: Sink, end: Callable[[str], None]) -> Pipe:
        """Return the relay of a new connection."""
        open_relay = partial(self.gateway.open, client_address.rpartition(":")[0])
        if self.rewritten is None:
            return open_relay(to_client, to_broker)
        address_of = self.rewritten.addresses.address_of
        return RewritingRelay(open_relay, address_of, to_client, to_broker, end, self.gateway.budget)

    def upstream_of(self, port: NodePort, transport: asyncio.BaseTransport) -> Upstream:
        """Return the node of a new connection."""
        return port.upstream if self.rewritten is None else self.rewritten.upstream_of(port.port, transport)

    def stand_ins(self, port: NodePort, transport: asyncio.BaseTransport) -> Sequence[Upstream]:
        """Return the nodes that serve a new connection as well as that one."""
        return () if self.rewritten is None else self.rewritten.stand_ins(port.port, transport)

    def admits(self) -> bool:
        """Whether one more connection of a client may be opened."""
        is_full = self.counters.connections > self._most
        if is_full != self._refusing:
            self._refusing = is_full
            if is_full:
                log.warning("%d connections are open: more are refused (max_connections)", self._most)
        return not is_full

    def passed(self) -> None:
        """Watch the earliest timer of the groups."""
        due_ms = self.gateway.next_deadline_ms()
        if due_ms is None or (self._timer is not None and self._timer_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        delay_s = max(0, due_ms - self.clock.now_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.gateway.tick(self.clock.now_ms())
        self.passed()

    def renew_certificates(self) -> None:
        """Read certificates again whose files have changed, for the connections from now on."""
        for renewed in self._renewed:
            renewed.renew()

    # The cluster

    async def _look(self) -> Topology:
        settings = self.settings
        if self.rewritten is not None:
            return await look_at_nodes(self._admin, self.rewritten)
        return await look(self._admin, settings.mode, settings.bootstrap_servers, settings.advertised)

    async def _follow(self) -> None:
        """Look at the cluster again and again."""
        while True:
            await asyncio.sleep(self.settings.refresh_ms / 1000)
            self._topics.look_again()
            self.renew_certificates()
            try:
                await self._apply(await self._look())
                self.counters.looked(is_seen=True)
                self._failure = ""
            except (KafkaError, TopologyError, ListenFailed, OSError) as error:
                is_seen = isinstance(error, TopologyError | ListenFailed)
                self.counters.looked(is_seen=is_seen)
                if str(error) != self._failure:
                    self._failure = str(error)
                    log.warning("the ports stay as they are: %s", error)

    async def _apply(self, topology: Topology, *, is_first: bool = False) -> None:
        wanted = dict(topology.upstreams)
        now_ms = self.clock.now_ms()
        for port, upstream in self.topology.upstreams.items():
            if port in wanted:
                self._vanished_ms.pop(port, None)
            elif now_ms - self._vanished_ms.setdefault(port, now_ms) < NODE_FORGOTTEN_MS:
                wanted[port] = upstream
        found = Topology(wanted, topology.remarks)
        unknown = await unresolvable(found)
        if is_first and unknown and len(unknown) == len(wanted):
            raise TopologyError("; ".join(unknown))
        self._log_remarks((*topology.remarks, *unknown))
        for port in self.topology.upstreams.keys() - wanted.keys():
            self._vanished_ms.pop(port, None)
            await self.ports.pop(port).close("its node is gone from the cluster")
        for port, upstream in sorted(wanted.items()):
            try:
                self._serve(port, upstream)
            except OSError as error:
                raise ListenFailed(_listen_failure(error, self.settings.listen_host, port, str(upstream))) from error
        for change in found.changes_since(self.topology):
            log.info("%s", change)
        self.topology = found

    def _serve(self, port: int, upstream: Upstream) -> None:
        """Listen on a port for a node, or lead it to another one. Raises OSError."""
        if port in self.ports:
            self.ports[port].upstream = upstream
            return
        node_port = NodePort(upstream, self)
        node_port.bind(self.settings.listen_host, port, is_shared=self.settings.share_ports)
        self.ports[port] = node_port
        task = asyncio.get_running_loop().create_task(node_port.serve())
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    def _rewritten_nodes(self) -> PortsOfNodes | NamesOfNodes | None:
        settings = self.settings
        if settings.mode is not Mode.REWRITE:
            return None
        is_tls = settings.broker_tls is not None or settings.security.get("tls") is not None
        if settings.node_names is None:
            return PortsOfNodes(settings.bootstrap_address, self._serve, settings.node_ports, is_tls=is_tls)
        assert self.listener_tls is not None, "the settings demand TLS for names of nodes"
        return NamesOfNodes(settings.bootstrap_address, settings.node_names, self.listener_tls, is_tls=is_tls)

    def _log_remarks(self, remarks: tuple[str, ...]) -> None:
        """Log the remarks that are new."""
        for remark in remarks:
            if remark not in self._remarks:
                log.warning("%s", remark)
        self._remarks = remarks

    async def _measure_lag(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + LAG_SECONDS
            await asyncio.sleep(LAG_SECONDS)
            self.counters.lag.observe(max(0.0, loop.time() - due_s))


def most_connections() -> int:
    """Return how many connections of clients this process has descriptors for: two for each, none for log files."""
    free = budget()
    return (free.connections + free.files) // 2


def group_settings(settings: GatewaySettings, topics: TopicImage) -> GroupSettings:
    """Return the settings by which the next step of a group is predicted."""
    hold_ms = WITHHELD_SYNC_MS if settings.policies.parks else 0
    return from_config(Config({"kohort.group.sync.hold.ms": str(hold_ms)}), topics)


def _listen_failure(error: OSError, host: str, port: int, purpose: str) -> str:
    where = f"port {port}{f' of {host}' if host else ''}, for {purpose},"
    if error.errno == errno.EADDRINUSE:
        return f"{where} is in use by another process of this machine: is it a broker's own port?"
    if error.errno == errno.EACCES:
        return f"{where} may not be listened on by this user"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{where} cannot be listened on: {host} is not an address of this machine"
    why = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
    return f"{where} cannot be listened on: {why}"
