"""Nulls at every depth of Avro's records, and headers, through each way that rows take, read by Polars and DuckDB.

What leads out of a topic: tables by a GroupStream (rows decoded by the application and by tasks) and in `foreachBatch`,
Spark's file sink. What leads back into one: `TransactionalTopic` and the sink of the format `kohort`.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("polars")
pytest.importorskip("confluent_kafka")

import fastavro
import polars
import pyarrow as pa
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place
from interop.foreign_readers import duckdb
from tests.spark.cluster import Topic
from tests.spark.lake import KINDS, lake_table

from kohort.broker.embedded import EmbeddedBroker
from kohort.spark import GroupStream, TransactionalTopic, exactly_once
from kohort.spark.source.data_source import register
from kohort.testing import SchemaRegistry
from kohort.wire.record_batches import Record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.timeout(600), pytest.mark.spark]

POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}
ROW: dict[str, Any] = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "point", "type": ["null", POINT]},
        {"name": "points", "type": ["null", {"type": "array", "items": ["null", "Point"]}]},
        {"name": "named", "type": ["null", {"type": "map", "values": ["null", "Point"]}]},
        {"name": "deep", "type": ["null", {"type": "array", "items": {"type": "array", "items": ["null", "Point"]}}]},
    ],
}
ONE = {"x": 1}
VALUES: list[dict[str, Any] | None] = [
    {"id": 0, "point": None, "points": None, "named": None, "deep": None},
    {"id": 1, "point": ONE, "points": [], "named": {}, "deep": []},
    {"id": 2, "point": ONE, "points": [None], "named": {"k": None}, "deep": [[]]},
    {"id": 3, "point": None, "points": [ONE, None], "named": {"": ONE, "k": None}, "deep": [[None], [], [ONE, None]]},
    None,
]
HEADERS: list[tuple[tuple[str, bytes | None], ...]] = [
    *((), (("a", None),), (("a", b""), ("a", b"\x00")), (("", b"1"), ("é", None)), (("gone", b""),)),
]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as running:
        yield running


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


@pytest.fixture
def topic(broker: EmbeddedBroker, registry: SchemaRegistry, request: pytest.FixtureRequest) -> Iterator[Topic]:
    """A topic with the values, three times each."""
    name = f"t-{abs(hash(request.node.name))}"
    writer = registry.register(f"{name}-value", ROW)
    schema = fastavro.parse_schema(ROW)
    records = []
    for value, headers in zip(VALUES * 3, HEADERS * 3, strict=True):
        out = io.BytesIO(b"\0" + struct.pack(">i", writer))
        out.seek(5)
        if value is not None:
            fastavro.schemaless_writer(out, schema, value)
        records.append(Record(0, 1_700_000_000_000, b"k", None if value is None else out.getvalue(), headers))
    with Topic(broker.bootstrap_servers, name, partitions=1) as made:
        made.produce(0, records)
        yield made


def plain(value: Any) -> Any:
    """Return a value of a reader: maps are pairs to some, structs to others."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return list(value) if isinstance(value, tuple) else value.hex() if isinstance(value, bytes) else value


def pairs(value: Any) -> Any:
    """Return the pairs of a map."""
    items = value.items() if isinstance(value, dict) else value
    return None if items is None else sorted(list(each.values() if isinstance(each, dict) else each) for each in items)


def check(rows: pa.Table) -> None:
    """Compare all rows of the topic, by offset."""
    found = sorted(rows.select(["offset", "value", "headers"]).to_pylist(), key=lambda row: row["offset"])
    assert [row["offset"] for row in found] == list(range(len(VALUES) * 3))
    for row, value, headers in zip(found, VALUES * 3, HEADERS * 3, strict=True):
        assert plain(row["headers"]) == (plain([{"key": key, "value": text} for key, text in headers]) or None)
        if value is None:
            assert row["value"] is None
            continue
        shown = {**row["value"], "named": pairs(row["value"]["named"])}
        assert json.dumps(plain(shown)) == json.dumps({**value, "named": pairs(value["named"])})


def in_table(kind: str, table: Any) -> Iterator[pa.Table]:
    """Yield the rows of a table by each reader."""
    if kind == "delta":
        place = table.uri
        yield polars.read_delta(place).to_arrow()
    else:
        place = table.catalog.load_table(table.name).metadata_location
        yield polars.scan_iceberg(place).collect().to_arrow()
    yield duckdb("avro", kind).execute(f"SELECT * FROM {kind}_scan('{place}')").to_arrow_table()


@pytest.mark.parametrize("rows_on_driver", [0, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_nulls_and_headers_of_a_stream_are_those_of_its_table(
    spark: SparkSession, topic: Topic, registry: SchemaRegistry, tmp_path: Path, kind: str, rows_on_driver: int
) -> None:
    table = lake_table(kind, tmp_path, rows_on_driver=rows_on_driver)
    with GroupStream(
        spark,
        topic.name,
        bootstrap_servers=topic.bootstrap_servers,
        group_id=topic.group_id,
        auto_offset_reset="earliest",
        rows_on_driver=rows_on_driver,
        include_headers=True,
        registry=registry.url,
        max_rows_per_round=7,
    ) as stream:
        stream.run(exactly_once(table), until=lambda stream: stream.is_caught_up, timeout_s=120)
    for rows in in_table(kind, table):
        check(rows)


def rows_of(spark: SparkSession, topic: Topic, **options: Any) -> Any:
    register(spark)
    rows = spark.readStream.format("kohort").option("kafka.bootstrap.servers", topic.bootstrap_servers)
    return rows.options(subscribe=topic.name, startingOffsets="earliest", includeHeaders=True, **options).load()


@pytest.mark.parametrize("kind", [*KINDS, "parquet"])
def test_nulls_and_headers_of_a_query_are_those_of_its_table_or_file(
    spark: SparkSession, topic: Topic, registry: SchemaRegistry, tmp_path: Path, kind: str
) -> None:
    decoded = {"schema.registry.url": registry.url, "valueSubject": f"{topic.name}-value"}
    writer = rows_of(spark, topic, **{"group.id": topic.group_id, **decoded}).writeStream
    writer = writer.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(availableNow=True)
    if kind == "parquet":
        writer.format("parquet").start(f"{tmp_path}/files").awaitTermination()
        check(polars.read_parquet(f"{tmp_path}/files/*.parquet").to_arrow())
        check(duckdb().execute(f"SELECT * FROM read_parquet('{tmp_path}/files/*.parquet')").to_arrow_table())
        return
    table = lake_table(kind, tmp_path)
    writer.foreachBatch(exactly_once(table)).start().awaitTermination()
    for rows in in_table(kind, table):
        check(rows)


@pytest.mark.parametrize("way", ["transactions", "sink"])
def test_headers_and_nulls_are_copied_to_another_topic(
    spark: SparkSession, topic: Topic, tmp_path: Path, way: str
) -> None:
    with Topic(topic.bootstrap_servers, f"{topic.name}-copy", partitions=1) as copy:
        if way == "sink":
            frame = rows_of(spark, topic, **{"group.id": topic.group_id}).select("key", "value", "headers")
            writer = frame.writeStream.format("kohort").option("kafka.bootstrap.servers", topic.bootstrap_servers)
            writer = writer.option("topic", copy.name).option("checkpointLocation", f"{tmp_path}/checkpoint")
            writer.trigger(availableNow=True).start().awaitTermination()
        else:
            settings: dict[str, Any] = {"auto_offset_reset": "earliest", "include_headers": True}
            with (
                GroupStream(
                    spark,
                    topic.name,
                    bootstrap_servers=topic.bootstrap_servers,
                    group_id=topic.group_id,
                    **settings,
                ) as stream,
                TransactionalTopic(
                    copy.name, bootstrap_servers=copy.bootstrap_servers, transactional_id=copy.name
                ) as writer,
            ):
                stream.run(writer, until=lambda stream: stream.is_caught_up, timeout_s=120)
        sent, received = (records_of(each) for each in (topic, copy))
        assert received == sent


def records_of(topic: Topic) -> list[tuple[Any, ...]]:
    """Return the records of a topic, by confluent-kafka."""
    consumer = Consumer({"bootstrap.servers": topic.bootstrap_servers, "group.id": f"{topic.name}-check"})
    consumer.assign([Place(topic.name, 0, 0)])
    found: list[tuple[Any, ...]] = []
    while len(found) < len(VALUES) * 3:
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        found.append((message.key(), message.value(), message.headers()))
    consumer.close()
    return found
