"""Kafka Streams as members of streams groups (KIP-1071), on our broker and on Apache Kafka's."""

from __future__ import annotations

import re

import pytest
from interop.streams import STREAMS_PROTOCOL, application, running
from interop.waiting import eventually
from tests.interop.kafka_tools import CONFIG, attempt, tool
from tests.interop.lanes import Stage
from tests.interop.test_streams import PARTITIONS, Input, check_own_topics, on_both

pytestmark = [pytest.mark.timeout(400)]
STREAMS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
in_both_versions = pytest.mark.parametrize("version", ["", "4.4.0"], ids=["4.3.1", "4.4.0"])


@pytest.mark.lane(90)
@on_both
@in_both_versions
@pytest.mark.capability("Kafka Streams", "streams groups: scaled 1-3, an instance is killed, one closes")
def test_counts_are_exact_in_a_streams_group_that_is_scaled(stage: Stage, version: str) -> None:
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
