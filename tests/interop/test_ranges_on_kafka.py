"""Ranges of offsets as Spark's tasks read them, from a real Apache Kafka: transactions, every codec of librdkafka."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from interop.brokers import Broker
from tests.interop.topics import create_topic

from kohort.model.ids import TopicPartition

pytest.importorskip("pyarrow")
confluent_kafka = pytest.importorskip("confluent_kafka")

from kohort.spark.options.source_options import SourceOptions  # noqa: E402
from kohort.spark.rows.read_rows import read_rows  # noqa: E402
from kohort.spark.rows.rounds import OffsetRange  # noqa: E402
from kohort.spark.source.batch_reader import find_ranges  # noqa: E402

pytestmark = pytest.mark.timeout(180)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture
def topic(apache: Broker, name: str) -> str:
    create_topic(apache.bootstrap, name, 1)
    return name


def producer(broker: Broker, **settings: Any) -> Any:
    return confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5, **settings})


def write_transactions(broker: Broker, topic: str) -> set[bytes]:
    """Write transactions of two producers that run into each other; return the values that were committed."""
    names = ("left", "right")
    writers = {
        name: producer(broker, **{"transactional.id": f"{topic}-{name}", "compression.type": codec})
        for name, codec in zip(names, ("lz4", "none"), strict=True)
    }
    kept = set()
    for writer in writers.values():
        writer.init_transactions(30)
    for number in range(6):
        for name, writer in writers.items():
            writer.begin_transaction()
            for each in range(50):
                writer.produce(topic, b"%s %d %d" % (name.encode(), number, each), partition=0)
            writer.flush(30)
        for name, writer in writers.items():
            if (number + names.index(name)) % 3:
                writer.commit_transaction(30)
                kept |= {b"%s %d %d" % (name.encode(), number, each) for each in range(50)}
            else:
                writer.abort_transaction(30)
    return kept


def read(broker: Broker, topic: str, ranges: list[OffsetRange] | None = None, **options: str) -> list[bytes]:
    given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, **options}
    parsed = SourceOptions.parse(given, "batch")
    found = ranges if ranges is not None else asyncio.run(find_ranges(parsed))[0]
    return [value for rows in read_rows(parsed.read, found) for value in rows["value"].to_pylist()]


def test_aborted_transactions_are_not_read_wherever_a_range_begins(apache: Broker, topic: str) -> None:
    kept = write_transactions(apache, topic)
    committed = read(apache, topic, isolationLevel="read_committed")
    assert len(committed) == len(kept)
    assert set(committed) == kept
    assert len(read(apache, topic)) == 600
    only = TopicPartition(topic, 0)
    everything = {"kafka.bootstrap.servers": apache.bootstrap, "subscribe": topic}
    end = asyncio.run(find_ranges(SourceOptions.parse(everything, "batch")))[0][0].stop
    for size in (7, 90):
        cuts = [OffsetRange(only, start, min(start + size, end)) for start in range(0, end, size)]
        parts = [read(apache, topic, [each], isolationLevel="read_committed") for each in cuts]
        assert [value for part in parts for value in part] == committed


def test_an_open_transaction_ends_what_is_committed(apache: Broker, topic: str) -> None:
    first = producer(apache)
    first.produce(topic, b"plain", partition=0)
    first.flush(30)
    writer = producer(apache, **{"transactional.id": f"{topic}-open"})
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.produce(topic, b"open", partition=0)
    writer.flush(30)
    assert read(apache, topic, isolationLevel="read_committed") == [b"plain"]
    assert read(apache, topic) == [b"plain", b"open"]
    writer.abort_transaction(30)


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_of_librdkafka_is_read(apache: Broker, topic: str, codec: str) -> None:
    writer = producer(apache, **{"compression.type": codec})
    values = [b"%d " % number * 20 for number in range(2000)]
    for value in values:
        writer.produce(topic, value, partition=0, headers=[("n", value[:3])])
    writer.flush(30)
    assert read(apache, topic, includeHeaders="true") == values
