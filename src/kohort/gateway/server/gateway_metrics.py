"""Metrics of a gateway, made anew for each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from kohort.gateway.assigning.edge import Edge, EdgeResult
from kohort.gateway.gateway import Gateway
from kohort.gateway.policies.policies import GroupProtocol
from kohort.gateway.server.event_stores import RebalanceCounts
from kohort.gateway.server.instance_links import InstanceLinks
from kohort.gateway.server.settings_reload import ReloadCounters
from kohort.gateway.server.traffic_counters import NodeTraffic, TrafficCounters
from kohort.model.exposition import Histogram, Labels, MetricFamily, Samples, counter, gauge, histogram

PREFIX = "kohort_gateway"


def gateway_metrics(
    gateway: Gateway,
    traffic: TrafficCounters,
    rebalances: RebalanceCounts,
    now_ms: int,
    links: InstanceLinks | None = None,
    reloads: ReloadCounters | None = None,
) -> Iterator[MetricFamily]:
    """Return all metrics."""
    yield from _traffic(traffic)
    yield from _parking(gateway, now_ms)
    yield from _edge(gateway.edge)
    yield from rebalances.families(PREFIX)
    yield from _links(links)
    yield from _reloads(reloads)


def _reloads(reloads: ReloadCounters | None) -> Iterator[MetricFamily]:
    if reloads is None:
        return
    samples: Samples = [({"result": result}, reloads.results[result]) for result in ("applied", "refused")]
    yield _counter("settings_reloads_total", "Times that the settings were read again.", samples)
    text = "Settings of the file that need a restart of the gateway."
    yield _gauge("settings_waiting_for_restart", text, reloads.waiting)


def _links(links: InstanceLinks | None) -> Iterator[MetricFamily]:
    if links is None:
        return
    counters = links.counters
    yield _gauge("instances_connected", "Other instances with which a link is up.", len(links.connected))
    for name, text, value in (
        ("messages_sent", "Messages sent to other instances.", counters.messages_sent),
        ("messages_received", "Messages of other instances.", counters.messages_received),
        ("bytes_sent", "Bytes sent to other instances.", counters.sent_bytes),
        ("bytes_received", "Bytes of other instances.", counters.received_bytes),
        ("lost", "Links that have ended.", counters.lost),
        ("refused", "Connections that were no instances of this gateway.", counters.refused),
    ):
        yield _counter(f"instances_{name}_total", text, value)


def _traffic(traffic: TrafficCounters) -> Iterator[MetricFamily]:
    nodes: list[tuple[Labels, NodeTraffic]] = [
        ({"node": node_id}, node) for node_id, node in sorted(traffic.nodes.items())
    ]
    open_now = [(labels, node.connections) for labels, node in nodes]
    yield _gauge("connections", "Connections of clients that are open.", open_now)
    for name, text in (
        ("opened", "Connections of clients that were accepted."),
        ("refused", "Connections refused since too many are open."),
        ("failed", "Connections whose node could not be reached."),
        ("without_header", "Connections of load balancers closed since no valid PROXY header came."),
    ):
        yield _counter(f"connections_{name}_total", text, [(labels, getattr(node, name)) for labels, node in nodes])
    from_clients = [({**labels, "direction": "to_broker"}, node.bytes_from_clients) for labels, node in nodes]
    from_broker = [({**labels, "direction": "to_client"}, node.bytes_from_broker) for labels, node in nodes]
    yield _counter("bytes_total", "Bytes that were passed on.", [*from_clients, *from_broker])
    yield _histogram(
        "passing_seconds", "How long it took to pass bytes on: the latency added.", [({}, traffic.passing)]
    )
    yield _histogram("loop_lag_seconds", "How late the event loop ran what was due.", [({}, traffic.lag)])


def _parking(gateway: Gateway, now_ms: int) -> Iterator[MetricFamily]:
    counters, policies = gateway.policies.counters, gateway.policies

    def by_protocol(count: Callable[[GroupProtocol], int]) -> Samples:
        return [({"protocol": protocol}, count(protocol)) for protocol in GroupProtocol]

    parked = {protocol: gateway.parked_heartbeats(protocol) for protocol in GroupProtocol}
    total = counters.heartbeats
    yield _gauge("heartbeats_held", "Heartbeats that are parked now.", by_protocol(lambda each: parked[each]))
    yield _counter("heartbeats_held_total", "Heartbeats that were parked.", by_protocol(lambda each: total[each]))
    yield _counter(
        "heartbeats_released_total",
        "Parked heartbeats that were passed on, answered or dropped.",
        by_protocol(lambda each: total[each] - parked[each]),
    )
    yield _counter(
        "heartbeats_news_total",
        "Parked heartbeats whose wait ended for an update of their group, and not since the time was up.",
        by_protocol(lambda each: counters.updates[each]),
    )
    yield _counter("syncs_held_total", "Answers to SyncGroup that were withheld.", counters.syncs)
    yield _counter("fallbacks_total", "Times that a group fell back to being observed.", counters.fallbacks)
    yield _gauge(
        "groups_out_of_reach",
        "Eager groups that are observed since members come through no instance that can be reached.",
        gateway.instances.locations.incomplete,
    )
    fallen = policies.fallbacks.fallen(now_ms)
    yield _gauge("groups_fallen_back", "Groups that are observed since parking went wrong.", fallen)
    yield _gauge("groups", "Groups that are observed.", len(gateway.groups.shard.groups))


def _edge(edge: Edge) -> Iterator[MetricFamily]:
    counters = edge.counters
    yield _counter(
        "assignments_total",
        "Assignments of leaders that have an assignor or drained members: replaced, refused, or failed.",
        [({"result": result}, counters.results[result]) for result in EdgeResult],
    )
    waited_s = counters.assignor_ms / 1000
    yield _counter("assignor_seconds_total", "How long leaders waited for assignors, added up.", waited_s)
    yield _counter(
        "rounds_ordered_total",
        "Heartbeats of leaders that were answered with a rebalance by order of an operator.",
        counters.rounds_ordered,
    )


def _gauge(name: str, text: str, samples: Samples | float) -> MetricFamily:
    return gauge(f"{PREFIX}_{name}", text, samples)


def _counter(name: str, text: str, samples: Samples | float) -> MetricFamily:
    return counter(f"{PREFIX}_{name}", text, samples)


def _histogram(name: str, text: str, samples: Iterable[tuple[Labels, Histogram]]) -> MetricFamily:
    return histogram(f"{PREFIX}_{name}", text, samples)
