"""Metrics of a gateway in Prometheus' text format, made anew for each scrape.

Labels have what clients chose, such as names of groups: they are escaped, cut, and bounded in number where they are
counted. `MetricsEndpoint` serves them by HTTP, one request for each connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from kohort.gateway.assigning.edge import Edge, EdgeResult
from kohort.gateway.gateway import Gateway
from kohort.gateway.policies.policies import GroupProtocol
from kohort.gateway.server.event_stores import RebalanceCounts
from kohort.gateway.server.instance_links import InstanceLinks
from kohort.gateway.server.traffic_counters import BOUNDS_S, Histogram, NodeTraffic, TrafficCounters
from kohort.model.printable import printable

PREFIX = "kohort_gateway"
LABEL_LENGTH = 255
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, object]
Samples = Iterable[tuple[Labels, float]]


def exposition(
    gateway: Gateway,
    traffic: TrafficCounters,
    rebalances: RebalanceCounts,
    now_ms: int,
    links: InstanceLinks | None = None,
) -> str:
    """Return all metrics as text."""
    lines: list[str] = []
    for family in (
        _traffic(traffic),
        _parking(gateway, now_ms),
        _edge(gateway.edge),
        _rebalances(rebalances),
        _links(links),
    ):
        lines += family
    return "\n".join(lines) + "\n"


def _links(links: InstanceLinks | None) -> Iterator[str]:
    if links is None:
        return
    counters = links.counters
    yield from _gauge("instances_connected", "Other instances with which a link is up.", len(links.connected))
    for name, text, value in (
        ("messages_sent", "Messages sent to other instances.", counters.messages_sent),
        ("messages_received", "Messages of other instances.", counters.messages_received),
        ("bytes_sent", "Bytes sent to other instances.", counters.sent_bytes),
        ("bytes_received", "Bytes of other instances.", counters.received_bytes),
        ("lost", "Links that have ended.", counters.lost),
        ("refused", "Connections that were no instances of this gateway.", counters.refused),
    ):
        yield from _counter(f"instances_{name}_total", text, value)


def _traffic(traffic: TrafficCounters) -> Iterator[str]:
    nodes: list[tuple[Labels, NodeTraffic]] = [
        ({"node": node_id}, node) for node_id, node in sorted(traffic.nodes.items())
    ]
    open_now = [(labels, node.connections) for labels, node in nodes]
    yield from _gauge("connections", "Connections of clients that are open.", open_now)
    for name, text in (
        ("opened", "Connections of clients that were accepted."),
        ("refused", "Connections refused since too many are open."),
        ("failed", "Connections whose node could not be reached."),
        ("without_header", "Connections of load balancers closed since no valid PROXY header came."),
    ):
        yield from _counter(
            f"connections_{name}_total", text, [(labels, getattr(node, name)) for labels, node in nodes]
        )
    from_clients = [({**labels, "direction": "to_broker"}, node.bytes_from_clients) for labels, node in nodes]
    from_broker = [({**labels, "direction": "to_client"}, node.bytes_from_broker) for labels, node in nodes]
    yield from _counter("bytes_total", "Bytes that were passed on.", [*from_clients, *from_broker])
    yield from _histogram("passing_seconds", "How long it took to pass bytes on: the latency added.", traffic.passing)
    yield from _histogram("loop_lag_seconds", "How late the event loop ran what was due.", traffic.lag)


def _parking(gateway: Gateway, now_ms: int) -> Iterator[str]:
    counters, policies = gateway.policies.counters, gateway.policies

    def by_protocol(count: Callable[[GroupProtocol], int]) -> Samples:
        return [({"protocol": protocol}, count(protocol)) for protocol in GroupProtocol]

    parked = {protocol: gateway.parked_heartbeats(protocol) for protocol in GroupProtocol}
    total = counters.heartbeats
    yield from _gauge("heartbeats_held", "Heartbeats that are parked now.", by_protocol(lambda each: parked[each]))
    yield from _counter("heartbeats_held_total", "Heartbeats that were parked.", by_protocol(lambda each: total[each]))
    yield from _counter(
        "heartbeats_released_total",
        "Parked heartbeats that were passed on, answered or dropped.",
        by_protocol(lambda each: total[each] - parked[each]),
    )
    yield from _counter(
        "heartbeats_news_total",
        "Parked heartbeats whose wait ended for an update of their group, and not since the time was up.",
        by_protocol(lambda each: counters.updates[each]),
    )
    yield from _counter("syncs_held_total", "Answers to SyncGroup that were withheld.", counters.syncs)
    yield from _counter("fallbacks_total", "Times that a group fell back to being observed.", counters.fallbacks)
    yield from _gauge(
        "groups_out_of_reach",
        "Eager groups that are observed since members come through no instance that can be reached.",
        gateway.instances.locations.incomplete,
    )
    fallen = policies.fallbacks.fallen(now_ms)
    yield from _gauge("groups_fallen_back", "Groups that are observed since parking went wrong.", fallen)
    yield from _gauge("groups", "Groups that are observed.", len(gateway.groups.shard.groups))


def _edge(edge: Edge) -> Iterator[str]:
    counters = edge.counters
    yield from _counter(
        "assignments_total",
        "Assignments of leaders that have an assignor or drained members: replaced, refused, or failed.",
        [({"result": result}, counters.results[result]) for result in EdgeResult],
    )
    waited_s = counters.assignor_ms / 1000
    yield from _counter("assignor_seconds_total", "How long leaders waited for assignors, added up.", waited_s)
    yield from _counter(
        "rounds_ordered_total",
        "Heartbeats of leaders that were answered with a rebalance by order of an operator.",
        counters.rounds_ordered,
    )


def _rebalances(rebalances: RebalanceCounts) -> Iterator[str]:
    yield from _counter(
        "rebalances_total",
        "Rebalances that have ended, by group and cause.",
        [({"group": group, "cause": cause}, count) for (group, cause), count in sorted(rebalances.rebalances.items())],
    )
    for name, text, seconds in (
        ("rebalance_seconds_total", "How long rebalances took, added up.", rebalances.duration_s),
        (
            "unowned_partition_seconds_total",
            "For each partition the seconds that no member owned it, added up: the standstill.",
            rebalances.unowned_partition_s,
        ),
    ):
        yield from _counter(name, text, [({"group": group}, each) for group, each in sorted(seconds.items())])


def _gauge(name: str, text: str, samples: Samples | float) -> Iterator[str]:
    return _family(name, "gauge", text, samples)


def _counter(name: str, text: str, samples: Samples | float) -> Iterator[str]:
    return _family(name, "counter", text, samples)


def _family(name: str, kind: str, text: str, samples: Samples | float) -> Iterator[str]:
    """Yield one metric: its samples by labels, or its only one."""
    yield f"# HELP {PREFIX}_{name} {text}"
    yield f"# TYPE {PREFIX}_{name} {kind}"
    for labels, value in [({}, samples)] if isinstance(samples, int | float) else samples:
        yield f"{PREFIX}_{name}{_labels(labels)} {value:.15g}"


def _histogram(name: str, text: str, histogram: Histogram) -> Iterator[str]:
    yield f"# HELP {PREFIX}_{name} {text}"
    yield f"# TYPE {PREFIX}_{name} histogram"
    sums = list(accumulate(histogram.counts))
    for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), sums, strict=True):
        yield f'{PREFIX}_{name}_bucket{{le="{bound}"}} {count}'
    yield f"{PREFIX}_{name}_sum {histogram.total_s:.15g}"
    yield f"{PREFIX}_{name}_count {sums[-1]}"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_label_value(str(value))}"' for name, value in labels.items()) + "}"


def _label_value(text: str) -> str:
    return printable(text)[:LABEL_LENGTH].replace("\\", r"\\").replace('"', r"\"")


REQUEST_BYTES = 8_192
REQUEST_SECONDS = 5.0
MOST_REQUESTS = 32
"""Requests that are served at the same time; more are refused."""


class MetricsEndpoint:
    """A listening HTTP socket: `GET /metrics`; `/live`; `/ready`, which is 503 where new clients are of no use.

    `text` returns the metrics, `unready` why no client should come, or an empty text.
    """

    def __init__(self, text: Callable[[], str], unready: Callable[[], str]) -> None:
        self._text = text
        self._unready = unready
        self.port: int | None = None
        """Where it listens."""
        self._server: asyncio.Server | None = None
        self._requests = 0

    async def listen(self, host: str, port: int) -> None:
        """Listen. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=REQUEST_BYTES)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._requests += 1
        try:
            if self._requests <= MOST_REQUESTS:
                async with asyncio.timeout(REQUEST_SECONDS):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(head))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # no request that can be answered
        finally:
            self._requests -= 1
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            status, content, text = "405 Method Not Allowed", "text/plain", "GET and HEAD only\n"
        elif path == b"/metrics":
            status, content, text = "200 OK", CONTENT_TYPE, self._text()
        elif path == b"/live":
            status, content, text = "200 OK", "text/plain", "live\n"
        elif path == b"/ready":
            unready = self._unready()
            status, content = "503 Service Unavailable" if unready else "200 OK", "text/plain"
            text = f"{unready or 'ready'}\n"
        else:
            status, content, text = "404 Not Found", "text/plain", "there are /metrics, /live and /ready\n"
        body = text.encode("utf-8", "backslashreplace")
        lines = (f"HTTP/1.1 {status}", f"Content-Type: {content}", f"Content-Length: {len(body)}", "Connection: close")
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if method == b"HEAD" else body)
