"""Kafka Streams as members of streams groups (KIP-1071), on our broker and on Apache Kafka's."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from interop.brokers import NEWEST
from interop.group import keyed
from interop.kohort_broker import KohortBroker
from interop.producers import produce
from interop.streams import STREAMS_PROTOCOL, Application, application, running
from interop.waiting import eventually
from tests.interop.explanations import forecast, rebalances
from tests.interop.kafka_tools import CONFIG, attempt, tool
from tests.interop.lanes import Stage
from tests.interop.test_streams import KEYS, PARTITIONS, Input, check_own_topics, on_both

from kohort.client import ResourceType
from kohort.client.admin.group_descriptions import GroupDescription
from kohort.sync import Admin

pytestmark = [pytest.mark.timeout(400)]
STREAMS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
STREAMS_4_4 = "4.4.0"
on_ours_and_newest = pytest.mark.parametrize("broker", ["kohort", NEWEST])
EACH_KILLED = 10
MANY = 200_000
"""Keys of a store that takes seconds to restore."""
in_both_versions = pytest.mark.parametrize("version", ["", "4.4.0"], ids=["4.3.1", "4.4.0"])


@pytest.mark.lane(90)
@on_both
@in_both_versions
@pytest.mark.capability("Kafka Streams", "streams groups: scaled 1-3, an instance is killed, one closes")
def test_counts_are_exact_in_a_streams_group_that_is_scaled(stage: Stage, version: str) -> None:
    scale_and_kill(stage, version)


def scale_and_kill(stage: Stage, version: str) -> None:
    """Scale an application from one instance to three, kill one and stop another, and check what is counted."""
    given = Input(stage)
    with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS, STREAMS_PROTOCOL) as streams:
        given.more()
        instances = [streams.start(0, version=version)]
        given.await_counted(streams)
        check_own_topics(stage, streams)
        instances += [streams.start(number, version=version) for number in (1, 2)]
        given.more()
        for each in instances:
            running(each)
        given.await_counted(streams)
        given.check_counted_once(streams)
        instances[1].crash()
        given.more()
        given.await_counted(streams)
        instances[2].stop()
        given.more()
        given.await_counted(streams)
    last = dict(streams.read_counts())
    assert all(count == given.each for count in last.values())


@pytest.mark.lane(60)
@on_ours_and_newest
@pytest.mark.capability("Kafka Streams", "streams groups: source topics are made after the start (4.4.0)")
def test_application_waits_two_intervals_for_its_source_topics(stage: Stage) -> None:
    with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS, STREAMS_PROTOCOL) as streams:
        with Admin(stage.bootstrap) as admin:
            admin.alter_configs(ResourceType.GROUP, streams.group_id, {"streams.heartbeat.interval.ms": "5000"})
        instance = streams.start(0, version=STREAMS_4_4)
        eventually(lambda: state_of(stage, streams.group_id), "NotReady", 60)
        until_s = time.monotonic() + 4  # of ten
        eventually(lambda: time.monotonic() > until_s, True)
        given = Input(stage)
        running(instance)
        given.more()
        given.await_counted(streams)


def state_of(stage: Stage, group_id: str) -> str:
    """Return the state of a group, or nothing if there is none."""
    with Admin(stage.bootstrap) as admin:
        return next((each.state for each in admin.list_groups() if each.group_id == group_id), "")


@pytest.mark.lane(60)
@on_both
@pytest.mark.usefixtures("java")
@pytest.mark.capability("Kafka Streams", "streams groups: standby tasks by a setting of the group, StreamsGroupCommand")
def test_standby_tasks_of_a_streams_group_are_shown_by_kafkas_tool(stage: Stage) -> None:
    given = Input(stage)
    with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS, STREAMS_PROTOCOL) as streams:
        entity = ("--entity-type", "groups", "--entity-name", streams.group_id)
        tool(stage, CONFIG, *entity, "--alter", "--add-config", "streams.num.standby.replicas=1")
        given.more()
        for number in range(2):
            streams.start(number)
        given.await_counted(streams)

        def copies() -> list[str]:
            asked = ("--describe", "--group", streams.group_id, "--members", "--verbose")
            return re.findall(r" STANDBY: 1:\[(.*?)\]", attempt(stage, STREAMS, *asked))

        eventually(lambda: sorted(",".join(copies()).split(",")), [str(number) for number in range(PARTITIONS)], 60)
        listed = attempt(stage, STREAMS, "--list", "--state", "stable").split()
        assert streams.group_id in listed
    assert "was successful" in attempt(stage, STREAMS, "--delete", "--group", streams.group_id)


@pytest.mark.lane(60)
@pytest.mark.parametrize("broker", ["kohort"])
@in_both_versions
def test_standby_tasks_are_in_another_zone_than_their_tasks(stage: Stage, version: str) -> None:
    given = Input(stage)
    with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS, STREAMS_PROTOCOL) as streams:
        entity = ("--entity-type", "groups", "--entity-name", streams.group_id)
        changes = "streams.num.standby.replicas=1,streams.rack.aware.assignment.tags=zone"
        tool(stage, CONFIG, *entity, "--alter", "--add-config", changes)
        given.more()
        for number, zone in enumerate("aab"):
            streams.start(number, f"client.tag.zone={zone}", f"client.id={zone}{number}", version=version)
        given.await_counted(streams)

        def places() -> dict[int, str]:
            """Return the zones of each task with state, the active one first."""
            with Admin(stage.bootstrap) as admin:
                members = admin.describe_groups([streams.group_id])[streams.group_id].members
            found = [(each.client_id[0], each.streams[1]) for each in members if each.streams is not None]
            active = [(task.partition, zone) for zone, has in found if has for task in has.active if task.subtopology]
            copies = [(task.partition, zone) for zone, has in found if has for task in has.standby]
            return {number: zone + dict(copies).get(number, "") for number, zone in active}

        eventually(
            lambda: [places().get(number) in ("ab", "ba") for number in range(PARTITIONS)], [True] * PARTITIONS, 90
        )


@pytest.mark.lane(90)
@pytest.mark.parametrize("broker", ["kohort"])
@in_both_versions
def test_counts_are_exact_while_tasks_become_standbys_and_standbys_become_active(stage: Stage, version: str) -> None:
    given = Input(stage)
    with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS, STREAMS_PROTOCOL) as streams:
        entity = ("--entity-type", "groups", "--entity-name", streams.group_id)
        tool(stage, CONFIG, *entity, "--alter", "--add-config", "streams.num.standby.replicas=1")
        given.more()
        running(streams.start(0, version=version))
        given.await_counted(streams)
        second = streams.start(1, version=version)
        running(second)
        given.more()
        eventually(lambda: stateful_tasks(stage, streams), [PARTITIONS // 2] * 2, 120)
        given.await_counted(streams)
        second.stop()
        given.more()
        given.await_counted(streams)
        eventually(lambda: stateful_tasks(stage, streams), [PARTITIONS], 60)
        given.check_counted_once(streams)


@pytest.mark.lane(90)
@on_both
@pytest.mark.capability("Kafka Streams", "streams groups: exactly_once_v2, two threads each, an instance is killed")
def test_counts_are_written_once_in_a_streams_group_with_exactly_once(stage: Stage) -> None:
    given = Input(stage)
    exact = ("processing.guarantee=exactly_once_v2", "transaction.timeout.ms=6000", "num.stream.threads=2")
    with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS, STREAMS_PROTOCOL, *exact) as streams:
        given.more()
        instances = [streams.start(number) for number in range(2)]
        for each in instances:
            running(each)
        given.await_counted(streams)
        given.more()
        instances[1].crash()
        given.await_counted(streams)
        running(streams.start(1))
        given.more()
        given.await_counted(streams)
        given.check_counted_once(streams)


def described(stage: Stage, streams: Application) -> GroupDescription:
    """Return the application's group as it is."""
    with Admin(stage.bootstrap) as admin:
        return admin.describe_groups([streams.group_id])[streams.group_id]


@pytest.mark.timeout(900)
@pytest.mark.lane(200)
@on_both
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.capability("Kafka Streams", "streams groups: scaled 1-3-1 under load and killed 10 times, {guarantee}")
def test_counts_of_a_streams_group_are_right_after_kills(stage: Stage, guarantee: str) -> None:
    given = Input(stage)
    settings = (STREAMS_PROTOCOL, f"processing.guarantee={guarantee}", "transaction.timeout.ms=6000")
    with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS, *settings) as streams:
        given.more()
        instances = [streams.start(0)]
        given.await_counted(streams)
        with given.load():
            instances += [streams.start(number) for number in (1, 2)]
            for each in instances:
                running(each)
            for kill in range(EACH_KILLED):
                number = kill % 3
                instances[number].crash()
                instances[number] = streams.start(number)
                running(instances[number])
            for each in instances[1:]:
                each.stop()
        given.await_counted(streams)
        if guarantee == "exactly_once_v2":
            given.check_counted_once(streams)


@pytest.mark.lane(120)
@on_ours_and_newest
@pytest.mark.capability(
    "Kafka Streams", "streams groups: 4.3.1 to 4.4.0 under load, one instance after the other (4.4.0)"
)
def test_counts_are_exact_while_a_streams_group_gets_the_next_version(stage: Stage) -> None:
    given = Input(stage)
    with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS, STREAMS_PROTOCOL) as streams:
        given.more()
        instances = [streams.start(number) for number in range(3)]
        for each in instances:
            running(each)
        with given.load():
            for number in range(3):
                instances[number].stop()
                instances[number] = streams.start(number, version=STREAMS_4_4)
                running(instances[number])
        given.await_counted(streams)
        given.check_counted_once(streams)


@pytest.mark.lane(120)
@on_both
@pytest.mark.capability("Kafka Streams", "from a classic group to a streams group and back, while no instance runs")
def test_application_that_is_stopped_becomes_a_streams_group_and_a_classic_one_again(stage: Stage) -> None:
    given = Input(stage)
    with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS) as streams:
        for group_type, settings in (("classic", ()), ("streams", (STREAMS_PROTOCOL,)), ("classic", ())):
            given.more()
            instances = [streams.start(number, *settings) for number in range(2)]
            given.await_counted(streams)
            assert described(stage, streams).group_type == group_type
            for each in instances:
                each.stop()
            # Streams of the classic protocol do not leave their group.
            eventually(lambda: described(stage, streams).state, "Empty", 60)
        given.check_counted_once(streams)


@pytest.mark.timeout(600)
@pytest.mark.lane(150)
@pytest.mark.parametrize("broker", ["kohort"])
@pytest.mark.capability(
    "Kafka Streams", "streams groups: a task with much state moves once its new owner has warmed up (4.4.0)"
)
def test_task_with_much_state_moves_to_an_owner_that_has_warmed_up(stage: Stage) -> None:
    given = Input(stage)
    with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS, STREAMS_PROTOCOL) as streams:
        entity = ("--entity-type", "groups", "--entity-name", streams.group_id)
        tool(stage, CONFIG, *entity, "--alter", "--add-config", "streams.acceptable.recovery.lag=100")
        produce("librdkafka", stage.bootstrap, stage.name, keyed(MANY, MANY))
        first = streams.start(0, version=STREAMS_4_4)
        running(first)
        eventually(lambda: lag(stage, streams), 0, 200)
        at_once, *later = forecast(stage, streams.group_id, "--add", "1")
        streams.start(1, version=STREAMS_4_4)
        eventually(lambda: warming_up(stage, streams), True, 60)
        given.more()  # what runs already is not interrupted
        eventually(lambda: stateful_tasks(stage, streams), [PARTITIONS // 2] * 2, 120)
        eventually(lambda: lag(stage, streams), 0, 60)
        moves = [{move["task"][0] for move in step["moves"]} for step in (at_once, *later)]
        assert moves == [{"0"}, *({"1"} for _ in later)], "the forecast: with state later, and then all that moved"
        assert sum(len(step["moves"]) for step in later) == PARTITIONS // 2
        assert all(each["records"] >= MANY // PARTITIONS // 2 for each in at_once["warmups"])
        told = rebalances(stage, streams.group_id)
        assert any(epoch["warmups"] for each in told for epoch in each["epochs"])
        causes = [epoch["cause"] for each in told for epoch in each["epochs"]]
        assert ("standby_lag", "standby_caught_up") in {(each["kind"], each["detail"]) for each in causes}
        counted = streams.read_counts()
        assert len(set(counted)) == len(counted), "a task goes on with the counts of its former owner"
        assert len(counted) == MANY + given.each * KEYS


@pytest.mark.capability(
    "Kafka Streams", "streams groups: the graph of the program, also after a restart (4.4.0)", broker="kohort"
)
def test_program_of_a_streams_group_is_described_as_the_program_describes_itself(tmp_path: Path) -> None:
    with KohortBroker() as broker:
        stage = Stage(broker, "programs", tmp_path)
        Input(stage)
        with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS, STREAMS_PROTOCOL) as streams:
            running(instance := streams.start(0, version=STREAMS_4_4))
            printed = instance.text()
            own = printed[printed.index("Topologies:") :].partition("\n\n\n")[0]
            # The program does not know yet how its own topics are called.
            own = re.sub(r"(topics?: \[?)counts-", rf"\1{streams.group_id}-counts-", own)
            eventually(lambda: program(streams), own, 60)
            broker.kill()
            broker.start()
            eventually(lambda: program(streams), own, 60)


def program(streams: Application) -> str:
    """Return the graph of the application's program, as our command line shows it."""
    line = [sys.executable, "-m", "kohort", "groups", "describe", streams.group_id, "--topology"]
    done = subprocess.run([*line, "-b", streams.bootstrap], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.partition("\n\n")[2].strip()


def lag(stage: Stage, streams: Application) -> int:
    """Return how many records the application has not read yet, -1 before it has committed in all its inputs."""
    with Admin(stage.bootstrap) as admin:
        found = admin.lag(streams.group_id).values()
    return sum(each.records or 0 for each in found) if len(found) == 2 * PARTITIONS else -1


def warming_up(stage: Stage, streams: Application) -> bool:
    """Whether some member warms up tasks, while another one runs all that have state."""
    members = described(stage, streams).members
    return any(each.warmups for each in members) and stateful_tasks(stage, streams) == [0, PARTITIONS]


def stateful_tasks(stage: Stage, streams: Application) -> list[int]:
    """Return how many tasks with a store each member runs."""
    given = [each.streams[1] for each in described(stage, streams).members if each.streams is not None]
    return sorted(sum(task.subtopology == 1 for task in each.active) for each in given if each is not None)
