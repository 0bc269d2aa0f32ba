"""`in_one_step(…)`: bronze and silver of one topic in one commit, in Nessie and in PostgreSQL.

A stranger's job by docs/guide/upserts-and-history.md; kills, commits of others, lost answers. In each state of Nessie's
history both tables have the same offsets. Read by Polars and DuckDB, and by psycopg.
"""

from __future__ import annotations

import json
import random
import select
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyiceberg")
pytest.importorskip("psycopg")

import pyarrow as pa
from interop.faulty_store import FaultyStore
from interop.foreign_readers import duckdb, secret
from interop.nessie import Nessie
from interop.object_store import ObjectStore
from interop.postgres import Postgres
from tests.interop.debezium_source import AFTER, BEFORE, Source
from tests.interop.test_debezium_tables import KEYS, NAMES, by_foreach_batch, by_group_stream, check, fill, tags_as_text
from tests.spark.cluster import Topic
from tests.spark.joint_job import TABLES, changes, open_tables, stores, take_steps
from tests.spark.killing import output
from tests.spark.lake import step
from tests.spark.merging import require_replay
from tests.spark.merging_job import change_at
from tests.spark.rest_catalog import RestServer, require_together
from tests.spark.storing_job import GROUP, PLACE

from kohort.broker.embedded import EmbeddedBroker
from kohort.spark import exactly_once, in_one_step
from kohort.spark.into_table import ExactlyOnce
from kohort.spark.tables import Fenced, IcebergTable, PostgresTable, TableBroken

if TYPE_CHECKING:
    from pyiceberg.catalog.rest import RestCatalog
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.timeout(900), pytest.mark.spark]

ROOT = Path(__file__).parents[2]
KILLS = 12
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as running:
        yield running


@pytest.fixture(scope="module")
def server(store: ObjectStore) -> Iterator[Nessie]:
    with Nessie(store) as running:
        yield running


@pytest.fixture
def nessie(server: Nessie) -> Nessie:
    """The server, with empty tables: pyiceberg 0.12 leaves out what Nessie 0.99 needs to make one by a commit."""
    catalog, rows = server.catalog(), changes(0, 0).schema
    for each in catalog.list_tables("air"):
        catalog.drop_table(each)
    columns = {"bronze": rows.names, "silver": ["id", "at", "value"], "silver__deleted": ["id", "at"]}
    for name, names in columns.items():
        catalog.create_table(f"air.{name}", pa.schema([rows.field(each) for each in names]))
    return server


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


def states(nessie: Nessie) -> Iterator[dict[str, Any]]:
    """Yield all tables of each state since they were made, the oldest last."""
    for catalog in nessie.states():
        listed = [".".join(each) for each in catalog.list_tables("air")]
        found = {name: catalog.load_table(name).metadata for name in TABLES if name in listed}
        if not found:
            return
        yield found


def read_by_polars(catalog: RestCatalog, name: str) -> Rows:
    import polars

    storage = {key: value for key, value in catalog.properties.items() if key.startswith("s3.")}
    found = polars.scan_iceberg(catalog.load_table(name).metadata_location, storage_options=storage)
    rows: Rows = found.collect().to_dicts()
    return rows


def read_by_duckdb(catalog: RestCatalog, name: str) -> Rows:
    connection = duckdb("avro", "iceberg")
    if endpoint := catalog.properties.get("s3.endpoint"):
        connection.execute(secret(endpoint))
    found = connection.execute(f"SELECT * FROM iceberg_scan('{catalog.load_table(name).metadata_location}')")
    return list(found.to_arrow_table().to_pylist())


def read_by_psycopg(postgres: Postgres, name: str) -> Rows:
    import psycopg
    from psycopg.rows import dict_row

    with psycopg.connect(postgres.conninfo, row_factory=dict_row) as connection:
        return list(connection.execute(f"SELECT * FROM {name}"))


# A stranger's job


@pytest.fixture
def topic() -> Iterator[Topic]:
    with (
        EmbeddedBroker(group_initial_rebalance_delay_ms=0) as broker,
        Topic(broker.bootstrap_servers, f"t-{uuid.uuid4().hex[:8]}", partitions=3) as made,
    ):
        yield made


def of_debezium(tables: Sequence[Any], schema: str, rows: Any = None) -> ExactlyOnce:
    bronze, silver = tables
    changed = exactly_once(silver, rows, merge_on=KEYS, envelope="debezium", schema=schema)
    return in_one_step(exactly_once(bronze), changed)


@pytest.mark.parametrize("drain", [by_group_stream, by_foreach_batch])
def test_bronze_and_silver_of_debezium_are_those_of_a_replay_in_every_state(
    spark: SparkSession, topic: Topic, tmp_path: Path, drain: Callable[..., None]
) -> None:
    """In a catalog of pyiceberg's own models, which makes tables, and changes their columns."""
    source = Source(len(topic.partitions), seed=7)
    with RestServer(tmp_path) as server:
        catalog = server.catalog()
        for schema in (BEFORE, AFTER):
            tables = [IcebergTable(name, catalog=catalog, merge_schema=True) for name in TABLES]
            fill(source, topic, is_first=schema is BEFORE)
            drain(spark, topic, "both", of_debezium(tables, schema), tmp_path)
        ends = {number: len(found) for number, found in enumerate(source.topic)}
        for read in (read_by_polars, read_by_duckdb):
            bronze, silver = (read(catalog, name) for name in TABLES)
            check(source, {"bronze": bronze, "silver": silver}, ends, NAMES)
        assert require_together(server.states, *TABLES) > 4


@pytest.mark.parametrize("drain", [by_group_stream, by_foreach_batch])
def test_in_postgresql_too(
    spark: SparkSession, topic: Topic, postgres: Postgres, tmp_path: Path, drain: Callable[..., None]
) -> None:
    source = Source(len(topic.partitions), seed=8)
    tables = [PostgresTable(postgres.conninfo, f"{topic.name}-{name}") for name in ("bronze", "silver")]
    fill(source, topic, is_first=True)
    drain(spark, topic, "both", of_debezium(tables, BEFORE, tags_as_text), tmp_path)
    ends = {number: len(found) for number, found in enumerate(source.topic)}
    bronze, silver = (read_by_psycopg(postgres, f'"{each.name}"') for each in tables)
    check(source, {"bronze": bronze, "silver": silver}, ends, NAMES)
    for each in tables:
        each.close()


# Kills


def start(kind: str, where: str, seed: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark.joint_job", kind, where, str(seed)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)


def kill_often(kind: str, where: str) -> None:
    """Kill one of two jobs again and again: some part of the time that a step takes after its last one."""
    chance = random.Random(5)
    jobs = [start(kind, where, seed) for seed in range(2)]
    try:
        for number in range(KILLS):
            victim = chance.randrange(2)
            for _ in range(chance.randrange(1, 4)):
                assert output(jobs[victim]).readline(), "only a kill ends a job"
            select.select([output(jobs[victim])], [], [], chance.uniform(0, 0.2))
            jobs[victim].kill()
            jobs[victim].communicate()
            jobs[victim] = start(kind, where, number + 2)
        assert output(jobs[0]).readline(), "only a kill ends a job"
    finally:
        for each in jobs:
            each.kill()
            each.communicate()


def require_replayed(tables: Iterable[Rows], reached: int) -> None:
    bronze, silver = tables
    assert sorted(each["offset"] for each in bronze) == list(range(reached))
    require_replay(silver, list(map(change_at, range(reached))), is_history=False)


def reached(tables: list[Any]) -> int:
    (offset,) = {int(table.offsets(GROUP, [PLACE])[PLACE].offset) for table in tables}
    return offset


def test_jobs_that_are_killed_leave_both_tables_at_one_offset(nessie: Nessie) -> None:
    where = json.dumps(nessie.properties())
    kill_often("iceberg", where)
    at = reached(open_tables("iceberg", where))
    assert at > KILLS
    for read in (read_by_polars, read_by_duckdb):
        require_replayed([read(nessie.catalog(), name) for name in TABLES], at)
    assert require_together(states(nessie), *TABLES) > KILLS


def test_in_postgresql_no_reader_sees_one_table_ahead_of_the_other(postgres: Postgres) -> None:
    import psycopg

    seen: list[tuple[Any, ...]] = []
    is_done = threading.Event()

    def look() -> None:
        with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
            exists = "SELECT to_regclass('public.kohort_offsets') IS NOT NULL"
            while not is_done.is_set():
                if connection.execute(exists).fetchone() == (True,):
                    query = (
                        "SELECT min(next_offset), max(next_offset), count(*) FROM kohort_offsets"
                        " WHERE table_name IN ('bronze', 'silver') AND next_offset IS NOT NULL"
                    )
                    seen.extend(connection.execute(query).fetchall())

    reader = threading.Thread(target=look)
    reader.start()
    try:
        kill_often("postgres", postgres.conninfo)
    finally:
        is_done.set()
        reader.join()
    at = reached(open_tables("postgres", postgres.conninfo))
    require_replayed([read_by_psycopg(postgres, name) for name in ("bronze", "silver")], at)
    assert {(low == high, count) for low, high, count in seen} <= {(True, 2), (True, 0)}
    assert len({low for low, _, _ in seen}) > KILLS


def test_steps_of_two_orders_of_tables_do_not_wait_for_each_other(postgres: Postgres) -> None:
    """Two threads of jobs name the same tables in both orders."""
    places = [("o1", "o2"), ("o2", "o1")]
    failures: list[Exception] = []

    def store_in(names: tuple[str, str], group: str) -> None:
        tables = [PostgresTable(postgres.conninfo, name) for name in names]
        store = in_one_step(*map(exactly_once, tables))
        try:
            for at in range(20):
                frame: Any = changes(at, at + 1)
                store.table.append(frame, group, {PLACE: step(at or None, at + 1)})
        except Exception as error:
            failures.append(error)

    jobs = [threading.Thread(target=store_in, args=(names, names[0])) for names in places]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert not failures
    assert [len(read_by_psycopg(postgres, name)) for name in places[0]] == [40, 40]


def test_a_step_of_postgresql_that_fails_in_one_table_is_in_none(postgres: Postgres) -> None:
    import psycopg

    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        connection.execute(
            'CREATE TABLE strict ("offset" bigint CHECK ("offset" < 3), id bigint, at bigint, value text, gone bool)'
        )
        tables = [PostgresTable(postgres.conninfo, name) for name in ("loose", "strict")]
        store = in_one_step(*map(exactly_once, tables))
        store.table.append(changes(0, 3), "s", {PLACE: step(None, 3)})
        with pytest.raises(
            TableBroken, match=r"PostgresTable\('loose'\) and PostgresTable\('strict'\) did not confirm"
        ):
            store.table.append(changes(3, 5), "s", {PLACE: step(3, 5)})
        tables[1].set_offsets("s", {PLACE: 4})
        with pytest.raises(Fenced, match="'strict'"):
            store.table.append(changes(3, 5), "s", {PLACE: step(3, 5)})
        assert connection.execute("SELECT count(*) FROM loose").fetchone() == (3,)
        named_twice = in_one_step(
            *(exactly_once(PostgresTable(postgres.conninfo, each)) for each in ("loose", "public.loose"))
        )
        with pytest.raises(TableBroken, match="has a table twice"):
            named_twice.table.append(changes(3, 5), "s", {PLACE: step(3, 5)})


# Faults


@pytest.mark.parametrize("fault", [{"is_done": True}, {}, {"status": 503}], ids=["answer lost", "reset", "unavailable"])
def test_a_commit_that_is_lost_or_whose_answer_is_lost_is_stored_once(nessie: Nessie, fault: dict[str, Any]) -> None:
    with FaultyStore(nessie.endpoint) as proxy:
        tables = open_tables("iceberg", json.dumps(nessie.properties(proxy.endpoint)))
        joint, chance = stores(*tables), random.Random(1)
        take_steps(joint, chance, 1)
        for _ in range(4):
            with proxy.fault("POST", "/transactions/commit", left=1, **fault):
                take_steps(joint, chance, 1)
                proxy.await_request()
        at = reached(tables)
    for read in (read_by_polars, read_by_duckdb):
        require_replayed([read(nessie.catalog(), name) for name in TABLES], at)
    assert require_together(states(nessie), *TABLES) == 6, "none, and five steps"


def test_a_strangers_commit_hides_the_offsets_where_nessie_lists_one_snapshot(nessie: Nessie) -> None:
    """The job ends with a sentence, and continues from the offsets that are set."""
    tables = open_tables("iceberg", json.dumps(nessie.properties()))
    joint, chance = stores(*tables), random.Random(2)
    take_steps(joint, chance, 1)
    at = reached(tables)
    silver = nessie.catalog().load_table(TABLES[1])
    silver.append(pa.table({"id": [1000], "at": [1], "value": ["stranger"]}, schema=silver.schema().as_arrow()))
    with pytest.raises(TableBroken, match="no snapshot has its offsets any more"):
        joint.offsets(GROUP, [PLACE])
    tables[1].set_offsets(GROUP, {PLACE: at})
    take_steps(joint, chance, 1)
    rows = [read_by_duckdb(nessie.catalog(), name) for name in TABLES]
    require_replayed([rows[0], [each for each in rows[1] if each["id"] < 1000]], reached(tables))
