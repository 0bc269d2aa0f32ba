"""A gateway as a running service: its ports, the groups seen through them, and the cluster that it follows.

Everything runs on one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from kohort.client import Admin, Cluster, Producer
from kohort.gateway.gateway import Gateway, GatewayLimits
from kohort.gateway.gateway_settings import GatewaySettings
from kohort.gateway.server.cluster_follower import ClusterFollower
from kohort.gateway.server.cluster_topics import ClusterTopics
from kohort.gateway.server.delayed_leaves import DelayedLeaves
from kohort.gateway.server.event_stores import ClusterEvents, EventFile, NoStore, RebalanceCounts
from kohort.gateway.server.gateway_metrics import gateway_metrics
from kohort.gateway.server.gateway_ports import GatewayPorts, ListenFailed, listen_failure
from kohort.gateway.server.group_assignors import GroupAssignors
from kohort.gateway.server.group_lookup import GroupLookup
from kohort.gateway.server.instance_links import InstanceIdentity, InstanceLinks
from kohort.gateway.server.load_assignors import LoadWatch, by_load_assignors
from kohort.gateway.server.order_follower import OrderFollower
from kohort.gateway.server.settings_reload import SettingsReload, SettingsSource, changeable
from kohort.group.coordinator_settings import GroupSettings, TopicImage
from kohort.group.events import Event
from kohort.group.shard import Shard
from kohort.log.disk import StorageError
from kohort.model.errors import KafkaError
from kohort.model.exposition import MetricFamily
from kohort.model.setting import SettingsError
from kohort.net.metrics_endpoint import MetricsEndpoint
from kohort.net.server import Clock
from kohort.node.configuration.config import Config
from kohort.node.groups.event_topic import EventStore, EventWriter
from kohort.node.groups.settings_from_config import group_settings as from_config
from kohort.parking.limits import WITHHELD_SYNC_MS

log = logging.getLogger("kohort.gateway")

LAG_SECONDS = 1.0
"""How often the lateness of the event loop is measured."""

EVENTS_SECONDS = 2.0
"""How long the end waits for events that are not written yet."""

START_TIMEOUT_MS = 10_000


class GatewayServer:
    """One gateway, from `start` to `stop`. Raises SettingsError for unusable assignors and certificates.

    With the `source` of its settings it takes others while it runs.
    """

    def __init__(self, settings: GatewaySettings, source: SettingsSource | None = None) -> None:
        self.clock = Clock()
        now_ms, servers, security = self.clock.now_ms, settings.bootstrap_servers, settings.security
        self._admin = Admin(servers, start_timeout_ms=START_TIMEOUT_MS, **security)
        self._cluster = Cluster(servers, start_timeout_ms=START_TIMEOUT_MS, **security)
        self._lookup = GroupLookup(self._cluster, now_ms)
        self._leaves = DelayedLeaves(self._cluster, now_ms, self._changed)
        by_load = by_load_assignors(self._admin, now_ms)
        self._assignors = GroupAssignors(settings.assignors, self._cluster, now_ms, self._changed, by_load)
        self.loads = LoadWatch(by_load, self._assignors.assignor_of, now_ms, self._changed)
        self._topics = ClusterTopics(self._admin)
        self.gateway = Gateway(
            group_settings(self._topics, may_park=settings.policies.parks or source is not None),
            self._note,
            self._lookup.look_up,
            policies=settings.policies,
            runner=self._assignors,
            instance_id="" if settings.instances_secret_file is None else secrets.token_hex(8),
            limits=_limits(settings),
            may_park=source is not None,
            leave=self._leaves.leave,
        )
        self.ports = GatewayPorts(settings, self.gateway, self.clock)
        self.follower = ClusterFollower(settings, self._admin, self.ports)
        self.links: InstanceLinks | None = None
        """The links with the other instances, once the cluster is known."""
        self._orders = OrderFollower(self._admin, self.gateway.edge, servers, security, now_ms, self._changed)
        self._cluster_events: ClusterEvents | None = None
        self.rebalances = RebalanceCounts(self._store(settings))
        self._writer = EventWriter(self.gateway.timers, self.rebalances)
        self.metrics = MetricsEndpoint(self._metrics, self._unready)
        self.is_draining = False
        self.reload = None if source is None else SettingsReload(source, self._change, self._note_reload)
        """What follows the file of the settings, if there is one."""
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def settings(self) -> GatewaySettings:
        """The settings in force."""
        return self.follower.settings

    def _store(self, settings: GatewaySettings) -> EventStore:
        match settings.events:
            case "none":
                return NoStore(self._topics.name_of)
            case "topic":
                producer = Producer(settings.bootstrap_servers, **settings.security)
                self._cluster_events = ClusterEvents(producer, self._topics.name_of)
                return self._cluster_events
            case path:
                return EventFile(Path(path), self._topics.name_of)

    def _note(self, shard: Shard, event: Event, now_ms: int) -> None:
        self._writer.note(shard, event, now_ms)
        self._orders.noted(event)

    def _changed(self) -> None:
        """Timers of the groups may have changed."""
        self.ports.passed()

    def _change(self, wanted: GatewaySettings) -> tuple[list[str], list[str]]:
        """Use other settings from now on; return what has changed, and what needs a restart. Raises SettingsError."""
        settings, changed, restarted = changeable(self.settings, wanted)
        before = self.settings.assignors
        self._assignors.change(settings.assignors)
        try:
            self.ports.change(settings)
        except SettingsError:
            self._assignors.change(before)
            raise
        self.gateway.change(settings.policies, _limits(settings))
        if self.links is not None:
            self.links.call_only(settings.instances)
        self.follower.change(settings)
        return changed, restarted

    def _note_reload(self, fields: Mapping[str, Any]) -> None:
        try:
            self.rebalances.note(fields, self.clock.now_ms())
        except (StorageError, KafkaError) as error:
            log.warning("the event %s was not written: %s", fields["event"], error)

    # From start to end

    async def start(self) -> None:
        """Look at the cluster and listen. Raises TopologyError, ListenFailed, KafkaError."""
        try:
            await self._admin.start()
            await self._cluster.start()
            await self._topics.refresh()
            if self._cluster_events is not None:
                await self._cluster_events.start(self._admin)
            if self.settings.metrics is not None:
                await self._listen_for_metrics(*self.settings.metrics)
            if self.settings.instances_secret_file is not None:
                await self._link(self.settings.read_secret())
            await self.follower.start()
        except BaseException:
            await self.stop()
            raise
        loop = asyncio.get_running_loop()
        work = [
            self.follower.run(self._topics.look_again),
            self._measure_lag(),
            self._lookup.run(self.gateway.groups),
            self._leaves.run(self.gateway.groups),
            self._topics.run(),
            self._orders.run(),
            self.loads.run(self.gateway),
        ]
        if self._cluster_events is not None:
            work.append(self._cluster_events.run())
        if self.reload is not None:
            work.append(self.reload.run())
        self._tasks = [loop.create_task(each) for each in work]

    async def _listen_for_metrics(self, host: str, port: int) -> None:
        try:
            await self.metrics.listen(host, port)
        except OSError as error:
            raise ListenFailed(listen_failure(error, host, port, "metrics")) from error

    async def _link(self, secret: bytes) -> None:
        """Exchange with the other instances what is seen."""
        instances, cluster = self.gateway.instances, await self._admin.describe_cluster()
        identity = InstanceIdentity(instances.instance_id, cluster.cluster_id or "")
        links = self.links = InstanceLinks(identity, secret, instances, self.clock.now_ms, self._changed)
        if self.settings.instances_listen is not None:
            host, port = self.settings.instances_listen
            try:
                await links.listen(host, port)
            except OSError as error:
                raise ListenFailed(listen_failure(error, host, port, "other instances")) from error
        links.call_only(self.settings.instances)

    def _unready(self) -> str:
        if self.is_draining:
            return "draining"
        return "" if self.ports.counters.is_reachable else "no broker can be reached"

    def _metrics(self) -> Iterator[MetricFamily]:
        counters = None if self.reload is None else self.reload.counters
        now_ms = self.clock.now_ms()
        return gateway_metrics(self.gateway, self.ports.counters, self.rebalances, now_ms, self.links, counters)

    async def drain(self) -> None:
        """Let what waits pass, and close every connection as soon as it is idle; return when none is left.

        After the drain time the others are closed too.
        """
        self.is_draining = True
        drain_s, counters = self.settings.drain_ms / 1000, self.ports.counters
        log.info("the gateway ends: %d connections have %g s to become idle", counters.connections, drain_s)
        self.gateway.policies.stop_parking()
        await self.ports.drain()
        deadline_s = asyncio.get_running_loop().time() + drain_s
        while (open_now := counters.connections) and asyncio.get_running_loop().time() < deadline_s:
            await asyncio.sleep(0.02)
        if open_now:
            log.info("%d connections are closed although requests await their answers", open_now)
        await self.stop()

    async def stop(self) -> None:
        """Close every port and connection."""
        if self.links is not None:
            await self.links.stop()
        await self.ports.close()
        self._writer.flush(self.clock.now_ms(), is_last=True)
        if self._cluster_events is not None:
            await self._cluster_events.stop(EVENTS_SECONDS, is_running=bool(self._tasks))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._assignors.stop()
        self.metrics.close()
        await self._cluster.close()
        await self._admin.stop()

    async def _measure_lag(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + LAG_SECONDS
            await asyncio.sleep(LAG_SECONDS)
            self.ports.counters.lag.observe(max(0.0, loop.time() - due_s))
            self.ports.check_alive(perf_counter())


def _limits(settings: GatewaySettings) -> GatewayLimits:
    return GatewayLimits(settings.fallback_ms, settings.assignor_ms, settings.max_request_bytes)


def group_settings(topics: TopicImage, *, may_park: bool) -> GroupSettings:
    """Return the settings by which the next step of a group is predicted."""
    hold_ms = WITHHELD_SYNC_MS if may_park else 0
    return from_config(Config({"kohort.group.sync.hold.ms": str(hold_ms)}), topics)
