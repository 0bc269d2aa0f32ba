"""The fleet's pipeline: cut into runs, killed on the way and run again, its tables say what one run says.

Each run of it takes seconds, so that the few runs here show several things at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.uncompiled import uncompiled
from tests.unit.fleet.published import publish
from tests.unit.fleet.written_group import START, TOPIC, Written

from kohort.cli.fleet.fleet_session import spark_faults
from kohort.cli.terminal.failure import CommandFailed
from kohort.fleet import pipeline
from kohort.fleet.bronze.bronze_writer import InputRows
from kohort.fleet.schema import (
    COUNTS,
    DECODED,
    EVENTS,
    FINDINGS,
    GROUP_HOURS,
    GROUPS,
    OWNERSHIP,
    QUARANTINE,
    STATE_CHANGES,
    TOPICS,
)
from kohort.fleet.table_files import frame_of
from kohort.fleet.tables import Tables
from kohort.group.events import MemberState
from kohort.model.ids import topic_id_text
from kohort.spark.tables.delta_storage import DeltaStorage

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", autouse=True)
def few_rows(spark: SparkSession) -> Iterator[SparkSession]:
    """Nothing here has rows enough for compiled queries."""
    with uncompiled(spark) as session:
        yield session


DERIVED = (EVENTS, OWNERSHIP, GROUP_HOURS, GROUPS, COUNTS, TOPICS)


def row(offset: int, at_ms: int, **values) -> dict:
    """Return a row of `bronze.read`."""
    place = {"source": "cluster", "partition": 7, "offset": offset, "at_ms": at_ms, "group": "orders"}
    day = at_ms // 86_400_000
    return dict.fromkeys(DECODED.names) | place | {"day": day, "bucket": 7, "tombstone": False} | values


def commit(offset: int, at_ms: int, committed: int, **values) -> dict:
    topic = {"topic": "flights", "topic_partition": 0, "topic_id": topic_id_text(TOPIC)}
    return row(offset, at_ms, record_type=1, committed_offset=committed, commit_at_ms=at_ms, **topic, **values)


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
        rows_of = {"record_type": each.record_type, "tombstone": each.tombstone, "fields": each.fields}
        rows.append(row(0, each.at_ms, member=each.member, **rows_of))
        rows.append(commit(0, each.at_ms, 100 + each.offset))
    return rows


def a_log() -> list[dict]:
    """Return that life, around it commits of two transactions and how they end, and bytes that are none of a log."""
    opened = [
        commit(0, START, 5, group="payments", producer_id=9, producer_epoch=0, transaction="open"),
        commit(0, START, 6, group="payments", producer_id=8, producer_epoch=0, transaction="open"),
    ]
    ended = [
        row(0, START + 9, group=None, producer_id=9, transaction="committed"),
        row(0, START + 9, group=None, producer_id=8, transaction="aborted"),
    ]
    rows = [each | {"offset": offset} for offset, each in enumerate([*opened, *a_life(), *ended])]
    torn = {"source": "cluster", "file": "x.log", "reason": "torn", "position": 3}
    return [*rows, dict.fromkeys(DECODED.names) | torn]


def reader(rows: list[dict], line: str):
    """Return what reads these rows, from the positions on that are given, and a broker's log of one line."""

    def read(spark, _, positions) -> InputRows:
        start = positions.get("cluster", {}).get(7, 0)
        wanted = [each for each in rows if each["offset"] is None or each["offset"] >= start]
        stop = max((each["offset"] for each in wanted if each["offset"] is not None), default=start - 1) + 1
        end = dict.fromkeys(DECODED.names) | {"source": "cluster", "partition": 7, "next_offset": stop}
        frame = spark.createDataFrame(pa.Table.from_pylist([*wanted, end], schema=DECODED.arrow()))
        values = {"source": "cluster", "file": "server.log", "position": 0, "at_ms": START, "text": line}
        lines = spark.createDataFrame([tuple(values.get(name) for name in STATE_CHANGES.names)], STATE_CHANGES.ddl)
        return InputRows(frame, None, ((STATE_CHANGES, lines),))

    return read


def nothing_found(spark, _):
    return spark.createDataFrame([], FINDINGS.ddl)


def rows_of(spark, directory: Path, table) -> list[str]:
    return sorted(repr(each.asDict()) for each in Tables(directory).frame(spark, table).collect())


def files(directory: Path) -> dict[str, int]:
    return {str(file.relative_to(directory)): file.stat().st_mtime_ns for file in directory.rglob("*.parquet")}


def test_a_log_that_is_read_in_runs_one_of_them_killed_says_what_one_run_says(spark, tmp_path):
    rows = a_log()
    once, parts = tmp_path / "once", tmp_path / "parts"
    summary = pipeline.run(spark, [], once, read=reader(rows, "after"), find=nothing_found)
    assert (summary.run, summary.records, summary.quarantined, summary.side_rows) == (1, len(rows) - 1, 1, 1)
    assert summary.positions == {"cluster": {7: len(rows) - 1}}

    def killed(*_):
        raise KeyboardInterrupt

    half = [*rows[:19], rows[-1]]
    pipeline.run(spark, [], parts, read=reader(half, "before"), find=nothing_found)
    groups = {group.group for group in Tables(parts).frame(spark, GROUPS).collect() if group.committed_partitions}
    assert groups == {"orders"}, "a commit counts when its transaction ends"
    with pytest.raises(KeyboardInterrupt):
        pipeline.run(spark, [], parts, read=reader(rows, "after"), find=killed)
    assert Tables(parts).positions == {"cluster": {7: 19}}
    pipeline.run(spark, [], parts, read=reader(rows, "after"), find=nothing_found)
    for table in DERIVED:
        assert rows_of(spark, parts, table) == rows_of(spark, once, table), table.path
    assert Tables(parts).frame(spark, QUARANTINE).count() == 1
    lines = Tables(parts).frame(spark, STATE_CHANGES).collect()
    assert sorted(each.text for each in lines) == ["after", "before"], "a broker's log was rotated"

    check_group_tables(spark, once)
    before = files(once)
    again = pipeline.run(spark, [], once, read=reader(rows, "after"), find=nothing_found)
    assert (again.run, again.is_new) == (1, False)
    assert files(once) == before


def check_group_tables(spark, directory: Path) -> None:
    """Hold the tables against what happened."""
    payments, group = sorted(Tables(directory).frame(spark, GROUPS).collect(), key=lambda group: group.state)[::-1]
    assert (payments.state, payments.committed_partitions, payments.last_commit_ms) == ("Simple", 1, START)
    assert (group.kind, group.state, group.members, group.rebalances) == ("consumer", "Empty", 0, 4)
    every = Tables(directory).frame(spark, GROUP_HOURS).orderBy("hour_ms").collect()
    assert [hour.commits for hour in every if hour.group == "payments"] == [1]
    hours = [hour for hour in every if hour.group == "orders"]
    assert [hour.hour_ms for hour in hours] == [START, START + 3_600_000, START + 10_800_000]
    assert [hour.unowned_partition_seconds for hour in hours] == [0.0, 20 + 2 * 5.0, 0.0]
    assert sum(hour.commits for hour in hours) == len(a_life()) // 2
    owned = Tables(directory).frame(spark, OWNERSHIP).where("topic = 'flights'").collect()
    assert sorted((each.member, each.topic_partition) for each in owned) == [
        ("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2),
    ]  # fmt: skip


def test_tasks_read_the_files_of_an_object_store_as_spark_reads_those_of_a_directory(spark, tmp_path):
    hours = [
        {"source": "a", "group": f"g{day}", "protocols": ["consumer"], "day": date(2026, 11, day)} for day in (1, 2)
    ]
    tables = publish(tmp_path, {GROUP_HOURS: [each | {"bucket": day} for day, each in enumerate(hours)]})
    storage, files = DeltaStorage((tmp_path / GROUP_HOURS.path).as_uri()), tables.files(GROUP_HOURS)
    by_tasks, by_spark = frame_of(spark, storage, GROUP_HOURS, files), tables.frame(spark, GROUP_HOURS)
    assert by_tasks.schema == by_spark.schema
    assert sorted(map(repr, by_tasks.collect())) == sorted(map(repr, by_spark.collect()))
    (tmp_path / GROUP_HOURS.path / files[0].path).unlink()
    with pytest.raises(CommandFailed, match=rf"^{storage.uri}: .* not found"), spark_faults():
        by_tasks.collect()
