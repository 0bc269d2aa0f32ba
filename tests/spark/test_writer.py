"""`df.write.format("kohort")` and `writeStream`: what of a row becomes what of a record, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.cluster import Topic
from tests.spark.test_batch_source import read

from kohort.spark.source.data_source import KohortSource, register

ROWS = "key string, value binary, partition int, headers array<struct<key: string, value: binary>>"

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def write(frame: DataFrame, where: Topic, **options: str) -> None:
    register(frame.sparkSession)
    given = {"kafka.bootstrap.servers": where.bootstrap_servers, "topic": where.name, **options}
    frame.write.format("kohort").options(**given).mode("append").save()


def test_rows_are_records_with_their_keys_headers_and_partitions(spark: SparkSession, topic: Topic) -> None:
    headers = [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    rows = [("k0", b"v0", 2, headers), (None, None, 0, None), ("k1", b"v1", 2, [])]
    write(spark.createDataFrame(rows, ROWS), topic)
    found = read(spark, topic, includeHeaders="true").orderBy("partition", "key").collect()
    assert [(row.partition, row.key, row.value) for row in found] == [
        (0, None, None),
        (2, b"k0", b"v0"),
        (2, b"k1", b"v1"),
    ]
    assert [row.headers and [each.asDict() for each in row.headers] for row in found] == [None, headers, None]


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_the_producers_settings_are_kafkas(spark: SparkSession, topic: Topic, codec: str) -> None:
    frame = spark.range(2000).selectExpr("cast(id as string) as value", "'ignored' as other")
    write(frame, topic, **{"kafka.compression.type": codec, "kafka.linger.ms": "0", "kafka.acks": "1"})
    total = read(spark, topic).selectExpr("sum(cast(cast(value as string) as int)) as total").collect()
    assert total[0]["total"] == sum(range(2000))


def test_a_key_chooses_the_partition_that_java_would_choose(spark: SparkSession, topic: Topic) -> None:
    from kohort.client.producer.partitioner import partition_for_key

    write(spark.range(50).selectExpr("cast(id as string) as key", "'v' as value"), topic)
    found = read(spark, topic).collect()
    assert {row.key: row.partition for row in found} == {
        b"%d" % each: partition_for_key(b"%d" % each, 3) for each in range(50)
    }


def test_a_column_names_the_topic_of_each_row(spark: SparkSession, topic: Topic) -> None:
    frame = spark.createDataFrame([(topic.name, "v")], "topic string, value string")
    register(spark)
    frame.write.format("kohort").option("kafka.bootstrap.servers", topic.bootstrap_servers).mode("append").save()
    assert read(spark, topic).count() == 1
    unnamed = spark.createDataFrame([(None, "v")], "topic string, value string")
    with pytest.raises(PySparkException, match="null as its topic"):
        unnamed.write.format("kohort").option("kafka.bootstrap.servers", topic.bootstrap_servers).mode("append").save()


def test_a_misspelled_topic_is_refused_unless_the_broker_may_create_it(spark: SparkSession, topic: Topic) -> None:
    frame, misspelled = spark.createDataFrame([("v",)], "value string"), f"{topic.name}-misspelled"
    with pytest.raises(PySparkException, match=r"misspelled' does not exist.*kafka\.allow\.auto\.create\.topics=true"):
        write(frame, topic, topic=misspelled)
    write(frame, topic, topic=misspelled, **{"kafka.allow.auto.create.topics": "true"})
    assert read(spark, topic, subscribe=misspelled).count() == 1


def test_a_stream_is_written_and_a_restart_goes_on_where_it_stopped(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    register(spark)
    source = tmp_path / "in"
    for number in range(2):
        spark.range(10 * number, 10 * number + 10).selectExpr("cast(id as string) as value").write.mode("append").json(
            str(source)
        )
        lines = spark.readStream.schema("value string").json(str(source))
        written = lines.writeStream.format("kohort").options(
            **{"kafka.bootstrap.servers": topic.bootstrap_servers, "topic": topic.name}
        )
        written = written.queryName("copy").option("checkpointLocation", str(tmp_path / "state"))
        assert written.trigger(availableNow=True).start().awaitTermination(240)
    assert sorted(int(row.value) for row in read(spark, topic).collect()) == list(range(20))


@pytest.mark.parametrize(
    ("columns", "options", "text"),
    [
        ("key string", {}, "needs a column value"),
        ("value int", {}, "the column value is int: a sink takes"),
        ("value string, partition bigint", {}, "the column partition is bigint: a sink takes int"),
        ("value string", {"topic": ""}, "needs the option topic, or a column topic"),
        ("value string", {"kafka.acks": "some"}, "kafka.acks='some': expected"),
        ("value string", {"kafka.compression.type": "rar"}, "kafka.compression.type='rar': expected"),
        ("value string", {"kafka.acks": "0", "kafka.enable.idempotence": "true"}, "enable_idempotence needs acks"),
    ],
)
def test_a_frame_or_option_that_cannot_be_written_is_named(
    spark: SparkSession, topic: Topic, columns: str, options: dict[str, str], text: str
) -> None:
    given = {"kafka.bootstrap.servers": topic.bootstrap_servers, "topic": topic.name, **options}
    with pytest.raises(ValueError, match=text):
        KohortSource(given).writer(spark.createDataFrame([], columns).schema, overwrite=False)


def test_spark_shows_what_the_source_names(spark: SparkSession, topic: Topic) -> None:
    with pytest.raises(PySparkException, match="the column value is int: a sink takes"):
        write(spark.createDataFrame([], "value int"), topic)


def test_a_topic_is_not_overwritten(spark: SparkSession, topic: Topic) -> None:
    register(spark)
    frame = spark.createDataFrame([("v",)], "value string").write.format("kohort").mode("overwrite")
    with pytest.raises(PySparkException, match='takes mode\\("append"\\)'):
        frame.options(**{"kafka.bootstrap.servers": topic.bootstrap_servers, "topic": topic.name}).save()
