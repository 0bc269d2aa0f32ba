"""`await_termination`: an error of ours ends a program as one sentence, one of the user as what Spark raises."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.spark.cluster import Topic

from kohort.client.errors import UnknownTopic
from kohort.spark import QueryFailed, await_termination

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def started(spark: SparkSession, topic: Topic, folder: Path, subscribed: str, function: object) -> StreamingQuery:
    options = {"kafka.bootstrap.servers": topic.bootstrap_servers, "subscribe": subscribed, "group.id": topic.group_id}
    rows = spark.readStream.format("kohort").options(**options, startingOffsets="earliest").load()
    writer = rows.writeStream.option("checkpointLocation", str(folder))
    return writer.foreachBatch(function).start()  # type: ignore[arg-type]


def refuse(frame: DataFrame, batch: int) -> None:
    del frame, batch
    raise ValueError("no parrots today")


def ignore(frame: DataFrame, batch: int) -> None:
    del frame, batch


def test_an_error_of_ours_is_one_sentence(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    query = started(spark, topic, tmp_path, "no-such-topic", refuse)
    with pytest.raises(QueryFailed) as found:
        await_termination(query)
    assert found.value.kind == "UnknownTopic"
    assert str(found.value).startswith("UnknownTopic: ")
    assert "'no-such-topic' does not exist" in str(found.value)
    assert "\n" not in str(found.value)
    assert found.value.__context__ is None


def test_an_error_of_the_user_is_what_spark_raises(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.fill(3)
    with pytest.raises(StreamingQueryException, match="no parrots today"):
        await_termination(started(spark, topic, tmp_path, topic.name, refuse))


def refuse_because_of_ours(frame: DataFrame, batch: int) -> None:
    del frame, batch
    try:
        raise UnknownTopic("no-such-topic")
    except UnknownTopic as error:
        raise ValueError("no parrots either") from error


def test_an_error_of_ours_does_not_hide_one_that_it_caused(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.fill(3)
    with pytest.raises(StreamingQueryException, match="no parrots either"):
        await_termination(started(spark, topic, tmp_path, topic.name, refuse_because_of_ours))


def test_a_query_that_runs_on_is_waited_for_no_longer(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    query = started(spark, topic, tmp_path, topic.name, ignore)
    assert not await_termination(query, 0.2)
    query.stop()
    assert await_termination(query)
