"""Mode `rewrite`: the ports of a gateway in front of a cluster whose settings stay as they are.

The cluster's Metadata show the nodes, to the gateway at its start and again and again, and in every answer that passes:
a node that is new has its address before the client learns of it. All clients begin at one port, which leads to the
nodes in turn.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from kohort.gateway.rewriting.broker_addresses import NoAddress
from kohort.gateway.rewriting.node_addresses import NamePerNode, NodeAddresses, PortPerNode
from kohort.gateway.server.cluster_topology import Topology, TopologyError
from kohort.gateway.server.node_port import Upstream
from kohort.model.printable import printable

if TYPE_CHECKING:
    from kohort.client import Admin

log = logging.getLogger("kohort.gateway")

Serve = Callable[[int, Upstream], None]
"""Listens on a port for a node at once, or leads the port there if it is listened on already. Raises OSError."""


class NodesInTurn:
    """The nodes that connections without a node of their own are led to, one after another."""

    def __init__(self) -> None:
        self._nodes: dict[int, Upstream] = {}
        self._absent: frozenset[int] = frozenset()
        self._last = -1

    def learn(self, upstream: Upstream) -> None:
        """Take a node, or its new address."""
        self._nodes[upstream.node_id] = upstream
        self._absent -= {upstream.node_id}

    def note_present(self, node_ids: Collection[int]) -> None:
        """Pass over the nodes that the cluster no longer shows, unless there are no others."""
        self._absent = frozenset(self._nodes.keys() - node_ids)

    def get(self, node_id: int) -> Upstream | None:
        """Return a node."""
        return self._nodes.get(node_id)

    def first(self) -> Upstream:
        """Return the node with the lowest id."""
        return self._nodes[min(self._nodes)]

    def all(self) -> Sequence[Upstream]:
        """Return all nodes, those first that the cluster shows."""
        return [node for _, node in sorted(self._nodes.items(), key=lambda item: (item[0] in self._absent, item[0]))]

    def next(self) -> Upstream:
        """Return the next node."""
        present = self._nodes.keys() - self._absent or self._nodes.keys()
        behind = [node_id for node_id in present if node_id > self._last]
        self._last = min(behind or present)
        return self._nodes[self._last]


class PortsOfNodes:
    """One port for each node, and one to begin with. `bootstrap` is the latter as clients know it."""

    def __init__(
        self, bootstrap: tuple[str, int], serve: Serve, node_ports: Mapping[int, int], *, is_tls: bool
    ) -> None:
        self._serve = serve
        self._is_tls = is_tls
        self._bootstrap_port = bootstrap[1]
        self.nodes = NodesInTurn()
        self._upstreams: dict[int, Upstream] = {}
        placement = PortPerNode(bootstrap[0], bootstrap[1] + 1, self._listen, node_ports)
        self.addresses = NodeAddresses(bootstrap, placement)

    def _listen(self, own_port: int, node_id: int, host: str, port: int) -> None:
        upstream = Upstream(node_id, host, port, self._is_tls)
        self._serve(own_port, upstream)
        self.nodes.learn(upstream)
        self._upstreams[own_port] = upstream

    def upstreams(self) -> dict[int, Upstream]:
        """Return what every port leads to."""
        return {self._bootstrap_port: self.nodes.first(), **self._upstreams}

    def upstream_of(self, port: int, transport: asyncio.BaseTransport) -> Upstream:
        """Return the node of a new connection to a port of the gateway."""
        del transport
        return self._upstreams.get(port) or self.nodes.next()

    def alternatives(self, port: int, transport: asyncio.BaseTransport) -> Sequence[Upstream]:
        """Return the nodes that serve it as well: all of them where a client only begins."""
        del transport
        return () if port in self._upstreams else self.nodes.all()


class NamesOfNodes:
    """One TLS port for all: the host name that a client sends (SNI) selects the node.

    `bootstrap` is the name to begin with, and the port.
    """

    def __init__(self, bootstrap: tuple[str, int], pattern: str, *, is_tls: bool) -> None:
        self._is_tls = is_tls
        self._bootstrap = bootstrap
        self.nodes = NodesInTurn()
        self._names = NamePerNode(pattern, bootstrap[1], self._learn)
        self._chosen: WeakKeyDictionary[ssl.SSLObject, int] = WeakKeyDictionary()
        """By connection, the node that its client has named."""
        self.addresses = NodeAddresses(bootstrap, self._names)

    def _learn(self, node_id: int, host: str, port: int) -> None:
        self.nodes.learn(Upstream(node_id, host, port, self._is_tls))

    def select(self, connection: ssl.SSLObject, server_name: str | None, context: ssl.SSLContext) -> int | None:
        """Take a client's server name, as `sni_callback` does; return an alert for one that means no node."""
        del context
        if server_name is None or server_name.lower() == self._bootstrap[0].lower():
            return None
        node_id = self._names.node_of(server_name)
        if node_id is None or self.nodes.get(node_id) is None:
            log.warning("a client connects to %s, which is the name of no node seen so far", printable(server_name))
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        self._chosen[connection] = node_id
        return None

    def upstreams(self) -> dict[int, Upstream]:
        """Return what the port leads to."""
        return {self._bootstrap[1]: self.nodes.first()}

    def upstream_of(self, port: int, transport: asyncio.BaseTransport) -> Upstream:
        """Return the node of a new connection."""
        del port
        node_id = self._chosen.get(transport.get_extra_info("ssl_object"))
        named = None if node_id is None else self.nodes.get(node_id)
        return named or self.nodes.next()

    def alternatives(self, port: int, transport: asyncio.BaseTransport) -> Sequence[Upstream]:
        """Return the nodes that serve it as well: all of them where a client only begins."""
        del port
        return () if transport.get_extra_info("ssl_object") in self._chosen else self.nodes.all()


async def look_at_nodes(admin: Admin, nodes: PortsOfNodes | NamesOfNodes) -> Topology:
    """Give each node of the cluster its address, and return the ports. Raises TopologyError, KafkaError."""
    view = await admin.describe_cluster()
    if not view.brokers:
        raise TopologyError("the cluster shows no broker: bootstrap_servers must lead to a cluster that has started")
    for node_id in sorted(view.brokers):
        broker = view.brokers[node_id]
        try:
            nodes.addresses.address_of(node_id, broker.host, broker.port)
        except NoAddress as error:
            raise TopologyError(str(error)) from error
    nodes.nodes.note_present(view.brokers)
    return Topology(nodes.upstreams())
