"""The gateways that a test may be given, by name: their mode, and the Apache Kafka behind them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

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
