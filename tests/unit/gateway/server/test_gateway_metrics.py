"""Metrics of a gateway as Prometheus reads them, whatever clients call their groups, and the dashboard."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kohort.gateway.gateway import Gateway
from kohort.gateway.server.event_stores import NoStore, RebalanceCounts
from kohort.gateway.server.gateway_metrics import gateway_metrics
from kohort.gateway.server.traffic_counters import TrafficCounters
from kohort.group.coordinator_settings import GroupSettings
from kohort.group.explain.rebalance_counter import MOST_GROUPS, OTHER_GROUPS
from kohort.model.exposition import BOUNDS_S, LABEL_LENGTH, Histogram, exposition
from kohort.wire.record_batches import Record

DASHBOARD = Path(__file__).parents[4] / "docs" / "gateway-dashboard.json"


def counts() -> RebalanceCounts:
    return RebalanceCounts(NoStore(lambda _topic_id: None))


def text_of(rebalances: RebalanceCounts, traffic: TrafficCounters | None = None) -> str:
    gateway = Gateway(GroupSettings(), lambda _shard, _event, _now_ms: None)
    return exposition(gateway_metrics(gateway, traffic or TrafficCounters(), rebalances, 0))


def opened(group: str, at_ms: int = 1) -> Record:
    cause = {"kind": "member_joined", "member": "m", "detail": "", "at_ms": at_ms}
    event = {"at_ms": at_ms, "group": group, "event": "round_opened", "cause": cause}
    return Record(0, at_ms, group.encode(), json.dumps(event).encode())


def test_prometheus_reads_every_metric() -> None:
    traffic = TrafficCounters()
    node = traffic.node(3)
    node.connections, node.bytes_from_clients = 2, 10
    traffic.passing.observe(0.000_3)
    found = {family.name: family for family in text_string_to_metric_families(text_of(counts(), traffic))}
    assert [(each.labels, each.value) for each in found["kohort_gateway_connections"].samples] == [({"node": "3"}, 2)]
    passing = {each.labels.get("le", each.name): each.value for each in found["kohort_gateway_passing_seconds"].samples}
    assert (passing["0.00025"], passing["0.0005"], passing["+Inf"]) == (0, 1, 1)


@pytest.mark.parametrize("name", ['a"b\\c', "line\nbreak", "\x1b[2J", "x" * 10_000, "\ud800"])
def test_names_of_groups_cannot_break_the_text(name: str) -> None:
    rebalances = counts()
    rebalances.rebalances[name, "member_joined"] = 1
    [family] = [
        family for family in text_string_to_metric_families(text_of(rebalances)) if family.name.endswith("_rebalances")
    ]
    [sample] = family.samples
    assert sample.value == 1
    assert len(sample.labels["group"]) <= LABEL_LENGTH
    assert "\x1b" not in sample.labels["group"]


def test_groups_beyond_a_number_are_counted_together() -> None:
    rebalances = counts()
    for number in range(MOST_GROUPS + 5):
        rebalances.append([opened(f"g{number}")], 1)
    assert rebalances.rebalances == {(OTHER_GROUPS, "member_joined"): 5}


def test_a_duration_falls_into_the_bucket_that_bounds_it() -> None:
    histogram = Histogram()
    for bound_s in (*BOUNDS_S, 100.0):
        histogram.observe(bound_s)
    assert histogram.counts == [1] * (len(BOUNDS_S) + 1)


def test_the_dashboard_shows_metrics_that_exist() -> None:
    exported = set(re.findall(r"^# TYPE (\S+)", text_of(counts()), re.MULTILINE))
    shown = set(re.findall(r"kohort_gateway_\w+", DASHBOARD.read_text(encoding="utf-8")))
    assert {name.removesuffix("_bucket") for name in shown} <= exported
