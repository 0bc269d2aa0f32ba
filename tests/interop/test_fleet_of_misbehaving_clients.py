"""Real clients misbehave on a real Apache Kafka for a minute, and `kohort fleet` finds the fault of each group.

One run of the pipeline, for all tests, on the segment files while all members are in their groups. Thresholds in
hours are set to seconds; those that count within an hour or a day are unchanged.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from interop.group import Group
from interop.kafka import ApacheKafka
from tests.interop.topics import create_topic

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")
pytest.importorskip("confluent_kafka")
pytest.importorskip("kafka", reason="kafka-python is not installed")
pytest.importorskip("aiokafka")

from interop import misbehaving
from kohort.fleet import pipeline
from kohort.fleet.findings import Thresholds, find_all
from kohort.fleet.inputs.input_kinds import parse_inputs
from kohort.fleet.schema import FINDINGS, GROUPS, RECORDS
from kohort.fleet.tables import Tables

pytestmark = [pytest.mark.timeout(1200), pytest.mark.usefixtures("java")]

SINGLES = [f"single-{number}" for number in range(6)]
TOPICS = {"orders": 6, "small": 2, **dict.fromkeys(SINGLES, 1)}
SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.session.timeout.ms": "1000",
}
COOPERATIVE = {"partition_assignment_strategy": "cooperative-sticky"}
NATIVE = {"group_protocol": "consumer"}
IN_A_MINUTE = Thresholds(
    storm_rebalances_per_hour=14,  # a minute may lie in two hours of the clock: half of what the storms make
    storm_ms=10_000,
    stuck_rebalance_ms=15_000,
    idle_ms=10_000,
    skew_ms=10_000,
    abandoned_ms=20_000,
)
READY, NOT_READY = "ready_for_consumer", "not_ready_for_consumer"
EXPECTED: Mapping[str, set[str]] = {
    "storm": {"rebalance_storm", "eager_group", READY},
    "storm native": {"rebalance_storm"},
    "overrun": {"poll_timeout_loop", NOT_READY},
    "overrun native": {"poll_timeout_loop"},
    "overrun alone": {"poll_timeout_loop", NOT_READY},
    "fight": {"flapping_instance", READY},
    "crowd": {"idle_members", READY},
    "crowd native": {"idle_members"},
    "zombie": {"zombie_commits", READY},
    # Without members a log does not distinguish a reset from two programs of one name, and a group may do either.
    "haunted": {"rewound_offsets"},
    "set back": {"rewound_offsets", READY},
    "abandoned": {"abandoned_group"},
    "abandoned native": {"abandoned_group"},
    "held": {"stuck_group"},
    "skewed": {"skewed_assignment", READY},
    # These behave. Kafka converts neither librdkafka's cooperative members, who echo user data, nor old metadata.
    "eager by java": {READY},
    "eager by aiokafka": {NOT_READY},
    "cooperative": {NOT_READY},
    "native": set(),
    "renewed": {READY},
    "replaced": set(),
    "restarted": {READY},
}


class Log(NamedTuple):
    """What a broker left, and why it refused commits of the dead."""

    folder: Path
    refusals: list[str]


class Seen(NamedTuple):
    """What a run found: findings by group and name, and where the records of each group stand."""

    findings: dict[str, dict[str, Any]]
    groups: set[str]
    records: set[tuple[Any, ...]]
    summary: pipeline.RunSummary


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    broker = ApacheKafka(SETTINGS)
    broker.start()
    folder = tmp_path_factory.mktemp("log")
    members = tmp_path_factory.mktemp("members")
    java, aiokafka, fight = (
        Group(broker.bootstrap, name, "orders", TOPICS["orders"], members)
        for name in ("eager by java", "eager by aiokafka", "fight")
    )
    try:
        for topic, partitions in TOPICS.items():
            create_topic(broker.bootstrap, topic, partitions)
        with java, aiokafka, fight, misbehaving.Stage(broker.bootstrap, TOPICS) as stage:
            refusals = play(stage, java, aiokafka, fight)
            broker.child.signal(signal.SIGSTOP)  # so that no batch is copied in part
            shutil.copytree(
                broker.logs,
                folder / "data",
                ignore=shutil.ignore_patterns("orders-*", "small-*", "single-*", "renewed*"),
            )
            broker.child.signal(signal.SIGCONT)
        yield Log(folder / "data", refusals)
    finally:
        broker.stop()
        broker.remove()


def play(stage: misbehaving.Stage, java: Group, aiokafka: Group, fight: Group) -> list[str]:
    """Let every group do what it is named for, and return why commits were refused to the dead."""
    java.start("java", assignor="range")
    aiokafka.start("aiokafka", assignor="range")
    calm: list[Future[Any]] = [
        stage.begin(misbehaving.abandon, stage, "abandoned", "orders"),
        stage.begin(misbehaving.abandon, stage, "abandoned native", "orders", **NATIVE),
        stage.begin(misbehaving.crowd, stage, "crowd", ["small"], 4),
        stage.begin(misbehaving.crowd, stage, "crowd native", ["small"], 4, **NATIVE),
        stage.begin(misbehaving.hold, stage, "held", "orders"),
        stage.begin(misbehaving.crowd, stage, "skewed", SINGLES, 2, partition_assignment_strategy="range"),
        stage.begin(misbehaving.settle, stage, "cooperative", ["orders"], 3, **COOPERATIVE),
        stage.begin(misbehaving.settle, stage, "native", ["orders"], 3, **NATIVE),
    ]
    java.settle()
    aiokafka.settle()
    java.start("java", assignor="range")
    aiokafka.start("aiokafka", assignor="range")
    acts: list[Future[Any]] = [
        stage.begin(misbehaving.storm, stage, "storm", "orders"),
        stage.begin(misbehaving.storm, stage, "storm native", "orders", **NATIVE),
        stage.begin(misbehaving.overrun, stage, "overrun", "orders", **COOPERATIVE),
        stage.begin(misbehaving.overrun, stage, "overrun native", "orders", **NATIVE),
        stage.begin(misbehaving.overrun_alone, stage, "overrun alone", "orders"),
        stage.begin(misbehaving.fight, fight, "till-1"),
    ]
    acts += [
        stage.begin(misbehaving.set_back, stage, "set back", "orders"),
        stage.begin(misbehaving.renew, stage, "renewed", "orders", "renewed"),
        stage.begin(misbehaving.replace, stage, "replaced", "orders", **NATIVE),
        stage.begin(misbehaving.restart, stage, "restarted", "orders"),
    ]
    rising = stage.begin(misbehaving.rise, stage, "zombie", "orders")
    wait([*calm, *acts])
    refusals = rising.result()
    stage.begin(misbehaving.haunt, stage, "haunted", "orders").result()
    java.settle()
    aiokafka.settle()
    stage.check()
    return refusals


@pytest.fixture(scope="module")
def seen(log: Log, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    tables = Tables(tmp_path_factory.mktemp("fleet") / "tables")
    find = partial(find_all, settings=IN_A_MINUTE)
    summary = pipeline.run(parse_inputs([str(log.folder)]), tables, find=find)
    findings: dict[str, dict[str, Any]] = {}
    for row in tables.small_rows(FINDINGS):
        findings.setdefault(row["group"], {})[row["finding"]] = row
    groups = {row["group"] for row in tables.small_rows(GROUPS)}
    records = tables.small_rows(RECORDS, ("partition", "offset", "group"))
    return Seen(findings, groups, {(row["partition"], row["offset"], row["group"]) for row in records}, summary)


def test_everything_was_read_and_there_are_no_other_groups(seen: Seen) -> None:
    assert (seen.summary.quarantined, seen.groups) == (0, set(EXPECTED))


@pytest.mark.parametrize("group", EXPECTED)
def test_findings_of_a_group_are_its_faults_and_no_others(seen: Seen, group: str) -> None:
    found = seen.findings.get(group, {})
    assert found.keys() == EXPECTED[group], [(name, row["sentence"]) for name, row in found.items()]


def test_every_row_of_evidence_stands_in_the_log(seen: Seen) -> None:
    for group, found in seen.findings.items():
        for name, row in found.items():
            assert row["evidence"], (group, name)
            places = {(each["partition"], each["offset"], group) for each in row["evidence"]}
            assert places <= seen.records, (group, name)


@pytest.mark.parametrize(
    ("group", "finding", "part"),
    [
        ("storm", "rebalance_storm", "; restless joined or left in "),
        ("storm native", "rebalance_storm", "; restless joined or left in "),
        ("storm", "eager_group", "by forecast"),
        ("overrun", "poll_timeout_loop", "slow on /127.0.0.1 left "),
        ("overrun native", "poll_timeout_loop", "slow on /127.0.0.1 left "),
        ("overrun alone", "poll_timeout_loop", "slow on /127.0.0.1 left "),
        ("fight", "flapping_instance", f"till-1 was taken over {misbehaving.TAKE_OVERS} times "),
        ("crowd", "idle_members", "2 of 4 members have nothing: there are 2 partitions"),
        ("zombie", "zombie_commits", f"offsets of orders-0 went back {misbehaving.ZOMBIE_COMMITS} times"),
        ("held", "stuck_group", ": it waits for holder to revoke partitions"),
        ("skewed", "skewed_assignment", "one of 2 members has 6 of 6 partitions"),
    ],
)
def test_a_finding_names_who_did_it_and_how_often(seen: Seen, group: str, finding: str, part: str) -> None:
    assert part in seen.findings[group][finding]["sentence"]


def test_kafka_refuses_the_dead_that_say_who_they_were(log: Log) -> None:
    assert log.refusals == ["UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"]
