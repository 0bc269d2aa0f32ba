"""The fleet's pipeline: cut into runs, killed on the way and run again, its tables say what one run says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.spark.cluster import Topic
from tests.unit.fleet.written_group import START, TOPIC, Written

from kohort.fleet import pipeline
from kohort.fleet.bronze.storing import Read
from kohort.fleet.decode.columns import schema
from kohort.fleet.inputs import parse_inputs
from kohort.fleet.schema import COUNTS, EVENTS, FINDINGS, GROUP_HOURS, GROUPS, OWNERSHIP, QUARANTINE, TOPICS
from kohort.fleet.tables import Tables
from kohort.group.consumer.events import MemberState
from kohort.model.ids import TopicPartition, topic_id_text
from kohort.sync import Consumer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

DERIVED = (EVENTS, OWNERSHIP, GROUP_HOURS, GROUPS, COUNTS, TOPICS)


def row(offset: int, at_ms: int, **said) -> dict:
    """Return a row of `bronze.read`."""
    place = {"source": "cluster", "partition": 7, "offset": offset, "at_ms": at_ms, "group": "orders"}
    day = at_ms // 86_400_000
    return dict.fromkeys(schema().names) | place | {"day": day, "bucket": 7, "tombstone": False} | said


def commit(offset: int, at_ms: int, committed: int, **said) -> dict:
    topic = {"topic": "flights", "topic_partition": 0, "topic_id": topic_id_text(TOPIC)}
    return row(offset, at_ms, record_type=1, committed_offset=committed, commit_at_ms=at_ms, **topic, **said)


def a_life() -> list[dict]:
    """Return the rows of a group that moves partitions for a while, with commits in between."""
    group = Written()
    group.joins("a").epoch(1).targets(1, a=(0, 1, 2)).has("a", 1, 0, 1, 2).after(600)
    group.joins("b").epoch(2).targets(2, a=(0, 1), b=(2,)).has("a", 1, 0, 1, pending=(2,))
    group.has("b", 2, state=MemberState.UNRELEASED_PARTITIONS).after(3_000)
    group.has("a", 2, 0, 1).after(20).has("b", 2, 2).after(300)
    group.goes("a").epoch(3).targets(3, b=(0, 1, 2)).after(5).has("b", 3, 0, 1, 2).after(9_000)
    group.goes("b").epoch(4)
    rows = []
    for each in group.records:
        told = {"record_type": each.record_type, "tombstone": each.tombstone, "fields": each.fields}
        rows.append(row(2 * each.offset, each.at_ms, member=each.member, **told))
        rows.append(commit(2 * each.offset + 1, each.at_ms, 100 + each.offset))
    return rows


def reader(rows: list[dict]):
    """Return what reads these rows, from the positions on that are given, for a run of the pipeline."""

    def read(spark, _, positions) -> Read:
        start = positions.get("cluster", {}).get(7, 0)
        wanted = [each for each in rows if each["offset"] is None or each["offset"] >= start]
        stop = max((each["offset"] or 0 for each in wanted), default=start - 1) + 1
        end = dict.fromkeys(schema().names) | {"source": "cluster", "partition": 7, "next_offset": stop}
        frame = spark.createDataFrame(pa.Table.from_pylist([*wanted, end], schema=schema()))
        return Read(frame)

    return read


def nothing_found(spark, _):
    return spark.createDataFrame([], FINDINGS.ddl)


def told(spark, directory: Path, table) -> list[str]:
    return sorted(repr(each.asDict()) for each in Tables(directory).frame(spark, table).collect())


def files(directory: Path) -> dict[str, int]:
    return {str(file.relative_to(directory)): file.stat().st_mtime_ns for file in directory.rglob("*.parquet")}


def test_a_log_that_is_read_in_runs_one_of_them_killed_says_what_one_run_says(spark, tmp_path):
    rows = a_life()
    once, parts = tmp_path / "once", tmp_path / "parts"
    summary = pipeline.run(spark, [], once, read=reader(rows), find=nothing_found)
    assert (summary.run, summary.records, summary.positions) == (1, len(rows), {"cluster": {7: len(rows)}})

    def killed(*_):
        raise KeyboardInterrupt

    for number, end in enumerate((17, len(rows))):
        if number == 1:
            with pytest.raises(KeyboardInterrupt):
                pipeline.run(spark, [], parts, read=reader(rows[:end]), find=killed)
            assert Tables(parts).positions == {"cluster": {7: 17}}
        pipeline.run(spark, [], parts, read=reader(rows[:end]), find=nothing_found)
    for table in DERIVED:
        assert told(spark, parts, table) == told(spark, once, table), table.path

    (group,) = Tables(once).frame(spark, GROUPS).collect()
    assert (group.kind, group.state, group.members, group.rebalances) == ("consumer", "Empty", 0, 4)
    hours = Tables(once).frame(spark, GROUP_HOURS).orderBy("hour_ms").collect()
    assert [hour.hour_ms for hour in hours] == [START, START + 3_600_000, START + 10_800_000]
    assert [hour.unowned_partition_seconds for hour in hours] == [0.0, 20 + 2 * 5.0, 0.0]
    assert sum(hour.commits for hour in hours) == len(rows) // 2
    owned = Tables(once).frame(spark, OWNERSHIP).where("topic = 'flights'").collect()
    assert sorted((each.member, each.topic_partition) for each in owned) == [
        ("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2),
    ]  # fmt: skip

    before = files(once)
    again = pipeline.run(spark, [], once, read=reader(rows), find=nothing_found)
    assert (again.run, again.is_new) == (1, False)
    assert files(once) == before


def test_a_commit_counts_when_its_transaction_ends_and_what_is_broken_is_put_aside_once(spark, tmp_path):
    first = [
        commit(0, START, 5, producer_id=9, producer_epoch=0, transaction="open"),
        commit(1, START, 6, producer_id=8, producer_epoch=0, transaction="open"),
        dict.fromkeys(schema().names) | {"source": "cluster", "file": "x.log", "reason": "torn", "position": 3},
    ]
    pipeline.run(spark, [], tmp_path, read=reader(first), find=nothing_found)
    assert [each.committed_partitions for each in Tables(tmp_path).frame(spark, GROUPS).collect()] == []
    markers = [
        row(2, START + 9, group=None, producer_id=9, transaction="committed"),
        row(3, START + 9, group=None, producer_id=8, transaction="aborted"),
    ]
    summary = pipeline.run(spark, [], tmp_path, read=reader([*first, *markers]), find=nothing_found)
    assert summary.quarantined == 0
    assert Tables(tmp_path).frame(spark, QUARANTINE).count() == 1
    (group,) = Tables(tmp_path).frame(spark, GROUPS).collect()
    assert (group.state, group.committed_partitions, group.last_commit_ms) == ("Simple", 1, START)
    (hour,) = Tables(tmp_path).frame(spark, GROUP_HOURS).collect()
    assert hour.commits == 1


def test_what_a_brokers_groups_left_is_told_from_its_files_to_findings(spark, broker, topic: Topic, tmp_path):
    topic.fill(3)
    with Consumer(topic.name, bootstrap_servers=topic.bootstrap_servers, group_id=f"fleet-{topic.name}") as consumer:
        consumer.poll(timeout_ms=10_000)
        consumer.commit({TopicPartition(topic.name, number): 1 for number in range(3)})
    summary = pipeline.run(spark, parse_inputs([f"here={broker.data_dir}"]), tmp_path)
    assert summary.is_new
    tables = Tables(tmp_path)
    group = tables.frame(spark, GROUPS).where(f"`group` = 'fleet-{topic.name}'").collect()[0]
    assert (group.members, group.committed_partitions, group.state) == (0, 3, "Empty")
    events = tables.frame(spark, EVENTS).where(f"`group` = 'fleet-{topic.name}'").orderBy("offset").collect()
    assert {"joined", "assigned", "settled", "left", "lost", "emptied"} <= {each.event for each in events}
    owned = tables.frame(spark, OWNERSHIP).where(f"`group` = 'fleet-{topic.name}'").collect()
    assert sorted(each.topic_partition for each in owned) == [0, 1, 2]
