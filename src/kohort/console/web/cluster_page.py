"""The page of a cluster: brokers, what they and gateways measure, refused joins, orders, the feed of rebalances."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from kohort.client import Cluster
from kohort.client.cluster.metadata import Broker
from kohort.console.metrics_sources import MetricsOf
from kohort.console.web.site import Shown, Site
from kohort.drawing.display_text import moment
from kohort.group.explain.explain_text import refusal

REFUSED = 50


class BrokerRow(NamedTuple):
    """A broker: how many partitions it leads, and how many groups it coordinates."""

    broker: Broker
    is_controller: bool
    leads: int
    coordinates: int


def cluster_page(site: Site, cluster: Cluster, measured: list[MetricsOf]) -> Shown:
    """Return the page; `measured` are the metrics of brokers and gateways."""
    view = cluster.view
    leads = Counter(each.leader for topic in view.topics.values() for each in topic.partitions.values())
    coordinates = Counter(group.listed.node_id for group in site.watched.groups.values())
    rows = [
        BrokerRow(broker, node_id == view.controller_id, leads[node_id], coordinates[node_id])
        for node_id, broker in sorted(view.brokers.items())
    ]
    refused = []
    for row in site.watched.summaries(site.now_ms()):
        if row.refused:
            group_id = row.group_id
            report, names = site.watched.groups[group_id].known(site.now_ms())
            refused += [(each.last_ms, group_id, refusal(each, names, moment)) for each in report.refused]
    states = Counter(group.listed.state or "unknown" for group in site.watched.groups.values())
    more = {
        "view": view,
        "rows": rows,
        "offline": leads[-1],
        "states": sorted(states.items()),
        "refused": sorted(refused, reverse=True)[:REFUSED],
        "drained": sorted(site.watched.orders.drained.items()),
        "measured": measured,
        "feed": list(site.watched.feed)[::-1],
    }
    return Shown("cluster.html", more)
