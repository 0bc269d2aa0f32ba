"""Spark brings together for the rules what plain loops over the same log do: from segment files to findings."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.cluster import Topic
from tests.spark.uncompiled import uncompiled
from tests.unit.fleet.facts_of_a_fleet import findings_of

from kohort.broker.embedded import EmbeddedBroker
from kohort.fleet import pipeline
from kohort.fleet.findings import DEFAULTS, find_all
from kohort.fleet.findings.find_all import about_logs
from kohort.fleet.generator import Truth, generate
from kohort.fleet.inputs import parse_inputs
from kohort.fleet.schema import EVENTS, FINDINGS, GROUP_HOURS, GROUPS, OWNERSHIP, RECORDS, Table
from kohort.fleet.tables import Tables
from kohort.model.ids import TopicPartition
from kohort.sync import Consumer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module", autouse=True)
def few_rows(spark: SparkSession) -> Iterator[SparkSession]:
    """Nothing here has rows enough for compiled queries."""
    with uncompiled(spark) as session:
        yield session


SCENARIOS = (
    "eager",
    "gone",
    "idle consumer",
    "poll timeouts",
    "restless",
    "simple",
    "skewed",
    "skewed consumer",
    "storm eager",
    "streams, cleaned",
    "transactional",
    "two of one name",
    "zombie",
)


@pytest.fixture(scope="module")
def live_group(broker: EmbeddedBroker) -> Iterator[str]:
    """A group that was there, on a real broker."""
    with Topic(broker.bootstrap_servers, f"t-{uuid.uuid4().hex[:8]}", partitions=3) as topic:
        topic.fill(3)
        group = f"fleet-{topic.name}"
        with Consumer(topic.name, bootstrap_servers=topic.bootstrap_servers, group_id=group) as consumer:
            consumer.poll(timeout_ms=10_000)
            consumer.commit({TopicPartition(topic.name, number): 1 for number in range(3)})
        yield group


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    """The log of a generated fleet, and what is true of it."""
    log = tmp_path_factory.mktemp("fleet") / "log"
    return log, generate(log, groups=len(SCENARIOS) + 4, seed=5, scenarios=SCENARIOS, partitions=2)


@pytest.fixture(scope="module")
def tables(
    spark: SparkSession,
    broker: EmbeddedBroker,
    live_group: str,
    fleet: tuple[Path, Truth],
    tmp_path_factory: pytest.TempPathFactory,
) -> Tables:
    """What one run made of both."""
    assert live_group
    directory = tmp_path_factory.mktemp("fleet") / "tables"
    summary = pipeline.run(spark, parse_inputs([f"made={fleet[0]}", f"here={broker.data_dir}"]), directory)
    assert summary.is_new
    return Tables(directory)


def test_a_run_finds_what_the_rules_find_in_the_same_log(
    spark: SparkSession, fleet: tuple[Path, Truth], tables: Tables
) -> None:
    log, truth = fleet
    rows = tables.frame(spark, FINDINGS).where("source = 'made'").collect()
    found = {(row["group"], row["finding"], row["sentence"], row["severity"]) for row in rows}
    # In the tables the log ends with its last record, not with its day.
    now_ms = max(row["until_ms"] for row in rows if row["finding"] == "abandoned_group")
    expected = findings_of(log, now_ms)
    assert found == {(each.group, each.finding, each.sentence, each.severity) for each in expected}
    assert truth.mistakes((row["group"], row["finding"]) for row in rows) == []
    assert all(row["evidence"] for row in rows)


def test_groups_of_a_stopped_broker_are_decoded_from_its_files(
    spark: SparkSession, live_group: str, tables: Tables
) -> None:
    def of(table: Table) -> DataFrame:
        return tables.frame(spark, table).where(f"source = 'here' AND `group` = '{live_group}'")

    (group,) = of(GROUPS).collect()
    assert (group.members, group.committed_partitions, group.state) == (0, 3, "Empty")
    events = {each.event for each in of(EVENTS).collect()}
    assert {"joined", "assigned", "settled", "left", "lost", "emptied"} <= events
    assert sorted(each.topic_partition for each in of(OWNERSHIP).collect()) == [0, 1, 2]


class Given:
    """Tables with the rows that a test gives, and else empty ones."""

    def __init__(self, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        self._rows = rows

    def frame(self, spark: SparkSession, table: Table) -> DataFrame:
        rows = [tuple(row.get(name) for name in table.names) for row in self._rows.get(table.name, ())]
        return spark.createDataFrame(rows, table.ddl)


def test_a_zombie_close_behind_the_living_is_found_within_an_hour(spark: SparkSession) -> None:
    """The producer of a group with members commits by transactions; the owner of one without members is unknown."""
    place = {"source": "s", "partition": 0, "day": date(1970, 1, 1)}
    # From the hour's least to its greatest offset, and yet not forward all the way.
    commits = [(100, None), (200, None), (150, 7), (300, None), (250, 7), (400, None), (350, 7), (500, None)]
    records = [
        place
        | {"group": group, "offset": number, "at_ms": 1000 * number, "record_type": 1, "tombstone": False}
        | {"topic": "t", "topic_partition": 0, "committed_offset": committed}
        | {"producer_id": producer_id if group == "members" else None}
        for group in ("members", "ownerless")
        for number, (committed, producer_id) in enumerate(commits)
    ]
    times = dict.fromkeys(("first_seen_ms", "last_seen_ms", "last_commit_ms"), 7000)
    groups = [
        place | times | {"group": group, "kind": "classic", "state": "Stable", "members": members, "last_offset": 7}
        for group, members in (("members", 1), ("ownerless", 0))
    ]
    hours = [place | {"group": "ownerless", "hour_ms": 0, "members_min": 0, "commits": 8, "rebalances": 0}]
    tables = Given({RECORDS.name: records, GROUPS.name: groups, GROUP_HOURS.name: hours})
    found = [(row["group"], row["finding"], row["value"]) for row in find_all(spark, tables).collect()]
    assert sorted(found) == [("members", "zombie_commits", 3.0), ("ownerless", "rewound_offsets", 3.0)]


@pytest.mark.parametrize(("missing", "findings"), [(0, 1), (1, 0)])
def test_a_log_is_checked_by_what_was_in_it_when_it_was_read(
    spark: SparkSession, tmp_path: Path, missing: int, findings: int
) -> None:
    """A group that was classic when a run read it is one of the other kind by the next: its tombstone was cleaned."""
    tables = Tables(tmp_path)
    for offset, record_type in ((0, 2), (1 + missing, 3)):
        row = {"source": "s", "partition": 0, "offset": offset, "at_ms": offset, "record_type": record_type}
        row |= {"group": "g", "tombstone": False, "fields": "{}", "day": date(1970, 1, 1), "bucket": 0}
        row["run"] = tables.run + 1
        with tables.begin() as run:
            run.store_small(RECORDS, [row])
            run.adopt(RECORDS)
            run.publish({"s": {0: offset + 1}})
    assert about_logs(spark, tables, DEFAULTS).count() == findings
