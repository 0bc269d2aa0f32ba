"""What clients measure of themselves on a real broker, and what Prometheus finds when it asks."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from math import isnan

import pytest
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.parser import text_string_to_metric_families

from kohort.broker.embedded import EmbeddedBroker
from kohort.client.consumer.consumer_metrics import CONSUMER_METRICS
from kohort.client.producer.producer_metrics import PRODUCER_METRICS
from kohort.client.prometheus import ConsumerCollector, ProducerCollector
from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition
from kohort.sync import Admin, Consumer, Producer

TOPIC = "flights"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(TOPIC, partitions=1)
        with Producer(broker.bootstrap_servers) as producer:
            for number in range(10):
                producer.send(TOPIC, b"%d" % number)
        yield broker.bootstrap_servers


def consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer(TOPIC, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", client_id="gate")


def scrape(*consumers: Consumer, producers: tuple[Producer, ...] = ()) -> dict[str, dict[tuple[str, ...], float]]:
    """Serve the clients' metrics over HTTP as a program would, ask as Prometheus would; return samples by name."""
    registry = CollectorRegistry()
    registry.register(ConsumerCollector(*consumers))
    registry.register(ProducerCollector(*producers))
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics") as answer:
            text = answer.read().decode()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    samples: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, {})[tuple(value for _, value in sorted(sample.labels.items()))] = (
                sample.value
            )
    return samples


def test_a_consumer_returns_every_metric_of_the_table(bootstrap: str) -> None:
    with consumer(bootstrap, "table") as reader:
        assert len(reader.poll(10_000, max_records=4)[0]) == 4
        reader.commit()
        numbers = reader.metrics()
        assert list(numbers) == [metric.name for metric in CONSUMER_METRICS]
        assert [numbers[name] for name in ("rebalance-total", "join-total", "sync-total", "commit-total")] == [1] * 4
        assert (numbers["assigned-partitions"], numbers["records-lag-max"]) == (1, 6)
        assert not isnan(numbers["partitions-assigned-latency-max"])
        assert (numbers["records-consumed-total"], numbers["last-poll-seconds-ago"]) == (4, 0)
        assert numbers["bytes-consumed-total"] == numbers["fetch-size-max"] > 0
        assert numbers["fetch-total"] >= 1
        assert 0 <= numbers["poll-idle-ratio-avg"] <= 1
        lag = reader.lag()[TopicPartition(TOPIC, 0)]
        assert (lag.records, lag.is_bound, lag.reason) == (6, False, None)
        assert lag.seconds is not None
    assert reader.metrics()["partitions-revoked-latency-max"] >= 0, "metrics outlive the membership"


def test_a_consumer_that_has_not_started_has_measured_nothing(bootstrap: str) -> None:
    numbers = consumer(bootstrap, "idle").metrics()
    assert (numbers["rebalance-total"], numbers["last-rebalance-seconds-ago"]) == (0, -1)
    assert isnan(numbers["rebalance-latency-avg"])


def test_a_failed_commit_is_measured_as_answered(bootstrap: str) -> None:
    with consumer(bootstrap, "wrong") as reader:
        assert reader.poll(10_000)
        with pytest.raises(Exception, match="could not commit"):
            reader.commit({TopicPartition(TOPIC, 0): 1, TopicPartition("nowhere", 0): 1})
        assert reader.metrics()["commit-total"] == 1


def test_prometheus_scrapes_consumers_by_client_and_group(bootstrap: str) -> None:
    with consumer(bootstrap, "east") as east, consumer(bootstrap, "west") as west:
        assert len(east.poll(10_000, max_records=3)[0]) == 3
        assert len(west.poll(10_000, max_records=10)[0]) == 10
        found = scrape(east, west)
    assert found["kohort_consumer_rebalance_total"] == {("gate", "east"): 1, ("gate", "west"): 1}
    assert (
        found["kohort_consumer_partition_lag_seconds"].keys() == found["kohort_consumer_partition_lag_records"].keys()
    )
    assert found["kohort_consumer_partition_lag_records"] == {
        ("gate", "east", "0", TOPIC): 7,
        ("gate", "west", "0", TOPIC): 0,
    }
    latency_s = found["kohort_consumer_rebalance_latency_seconds_total"]["gate", "east"]
    assert latency_s == east.metrics()["rebalance-latency-total"] / 1000


def test_names_for_prometheus_keep_its_conventions(bootstrap: str) -> None:
    with consumer(bootstrap, "names") as reader, Producer(bootstrap) as producer:
        found = scrape(reader, producers=(producer,))
    assert all(re.fullmatch(r"kohort_(consumer|producer)(_[a-z]+)+", name) for name in found)
    assert not [name for name in found if name.endswith("_ms") or "rate" in name]


def test_a_producer_returns_every_metric_of_the_table(bootstrap: str) -> None:
    with Producer(bootstrap, client_id="mill", buffer_memory=1_000_000, linger_ms=1_000) as producer:
        for number in range(10):
            producer.send(TOPIC, b"%d" % number, timestamp_ms=0)
        assert producer.metrics()["buffer-available-bytes"] < 1_000_000
        producer.flush()
        numbers = producer.metrics()
        assert list(numbers) == [metric.name for metric in PRODUCER_METRICS]
        names = ("record-send-total", "request-total", "records-per-request-avg", "record-error-total")
        assert [numbers[name] for name in names] == [10, 1, 10, 0]
        assert (numbers["buffer-available-bytes"], numbers["requests-in-flight"]) == (1_000_000, 0)
        assert numbers["batch-size-max"] > 100
        assert numbers["request-latency-max"] >= 0, "the clock of uvloop has milliseconds"
        assert numbers["record-queue-time-avg"] >= 0
        found = scrape(producers=(producer,))
        assert found["kohort_producer_record_send_total"] == {("mill",): 10}
        assert found["kohort_producer_batch_size_max_bytes"] == {("mill",): numbers["batch-size-max"]}
        latency_s = found["kohort_producer_request_latency_max_seconds"]["mill",]
        assert latency_s == numbers["request-latency-max"] / 1000
    assert producer.metrics()["record-send-total"] == 10, "metrics outlive the producer"


def test_records_that_are_not_written_are_counted_as_errors() -> None:
    with EmbeddedBroker(message_max_bytes=1_000) as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(TOPIC, partitions=1)
        with Producer(broker.bootstrap_servers) as producer:
            refused = producer.send(TOPIC, b"x" * 2_000)
            with pytest.raises(KafkaError):
                refused.result()
            numbers = producer.metrics()
            assert (numbers["record-send-total"], numbers["record-error-total"]) == (1, 1)
        assert Producer(broker.bootstrap_servers).metrics()["record-send-total"] == 0, "it has not started"
