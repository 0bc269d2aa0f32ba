"""Metrics of consumers for Prometheus: register a `ConsumerCollector`; each scrape reads its consumers.

    REGISTRY.register(ConsumerCollector(consumer))

Names follow Prometheus' conventions: seconds, `_total` for counters. Rates are left to Prometheus, which makes them of
the counters, and what ships under two names is exported under KIP-429's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from kohort.client.consumer.partition_state import CONSUMER_METRICS
from kohort.extras import install_command
from kohort.member.rebalance_metrics import Metric, MetricKind
from kohort.model.ids import TopicPartition
from kohort.model.lag import Lag

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector
except ImportError as cause:
    raise ImportError(f"kohort.client.prometheus needs prometheus-client: {install_command('metrics')}") from cause

PREFIX = "kohort_consumer"
LABELS = ("client_id", "group")
LAGS = (
    (f"{PREFIX}_lag", "How many records of a partition were not returned by poll yet.", "records"),
    (f"{PREFIX}_lag_seconds", "For how long the oldest of these records has been in the log.", "seconds"),
)
Family = CounterMetricFamily | GaugeMetricFamily


class MeasuredConsumer(Protocol):
    """A consumer, of `kohort` or of `kohort.sync`."""

    @property
    def client_id(self) -> str: ...
    @property
    def group_id(self) -> str | None: ...
    def metrics(self) -> dict[str, float]: ...
    def lag(self) -> Mapping[TopicPartition, Lag]: ...


class ConsumerCollector(Collector):
    """Collects from these consumers. `client_id` and group label their metrics: no two may have both in common."""

    def __init__(self, *consumers: MeasuredConsumer) -> None:
        self._consumers = consumers

    def collect(self) -> Iterator[Family]:
        """Return the metrics of every consumer as they are now."""
        measured = [
            ((consumer.client_id, consumer.group_id or ""), consumer.metrics(), consumer.lag())
            for consumer in self._consumers
        ]
        for metric in CONSUMER_METRICS:
            if metric.kind is MetricKind.RATE or metric.name.startswith("partition-"):
                continue
            family = _family(metric)
            divisor = 1000 if metric.unit == "ms" else 1
            for labels, numbers, _ in measured:
                family.add_metric(labels, numbers[metric.name] / divisor)
            yield family
        for name, text, field in LAGS:
            family = GaugeMetricFamily(name, text, labels=(*LABELS, "topic", "partition"))
            for labels, _, lags in measured:
                for (topic, partition), lag in sorted(lags.items()):
                    if (value := getattr(lag, field)) is not None:
                        family.add_metric((*labels, topic, str(partition)), value)
            yield family


def prometheus_name(metric: Metric) -> str:
    """Return the name of a metric as Prometheus shows it, a counter's `_total` left out."""
    plain = metric.name.removesuffix("-total") if metric.kind is MetricKind.TOTAL else metric.name
    name = f"{PREFIX}_{plain.replace('-', '_')}"
    return f"{name}_seconds" if metric.unit == "ms" else name


def _family(metric: Metric) -> Family:
    made = CounterMetricFamily if metric.kind is MetricKind.TOTAL else GaugeMetricFamily
    family: Family = made(prometheus_name(metric), metric.text.replace("`", ""), labels=LABELS)
    return family
