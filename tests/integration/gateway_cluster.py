"""A broker with a second listener that advertises a gateway, as an operator of Apache Kafka sets one up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from interop.ports import free_port

from kohort.broker.embedded import EmbeddedBroker


@dataclass(frozen=True, slots=True)
class GatewayCluster:
    """A cluster of one broker that lets no heartbeat wait, and the port that it advertises for the gateway."""

    broker: EmbeddedBroker
    gateway_port: int

    @property
    def bootstrap_servers(self) -> str:
        """Where the broker is reached directly."""
        return self.broker.bootstrap_servers

    @property
    def advertised(self) -> str:
        """The gateway's address, as clients know it."""
        return f"127.0.0.1:{self.gateway_port}"

    def advertise(self, port: int) -> None:
        """Let a second listener advertise a port of the gateway."""
        own = f"PLAINTEXT://{self.bootstrap_servers}"
        self.broker.broker.config.note_static(
            listeners=f"{own},GW://{self.bootstrap_servers}", advertised_listeners=f"{own},GW://127.0.0.1:{port}"
        )

    def advertise_gateway(self) -> None:
        """Let Metadata and FindCoordinator show the gateway's address, as they do on the gateway's listener."""
        node = self.broker.broker.node
        assert node is not None, "the broker runs"
        node.context.listener.advertised = ("127.0.0.1", self.gateway_port)


@contextmanager
def gateway_cluster(**settings: int) -> Iterator[GatewayCluster]:
    """Run a broker, with these settings besides, until the block ends."""
    given = {"kohort_group_heartbeat_park": False, "kohort_group_sync_hold_ms": 0}
    given |= {"kohort_group_consumer_heartbeat_park_ms": 0, "group_initial_rebalance_delay_ms": 0}
    with EmbeddedBroker(**given, **settings) as broker:
        cluster = GatewayCluster(broker, free_port())
        cluster.advertise(cluster.gateway_port)
        yield cluster
