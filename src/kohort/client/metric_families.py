"""Metrics of consumers and producers as Prometheus names them, for its text format and for its client library.

Names follow Prometheus' conventions: seconds and bytes, `_total` for counters. Rates are left to Prometheus, which
makes them of the counters, and what ships under two names is exported under KIP-429's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from kohort.client.consumer.consumer_metrics import CONSUMER_METRICS
from kohort.client.producer.producer_metrics import PRODUCER_METRICS
from kohort.model.exposition import Labels, MetricFamily, counter, gauge
from kohort.model.ids import TopicPartition
from kohort.model.lag import Lag
from kohort.model.metric import Metric, MetricKind

CONSUMER, PRODUCER = "kohort_consumer", "kohort_producer"
"""How names begin."""

LAGS = (
    (f"{CONSUMER}_partition_lag_records", "How many records of a partition were not returned by poll yet.", "records"),
    (f"{CONSUMER}_partition_lag_seconds", "For how long the oldest of these records has been in the log.", "seconds"),
)


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


def consumer_families(consumers: Sequence[MeasuredConsumer]) -> Iterator[MetricFamily]:
    """Return the metrics of every consumer as they are now, labelled by `client_id` and group."""
    labelled = [({"client_id": each.client_id, "group": each.group_id or ""}, each) for each in consumers]
    yield from _families(CONSUMER, CONSUMER_METRICS, [(labels, each.metrics()) for labels, each in labelled])
    lags = [(labels, sorted(each.lag().items())) for labels, each in labelled]
    for name, text, field in LAGS:
        yield gauge(
            name,
            text,
            [
                ({**labels, "topic": topic, "partition": str(partition)}, value)
                for labels, found in lags
                for (topic, partition), lag in found
                if (value := getattr(lag, field)) is not None
            ],
        )


def producer_families(producers: Sequence[MeasuredProducer]) -> Iterator[MetricFamily]:
    """Return the metrics of every producer as they are now, labelled by `client_id`."""
    return _families(
        PRODUCER, PRODUCER_METRICS, [({"client_id": each.client_id}, each.metrics()) for each in producers]
    )


def is_exported(metric: Metric) -> bool:
    """Whether Prometheus gets a metric."""
    return metric.kind is not MetricKind.RATE and not metric.name.startswith("partition-")


def prometheus_name(prefix: str, metric: Metric) -> str:
    """Return the name of a metric as Prometheus shows it."""
    is_total = metric.kind is MetricKind.TOTAL
    plain = metric.name.removesuffix("-total") if is_total else metric.name
    name = f"{prefix}_{plain.replace('-', '_')}"
    unit = {"ms": "seconds", "bytes": "bytes"}.get(metric.unit, "")
    return (name if unit in name else f"{name}_{unit}") + "_total" * is_total


def _families(
    prefix: str, metrics: Iterable[Metric], measured: Sequence[tuple[Labels, dict[str, float]]]
) -> Iterator[MetricFamily]:
    for metric in filter(is_exported, metrics):
        made = counter if metric.kind is MetricKind.TOTAL else gauge
        divisor = 1000 if metric.unit == "ms" else 1
        samples = [(labels, numbers[metric.name] / divisor) for labels, numbers in measured]
        yield made(prometheus_name(prefix, metric), metric.text.replace("`", ""), samples)
