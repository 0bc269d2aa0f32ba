"""A stranger's job by docs/guide/upserts-and-history.md: a topic of Debezium into bronze, silver and gold.

Each state of the tables is that of a replay in plain Python, and the last one by Polars, DuckDB and Spark with Delta's
and Iceberg's jars; in PostgreSQL the last one by psycopg. By a GroupStream and in `foreachBatch`, at default settings.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from interop.foreign_readers import duckdb
from interop.postgres import Postgres
from interop.spark_versions import OF_TABLES, python_with
from tests.interop.debezium_source import AFTER, BEFORE, Key, Row, Source
from tests.spark.cluster import Topic
from tests.spark.lake import KINDS, lake_table

from kohort.broker.embedded import EmbeddedBroker
from kohort.spark import GroupStream, exactly_once
from kohort.spark.into_table import ExactlyOnce
from kohort.spark.source.data_source import register
from kohort.spark.tables import DeltaLakeTable, IcebergTable, PostgresTable, Table
from kohort.spark.tables.delta_log import app_id

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.timeout(900), pytest.mark.spark]

ROOT = Path(__file__).parents[2]
LAYERS = ("bronze", "silver", "gold")
Rows = Callable[["DataFrame"], "DataFrame"] | None
KEYS = ["tenant", "code"]


@pytest.fixture
def topic() -> Iterator[Topic]:
    """A topic of a broker of its own."""
    with (
        EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker,
        Topic(broker.bootstrap_servers, f"t-{uuid.uuid4().hex[:8]}", partitions=3) as made,
    ):
        yield made


def stores(tables: Mapping[str, Table], schema: str, rows: Rows = None) -> dict[str, ExactlyOnce]:
    """Return what stores each layer, as the guide has it."""
    debezium: dict[str, Any] = {"merge_on": KEYS, "envelope": "debezium", "schema": schema}
    return {
        "bronze": exactly_once(tables["bronze"]),
        "silver": exactly_once(tables["silver"], rows, **debezium),
        "gold": exactly_once(tables["gold"], rows, **debezium, order="__ts_ms", history=True),
    }


def tags_as_text(frame: DataFrame) -> DataFrame:
    """Return rows without a column of arrays, for which PostgreSQL has no type here."""
    from pyspark.sql import functions

    return frame.withColumn("tags", functions.to_json("tags", {"ignoreNullFields": "false"}))


def by_group_stream(spark: SparkSession, topic: Topic, layer: str, store: ExactlyOnce, _: Path) -> None:
    stream = GroupStream(
        spark,
        topic.name,
        bootstrap_servers=topic.bootstrap_servers,
        group_id=f"{topic.name}-{layer}",
        max_rows_per_round=40,
    )
    with stream:
        stream.run(store, until=lambda stream: stream.is_caught_up, timeout_s=120)


def by_foreach_batch(spark: SparkSession, topic: Topic, layer: str, store: ExactlyOnce, folder: Path) -> None:
    register(spark)
    rows = spark.readStream.format("kohort").option("kafka.bootstrap.servers", topic.bootstrap_servers)
    rows = rows.option("subscribe", topic.name).option("group.id", f"{topic.name}-{layer}")
    rows = rows.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 40)
    writer = rows.load().writeStream.foreachBatch(store).option("checkpointLocation", f"{folder}/of-{layer}")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()


def key_of(row: Mapping[str, Any]) -> Key:
    return row["tenant"], row["code"]


def plain(row: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return a row as text: readers differ in how they show an array of structs."""
    shown = {name: row.get(name) for name in names}
    tags = json.loads(shown["tags"]) if isinstance(shown["tags"], str) else shown["tags"]
    shown["tags"] = tags and [dict(each) for each in tags]
    return json.dumps(shown, sort_keys=True)


def check(source: Source, found: Mapping[str, list[Row]], offsets: Mapping[int, int], names: Iterable[str]) -> None:
    """Compare layers with the replay up to offsets."""
    if "bronze" in found:
        places = sorted((each["partition"], each["offset"]) for each in found["bronze"])
        assert places == [(number, at) for number, stop in sorted(offsets.items()) for at in range(stop)]
    if "silver" in found:
        expected = sorted(plain(row, names) for row in source.rows_at(offsets).values())
        assert sorted(plain(row, names) for row in found["silver"]) == expected
    if "gold" in found:
        spans = [(row, since, until, until is None) for _, row, since, until in source.versions_at(offsets)]
        columns = ("valid_from", "valid_to", "is_current")
        shown = [(each, *(each[name] for name in columns)) for each in found["gold"]]
        assert sorted(f"{plain(row, names)} {span}" for row, *span in shown) == sorted(
            f"{plain(row, names)} {span}" for row, *span in spans
        )


def states(table: Table, group: str, topic: Topic) -> Iterator[tuple[list[Row], dict[int, int]]]:
    """Yield the rows of each version of a table, and the offsets in it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if isinstance(table, DeltaLakeTable):
        from deltalake import DeltaTable, QueryBuilder

        for version in range(DeltaTable(table.uri).version() + 1):
            there = DeltaTable(table.uri, version=version)
            found = QueryBuilder().register("t", there).execute("SELECT * FROM t").read_all()
            known = {each.partition: there.transaction_version(app_id(group, each)) for each in topic.partitions}
            yield pa.table(found).to_pylist(), {number: at for number, at in known.items() if at is not None}
    else:
        assert isinstance(table, IcebergTable)
        there = table.catalog.load_table(table.name)
        for snapshot in there.snapshots():
            offsets = json.loads(snapshot.summary.additional_properties["kohort.offsets"])[group][topic.name]
            # The files as they are: pyiceberg's reader makes null arrays of structs empty ones.
            files = there.scan(snapshot_id=snapshot.snapshot_id).plan_files()
            found = [pq.read_table(each.file.file_path.removeprefix("file://")) for each in files]
            yield (
                [row for each in found for row in each.to_pylist()],
                {int(number): at for number, at in offsets.items()},
            )


def read_by_polars(kind: str, where: str) -> list[Row]:
    import polars

    frame = polars.read_delta(where) if kind == "delta" else polars.scan_iceberg(where).collect()
    rows: list[Row] = frame.to_dicts()
    return rows


def read_by_duckdb(kind: str, where: str) -> list[Row]:
    connection = duckdb(*(["avro"] if kind == "iceberg" else []), kind)
    rows = connection.execute(f"SELECT * FROM {kind}_scan('{where}')").to_arrow_table().to_pylist()
    return list(rows)


def read_by_spark(where: Mapping[str, str], folder: Path) -> dict[str, list[Row]]:
    command = [str(python_with(OF_TABLES)), "-m", "tests.interop.rows_by_spark", str(folder), json.dumps(where)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, list[Row]] = json.loads(done.stdout.splitlines()[-1])
    return found


def read_by_psycopg(postgres: Postgres, table: PostgresTable) -> list[Row]:
    import psycopg
    from psycopg.rows import dict_row

    with psycopg.connect(postgres.conninfo, row_factory=dict_row) as connection:
        return list(connection.execute(f"SELECT * FROM {table.name}"))


def fill(source: Source, topic: Topic, *, is_first: bool) -> None:
    """Add changes to the topic: a snapshot first, later a column more."""
    start = [len(each) for each in source.topic]
    source.has_note = not is_first
    source.snapshot(15 if is_first else 0)
    source.change(70)
    for number, changes in enumerate(source.topic):
        topic.produce(number, [source.record_of(each) for each in changes[start[number] :]])


NAMES = ("tenant", "code", "name", "qty", "tags", "note")


@pytest.mark.parametrize("drain", [by_group_stream, by_foreach_batch])
@pytest.mark.parametrize("kind", KINDS)
def test_bronze_silver_and_gold_are_those_of_a_replay(
    spark: SparkSession, topic: Topic, tmp_path: Path, kind: str, drain: Callable[..., None]
) -> None:
    source = Source(len(topic.partitions), seed=5)
    tables = {each: lake_table(kind, tmp_path, each, merge_schema=True) for each in LAYERS}
    for schema in (BEFORE, AFTER):
        fill(source, topic, is_first=schema is BEFORE)
        for layer, store in stores(tables, schema).items():
            drain(spark, topic, layer, store, tmp_path)
    ends = {number: len(changes) for number, changes in enumerate(source.topic)}
    where = {}
    for layer, table in tables.items():
        group = f"{topic.name}-{layer}"
        seen = 0
        for rows, offsets in states(table, group, topic):
            check(source, {layer: rows}, offsets, NAMES)
            seen += 1
        assert seen > 4, "each round is a state"
        assert offsets == ends
        where[layer] = table.uri if kind == "delta" else table.catalog.load_table(table.name).metadata_location
    for read in (read_by_polars, read_by_duckdb):
        check(source, {layer: read(kind, place) for layer, place in where.items()}, ends, NAMES)
    check(source, read_by_spark(where, tmp_path), ends, NAMES)


@pytest.mark.parametrize("drain", [by_group_stream, by_foreach_batch])
def test_in_postgresql_too(spark: SparkSession, topic: Topic, tmp_path: Path, drain: Callable[..., None]) -> None:
    source = Source(len(topic.partitions), seed=6)
    with Postgres() as postgres:
        tables = {each: PostgresTable(postgres.conninfo, each) for each in LAYERS}
        for schema in (BEFORE, AFTER):
            fill(source, topic, is_first=schema is BEFORE)
            if schema is AFTER:
                add_notes(postgres)
            for layer, store in stores(tables, schema, tags_as_text).items():
                drain(spark, topic, layer, store, tmp_path)
            ends = {number: len(changes) for number, changes in enumerate(source.topic)}
            check(source, {layer: read_by_psycopg(postgres, table) for layer, table in tables.items()}, ends, NAMES)
        for table in tables.values():
            table.close()


def add_notes(postgres: Postgres) -> None:
    import psycopg

    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        for layer in ("silver", "gold"):
            connection.execute(f"ALTER TABLE {layer} ADD COLUMN note text")
