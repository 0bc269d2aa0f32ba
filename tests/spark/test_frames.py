"""The rows of offset ranges in Spark: the same from the driver and from the executors, in Spark's own columns."""

from __future__ import annotations

from contextlib import closing

import pytest

from kohort.spark.direct_rows import batches_of, in_tasks
from kohort.spark.rows.read_rows import range_reader
from kohort.spark.rows.read_settings import ReadSettings
from kohort.spark.rows.rounds import OffsetRange, Round
from kohort.spark.source.round_frames import frame_of, frame_on_executors, table_on_driver
from kohort.wire.compression import Compression
from kohort.wire.record_batches import Record

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]

EDGES = [
    Record(0, 1_700_000_000_123, b"key", b"value"),
    Record(0, 1_700_000_000_124, None, b"no key"),
    Record(0, 1_700_000_000_125, b"no value", None),
    Record(0, 1_700_000_000_126, b"", b""),
    Record(0, 1_700_000_000_127, b"with headers", b"value", (("trace", b"1"),)),
]


def rows_of(frame):
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: (row["partition"], row["offset"]))


@pytest.fixture
def ranges(topic):
    """All codecs in one partition, nothing in the second, many rows in the third."""
    for codec in Compression:
        topic.produce(0, EDGES, codec)
    for _ in range(4):
        topic.produce(2, [Record(0, 5, b"%d" % number, b"x" * 50) for number in range(1000)])
    return [OffsetRange(topic.partitions[0], 1, 24), OffsetRange(topic.partitions[2], 500, 3500)]


def frame_on_driver(spark, settings, ranges):
    with closing(range_reader(settings)) as reader:
        table, done, _ = table_on_driver(settings, Round(0, 1, tuple(ranges)), 1 << 30, reader=reader)
    return frame_of(spark, settings, table), done


def on_executors(spark, topic, ranges):
    return frame_on_executors(spark, ReadSettings(topic.bootstrap_servers), Round(0, 1, tuple(ranges)))


def test_both_ways_give_the_same_rows(spark, topic, ranges):
    small, done = frame_on_driver(spark, ReadSettings(topic.bootstrap_servers), ranges)
    large = on_executors(spark, topic, ranges)
    assert done == tuple(ranges)
    assert rows_of(small) == rows_of(large)
    assert small.schema == large.schema


def test_rows_that_are_used_as_they_are_are_those_of_the_frame_and_a_transformation_has_its_own(spark, topic, ranges):
    settings = ReadSettings(topic.bootstrap_servers)
    small, _ = frame_on_driver(spark, settings, ranges)
    wanted = sorted((row.partition, row.offset, bytes(row.value or b"")) for row in small.collect())
    for frame in (small, on_executors(spark, topic, ranges)):
        for rows in (frame, frame.filter("offset >= 0")):
            assert sorted(places_of(batches_of(rows))) == wanted
            assert sorted(place for places in in_tasks(rows, places_of) for place in places) == wanted
        few = frame.filter("partition = 2 and offset < 510")
        assert sum(batch.num_rows for batch in batches_of(few)) == 10
        assert sum(map(len, in_tasks(few, places_of))) == 10


def places_of(batches):
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [(row["partition"], row["offset"], row["value"] or b"") for row in rows]


def test_rows_are_the_records_inside_the_ranges(spark, topic, ranges):
    rows = rows_of(frame_on_driver(spark, ReadSettings(topic.bootstrap_servers), ranges)[0])
    mine = [row for row in rows if row["partition"] == 0]
    assert [row["offset"] for row in mine] == list(range(1, 24))
    expected = (EDGES * len(Compression))[1:24]
    assert [(row["key"], row["value"]) for row in mine] == [(each.key, each.value) for each in expected]
    assert [row["timestamp"].timestamp() for row in mine] == [each.timestamp_ms / 1000 for each in expected]
    assert {(row["topic"], row["timestampType"]) for row in mine} == {(topic.name, 0)}
    assert [row["offset"] for row in rows if row["partition"] == 2] == list(range(500, 3500))


def test_columns_are_those_of_sparks_own_kafka_source(spark, topic, ranges):
    frame = on_executors(spark, topic, ranges)
    assert [f"{name} {kind}" for name, kind in frame.dtypes] == [
        "key binary",
        "value binary",
        "topic string",
        "partition int",
        "offset bigint",
        "timestamp timestamp",
        "timestampType int",
    ]


def test_large_ranges_are_cut_into_tasks(spark, topic):
    topic.produce(1, [Record(0, 5, None, b"x")] * 25_000)
    frame = on_executors(spark, topic, [OffsetRange(topic.partitions[1], 0, 25_000)])
    assert frame.rdd.getNumPartitions() == 2
    assert frame.count() == 25_000


def test_no_ranges_are_no_rows(spark, topic):
    assert on_executors(spark, topic, []).count() == 0


def test_a_wrong_option_names_itself(spark, topic):
    reader = spark.read.format("kohort").option("kafka.bootstrap.servers", topic.bootstrap_servers)
    with pytest.raises(Exception, match=r"one option of .* is needed to select topics"):
        reader.load().count()
    with pytest.raises(Exception, match=r"ranges are a JSON list"):
        reader.option("ranges", "everything").load().count()
