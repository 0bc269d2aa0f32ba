"""The ways of a client to one Apache Kafka cluster: directly, and through `kohort gateway` in each of its modes.

Node 1 holds all data, node 2 only `__consumer_offsets`, and is cordoned (KIP-1066). In mode `coordinators` node 2 alone
advertises a gateway, so data never pass through it; in mode `listener` both nodes do. Groups whose names begin with
`observed` are only observed there, and all others are parked.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from interop.gateways import Way
from interop.kafka_cluster import ApacheCluster
from interop.kohort_gateway import KohortGateway
from interop.ports import free_port
from tests.interop.topics import coordinate_on

DIRECT, FOR_COORDINATORS, FOR_LISTENER = "DIRECT", "COORDINATORS", "GATEWAY"
LISTENER_HOST, COORDINATORS_HOST = "127.0.0.2", "127.0.0.3"
"""By which name brokers advertise each gateway."""

SHORT_SESSIONS = {  # so that a killed member is missed sooner; heartbeats have Kafka's default interval
    "group.consumer.min.session.timeout.ms": "10000",
    "group.consumer.session.timeout.ms": "10000",
}


class GatewayWays:
    """The cluster and its gateways: a context manager. The gateways write their events into files of `folder`."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        at_listener = {node: f"{LISTENER_HOST}:{free_port()}" for node in (1, 2)}
        at_coordinators = f"{COORDINATORS_HOST}:{free_port()}"
        self.cluster = ApacheCluster(
            2,
            {"offsets.topic.replication.factor": "1", **SHORT_SESSIONS, **(settings or {})},
            listeners=[f"{name}:PLAINTEXT" for name in (DIRECT, FOR_COORDINATORS, FOR_LISTENER)],
            advertised={
                1: {FOR_LISTENER: at_listener[1]},
                2: {FOR_LISTENER: at_listener[2], FOR_COORDINATORS: at_coordinators},
            },
        )
        self._at_listener = at_listener
        self._folder = folder
        self._ways: dict[str, Way] = {}
        self._stack = ExitStack()

    def __getitem__(self, name: str) -> Way:
        return self._ways[name]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.cluster)
            data = self.cluster.nodes[1]
            coordinate_on(data.bootstrap, 2)
            self._ways["direct"] = Way("direct", data.bootstrap)
            modes = {
                "listener": (LISTENER_HOST, self._at_listener[1]),
                "coordinators": (COORDINATORS_HOST, data.addresses[FOR_COORDINATORS]),
                "rewrite": ("127.0.0.1", ""),
            }
            for mode, (advertised, bootstrap) in modes.items():
                events = self._folder / f"{mode}.jsonl"
                options = ("--observe", "observed-*", "--park", "*", "--events", str(events))
                gateway = KohortGateway(
                    data.bootstrap, *options, mode=mode, advertised=advertised, bootstrap=bootstrap, nodes=(1, 2)
                )
                stack.enter_context(gateway)
                self._ways[mode] = Way(mode, gateway.bootstrap, gateway, events)
            listener = self._ways["listener"]
            self._ways["observe"] = Way("observe", listener.bootstrap, listener.gateway, listener.events)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
