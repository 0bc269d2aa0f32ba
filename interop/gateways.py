"""The gateways that a test may be given, by name: their mode, and the Apache Kafka behind them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from interop.kafka_cluster import ApacheCluster
from interop.kohort_gateway import KohortGateway
from interop.ports import free_port

GATEWAY_LISTENER = "GATEWAY"
"""The listener by which brokers advertise a gateway in mode `listener`."""
PARKED = ("--park", "*")


class GatewayKind(NamedTuple):
    """How clients come to a gateway, and what is behind it."""

    mode: str
    kafka: str

    def __str__(self) -> str:
        return f"{self.mode}, {self.kafka}"


GATEWAYS: Mapping[str, GatewayKind] = {
    "listener_of_three": GatewayKind("listener", "4.3.1"),
    "rewrite_of_three": GatewayKind("rewrite", "4.3.1"),
    "coordinators_of_newest": GatewayKind("coordinators", "4.4.0"),
    "rewrite_of_newest": GatewayKind("rewrite", "4.4.0"),
    "rewrite_of_older": GatewayKind("rewrite", "3.9.1"),
}
"""In front of 4.3.1 with three nodes, of 4.4.0 with one that holds data and one that coordinates, of 3.9.1 alone."""


def three_nodes(settings: Mapping[str, str]) -> ApacheCluster:
    """Return a cluster of three nodes, which have a listener more for a gateway."""
    gateway = {node: {GATEWAY_LISTENER: f"127.0.0.1:{free_port()}"} for node in (1, 2, 3)}
    listeners = ("PLAINTEXT", f"{GATEWAY_LISTENER}:PLAINTEXT")
    return ApacheCluster(3, settings, listeners=listeners, advertised=gateway)


def gateway_of_three(cluster: ApacheCluster, mode: str) -> KohortGateway:
    """Return a gateway in front of such a cluster that has started."""
    if mode == "rewrite":
        return KohortGateway(cluster.bootstrap, *PARKED, nodes=tuple(cluster.nodes))
    start = cluster.nodes[1].advertised[GATEWAY_LISTENER]
    return KohortGateway(cluster.bootstrap, *PARKED, mode=mode, bootstrap=start)


WAYS = ("direct", "observe", "listener", "coordinators", "rewrite")
"""The ways to one cluster: `observe` is mode `listener` for a group that is only observed; the modes park."""


class Way(NamedTuple):
    """Where clients begin, and the gateway that they come through with the file of its events, if they do."""

    name: str
    bootstrap: str
    gateway: KohortGateway | None = None
    events: Path | None = None
