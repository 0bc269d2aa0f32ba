"""Queries with state into each kind of table and into a topic, with a kill between a batch's commit and its checkpoint.

The topic is read by a consumer of librdkafka with `read_committed`.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from interop.postgres import Postgres

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions
from tests.spark.cluster import Topic
from tests.spark.lake import lake_table
from tests.spark.lake import rows_in as rows_of_files
from tests.spark.queries import Bills, rows_of, run, stop_after

from kohort.broker.embedded import EmbeddedBroker
from kohort.spark import TransactionalTopic, exactly_once
from kohort.spark.tables import PostgresTable
from kohort.wire.record_batches import Record

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.timeout(1200), pytest.mark.spark]

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@dataclass
class Target:
    """A table of one kind, and how its rows are read by its own library."""

    table: Any
    postgres: Postgres

    def store(self, rows: Any) -> Any:
        """Return the function for `foreachBatch`, under a name that is not the source's group."""
        return exactly_once(self.table, rows, group="stored")

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows, as others read them."""
        if not isinstance(self.table, PostgresTable):
            return rows_of_files(self.table)
        import psycopg
        from psycopg.rows import dict_row

        with psycopg.connect(self.postgres.conninfo, row_factory=dict_row) as connection:
            found: list[dict[str, Any]] = connection.execute(f"SELECT * FROM {self.table.name}").fetchall()
            return found


@dataclass
class TargetTopic:
    """A topic whose values are the rows as JSON."""

    topic: Topic
    writer: TransactionalTopic | None = None

    def store(self, rows: Callable[[DataFrame], DataFrame]) -> TransactionalTopic:
        """Return the function for `foreachBatch`."""

        def as_json(frame: DataFrame) -> DataFrame:
            return rows(frame).selectExpr("to_json(struct(*)) AS value")

        name, servers = self.topic.name, self.topic.bootstrap_servers
        self.writer = TransactionalTopic(
            name, as_json, bootstrap_servers=servers, transactional_id=name, group="stored"
        )
        return self.writer

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows, as a consumer of librdkafka reads them."""
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        settings = {"bootstrap.servers": self.topic.bootstrap_servers, "group.id": "reader"}
        consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
        consumer.assign([TopicPartition(self.topic.name, number, 0) for number in range(2)])
        found, ended = [], 0
        while ended < 2:
            record = consumer.poll(30)
            assert record is not None
            if not record.error():
                found.append(json.loads(record.value()))
            else:
                assert record.error().code() == KafkaError._PARTITION_EOF
                ended += 1
        consumer.close()
        return found


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(group_initial_rebalance_delay_ms=0) as running:
        yield running


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


@pytest.fixture
def topic(broker: EmbeddedBroker) -> Iterator[Topic]:
    with Topic(broker.bootstrap_servers, f"t-{uuid.uuid4().hex[:8]}", partitions=3) as made:
        yield made


@pytest.fixture(params=["delta", "iceberg", "postgres", "topic"])
def target(
    request: pytest.FixtureRequest, postgres: Postgres, topic: Topic, tmp_path: Path
) -> Iterator[Target | TargetTopic]:
    if request.param == "topic":
        pytest.importorskip("confluent_kafka")
        with Topic(topic.bootstrap_servers, f"{topic.name}-out", partitions=2) as made:
            found = TargetTopic(made)
            yield found
            if found.writer is not None:
                found.writer.close()
        return
    if request.param != "postgres":
        yield Target(lake_table(request.param, tmp_path), postgres)
        return
    table = PostgresTable(postgres.conninfo, f"t_{uuid.uuid4().hex[:8]}")
    try:
        yield Target(table, postgres)
    finally:
        table.close()


def test_rows_that_a_join_emits_late_are_stored_once(
    spark: SparkSession, topic: Topic, target: Target | TargetTopic, tmp_path: Path
) -> None:
    def bills_of(frame: DataFrame) -> DataFrame:
        return frame.selectExpr("partition", "offset", "decode(value, 'UTF-8') AS bill")

    with Topic(topic.bootstrap_servers, f"{topic.name}-paid", partitions=1) as paid:
        bills = Bills(spark, topic, paid)
        bills.run(tmp_path / "checkpoint", target.store(bills_of))
    assert Counter(row["bill"] for row in target.rows()) == Counter(each.decode() for each in bills.values)


def test_counts_of_windows_are_stored_once_though_the_query_is_killed_after_each_batch(
    spark: SparkSession, topic: Topic, target: Target | TargetTopic, tmp_path: Path
) -> None:
    """A window is emitted when later records have come: no row of it has an offset that the batch reads."""
    store = target.store(lambda counts: counts.selectExpr("unix_seconds(window.start) AS start", "partition", "n"))
    killed: set[int] = set()

    def kill_once(frame: DataFrame, batch: int) -> None:
        store(frame, batch)
        if batch not in killed:
            killed.add(batch)
            raise ZeroDivisionError

    def has_ended() -> bool:
        rows = rows_of(spark, topic).withWatermark("timestamp", "1 minute")
        windows = rows.groupBy(functions.window("timestamp", "1 minute"), "partition")
        try:
            run(windows.agg(functions.count("*").alias("n")), tmp_path / "checkpoint", kill_once)
        except StreamingQueryException as error:
            if "ZeroDivisionError" not in str(error):
                raise
            return False
        return True

    expected: Counter[tuple[int, int, int]] = Counter()
    for minute in (0, 4, 8):
        start_s = 1_700_000_040 + 60 * minute
        for partition in range(3):
            count = 4 + minute + partition
            topic.produce(partition, [Record(0, (start_s + each) * 1000, b"", b"click") for each in range(count)])
            if minute != 8:  # the last windows stay open
                expected[start_s, partition, count] += 1
        while not has_ended():
            pass
    assert Counter((row["start"], row["partition"], row["n"]) for row in target.rows()) == expected
    assert len(killed) > 3


def test_what_a_processor_with_state_emits_is_stored_once(
    spark: SparkSession, topic: Topic, postgres: Postgres, tmp_path: Path
) -> None:
    pytest.importorskip("google.protobuf")
    from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

    class Counting(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.count = handle.getValueState("count", "count long")

        def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002, N802, N803
            import pandas as pd

            before = self.count.get()[0] if self.count.exists() else 0
            now = before + sum(len(each) for each in rows)
            self.count.update((now,))
            yield pd.DataFrame({"partition": [key[0]], "count": [now]})

        def close(self) -> None:
            pass

    target = Target(lake_table("delta", tmp_path), postgres)
    store = target.store(None)
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    try:
        for number in range(2):
            topic.fill(30)
            rows = rows_of(spark, topic).select("partition").groupBy("partition")
            counts = rows.transformWithStateInPandas(Counting(), "partition int, count long", "Update", "None")
            if number:
                with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
                    run(counts, tmp_path / "checkpoint", stop_after(store, 1), mode="update")
            run(counts, tmp_path / "checkpoint", store, mode="update")
    finally:
        spark.conf.unset("spark.sql.streaming.stateStore.providerClass")
    found = Counter((row["partition"], row["count"]) for row in target.rows())
    assert found == Counter((partition, count) for partition in range(3) for count in (10, 20))


def test_a_value_that_comes_again_within_the_watermark_is_stored_once(
    spark: SparkSession, topic: Topic, postgres: Postgres, tmp_path: Path
) -> None:
    target = Target(lake_table("delta", tmp_path), postgres)
    store = target.store(lambda frame: frame.select("partition", "offset", "value"))

    def distinct() -> DataFrame:
        return rows_of(spark, topic).withWatermark("timestamp", "1 hour").dropDuplicatesWithinWatermark(["value"])

    values = topic.fill(30)
    with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
        run(distinct(), tmp_path / "checkpoint", stop_after(store, 0))
    topic.produce(0, [Record(0, 1_700_000_000_000, b"", value) for value in values])  # higher offsets, nothing new
    values += topic.fill(3)
    run(distinct(), tmp_path / "checkpoint", store)
    assert Counter(bytes(row["value"]) for row in target.rows()) == Counter(values)
