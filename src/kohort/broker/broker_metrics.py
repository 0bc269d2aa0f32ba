"""Metrics of one broker, made anew for each scrape: from counters that requests leave, and from what is there then.

Nothing is folded or summed while requests are served. Rebalances are counted from the topic of group events when they
are scraped, a bounded number of them at a time.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from kohort.group.explain.rebalance_counter import RebalanceCounter
from kohort.group.explain.rebalance_report import parsed_event
from kohort.log.disk import StorageError
from kohort.model.errors import KafkaError
from kohort.model.exposition import Histogram, Labels, MetricFamily, counter, gauge, histogram
from kohort.model.ids import EVENT_TOPIC
from kohort.net.metrics_endpoint import MetricsEndpoint
from kohort.node.node import Node
from kohort.wire.apis import Api
from kohort.wire.record_batches import decode_batch, iter_batches

PREFIX = "kohort_broker"
LOOP_SECONDS = 1.0
"""How often the lateness of the event loop is measured."""

MOST_TOPICS = 1_000
"""Topics that have labels of their own; the others are one, without a name."""

EVENT_BYTES = 1 << 20
"""Bytes of group events that are counted at a scrape; the rest is counted at the next ones."""


class BrokerMetrics:
    """The metrics of a node that runs, and the endpoint that serves them, from `start` to `stop`."""

    def __init__(self, node: Node, directory: Path) -> None:
        self._node = node
        self._directory = directory
        self._loop_lag = Histogram()
        self._rebalances = RebalanceCounter()
        self._next_event = 0
        self._task: asyncio.Task[None] | None = None
        self.endpoint = MetricsEndpoint(self.families)

    async def start(self, host: str, port: int) -> None:
        """Listen, and begin to measure the event loop. Raises OSError."""
        await self.endpoint.listen(host, port)
        self._task = asyncio.create_task(self._measure_loop(), name="kohort metrics")

    def stop(self) -> None:
        """Stop both."""
        if self._task is not None:
            self._task.cancel()
        self.endpoint.close()

    async def _measure_loop(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due_s = loop.time() + LOOP_SECONDS
            await asyncio.sleep(LOOP_SECONDS)
            self._loop_lag.observe(max(0.0, loop.time() - due_s))

    def families(self) -> Iterator[MetricFamily]:
        """Yield all metrics as they are now."""
        yield from self._requests()
        lag: list[tuple[Labels, Histogram]] = [({}, self._loop_lag)]
        yield histogram(f"{PREFIX}_loop_lag_seconds", "How late the event loop ran what was due: its queue.", lag)
        yield gauge(f"{PREFIX}_connections", "Connections of clients that are open.", len(self._node.connections))
        yield from self._storage()
        yield from self._groups()

    def _requests(self) -> Iterator[MetricFamily]:
        served: Counter[Api] = Counter()
        handled: defaultdict[Api, Histogram] = defaultdict(Histogram)
        for route in list(self._node.connections.routes.known.values()):
            served[route.api] += route.served
            handled[route.api].add(route.handled)
        by_api = [({"api": api.name}, count) for api, count in sorted(served.items())]
        yield counter(f"{PREFIX}_requests_total", "Requests that were taken up, by API.", by_api)
        yield histogram(
            f"{PREFIX}_handling_seconds",
            "How long the broker worked on a request before it answered or parked it, of one in 64.",
            [({"api": api.name}, each) for api, each in sorted(handled.items())],
        )

    def _storage(self) -> Iterator[MetricFamily]:
        sizes: Counter[str] = Counter()
        for number, topic in enumerate(self._node.topics):
            label = topic.name if number < MOST_TOPICS else ""
            sizes[label] += sum(partition.open_size for partition in topic.partitions)
        by_topic = [({"topic": topic}, size) for topic, size in sorted(sizes.items())]
        yield gauge(f"{PREFIX}_log_bytes", "Bytes of the logs that are open, by topic.", by_topic)
        yield gauge(f"{PREFIX}_topics", "Topics.", len(self._node.topics))
        room = shutil.disk_usage(self._directory)
        yield gauge(f"{PREFIX}_disk_free_bytes", "Room on the disk of the data directory.", room.free)
        yield gauge(f"{PREFIX}_disk_bytes", "Size of that disk.", room.total)

    def _groups(self) -> Iterator[MetricFamily]:
        found: Counter[tuple[str, str]] = Counter()
        if self._node.context.has_coordinator:
            listed = self._node.coordinator.list_groups(frozenset(), frozenset())
            found.update((each.group_type, str(each.state)) for each in listed)
        by_state = [({"type": kind, "state": state}, count) for (kind, state), count in sorted(found.items())]
        yield gauge(f"{PREFIX}_groups", "Groups by type and state.", by_state)
        self._count_events()
        yield from self._rebalances.families(PREFIX)

    def _count_events(self) -> None:
        """Count the group events that were written since the last scrape, up to a limit."""
        partition = self._node.topics.partition(EVENT_TOPIC, 0)
        if partition is None:
            return
        try:
            log = partition.log
            self._next_event = max(self._next_event, log.log_start_offset)
            for view in log.read(self._next_event, EVENT_BYTES):
                for header, batch in iter_batches(view):
                    self._next_event = header.last_offset + 1
                    for record in decode_batch(batch):
                        if (event := parsed_event(record.value)) is not None:
                            self._rebalances.count(event)
        except (KafkaError, StorageError):
            pass  # the broker's log has the reason; the next scrape tries again
