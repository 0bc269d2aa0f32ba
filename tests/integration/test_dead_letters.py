"""Rows of a topic decoded as a task of Spark reads them, and the bad ones in the dead-letter topic."""

from __future__ import annotations

import io
import struct
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numba")
pytest.importorskip("urllib3")
pytest.importorskip("fastavro")

import fastavro

from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition
from kohort.schemas.registry import RegistryUnavailable
from kohort.spark.rows.read_rows import read_rows
from kohort.spark.rows.read_settings import ReadSettings
from kohort.spark.rows.rounds import OffsetRange
from kohort.spark.schemas.decoded_column import decoding
from kohort.spark.schemas.value_decoder import Decoding
from kohort.sync import Admin, Consumer, Producer
from kohort.testing import EmbeddedBroker, SchemaRegistry
from kohort.wire.record_batches import HEADER_SIZE, CorruptBatch

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
OTHER = {"type": "record", "name": "Order", "fields": [{"name": "name", "type": "string"}]}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as running:
        yield running


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


@pytest.fixture
def topics(broker: EmbeddedBroker) -> tuple[str, str]:
    """A topic and its dead-letter topic, each of one partition."""
    name = f"orders-{uuid.uuid4().hex[:6]}"
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(name, partitions=1)
        admin.create_topic(f"{name}-bad", partitions=1)
    return name, f"{name}-bad"


def framed(writer: int, schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return b"\0" + struct.pack(">i", writer) + out.getvalue()


def settings(broker: EmbeddedBroker, registry: SchemaRegistry, topics: tuple[str, str]) -> ReadSettings:
    how = decoding({"schema.registry.url": registry.url, "schema.registry.retry.ms": "1"}, subject="orders-value")
    # As a round takes it to the executors.
    how = Decoding.from_json(how.to_json())
    return ReadSettings(broker.bootstrap_servers, decoding=how, dead_letter_topic=topics[1], group_id="billing")


def consumed(broker: EmbeddedBroker, topic: str, number: int) -> list[Any]:
    found: list[Any] = []
    with Consumer(
        topic, bootstrap_servers=broker.bootstrap_servers, group_id=f"g-{topic}", auto_offset_reset="earliest"
    ) as consumer:
        while len(found) < number:
            found += [record for batch in consumer.poll(timeout_ms=1000) for record in batch]
    return found


def test_a_bad_record_goes_to_the_dead_letter_topic_as_it_was_with_the_reason(
    broker: EmbeddedBroker, registry: SchemaRegistry, topics: tuple[str, str]
) -> None:
    good = registry.register("orders-value", ORDER)
    other = registry.register("others-value", OTHER)
    contents = [
        framed(good, ORDER, {"id": 1}),
        b"plain text",
        framed(other, OTHER, {"name": "x"}),
        framed(good, ORDER, {"id": 2}),
        framed(99, ORDER, {"id": 3}),
        framed(good, ORDER, {"id": 4}) + b"!",
    ]
    with Producer(broker.bootstrap_servers) as producer:
        for place, content in enumerate(contents):
            kept = [("trace", b"t%d" % place)]
            producer.send(topics[0], content, key=b"k%d" % place, timestamp_ms=1000 + place, headers=kept)
    ranges = [OffsetRange(TopicPartition(topics[0], 0), 0, 6)]
    rows = [row for batch in read_rows(settings(broker, registry, topics), ranges) for row in batch.to_pylist()]
    assert [(row["offset"], row["value"]) for row in rows] == [(0, {"id": 1}), (3, {"id": 2})]
    assert list(rows[0]) == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]

    letters = consumed(broker, topics[1], 4)
    assert [(each.key, each.value, each.timestamp_ms) for each in letters] == [
        (b"k%d" % place, contents[place], 1000 + place) for place in (1, 2, 4, 5)
    ]
    headers = [dict(each.headers) for each in letters]
    assert [each["kohort.error.reason"] for each in headers] == [
        b"not_wire_format", b"incompatible_schema", b"unknown_schema", b"broken_value",
    ]  # fmt: skip
    assert headers[3] == {
        "trace": b"t5",
        "__connect.errors.topic": topics[0].encode(),
        "__connect.errors.partition": b"0",
        "__connect.errors.offset": b"5",
        "__connect.errors.connector.name": b"billing",
        "__connect.errors.stage": b"VALUE_CONVERTER",
        "__connect.errors.class.name": b"kohort.spark.decode",
        "__connect.errors.exception.class.name": b"kohort.spark.Reason.BROKEN_VALUE",
        "__connect.errors.exception.message": b"bytes are left over behind the value",
        "kohort.error.reason": b"broken_value",
        "kohort.error.schema.id": str(good).encode(),
    }


def test_without_a_dead_letter_topic_the_reason_stands_beside_the_value(
    broker: EmbeddedBroker, registry: SchemaRegistry, topics: tuple[str, str]
) -> None:
    good = registry.register("orders-value", ORDER)
    with Producer(broker.bootstrap_servers) as producer:
        producer.send(topics[0], framed(good, ORDER, {"id": 1}))
        producer.send(topics[0], b"?")
        producer.send(topics[0], None, key=b"tombstone")
    read = replace(settings(broker, registry, topics), dead_letter_topic="")
    ranges = [OffsetRange(TopicPartition(topics[0], 0), 0, 3)]
    rows = [row for batch in read_rows(read, ranges) for row in batch.to_pylist()]
    assert [(row["value"], row["error"] and row["error"]["reason"]) for row in rows] == [
        ({"id": 1}, None), (None, "not_wire_format"), (None, None),
    ]  # fmt: skip


def test_a_dead_letter_topic_that_cannot_be_written_fails_the_task(
    broker: EmbeddedBroker, registry: SchemaRegistry, topics: tuple[str, str]
) -> None:
    registry.register("orders-value", ORDER)
    with Producer(broker.bootstrap_servers) as producer:
        producer.send(topics[0], b"?")
    read = replace(settings(broker, registry, topics), dead_letter_topic="missing")
    with pytest.raises(KafkaError, match=r"the dead-letter topic missing cannot be written: .* Nothing of this batch"):
        list(read_rows(read, [OffsetRange(TopicPartition(topics[0], 0), 0, 1)]))


def test_an_outage_of_the_registry_sends_no_good_record_to_the_dead_letters(
    broker: EmbeddedBroker, registry: SchemaRegistry, topics: tuple[str, str]
) -> None:
    good = registry.register("orders-value", ORDER)
    registry.register("orders-value", {**ORDER, "doc": "newer"})
    read = settings(broker, registry, topics)
    with Producer(broker.bootstrap_servers) as producer:
        producer.send(topics[0], framed(good, ORDER, {"id": 1}))
    ranges = [OffsetRange(TopicPartition(topics[0], 0), 0, 1)]
    registry.failing = 503
    with pytest.raises(RegistryUnavailable):
        list(read_rows(read, ranges))
    with Admin(broker.bootstrap_servers) as admin:
        letters = TopicPartition(topics[1], 0)
        assert admin.list_offsets({letters: "latest"})[letters].offset == 0
    registry.failing = None
    assert [row["value"] for batch in read_rows(read, ranges) for row in batch.to_pylist()] == [{"id": 1}]


@pytest.fixture
def damaged(tmp_path: Path, registry: SchemaRegistry) -> Iterator[Callable[[int], tuple[ReadSettings, bytes]]]:
    """Three batches of two orders each; return what flips one byte of the second, and the batch as it is then."""
    number = registry.register("orders-value", ORDER)
    with EmbeddedBroker(tmp_path, group_initial_rebalance_delay_ms=0) as broker:
        with Admin(broker.bootstrap_servers) as admin:
            for topic in ("orders", "bad"):
                admin.create_topic(topic, partitions=1)
        for start in (0, 2, 4):
            with Producer(broker.bootstrap_servers) as producer:
                for value in (start, start + 1):
                    producer.send("orders", framed(number, ORDER, {"id": value}), timestamp_ms=0)

        def flip(at: int) -> tuple[ReadSettings, bytes]:
            broker.stop()
            [segment] = tmp_path.glob("**/orders-0/*.log")
            stored = bytearray(segment.read_bytes())
            size = len(stored) // 3
            stored[size + at] ^= 0x40
            segment.write_bytes(stored)
            broker.start()
            return settings(broker, registry, ("orders", "bad")), bytes(stored[size : 2 * size])

        yield flip


ALL = [OffsetRange(TopicPartition("orders", 0), 0, 6)]


def test_a_damaged_batch_is_one_dead_letter_with_all_its_bytes(
    damaged: Callable[[int], tuple[ReadSettings, bytes]],
) -> None:
    read, batch = damaged(HEADER_SIZE + 5)
    rows = [row for batch in read_rows(read, ALL) for row in batch.to_pylist()]
    assert [(row["offset"], row["value"]["id"]) for row in rows] == [(at, at) for at in (0, 1, 4, 5)]
    with Consumer("bad", bootstrap_servers=read.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        [[letter]] = consumer.poll(timeout_ms=10_000)
    headers = dict(letter.headers)
    assert (letter.key, letter.value) == (None, batch)
    assert (headers["kohort.error.reason"], headers["__connect.errors.offset"]) == (b"damaged_batch", b"2")
    assert headers["__connect.errors.exception.message"] == (
        b"the record batch of offsets 2 to 3 is damaged: orders-0: wrong CRC in the batch at offset 2"
    )


def test_a_damaged_batch_is_one_row_with_its_reason_without_a_dead_letter_topic(
    damaged: Callable[[int], tuple[ReadSettings, bytes]],
) -> None:
    read, batch = damaged(HEADER_SIZE + 5)
    rows = [row for batch in read_rows(replace(read, dead_letter_topic=""), ALL) for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == [0, 1, 2, 4, 5]
    assert rows[2]["value"] is None
    assert (rows[2]["error"]["reason"], rows[2]["error"]["bytes"]) == ("damaged_batch", batch)


def test_a_damaged_batch_that_does_not_say_where_it_ends_is_not_passed_over(
    damaged: Callable[[int], tuple[ReadSettings, bytes]],
) -> None:
    read, _ = damaged(26)  # the last byte of its last offset delta
    with pytest.raises(CorruptBatch, match="orders-0"):
        list(read_rows(read, ALL))
