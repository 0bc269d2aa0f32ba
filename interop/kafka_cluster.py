"""A real Apache Kafka cluster of several nodes on loopback, each of which is broker and controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from interop.kafka import ApacheKafka, Quorum

NodeAddresses = Mapping[int, Mapping[str, str]]


class ApacheCluster:
    """Nodes from 1 on; the arguments are those of `ApacheKafka`, and `advertised` holds them by node."""

    name = "apache"

    def __init__(
        self,
        count: int,
        settings: Mapping[str, str] | None = None,
        *,
        heap: str = "384m",
        wait_s: float = 120,
        listeners: Sequence[str] = ("PLAINTEXT",),
        formatting: Sequence[str] = (),
        advertised: NodeAddresses | None = None,
        pom: str = "pom.xml",
    ) -> None:
        copies = {
            "offsets.topic.replication.factor": str(count),
            "transaction.state.log.replication.factor": str(count),
        }
        self.nodes = {
            place.node_id: ApacheKafka(
                {**copies, **(settings or {})},
                heap=heap,
                wait_s=wait_s,
                listeners=listeners,
                formatting=formatting,
                advertised=(advertised or {}).get(place.node_id),
                quorum=place,
                pom=pom,
            )
            for place in Quorum.of(count)
        }

    @property
    def bootstrap(self) -> str:
        """The first listener of every node."""
        return ",".join(node.bootstrap for node in self.nodes.values())

    def start(self) -> Self:
        """Start all nodes side by side: none is ready before most of them are there."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            starting = [pool.submit(node.start) for node in self.nodes.values()]
        try:
            for each in starting:
                each.result()
        except BaseException:
            for each, node in zip(starting, self.nodes.values(), strict=True):
                if each.exception() is None:
                    node.stop()
                    node.remove()
            raise
        return self

    def stop(self) -> None:
        """Stop all nodes side by side, since the last ones could not find a controller any more."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(ApacheKafka.stop, self.nodes.values()))

    def remove(self) -> None:
        """Remove their data and logs."""
        for node in self.nodes.values():
            node.remove()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.remove()
