"""Delta and Iceberg tables in an object store, written by Spark applications of one group, read back by others.

Applications are killed within rounds, the object store too, and a plain consumer of the group comes and goes.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from interop.brokers import Broker
from interop.foreign_readers import duckdb, secret
from interop.object_store import BUCKET, PASSWORD, USER, ObjectStore
from interop.postgres import Postgres
from tests.interop.libraries import need
from tests.spark.cluster import Topic
from tests.spark.killing import kill_streams
from tests.spark.lake import lake_table, offsets_of

from kohort.spark.tables import IcebergTable, Table

pytestmark = [pytest.mark.timeout(1200), pytest.mark.spark]
Places = Counter[tuple[int, int]]


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    """One object store for this file, which clients of S3 find by their environment."""
    with ObjectStore() as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        yield running


def troubles(store: ObjectStore, topic: Topic) -> Callable[[], object]:
    """Return what happens beside the kills: the store is killed and comes back; a plain consumer comes and goes."""
    from confluent_kafka import Consumer

    happened: list[str] = []

    def meanwhile() -> None:
        if not happened:
            happened.append("store")
            store.kill()
            store.start()
            return
        consumer = Consumer({"bootstrap.servers": topic.bootstrap_servers, "group.id": topic.group_id})
        consumer.subscribe([topic.name])
        while not consumer.assignment():
            consumer.poll(0.2)
        consumer.close()

    return meanwhile


def check(topic: Topic, table: Table, written: int, found: Places) -> None:
    """Each offset is there once, up to what the table says."""
    ends = offsets_of(table, topic)
    assert found == Counter((partition, offset) for partition, end in ends.items() for offset in range(end))
    assert found.total() == written


@pytest.mark.capability("spark", "Delta in an object store: applications and the store killed, read by DuckDB, Polars")
def test_delta_in_an_object_store_has_each_offset_once(store: ObjectStore, broker: Broker) -> None:
    need("librdkafka")
    polars = pytest.importorskip("polars")
    where, name = f"s3://{BUCKET}", f"t-{uuid.uuid4().hex[:8]}"
    table = lake_table("delta", where, name)
    with Topic(broker.bootstrap, name, partitions=3) as topic:
        written = kill_streams(topic, "delta", where, name, table, 2, troubles(store, topic))
        frame = polars.read_delta(table.uri)
        check(topic, table, written, Counter(zip(frame["partition"], frame["offset"], strict=True)))
        connection = duckdb("delta")
        connection.execute(secret(store.endpoint))
        rows = connection.execute(f"SELECT partition, \"offset\" FROM delta_scan('{table.uri}')").fetchall()
        check(topic, table, written, Counter(rows))


@pytest.mark.capability("spark", "Iceberg in an object store, its catalog in PostgreSQL: the same, read by DuckDB")
def test_iceberg_in_an_object_store_has_each_offset_once(
    store: ObjectStore, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("librdkafka")
    from pyiceberg.catalog import load_catalog

    name = f"t_{uuid.uuid4().hex[:8]}"
    with Postgres() as server, Topic(broker.bootstrap, name, partitions=3) as topic:
        settings = {
            "type": "sql",
            "uri": f"postgresql+psycopg://kohort@127.0.0.1:{server.port}/postgres",
            "warehouse": f"s3://{BUCKET}/warehouse",
            "s3.endpoint": store.endpoint,
            "s3.access-key-id": USER,
            "s3.secret-access-key": PASSWORD,
            "s3.region": "us-east-1",
        }
        for key, value in settings.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{key.upper().replace('-', '_').replace('.', '__')}", value)
        catalog = load_catalog("lake", **settings)
        catalog.create_namespace_if_not_exists("air")
        table = IcebergTable(f"air.{name}", catalog=catalog)
        written = kill_streams(topic, "configured", "air", name, table, 2, troubles(store, topic))
        connection = duckdb("avro", "iceberg")
        connection.execute(secret(store.endpoint))
        newest = catalog.load_table(table.name).metadata_location
        rows = connection.execute(f"SELECT partition, \"offset\" FROM iceberg_scan('{newest}')").fetchall()
        check(topic, table, written, Counter(rows))
