"""Rows that a GroupStream and a query decode on the way, and the bad ones in the dead-letter topic."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from tests.spark.cluster import Topic

from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition
from kohort.spark import GroupStream, dead_letters, decode
from kohort.spark.rows.read_rows import arrow_schema
from kohort.spark.rows.read_settings import ReadSettings
from kohort.spark.rows.value_decoding import DecodedRows
from kohort.spark.schemas.decoded_column import decoding
from kohort.sync import Admin, Producer
from kohort.testing import EmbeddedBroker, SchemaRegistry

pytestmark = pytest.mark.spark

SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    ],
}
EMPTY_MAP, NO_TIME = b"\0", b"\0"


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


@pytest.fixture
def letters(topic: Topic, broker: EmbeddedBroker) -> str:
    """The dead-letter topic."""
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(f"{topic.name}-bad", partitions=1)
    return f"{topic.name}-bad"


def produce(broker: EmbeddedBroker, topic: Topic, writer: int) -> None:
    """Produce twenty records, of which every fifth is bad."""
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(20):
            content = bytes([2 * number]) + EMPTY_MAP + NO_TIME
            good = b"\0" + struct.pack(">i", writer) + content
            producer.send(topic.name, b"bad" if number % 5 == 0 else good, partition=number % 3)


def written(broker: EmbeddedBroker, topic: str) -> int:
    with Admin(broker.bootstrap_servers) as admin:
        place = TopicPartition(topic, 0)
        return admin.list_offsets({place: "latest"})[place].offset


WANTED = [number for number in range(20) if number % 5]


@pytest.mark.parametrize("rows_on_driver", [1000, 0])
def test_a_group_stream_decodes_its_rounds_and_commits_behind_bad_records(
    spark: SparkSession,
    broker: EmbeddedBroker,
    topic: Topic,
    registry: SchemaRegistry,
    letters: str,
    rows_on_driver: int,
) -> None:
    produce(broker, topic, registry.register(f"{topic.name}-value", SCHEMA))
    found: list[int] = []

    def keep(frame: DataFrame, _: Any) -> None:
        found.extend(row.id for row in frame.select("value.*").collect())

    with GroupStream(
        spark,
        topic.name,
        bootstrap_servers=broker.bootstrap_servers,
        group_id=f"g-{topic.name}",
        auto_offset_reset="earliest",
        rows_on_driver=rows_on_driver,
        registry=registry.url,
        dead_letter_topic=letters,
    ) as stream:
        metrics = stream.run(keep, until=lambda stream: stream.is_caught_up, timeout_s=60)
    assert sorted(found) == WANTED
    assert (metrics.offsets, written(broker, letters)) == (20, 4)
    assert metrics.dead_letters == (4 if rows_on_driver else 0)


@pytest.mark.usefixtures("spark")  # its schema is DDL, which Java parses
def test_what_made_a_round_fail_is_raised_although_its_dead_letters_are_refused(
    broker: EmbeddedBroker, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(f"{topic.name}-tiny", partitions=1, configs={"max.message.bytes": "50"})
    read = decoding(None, schema="id int", value_format="json")
    settings = ReadSettings(
        broker.bootstrap_servers, group_id="g", decoding=read, dead_letter_topic=f"{topic.name}-tiny"
    )
    bad = {"topic": topic.name, "partition": 0, "offset": 0, "value": b"no json", "timestampType": 0}
    rows = pa.RecordBatch.from_pylist([bad], arrow_schema(include_headers=True))
    with pytest.raises(KafkaError, match="dead-letter topic"), DecodedRows(settings) as decoded:
        decoded.of(rows)

    def fail(rows: pa.RecordBatch) -> None:
        with DecodedRows(settings) as decoded:
            decoded.of(rows)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail(rows)
    assert "after ZeroDivisionError(): MESSAGE_TOO_LARGE: the dead-letter topic" in caplog.text


def test_a_query_decodes_and_writes_the_dead_letters_before_it_commits(
    spark: SparkSession, broker: EmbeddedBroker, topic: Topic, registry: SchemaRegistry, letters: str, tmp_path: Path
) -> None:
    produce(broker, topic, registry.register(f"{topic.name}-value", SCHEMA))
    frame = (
        spark.readStream.format("kohort")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", topic.name)
        .option("group.id", f"q-{topic.name}")
        .option("startingOffsets", "earliest")
        .option("schema.registry.url", registry.url)
        .option("deadLetterTopic", letters)
        .load()
    )
    query = (
        frame.selectExpr("value.id", "value.at", "offset")
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "rows"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(row.id for row in spark.read.parquet(str(tmp_path / "rows")).collect()) == WANTED
    assert written(broker, letters) == 4
    with Admin(broker.bootstrap_servers) as admin:
        assert sum(each.offset for each in admin.group_offsets(f"q-{topic.name}").values()) == 20


def test_a_batch_has_the_reason_in_a_column(
    spark: SparkSession, broker: EmbeddedBroker, topic: Topic, registry: SchemaRegistry
) -> None:
    produce(broker, topic, registry.register("other", SCHEMA))
    frame = (
        spark.read.format("kohort")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", topic.name)
        .option("schema.registry.url", registry.url)
        .option("valueSubject", "other")
        .load()
    )
    rows = frame.selectExpr("value.id", "error.reason", "error.bytes").collect()
    assert sorted(row.id for row in rows if row.id is not None) == WANTED
    assert [bytes(row.bytes) for row in rows if row.reason == "not_wire_format"] == [b"bad"] * 4


def test_a_batch_function_writes_bad_records_with_the_headers_of_the_source(
    spark: SparkSession, broker: EmbeddedBroker, topic: Topic, registry: SchemaRegistry, letters: str, tmp_path: Path
) -> None:
    produce(broker, topic, registry.register(f"{topic.name}-value", SCHEMA))
    with Producer(broker.bootstrap_servers) as producer:
        producer.send(topic.name, b"bad", b"key", partition=0, headers=[("trace", b"7")])

    def source() -> Any:
        reader = spark.readStream.format("kohort").option("kafka.bootstrap.servers", broker.bootstrap_servers)
        return reader.option("subscribe", topic.name).option("startingOffsets", "earliest")

    def finish(frame: DataFrame, name: str, store: Any) -> None:
        writer = frame.writeStream.foreachBatch(store).option("checkpointLocation", str(tmp_path / name))
        writer.trigger(availableNow=True).start().awaitTermination()

    def store(frame: DataFrame, _: int) -> None:
        rows = frame.withColumn("flight", decode("value", registry.url, subject=f"{topic.name}-value"))
        sink = dead_letters(rows, "flight", group="flights").write.format("kohort")
        sink.option("kafka.bootstrap.servers", broker.bootstrap_servers).option("topic", letters).mode("append").save()

    finish(source().option("group.id", "flights").option("includeHeaders", "true").load(), "batches", store)
    of_batches = letters_in(spark, broker, letters)
    assert len(of_batches) == 5
    assert ("key", "bad", "7") in {(row[0], row[1], dict(row[2]).get("trace")) for row in of_batches}

    decoding = source().option("schema.registry.url", registry.url).option("deadLetterTopic", letters)
    finish(decoding.option("group.id", "flights-2").load(), "source", lambda frame, _: frame.collect())
    of_source = {
        (key, value, tuple((name, text.replace("flights-2", "flights")) for name, text in headers))
        for key, value, headers in letters_in(spark, broker, letters) - of_batches
    }
    assert of_source == of_batches


def letters_in(spark: SparkSession, broker: EmbeddedBroker, topic: str) -> set[tuple[Any, ...]]:
    """Return key, value and headers of each record of the dead-letter topic, as texts."""
    reader = spark.read.format("kohort").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    rows = reader.option("subscribe", topic).option("includeHeaders", "true").load()
    texts = "transform(headers, each -> struct(each.key, string(each.value) AS value)) AS headers"
    return {
        (row.key, row.value, tuple(map(tuple, row.headers)))
        for row in rows.selectExpr("string(key) AS key", "string(value) AS value", texts).collect()
    }
