"""Streams groups move with their log, from Apache Kafka to our broker and from there, while their application runs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from interop.brokers import Broker
from interop.group import keyed
from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker
from interop.moved_logs import OFFSETS, to_kafka, to_kohort
from interop.producers import produce
from interop.streams import STREAMS_PROTOCOL, Application, application, running
from tests.interop.kafka_tools import attempt
from tests.interop.test_streams_groups import STREAMS
from tests.interop.topics import create_topic

from kohort.log.offsets_topic import Replay, record_of
from kohort.wire.record_batches import Record, decode_batch, encode_batch, iter_batches

pytestmark = [pytest.mark.timeout(400), pytest.mark.usefixtures("java")]
TOPIC, PARTITIONS, KEYS = "moved", 4, 20
RECORDS = {1, 17, 19, 20, 21, 22, 23}


def described(broker: Broker, group_id: str) -> list[str]:
    """Return what Kafka's own tool shows of the members, with their tasks and epochs."""
    text = attempt(broker, STREAMS, "--describe", "--group", group_id, "--members", "--verbose")
    return sorted(re.sub(r" +", " ", line) for line in text.splitlines() if line.startswith(group_id))


def compared_records(logs: Path) -> Counter[int]:
    """Return how many records of each type stand in the logs of groups; what we write of them must mean the same."""
    counts: Counter[int] = Counter()
    for segment in sorted(logs.glob(f"{OFFSETS}-*/*.log")):
        for header, batch in iter_batches(segment.read_bytes()):
            for record in [] if header.is_control else decode_batch(batch):
                event = Replay().event_of(record)
                assert event is not None, f"{segment}: a record of an unknown type"
                key, value = record_of(event)
                assert key == record.key
                (again,) = Replay().read(encode_batch([Record(0, 0, key, value)]))
                assert again == event
                counts[int.from_bytes(key[:2], "big")] += 1
    return counts


def begin(streams: Application, bootstrap: str) -> list[str]:
    """Run two instances until they have counted; return the topics of the application."""
    for each in [streams.start(number) for number in range(2)]:
        running(each)
    produce("librdkafka", bootstrap, TOPIC, keyed(200, KEYS))
    streams.await_counts(KEYS, 10)
    return [TOPIC, streams.counts, *(f"{streams.group_id}-counts-{kind}" for kind in ("repartition", "changelog"))]


def goes_on(streams: Application, broker: Broker, before: list[str]) -> None:
    """Check that the members are as before, and that the application counts what is written now, once."""
    produce("librdkafka", broker.bootstrap, TOPIC, keyed(200, KEYS, start=200), idempotent=False)
    streams.await_counts(KEYS, 20)
    assert described(broker, streams.group_id) == before
    assert len(streams.read_counts()) == KEYS * 20


@pytest.mark.capability("Kafka Streams", "streams groups that Apache Kafka wrote, loaded by our broker")
def test_application_runs_on_while_its_group_moves_to_our_broker(
    kafka: ApacheKafka, ours: KohortBroker, tmp_path: Path
) -> None:
    for name in (TOPIC, f"{TOPIC}-counts"):
        create_topic(kafka.bootstrap, name, PARTITIONS)
    with application(kafka.bootstrap, TOPIC, tmp_path, PARTITIONS, STREAMS_PROTOCOL) as streams:
        begin(streams, kafka.bootstrap)
        before = described(kafka, streams.group_id)
        assert len(before) == 2
        kafka.stop()
        assert set(compared_records(kafka.logs)) == RECORDS
        to_kohort(kafka.logs, ours.logs, leader_epoch=9)
        ours.start()
        goes_on(streams, ours, before)


@pytest.mark.capability("Kafka Streams", "streams groups that our broker wrote, loaded by Apache Kafka")
def test_application_runs_on_while_its_group_moves_to_kafka(
    kafka: ApacheKafka, ours: KohortBroker, tmp_path: Path
) -> None:
    for name in (TOPIC, f"{TOPIC}-counts"):
        create_topic(kafka.bootstrap, name, PARTITIONS)
    with application(kafka.bootstrap, TOPIC, tmp_path, PARTITIONS, STREAMS_PROTOCOL) as streams:
        # Kafka makes the topics, also that of groups: ours then has their ids.
        first = streams.start(0)
        running(first)
        first.stop()
        attempt(kafka, STREAMS, "--delete", "--group", streams.group_id)
        kafka.stop()
        to_kohort(kafka.logs, ours.logs)
        ours.start()
        topics = begin(streams, ours.bootstrap)
        before = described(ours, streams.group_id)
        ours.stop()
        assert set(compared_records(ours.logs)) == RECORDS
        to_kafka(ours.logs, kafka.logs, (OFFSETS, *topics))
        kafka.restart()
        goes_on(streams, kafka, before)
