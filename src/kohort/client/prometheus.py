"""Metrics of consumers and producers for Prometheus: register a collector; each scrape reads its clients.

REGISTRY.register(ConsumerCollector(consumer))
REGISTRY.register(ProducerCollector(producer))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kohort.client.metric_families import MeasuredConsumer, MeasuredProducer, consumer_families, producer_families
from kohort.model.exposition import MetricFamily
from kohort.model.extras import install_command

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector
except ImportError as cause:
    raise ImportError(f"kohort.ConsumerCollector needs prometheus-client: {install_command('metrics')}") from cause

Family = CounterMetricFamily | GaugeMetricFamily


class ConsumerCollector(Collector):
    """Collects from these consumers. `client_id` and group label their metrics: no two may have both in common."""

    def __init__(self, *consumers: MeasuredConsumer) -> None:
        self._consumers = consumers

    def collect(self) -> Iterator[Family]:
        """Return the metrics of every consumer as they are now."""
        return _collected(consumer_families(self._consumers))


class ProducerCollector(Collector):
    """Collects from these producers. Their `client_id` labels their metrics: no two may have it in common."""

    def __init__(self, *producers: MeasuredProducer) -> None:
        self._producers = producers

    def collect(self) -> Iterator[Family]:
        """Return the metrics of every producer as they are now."""
        return _collected(producer_families(self._producers))


def _collected(families: Iterable[MetricFamily]) -> Iterator[Family]:
    for name, kind, text, samples in families:
        family: Family = CounterMetricFamily(name, text) if kind == "counter" else GaugeMetricFamily(name, text)
        for _, labels, value in samples:
            family.add_sample(name, {label: str(each) for label, each in labels.items()}, value)
        yield family
