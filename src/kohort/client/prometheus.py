"""Metrics of consumers and producers for Prometheus: register a collector; each scrape reads its clients.

    REGISTRY.register(ConsumerCollector(consumer))
    REGISTRY.register(ProducerCollector(producer))

Names follow Prometheus' conventions: seconds and bytes, `_total` for counters. Rates are left to Prometheus, which
makes them of the counters, and what ships under two names is exported under KIP-429's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from kohort.client.consumer.consumer_metrics import CONSUMER_METRICS
from kohort.client.producer.producer_metrics import PRODUCER_METRICS
from kohort.extras import install_command
from kohort.model.ids import TopicPartition
from kohort.model.lag import Lag
from kohort.model.metric import Metric, MetricKind

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector
except ImportError as cause:
    raise ImportError(f"kohort.ConsumerCollector needs prometheus-client: {install_command('metrics')}") from cause

CONSUMER, PRODUCER = "kohort_consumer", "kohort_producer"
"""How names begin."""

LAGS = (
    (f"{CONSUMER}_partition_lag_records", "How many records of a partition were not returned by poll yet.", "records"),
    (f"{CONSUMER}_partition_lag_seconds", "For how long the oldest of these records has been in the log.", "seconds"),
)
Family = CounterMetricFamily | GaugeMetricFamily


class MeasuredProducer(Protocol):
    """A producer, of `kohort` or of `kohort.sync`."""

    @property
    def client_id(self) -> str: ...
    def metrics(self) -> dict[str, float]: ...


class MeasuredConsumer(MeasuredProducer, Protocol):
    """A consumer, of `kohort` or of `kohort.sync`."""

    @property
    def group_id(self) -> str | None: ...
    def lag(self) -> Mapping[TopicPartition, Lag]: ...


class ConsumerCollector(Collector):
    """Collects from these consumers. `client_id` and group label their metrics: no two may have both in common."""

    def __init__(self, *consumers: MeasuredConsumer) -> None:
        self._consumers = consumers

    def collect(self) -> Iterator[Family]:
        """Return the metrics of every consumer as they are now."""
        labelled = [((consumer.client_id, consumer.group_id or ""), consumer) for consumer in self._consumers]
        measured = [(labels, consumer.metrics()) for labels, consumer in labelled]
        lags = [(labels, sorted(consumer.lag().items())) for labels, consumer in labelled]
        names = ("client_id", "group")
        yield from _families(CONSUMER, CONSUMER_METRICS, names, measured)
        for name, text, field in LAGS:
            family = GaugeMetricFamily(name, text, labels=(*names, "topic", "partition"))
            for labels, found in lags:
                for (topic, partition), lag in found:
                    if (value := getattr(lag, field)) is not None:
                        family.add_metric((*labels, topic, str(partition)), value)
            yield family


class ProducerCollector(Collector):
    """Collects from these producers. Their `client_id` labels their metrics: no two may have it in common."""

    def __init__(self, *producers: MeasuredProducer) -> None:
        self._producers = producers

    def collect(self) -> Iterator[Family]:
        """Return the metrics of every producer as they are now."""
        measured = [((producer.client_id,), producer.metrics()) for producer in self._producers]
        return _families(PRODUCER, PRODUCER_METRICS, ("client_id",), measured)


def is_exported(metric: Metric) -> bool:
    """Whether Prometheus gets a metric."""
    return metric.kind is not MetricKind.RATE and not metric.name.startswith("partition-")


def prometheus_name(prefix: str, metric: Metric) -> str:
    """Return the name of a metric as Prometheus shows it, a counter's `_total` left out."""
    plain = metric.name.removesuffix("-total") if metric.kind is MetricKind.TOTAL else metric.name
    name = f"{prefix}_{plain.replace('-', '_')}"
    unit = {"ms": "seconds", "bytes": "bytes"}.get(metric.unit, "")
    return name if unit in name else f"{name}_{unit}"


def _families(
    prefix: str,
    metrics: Iterable[Metric],
    names: Sequence[str],
    measured: Iterable[tuple[Sequence[str], dict[str, float]]],
) -> Iterator[Family]:
    for metric in filter(is_exported, metrics):
        made = CounterMetricFamily if metric.kind is MetricKind.TOTAL else GaugeMetricFamily
        text = metric.text.replace("`", "")
        family: Family = made(prometheus_name(prefix, metric), text, labels=names)
        divisor = 1000 if metric.unit == "ms" else 1
        for labels, numbers in measured:
            family.add_metric(labels, numbers[metric.name] / divisor)
        yield family
