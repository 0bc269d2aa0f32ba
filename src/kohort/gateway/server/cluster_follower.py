"""Follows the cluster behind a gateway, and opens and closes its ports.

The first look at the cluster must succeed; later ones that fail change nothing. A port whose node has vanished stays
for a while, since a broker that restarts vanishes too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from kohort.client import Admin
from kohort.gateway.gateway_settings import GatewaySettings
from kohort.gateway.server.cluster_topology import Topology, TopologyError, look, unresolvable
from kohort.gateway.server.gateway_ports import GatewayPorts, ListenFailed
from kohort.gateway.server.rewritten_cluster import look_at_nodes
from kohort.model.errors import KafkaError

log = logging.getLogger("kohort.gateway")

NODE_FORGOTTEN_MS = 600_000
"""How long a port is served whose node is no longer seen."""


class ClusterFollower:
    """What the cluster has shown last. `run` is its task."""

    def __init__(self, settings: GatewaySettings, admin: Admin, ports: GatewayPorts) -> None:
        self.topology = Topology({})
        self._changed = asyncio.Event()
        """Set when the settings have changed."""
        self.settings = settings
        self._admin = admin
        self._ports = ports
        self._vanished_ms: dict[int, int] = {}
        """By port, when its node was first missed."""
        self._remarks: tuple[str, ...] = ()
        """What was logged about the cluster as it is."""
        self._failure = ""
        """Why the cluster could not be followed the last time, or empty."""

    async def start(self) -> None:
        """Look at the cluster for the first time. Raises TopologyError, ListenFailed, KafkaError."""
        await self._apply(await self._look(), is_first=True)

    def change(self, settings: GatewaySettings) -> None:
        """Look at the cluster again by other settings, soon."""
        self.settings = settings
        self._changed.set()

    async def _look(self) -> Topology:
        settings, rewritten = self.settings, self._ports.rewritten
        if rewritten is not None:
            return await look_at_nodes(self._admin, rewritten)
        return await look(self._admin, settings.mode, settings.bootstrap_servers, settings.advertised)

    async def run(self, before_each: Callable[[], None]) -> None:
        """Look at the cluster again and again, each time after `before_each`, until it is cancelled."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), self.settings.refresh_ms / 1000)
            self._changed.clear()
            before_each()
            try:
                await self._apply(await self._look())
                self._ports.counters.looked(is_seen=True)
                self._failure = ""
            except (KafkaError, TopologyError, ListenFailed, OSError) as error:
                is_seen = isinstance(error, TopologyError | ListenFailed)
                self._ports.counters.looked(is_seen=is_seen)
                if str(error) != self._failure:
                    self._failure = str(error)
                    log.warning("the ports stay as they are: %s", error)

    async def _apply(self, topology: Topology, *, is_first: bool = False) -> None:
        wanted = dict(topology.upstreams)
        now_ms = self._ports.clock.now_ms()
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
            await self._ports.open.pop(port).close("its node is gone from the cluster")
        for port, upstream in sorted(wanted.items()):
            self._ports.listen(port, upstream)
        for change in found.changes_since(self.topology):
            log.info("%s", change)
        self.topology = found

    def _log_remarks(self, remarks: tuple[str, ...]) -> None:
        """Log the remarks that are new."""
        for remark in remarks:
            if remark not in self._remarks:
                log.warning("%s", remark)
        self._remarks = remarks
