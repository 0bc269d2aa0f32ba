"""From the start of a broker to ready, and resident memory then, beside a real Apache Kafka.

`kohort broker` is a process of its own. An `EmbeddedBroker` starts in this one, as in a test, where kohort is imported.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker

from bench.result import Aim, Outcome, Result
from kohort.testing import EmbeddedBroker

PEER = "Apache Kafka"


def startup(quick: bool) -> Iterator[Outcome]:
    """Start each broker several times on fresh data; formatting Kafka's storage is not counted."""
    ready: dict[str, list[float]] = {"kohort": [], "apache": []}
    memory: dict[str, list[float]] = {"kohort": [], "apache": []}
    embedded: list[float] = []
    for _ in range(3 if quick else 7):
        for kind in (KohortBroker, ApacheKafka):
            with kind() as broker:
                ready[kind.name].append(broker.ready_ms)
                memory[kind.name].append(broker.child.rss_mib())
        began_s = time.perf_counter()
        with EmbeddedBroker():
            embedded.append(1000 * (time.perf_counter() - began_s))
    yield Result("start to ready", "ms", ready["kohort"], ready["apache"], PEER, _at_most(250))
    yield Result("start to ready, EmbeddedBroker", "ms", embedded, ready["apache"], PEER)
    yield Result("memory when ready", "MiB", memory["kohort"], memory["apache"], PEER, _at_most(60))


def _at_most(value: float) -> Aim:
    return Aim(value, of_ratio=False, at_most=True)
