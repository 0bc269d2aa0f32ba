"""A topic that is deleted and created again, longer than before, while jobs and batch queries read it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.integration.transaction_scenarios import committed
from tests.spark.cluster import Topic
from tests.spark.lake import KINDS, lake_table, rows_in
from tests.spark.queries import rows_of, run

from kohort.model.errors import KafkaError
from kohort.spark import GroupStream, TransactionalTopic, exactly_once
from kohort.spark.options.source_options import SourceOptions
from kohort.spark.rows.rounds import Round, ranges_to_json
from kohort.spark.source.batch_reader import BatchReader, find_ranges
from kohort.spark.tables import TableBroken

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

IN_PROCESS, ON_EXECUTORS = 50_000, 0
SENTENCE = "it was created again|the topic was deleted|was deleted and created again"


def stream_of(spark: SparkSession, topic: Topic, **settings: Any) -> GroupStream:
    return GroupStream(
        spark,
        topic.name,
        bootstrap_servers=topic.bootstrap_servers,
        group_id=topic.group_id,
        heartbeat_interval_ms=100,
        **settings,
    )


def once(topic: Topic, rows: int = 90) -> Callable[[DataFrame], DataFrame]:
    """Return a function that creates the topic again when it is called first."""
    calls: list[DataFrame] = []

    def created_again(frame: DataFrame) -> DataFrame:
        if not calls:
            topic.create_again()
            topic.fill(rows)
        calls.append(frame)
        return frame.select("value")

    return created_again


def is_caught_up(stream: GroupStream) -> bool:
    return stream.is_caught_up


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows_on_driver", [IN_PROCESS, ON_EXECUTORS])
def test_a_stream_into_a_table_ends_and_stores_no_row_of_the_new_topic_for_the_old_one(
    spark: SparkSession, topic: Topic, tmp_path: Path, kind: str, rows_on_driver: int
) -> None:
    values, table = topic.fill(60), lake_table(kind, tmp_path)
    store = exactly_once(table, once(topic))
    # Executors read when the new topic is there, and then nothing is stored.
    for _ in range(2 if rows_on_driver else 1):  # while it runs, and after it was started again
        with (
            stream_of(spark, topic, rows_on_driver=rows_on_driver, auto_offset_reset="earliest") as stream,
            pytest.raises((TableBroken, KafkaError, PySparkException), match=SENTENCE),
        ):
            stream.run(store, timeout_s=60)
        assert Counter(row["value"] for row in rows_in(table)) == Counter(values if rows_on_driver else [])


def test_a_query_into_a_table_ends_while_its_topic_is_created_again(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.fill(60)
    table = lake_table("delta", tmp_path)
    store = exactly_once(table, once(topic))
    for _ in range(2):
        with pytest.raises(PySparkException, match=SENTENCE):
            run(rows_of(spark, topic, 30), tmp_path / "checkpoint", store)
        assert not rows_in(table)


@pytest.mark.parametrize("rows_on_driver", [IN_PROCESS, ON_EXECUTORS])
def test_a_stream_into_a_topic_aborts_a_round_of_the_old_topic_and_ends(
    spark: SparkSession, topic: Topic, rows_on_driver: int
) -> None:
    """Offsets have names of topics: those of the old topic would pass over rows of the new one."""
    topic.fill(60)
    with Topic(topic.bootstrap_servers, f"{topic.name}-out", partitions=2) as target:
        settings = {"bootstrap_servers": topic.bootstrap_servers, "transactional_id": target.name}
        with (
            TransactionalTopic(target.name, once(topic), **settings) as writer,
            stream_of(spark, topic, rows_on_driver=rows_on_driver) as stream,
            pytest.raises((KafkaError, PySparkException), match=SENTENCE),
        ):
            stream.run(writer, until=is_caught_up, timeout_s=60)
        assert target.run(committed(target.bootstrap_servers, target.name)) == Counter()
        assert topic.committed() == {}


@pytest.mark.parametrize("rows_on_driver", [IN_PROCESS, ON_EXECUTORS])
def test_a_stream_that_accepts_losses_reads_the_new_topic_from_its_first_record_on(
    spark: SparkSession, topic: Topic, rows_on_driver: int
) -> None:
    old, found = topic.fill(60), Counter[bytes]()
    made_anew = once(topic)

    def collect(frame: DataFrame, _: Round) -> None:
        found.update(bytes(row["value"]) for row in made_anew(frame).collect())

    with stream_of(spark, topic, rows_on_driver=rows_on_driver, auto_offset_reset="earliest") as stream:
        stream.run(collect, until=lambda each: each.is_caught_up and found.total() >= 90, timeout_s=60)
    new = found - Counter(old)
    assert new.total() == 90
    assert set(new.values()) == {1}
    assert found.total() == (150 if rows_on_driver else 90)


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("what", ["subscribe", "ranges"])
def test_a_batch_that_was_planned_before_has_no_row_of_the_new_topic(topic: Topic, fails: str, what: str) -> None:
    """A large round of a GroupStream is one, too: its ranges and ids are options."""
    topic.fill(60)
    options = {"kafka.bootstrap.servers": topic.bootstrap_servers, "failOnDataLoss": fails, "subscribe": topic.name}
    planned = BatchReader(SourceOptions.parse(options, "batch"))
    if what == "ranges":
        ranges, ids = asyncio.run(find_ranges(planned.options))
        del options["subscribe"]
        options |= {"ranges": ranges_to_json(ranges), "topicIds": json.dumps(ids)}
        planned = BatchReader(SourceOptions.parse(options, "batch"))
    tasks = planned.partitions()
    assert sum(batch.num_rows for task in tasks for batch in planned.read(task)) == 60
    topic.create_again()
    topic.fill(90)
    rows = (batch.num_rows for task in tasks for batch in planned.read(task))
    if fails == "false":
        assert list(rows) == []
    else:
        with pytest.raises(KafkaError, match=r"was deleted and created again.*failOnDataLoss=false"):
            list(rows)
