"""Bronze by Spark: of a live broker, its segment files, an export; only what is new, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from tests.spark.cluster import Topic
from tests.spark.uncompiled import uncompiled
from tests.unit.fleet.written_log import COMMIT_VALUE, batch_of, commit_key

from kohort.fleet import silver
from kohort.fleet.bronze import bronze_reader as bronze
from kohort.fleet.inputs import parse_inputs
from kohort.fleet.inputs.export_lines import export_lines
from kohort.fleet.schema import RECORDS
from kohort.model.ids import TopicPartition
from kohort.sync import Admin

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


@pytest.fixture(scope="module", autouse=True)
def few_rows(spark: SparkSession) -> Iterator[SparkSession]:
    """Nothing here has rows enough for compiled queries."""
    with uncompiled(spark) as session:
        yield session


COMPARED = [name for name in RECORDS.names if name != "source"]


def rows_of(frame) -> list[tuple]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def records(rows):
    """Return the records of a frame that holds three tables."""
    found = rows.where("reason IS NULL AND next_offset IS NULL")
    return found.withColumn("run", f.lit(1)).select(*RECORDS.names)


def quarantine(rows):
    return rows.where("reason IS NOT NULL")


def ends(rows):
    return rows.where("next_offset IS NOT NULL")


def kept(spark, inputs, since=None):
    """Return the rows of inputs, decoded once."""
    return bronze.read(spark, inputs, since).frame().cache()


def commit_some(topic: Topic, group: str) -> None:
    with Admin(bootstrap_servers=topic.bootstrap_servers) as admin:
        admin.reset_offsets(group, {TopicPartition(topic.name, number): number + 1 for number in range(3)})


def test_a_live_broker_and_its_files_give_the_same_rows(spark, broker, topic):
    topic.fill(30)
    commit_some(topic, "fleet-live")
    live = kept(spark, parse_inputs([broker.bootstrap_servers]))
    files = kept(spark, parse_inputs([broker.data_dir]))
    assert live.schema == files.schema
    decoded = records(live)
    assert rows_of(decoded.select(*COMPARED)) == rows_of(records(files).select(*COMPARED))
    assert decoded.schema.fieldNames() == list(RECORDS.names)
    assert {
        (row.topic_partition, row.committed_offset)
        for row in decoded.where("`group` = 'fleet-live' and record_type = 1").collect()
    } >= {(0, 1), (1, 2), (2, 3)}
    assert rows_of(quarantine(live)) == []


def test_what_was_read_is_not_read_again(spark, broker, topic):
    inputs = parse_inputs([f"here={broker.bootstrap_servers}", f"files={broker.data_dir}"])
    commit_some(topic, "fleet-before")
    since: dict = {}
    for row in ends(kept(spark, inputs)).orderBy("next_offset").collect():
        since.setdefault(row.source, {})[row.partition] = row.next_offset
    assert since["here"].items() >= since["files"].items()
    assert records(bronze.read(spark, inputs, since).frame()).count() == 0
    commit_some(topic, "fleet-after")
    news = kept(spark, inputs, since)
    found = records(news).where("record_type is not null").select("source", "group").distinct()
    assert rows_of(found) == [("files", "fleet-after"), ("here", "fleet-after")]


def test_an_export_of_a_log_gives_the_rows_of_the_log(spark, tmp_path):
    folder = tmp_path / "__consumer_offsets-3"
    folder.mkdir()
    content = batch_of([(commit_key("g", "t", number), COMMIT_VALUE) for number in range(9)])
    (folder / f"{0:020}.log").write_bytes(content)
    (tmp_path / "export.jsonl").write_text("".join(f"{line}\n" for line in export_lines(content, 3)))
    log = records(kept(spark, parse_inputs([f"a={folder}"])))
    export = records(kept(spark, parse_inputs([f"a={tmp_path / 'export.jsonl'}"])))
    assert len(rows_of(log)) == 9
    assert rows_of(log) == rows_of(export)


def test_what_is_broken_is_put_aside(spark, tmp_path):
    content = batch_of([(commit_key("g", "t", 0), COMMIT_VALUE), (commit_key("g", "t", 0), None), (b"\x00\x63", b"")])
    write(tmp_path, 3, content)
    write(tmp_path, 4, content[:-1])
    write(tmp_path, 5, b"\x89PNG of something else")
    rows = kept(spark, parse_inputs([f"a={tmp_path}"]))
    assert silver.group_records(records(rows)).count() == 0
    faulty = quarantine(rows)
    assert [row.partition for row in faulty.orderBy("partition").collect()] == [4, 5]


def write(folder: Path, partition: int, content: bytes, first_offset: int = 0) -> None:
    path = folder / f"__consumer_offsets-{partition}"
    path.mkdir(exist_ok=True)
    (path / f"{first_offset:020}.log").write_bytes(content)


def test_a_transaction_that_ends_in_a_later_segment_is_settled(spark, tmp_path):
    from tests.unit.fleet.test_decode_rows import marker, transactional

    from kohort.wire.record_batches import ControlType

    write(tmp_path, 0, transactional(0, producer=5) + transactional(1, producer=6))
    write(tmp_path, 0, marker(2, ControlType.ABORT, producer=5) + transactional(3, producer=5), first_offset=2)
    rows = records(kept(spark, parse_inputs([f"a={tmp_path}"])))
    ended = {row.offset: row.transaction for row in bronze.settled(rows).where("record_type = 1").collect()}
    assert ended == {0: "aborted", 1: "open", 3: "open"}
    assert rows_of(bronze.settled(rows).select("offset")) == rows_of(rows.select("offset"))
