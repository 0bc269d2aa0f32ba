"""Metrics of a gateway in Prometheus' text format, made anew for each scrape.

Labels hold what clients chose, such as names of groups: they are escaped, cut, and bounded in number where they are
counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from kohort.gateway.assigning.edge import Edge, Result
from kohort.gateway.gateway import Gateway
from kohort.gateway.policies.policies import GroupProtocol
from kohort.gateway.server.instance_links import InstanceLinks
from kohort.gateway.server.rebalance_counts import RebalanceCounts
from kohort.gateway.server.traffic_counters import BOUNDS_S, Histogram, NodeTraffic, TrafficCounters
from kohort.model.printable import printable

PREFIX = "kohort_gateway"
LABEL_LENGTH = 255
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels = Mapping[str, object]
Samples = Iterable[tuple[Labels, float]]

_NODE_METRICS: tuple[tuple[str, str, str, Callable[[NodeTraffic], int]], ...] = (
    ("connections", "gauge", "Connections of clients that are open.", lambda node: node.connections),
    ("connections_opened_total", "counter", "Connections of clients that were accepted.", lambda node: node.opened),
    ("connections_refused_total", "counter", "Connections refused since too many are open.", lambda node: node.refused),
    ("connections_failed_total", "counter", "Connections whose node could not be reached.", lambda node: node.failed),
)


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
    yield from _family(
        "instances_connected", "gauge", "Other instances with which a link is up.", [({}, len(links.connected))]
    )
    for name, text, value in (
        ("messages_sent", "Messages sent to other instances.", counters.messages_sent),
        ("messages_received", "Messages of other instances.", counters.messages_received),
        ("bytes_sent", "Bytes sent to other instances.", counters.sent_bytes),
        ("bytes_received", "Bytes of other instances.", counters.received_bytes),
        ("lost", "Links that have ended.", counters.lost),
        ("refused", "Connections that were no instances of this gateway.", counters.refused),
    ):
        yield from _family(f"instances_{name}_total", "counter", text, [({}, value)])


def _traffic(traffic: TrafficCounters) -> Iterator[str]:
    nodes = sorted(traffic.nodes.items())
    for name, kind, text, value in _NODE_METRICS:
        yield from _family(name, kind, text, [({"node": node_id}, value(node)) for node_id, node in nodes])
    from_clients = [({"node": node_id, "direction": "to_broker"}, node.bytes_from_clients) for node_id, node in nodes]
    from_broker = [({"node": node_id, "direction": "to_client"}, node.bytes_from_broker) for node_id, node in nodes]
    yield from _family("bytes_total", "counter", "Bytes that were passed on.", [*from_clients, *from_broker])
    yield from _histogram("passing_seconds", "How long it took to pass bytes on: the latency added.", traffic.passing)
    yield from _histogram("loop_lag_seconds", "How late the event loop ran what was due.", traffic.lag)


def _parking(gateway: Gateway, now_ms: int) -> Iterator[str]:
    counters = gateway.policies.counters
    held = {protocol: gateway.parked_heartbeats(protocol) for protocol in GroupProtocol}
    total, news = counters.heartbeats, counters.updates
    metrics: tuple[tuple[str, str, str, Callable[[GroupProtocol], int]], ...] = (
        ("held", "gauge", "Heartbeats that are held now.", lambda each: held[each]),
        ("held_total", "counter", "Heartbeats that were held.", lambda each: total[each]),
        (
            "released_total",
            "counter",
            "Held heartbeats that were passed on, answered or dropped.",
            lambda each: total[each] - held[each],
        ),
        (
            "news_total",
            "counter",
            "Held heartbeats whose wait ended for news of their group, and not since the time was up.",
            lambda each: news[each],
        ),
    )
    for name, kind, text, count in metrics:
        samples = [({"protocol": protocol}, count(protocol)) for protocol in GroupProtocol]
        yield from _family(f"heartbeats_{name}", kind, text, samples)
    yield from _family("syncs_held_total", "counter", "Answers to SyncGroup that were held.", [({}, counters.syncs)])
    yield from _family(
        "fallbacks_total", "counter", "Times that a group fell back to being observed.", [({}, counters.fallbacks)]
    )
    locations = gateway.instances.locations
    yield from _family(
        "groups_out_of_reach",
        "gauge",
        "Eager groups that are observed since members come through no instance that can be reached.",
        [({}, locations.incomplete)],
    )
    fallen = gateway.policies.fallbacks.fallen(now_ms)
    yield from _family(
        "groups_fallen_back", "gauge", "Groups that are observed since parking went wrong.", [({}, fallen)]
    )
    yield from _family("groups", "gauge", "Groups that are observed.", [({}, len(gateway.groups.shard.groups))])


def _edge(edge: Edge) -> Iterator[str]:
    counters = edge.counters
    yield from _family(
        "assignments_total",
        "counter",
        "Assignments of leaders that have an assignor or drained members: replaced, refused, or failed.",
        [({"result": result}, counters.results[result]) for result in Result],
    )
    yield from _family(
        "assignor_seconds_total",
        "counter",
        "How long leaders waited for assignors, added up.",
        [({}, counters.assignor_ms / 1000)],
    )
    yield from _family(
        "rounds_ordered_total",
        "counter",
        "Heartbeats of leaders that were answered with a rebalance by order of an operator.",
        [({}, counters.rounds_ordered)],
    )


def _rebalances(rebalances: RebalanceCounts) -> Iterator[str]:
    yield from _family(
        "rebalances_total",
        "counter",
        "Rebalances that have ended, by group and cause.",
        [({"group": group, "cause": cause}, count) for (group, cause), count in sorted(rebalances.rebalances.items())],
    )
    yield from _family(
        "rebalance_seconds_total",
        "counter",
        "How long rebalances took, added up.",
        [({"group": group}, seconds) for group, seconds in sorted(rebalances.duration_s.items())],
    )
    yield from _family(
        "unowned_partition_seconds_total",
        "counter",
        "For each partition the seconds that no member owned it, added up: the standstill.",
        [({"group": group}, seconds) for group, seconds in sorted(rebalances.unowned_partition_s.items())],
    )


def _family(name: str, kind: str, text: str, samples: Samples) -> Iterator[str]:
    yield f"# HELP {PREFIX}_{name} {text}"
    yield f"# TYPE {PREFIX}_{name} {kind}"
    for labels, value in samples:
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
