"""`spark.read.format("kohort")`: what is read by which options, with which columns, and which options are refused."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from tests.spark.cluster import Topic

from kohort.spark.source.data_source import register
from kohort.wire.compression import Compression
from kohort.wire.record_batches import Record

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

NOON = 1_700_000_000_000


def read(spark: SparkSession, topic: Topic, **options: object) -> DataFrame:
    register(spark)
    given = {"kafka.bootstrap.servers": topic.bootstrap_servers, **{name: str(each) for name, each in options.items()}}
    if not {"subscribe", "subscribePattern", "assign"} & given.keys():
        given["subscribe"] = topic.name
    return spark.read.format("kohort").options(**given).load()


def offsets(frame: DataFrame) -> list[tuple[int, int]]:
    return sorted((row["partition"], row["offset"]) for row in frame.select("partition", "offset").collect())


def test_a_topic_is_read_whole_with_the_columns_of_sparks_own_source(spark: SparkSession, topic: Topic) -> None:
    values = topic.fill(30)
    frame = read(spark, topic)
    assert frame.dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
    ]
    assert sorted(bytes(row.value) for row in frame.collect()) == sorted(values)


def test_a_session_that_we_build_starts_no_process_that_looks_for_formats(spark: SparkSession, topic: Topic) -> None:
    options = {"kafka.bootstrap.servers": topic.bootstrap_servers, "subscribe": topic.name}
    assert spark.newSession().read.format("kohort").options(**options).load().columns[0] == "key"
    assert spark._jvm is not None
    children = spark._jvm.java.lang.ProcessHandle.current().children().toArray()
    started = " ".join(each.info().commandLine().orElse("") for each in children)
    assert "create_data_source" in started
    assert "lookup_data_sources" not in started


def test_headers_come_when_they_are_asked_for_and_are_null_where_there_are_none(
    spark: SparkSession, topic: Topic
) -> None:
    headers = (("trace", b"1"), ("none", None), ("trace", b"2"), ("ümlaut", b""))
    topic.produce(0, [Record(0, NOON, b"k", b"v", headers), Record(0, NOON, b"k", b"w")])
    frame = read(spark, topic, includeHeaders="true")
    assert frame.dtypes[-1] == ("headers", "array<struct<key:string,value:binary>>")
    first, second = frame.orderBy("offset").collect()
    assert [(each.key, each.value) for each in first.headers] == list(headers)
    assert second.headers is None


@pytest.mark.parametrize("codec", list(Compression))
def test_every_codec_is_read(spark: SparkSession, topic: Topic, codec: Compression) -> None:
    topic.produce(0, [Record(0, NOON, b"k", b"%d" % each) for each in range(500)], codec)
    found = read(spark, topic).selectExpr("sum(cast(cast(value as string) as int)) as total").collect()
    assert found[0]["total"] == sum(range(500))


def test_offsets_by_partition_begin_and_end_the_batch(spark: SparkSession, topic: Topic) -> None:
    topic.fill(30)
    starts = {topic.name: {"0": 8, "1": -2, "2": 10}}
    stops = {topic.name: {"0": 10, "1": 2, "2": -1}}
    frame = read(spark, topic, startingOffsets=json.dumps(starts), endingOffsets=json.dumps(stops))
    assert offsets(frame) == [(0, 8), (0, 9), (1, 0), (1, 1)]


def test_times_begin_and_end_the_batch(spark: SparkSession, topic: Topic) -> None:
    for number in range(3):
        topic.produce(number, [Record(0, NOON + 1000 * each, b"k", b"v") for each in range(10)])
    assert offsets(read(spark, topic, startingTimestamp=NOON + 8000)) == [(n, o) for n in range(3) for o in (8, 9)]
    stops = {topic.name: {"0": NOON + 1000, "1": NOON, "2": NOON + 60_000}}
    found = read(spark, topic, endingOffsetsByTimestamp=json.dumps(stops))
    assert offsets(found) == [(0, 0), *((2, offset) for offset in range(10))]


def test_a_start_after_the_last_record_is_refused_unless_latest_will_do(spark: SparkSession, topic: Topic) -> None:
    topic.fill(3)
    with pytest.raises(PySparkException, match="has no record at or after 1800000000000"):
        read(spark, topic, startingTimestamp=1_800_000_000_000).collect()
    late = read(spark, topic, startingTimestamp=1_800_000_000_000, startingOffsetsByTimestampStrategy="latest")
    assert late.collect() == []


def test_partitions_are_assigned_and_topics_matched(spark: SparkSession, topic: Topic) -> None:
    topic.fill(30)
    assert offsets(read(spark, topic, assign=json.dumps({topic.name: [2]}))) == [(2, each) for each in range(10)]
    assert read(spark, topic, subscribePattern=f"{topic.name[:-1]}.").count() == 30
    assert read(spark, topic, subscribePattern=topic.name[:-1]).count() == 0


def test_more_tasks_are_planned_when_they_are_asked_for(spark: SparkSession, topic: Topic) -> None:
    topic.fill(300)
    assert read(spark, topic).rdd.getNumPartitions() == 3
    assert read(spark, topic, minPartitions=9).rdd.getNumPartitions() == 9
    bounded = read(spark, topic, maxRecordsPerPartition=30)
    assert bounded.rdd.getNumPartitions() == 12
    assert bounded.count() == 300


def test_lost_offsets_fail_the_query_unless_they_may_be_left_out(spark: SparkSession, topic: Topic) -> None:
    topic.fill(30)
    beyond = json.dumps({topic.name: {str(number): 5 for number in range(3)}})
    stops = json.dumps({topic.name: {str(number): 40 for number in range(3)}})
    topic.delete_records(7)
    options = {"startingOffsets": beyond, "endingOffsets": json.dumps({topic.name: {"0": 10, "1": 6, "2": 9}})}
    one_advice = r"out of range, the broker has 7 to 10: [^;]*; failOnDataLoss=false"
    with pytest.raises(PySparkException, match=one_advice):
        read(spark, topic, **options).collect()
    found = read(spark, topic, failOnDataLoss="false", **options)
    assert offsets(found) == [(0, 7), (0, 8), (0, 9), (2, 7), (2, 8)]
    starts = json.dumps({topic.name: {str(number): 30 for number in range(3)}})
    with pytest.raises(PySparkException, match=rf"startingOffsets is 30 for {topic.name}-0, which ends at 10"):
        read(spark, topic, startingOffsets=starts).collect()
    lost = read(spark, topic, failOnDataLoss="false", startingOffsets=starts, endingOffsets=stops)
    assert lost.collect() == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets=latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets=earliest"),
        ({"startingOffsets": "soon"}, "startingOffsets='soon': expected earliest, latest, or JSON"),
        ({"minPartitions": "0"}, "minPartitions='0': expected a whole number from 1"),
        ({"failOnDataLoss": "yes"}, "failOnDataLoss='yes': expected"),
        ({"startingOffset": "earliest"}, "startingOffset"),
    ],
)
def test_a_wrong_option_is_named_before_any_job(
    spark: SparkSession, topic: Topic, options: dict[str, str], text: str
) -> None:
    with pytest.raises(PySparkException, match=text):
        read(spark, topic, **options).collect()


def test_partitions_that_are_left_out_of_offsets_are_named(spark: SparkSession, topic: Topic) -> None:
    topic.fill(3)
    starts = json.dumps({topic.name: {"0": 0, "1": 0, "7": 0}})
    with pytest.raises(PySparkException, match=f"leaves out {topic.name}-2 and it names {topic.name}-7"):
        read(spark, topic, startingOffsets=starts).collect()


def test_a_topic_that_does_not_exist_is_named(spark: SparkSession, topic: Topic) -> None:
    with pytest.raises(PySparkException, match="no-such-topic"):
        read(spark, topic, subscribe="no-such-topic").collect()
