"""Counters of one gateway's sockets: connections, bytes, and how long the gateway takes to pass bytes on."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kohort.model.exposition import Histogram


@dataclass(slots=True)
class NodeTraffic:
    """What has passed between clients and one node."""

    connections: int = 0
    """Connections that are open now."""
    opened: int = 0
    refused: int = 0
    """Connections that were closed at once, since there were too many."""
    failed: int = 0
    """Connections that ended since the node could not be reached."""
    without_header: int = 0
    """Connections of load balancers that were closed, since no valid PROXY header came."""
    is_away: bool = False
    """Whether the last of them did, as far as was logged."""
    bytes_from_clients: int = 0
    bytes_from_broker: int = 0


class TrafficCounters:
    """The traffic of all nodes, by node id, and the time that passing took."""

    def __init__(self) -> None:
        self.nodes: dict[int, NodeTraffic] = {}
        self.passing = Histogram()
        """From the arrival of bytes to their hand-over to the other side's socket."""
        self.lag = Histogram()
        """How late the event loop ran what was due."""
        self.alive_s = math.inf
        """When the loop last ran what was due or bytes passed, by `perf_counter`; in the future before both."""
        self.is_cluster_away = False
        """Whether the last look at the cluster failed."""
        self.in_header = 0
        """Connections whose PROXY header has not come whole."""

    def node(self, node_id: int) -> NodeTraffic:
        """Return the counters of a node."""
        return self.nodes.setdefault(node_id, NodeTraffic())

    def looked(self, *, is_seen: bool) -> None:
        """The gateway has looked at the cluster: nodes that are still away are to be logged again."""
        self.is_cluster_away = not is_seen
        if is_seen:
            for node in self.nodes.values():
                node.is_away = False

    @property
    def is_reachable(self) -> bool:
        """Whether a broker can be reached, by the last look at the cluster and the clients' connections since."""
        is_away = bool(self.nodes) and all(node.is_away for node in self.nodes.values())
        return not (self.is_cluster_away or is_away)

    @property
    def connections(self) -> int:
        """How many connections of clients are open."""
        return self.in_header + sum(node.connections for node in self.nodes.values())
