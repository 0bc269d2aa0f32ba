"""Rows that a GroupStream and a query decode on the way, and the bad ones in the dead-letter topic."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import DataFrame, SparkSession
from tests.spark.cluster import Topic

from kohort.model.ids import TopicPartition
from kohort.spark import GroupStream
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
    assert (metrics.rows, written(broker, letters)) == (20, 4)
    assert metrics.dead_letters == (4 if rows_on_driver else 0)


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
