"""Kafka Streams in groups of our broker and of Apache Kafka's: upgraded by two bounces, scaled, killed, exactly once.

Causes of rebalances are checked where the broker keeps them: on ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from interop.group import keyed
from interop.producers import Load, produce
from interop.streams import Application, application, running
from interop.waiting import eventually
from tests.interop.explanations import assigned_works, explains, rebalances, runs
from tests.interop.lanes import Stage
from tests.interop.topics import create_topic

from kohort.client.admin.admin import ResourceType
from kohort.sync import Admin
from kohort.wire.embedded_protocols import StreamsAssignment, StreamsSubscription

pytestmark = [pytest.mark.timeout(400)]
on_both = pytest.mark.parametrize("broker", ["kohort", "apache"])
in_both_versions = pytest.mark.parametrize("version", ["", "3.9.1"], ids=["4.3.1", "3.9.1"])
PARTITIONS, KEYS, RECORDS = 6, 20, 200
EACH = RECORDS // KEYS
EAGER, COOPERATIVE, OLDER = "2.3.1", "2.4.1", "3.9.1"
METADATA_OF_COOPERATIVE = 5
KILLS = 20
OWN_TOPICS = {
    "changelog": {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"},
    "repartition": {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800"},
}
"""Topics that Streams makes for the store, and for records by another key: their settings."""


class Input:
    """Records that an application counts: how many there are of each key."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.each = 0
        for topic in (stage.name, f"{stage.name}-counts"):
            create_topic(stage.bootstrap, topic, PARTITIONS)

    def more(self) -> None:
        """Produce a round."""
        produce("librdkafka", self._stage.bootstrap, self._stage.name, keyed(RECORDS, KEYS, self.each * KEYS))
        self.each += EACH

    @contextmanager
    def load(self) -> Iterator[None]:
        """Produce all the time, until the end of the block."""
        with Load(self._stage.bootstrap, self._stage.name, keys=KEYS) as load:
            yield
            self.each += len(load.stop()) // KEYS

    def await_counted(self, streams: Application) -> None:
        """Wait until all of it is counted."""
        streams.await_counts(KEYS, self.each)

    def check_counted_once(self, streams: Application) -> None:
        """Check that each count was written once, which holds where no instance was killed, or with exactly_once."""
        counted = Counter(streams.read_counts())
        assert set(counted.values()) == {1}, "a task goes on with the counts of its former owner, and writes none again"
        assert len(counted) == KEYS * self.each


TASKS = {f"{subtopology}_{partition}": 1 for subtopology in (0, 1) for partition in range(PARTITIONS)}


def described(stage: Stage, group_id: str) -> list[tuple[StreamsSubscription | None, StreamsAssignment | None]]:
    """Return what each member has sent and been assigned."""
    with Admin(stage.bootstrap) as admin:
        members = admin.describe_groups([group_id])[group_id].members
    return [each.streams for each in members if each.streams is not None]


def described_tasks(stage: Stage, group_id: str) -> Counter[str]:
    """Return by how many instances each task is run, by what `kohort groups describe` shows."""
    given = [assignment.active for _, assignment in described(stage, group_id) if assignment is not None]
    return Counter(str(task) for tasks in given for task in tasks)


def metadata_versions(stage: Stage, group_id: str) -> list[int]:
    """Return the version of the metadata that each member has sent."""
    return [sent.version for sent, _ in described(stage, group_id) if sent is not None]


def kinds(rebalance: dict[str, Any]) -> set[str]:
    """Return the kinds of the causes of a rebalance's rounds."""
    return {each["cause"]["kind"] for each in rebalance["rounds"]}


@pytest.mark.lane(110)
@on_both
@pytest.mark.capability("Kafka Streams", "2.3.1 to 2.4.1 by two bounces, from eager to cooperative")
def test_application_becomes_cooperative_by_two_bounces(stage: Stage) -> None:
    given = Input(stage)
    with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS) as streams:
        given.more()
        instances = [streams.start(number, version=EAGER) for number in range(3)]
        given.await_counted(streams)
        for settings in (("upgrade.from=2.3",), ()):
            for number in range(3):
                before = len(rebalances(stage, streams.group_id))
                instances[number].stop()
                # With the last old instance gone, all leave and join again with newer metadata, and 2.4.1 goes on with
                # the stores that it had, also if others ran their tasks in between (KAFKA-9525): no input meanwhile.
                is_switch = bool(settings) and number == 2
                if not is_switch:
                    given.more()
                instances[number] = streams.start(number, *settings, version=COOPERATIVE)
                running(instances[number])
                if is_switch:
                    eventually(lambda: metadata_versions(stage, streams.group_id), [METADATA_OF_COOPERATIVE] * 3, 60)
                    eventually(lambda: described_tasks(stage, streams.group_id), TASKS, 60)
                    given.more()
                given.await_counted(streams)
                bounce = rebalances(stage, streams.group_id)[before:]
                # A new instance that is slow to start joins in the round that its predecessor's session has opened.
                causes = {kind for each in bounce for kind in kinds(each)}
                assert "untold" not in causes, f"a rebalance without a cause: {bounce}"
                assert causes & {"member_joined", "session_timeout"} or not explains(stage)
                assert all(runs(each) == sorted(TASKS) for each in assigned_works(stage, streams.group_id)[-1:])
        given.check_counted_once(streams)


@pytest.mark.lane(100)
@on_both
@pytest.mark.capability("Kafka Streams", "2.3.1 to 3.9.1 by two bounces, under load")
def test_counts_are_exact_after_an_upgrade_by_two_bounces_under_load(stage: Stage) -> None:
    given = Input(stage)
    with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS) as streams:
        with given.load():
            instances = [streams.start(number, version=EAGER) for number in range(3)]
            for each in instances:
                running(each)
            for settings in (("upgrade.from=2.3",), ()):
                for number in range(3):
                    instances[number].stop()
                    instances[number] = streams.start(number, *settings, version=OLDER)
                    running(instances[number])
            eventually(lambda: described_tasks(stage, streams.group_id), TASKS, 60)
        given.await_counted(streams)
        given.check_counted_once(streams)


@pytest.mark.lane(90)
@on_both
@in_both_versions
@pytest.mark.capability("Kafka Streams", "standbys, static members, scaled 1-3-1, an instance is killed")
def test_application_is_scaled_with_standbys_and_static_members(stage: Stage, version: str) -> None:
    given = Input(stage)
    # The session is longer than a JVM takes to start on a busy machine.
    standbys = ("num.standby.replicas=1", "probing.rebalance.interval.ms=60000", "session.timeout.ms=25000")
    with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS, *standbys) as streams:

        def start(number: int) -> Any:
            return streams.start(number, f"group.instance.id=i{number}", version=version)

        given.more()
        instances = [start(0)]
        given.await_counted(streams)
        instances += [start(1), start(2)]
        given.more()
        for each in instances:
            running(each)
        given.await_counted(streams)
        eventually(lambda: described_tasks(stage, streams.group_id), TASKS, 60)
        before = len(rebalances(stage, streams.group_id))
        instances[1].crash()
        instances[1] = start(1)
        given.more()
        running(instances[1])
        given.await_counted(streams)
        assert not any("session_timeout" in kinds(each) for each in rebalances(stage, streams.group_id)[before:])
        for each in instances[1:]:
            each.crash()
        given.more()
        given.await_counted(streams)
    last = dict(streams.read_counts())
    assert all(count >= given.each for count in last.values())


@pytest.mark.lane(120)
@on_both
@in_both_versions
@pytest.mark.capability("Kafka Streams", "tasks move to a new instance by a probing rebalance, once it has warmed up")
def test_tasks_move_to_a_new_instance_once_its_copies_have_caught_up(stage: Stage, version: str) -> None:
    given = Input(stage)
    warm = ("acceptable.recovery.lag=0", f"max.warmup.replicas={PARTITIONS}", "probing.rebalance.interval.ms=60000")
    with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS, *warm) as streams:
        given.more()
        streams.start(0, version=version)
        given.await_counted(streams)
        check_own_topics(stage, streams)
        streams.start(1, version=version)
        eventually(lambda: (counting_tasks(stage, streams), is_probing(stage, streams)), ([0, PARTITIONS], True), 60)
        given.more()
        given.await_counted(streams)
        half = PARTITIONS // 2
        eventually(lambda: (counting_tasks(stage, streams), is_probing(stage, streams)), ([half, half], False), 120)
        given.more()
        given.await_counted(streams)
        works = assigned_works(stage, streams.group_id)
        assert any(each["next_rebalance_ms"] for each in works) or not explains(stage)
        assert any(other["copies"] for each in works for other in each["members"].values()) or not explains(stage)
        given.check_counted_once(streams)


def counting_tasks(stage: Stage, streams: Application) -> list[int]:
    """Return how many tasks with a state store each instance runs."""
    given = [assignment.active for _, assignment in described(stage, streams.group_id) if assignment is not None]
    return sorted(sum(task.subtopology == 1 for task in tasks) for tasks in given)


def is_probing(stage: Stage, streams: Application) -> bool:
    """Whether the leader has scheduled a rebalance that looks how far copies have come."""
    due = [given.next_rebalance_ms for _, given in described(stage, streams.group_id) if given is not None]
    return any(each is not None for each in due)


def check_own_topics(stage: Stage, streams: Application) -> None:
    """Check that topics of the application have the settings that it made them with."""
    with Admin(stage.bootstrap) as admin:
        for suffix, settings in OWN_TOPICS.items():
            found = admin.describe_configs(ResourceType.TOPIC, f"{streams.group_id}-counts-{suffix}")
            assert {name: found[name].value for name in settings} == settings


@pytest.mark.timeout(1500)
@pytest.mark.lane(150)
@on_both
@pytest.mark.capability("Kafka Streams", "exactly_once_v2, killed 20 times")
def test_counts_are_exact_after_twenty_kills(stage: Stage) -> None:
    given = Input(stage)
    once = ("processing.guarantee=exactly_once_v2", "transaction.timeout.ms=10000")
    with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS, *once) as streams:
        given.more()
        instances = [streams.start(0, "group.instance.id=i0"), streams.start(1, "group.instance.id=i1")]
        given.await_counted(streams)
        for kill in range(KILLS):
            number = kill % 2
            instances[number].crash()
            given.more()
            instances[number] = streams.start(number, f"group.instance.id=i{number}")
            eventually(lambda: bool(streams.read_counts()), True, 30)
            running(instances[number])
        given.await_counted(streams)
        given.check_counted_once(streams)


@pytest.mark.lane(60)
@on_both
@pytest.mark.capability("Kafka Streams", "an eager instance joins a cooperative application")
def test_no_task_is_run_twice_where_an_old_instance_joins_an_upgraded_application(stage: Stage) -> None:
    given = Input(stage)
    with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS) as streams:
        given.more()
        new = streams.start(0, version=COOPERATIVE)
        given.await_counted(streams)
        old = streams.start(1, version=EAGER)
        given.more()
        given.await_counted(streams)
        assert new.is_running
        stage.figures = "it shares the tasks" if "state RUNNING" in old.text() else "it gets none"
        counted = Counter(streams.read_counts())
    assert set(counted.values()) == {1}, "a task that two instances run writes its counts twice"
