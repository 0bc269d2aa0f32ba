"""From the start of the process to ready, and resident memory then, beside a real Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker

from bench.result import Aim, Outcome, Result


def startup(quick: bool) -> Iterator[Outcome]:
    """Start each broker several times on fresh data; formatting Kafka's storage is not counted."""
    ready: dict[str, list[float]] = {"kohort": [], "apache": []}
    memory: dict[str, list[float]] = {"kohort": [], "apache": []}
    for _ in range(3 if quick else 7):
        for kind in (KohortBroker, ApacheKafka):
            with kind() as broker:
                ready[kind.name].append(broker.ready_ms)
                memory[kind.name].append(broker.child.rss_mib())
    peer = "Apache Kafka"
    yield Result("start to ready", "ms", ready["kohort"], ready["apache"], peer, Aim(250, of_ratio=False, at_most=True))
    yield Result(
        "memory when ready", "MiB", memory["kohort"], memory["apache"], peer, Aim(60, of_ratio=False, at_most=True)
    )
