"""Kafka Streams and Kafka Connect through gateways: an instance is killed, and nothing is lost or counted twice."""

from __future__ import annotations

from collections import Counter

import pytest
from interop.connect import connect_cluster, sink_of, source_of, written
from interop.group import keyed
from interop.kohort_gateway import KohortGateway
from interop.producers import produce
from interop.streams import application
from interop.waiting import eventually
from tests.interop.lanes import Stage
from tests.interop.test_streams_groups import STREAMS_4_4, scale_and_kill
from tests.interop.topics import create_topic

pytestmark = [pytest.mark.timeout(300)]
PARTITIONS, KEYS, RECORDS = 6, 20, 400
EACH = 2 * RECORDS // KEYS
GUARANTEES = [
    ("listener_of_three", "exactly_once_v2"),
    ("rewrite_of_three", "exactly_once_v2"),
    ("rewrite_of_three", "at_least_once"),
    ("rewrite_of_older", "exactly_once_v2"),
]


@pytest.mark.lane(45)
@pytest.mark.parametrize(("broker", "guarantee"), GUARANTEES)
@pytest.mark.capability("Kafka Streams", "{guarantee}, an instance is killed")
def test_streams_count_through_a_gateway(guarantee: str, stage: Stage) -> None:
    assert isinstance(stage.broker, KohortGateway)
    for topic in (stage.name, f"{stage.name}-counts"):
        create_topic(stage.bootstrap, topic, PARTITIONS)
    upstream, setting = stage.broker.upstream, f"processing.guarantee={guarantee}"
    with application(stage.bootstrap, stage.name, stage.folder, PARTITIONS, setting) as streams:
        produce("librdkafka", stage.bootstrap, stage.name, keyed(RECORDS, KEYS))
        first, _ = streams.start(0), streams.start(1)
        eventually(lambda: len(streams.read_counts(upstream)) > 0, True, 60)
        first.crash()
        streams.start(2)
        produce("librdkafka", stage.bootstrap, stage.name, keyed(RECORDS, KEYS, RECORDS))
        streams.await_counts(KEYS, EACH, bootstrap=upstream)
    if guarantee == "exactly_once_v2":
        assert {count for _, count in streams.read_counts(upstream)} <= set(range(EACH + 1))


@pytest.mark.timeout(400)
@pytest.mark.lane(90)
@pytest.mark.parametrize("broker", ["coordinators_of_newest", "rewrite_of_newest"])
@pytest.mark.capability("Kafka Streams", "streams groups: scaled 1-3, an instance is killed, one closes (4.4.0)")
def test_counts_of_a_streams_group_are_exact_through_a_gateway(stage: Stage) -> None:
    assert isinstance(stage.broker, KohortGateway)
    parked = stage.broker.metric("heartbeats_held_total")
    scale_and_kill(stage, STREAMS_4_4)
    assert stage.broker.metric("heartbeats_held_total") > parked


@pytest.mark.lane(60)
@pytest.mark.parametrize("broker", ["listener_of_three", "rewrite_of_three"])
@pytest.mark.capability("Kafka Connect", "distributed (sessioned), a worker is killed")
def test_connect_copies_a_file_through_a_gateway(stage: Stage) -> None:
    source, sink = stage.folder / "source.txt", stage.folder / "sink.txt"
    lines = [f"line {number}" for number in range(200)]
    source.write_text("\n".join(lines[:100]) + "\n")
    create_topic(stage.bootstrap, stage.name, PARTITIONS)
    with connect_cluster(stage.bootstrap, stage.name, stage.folder) as cluster:
        first, second = cluster.start(), cluster.start()
        first.ready()
        second.ready()
        second.call("PUT", "connectors/source/config", source_of(source, stage.name))
        second.call("PUT", "connectors/sink/config", sink_of(sink, stage.name))
        eventually(lambda: written(sink), set(lines[:100]), 60)
        first.child.crash()
        with source.open("a") as more:
            more.write("\n".join(lines[100:]) + "\n")
        eventually(lambda: written(sink), set(lines), 60)
        eventually(lambda: second.states(("source", "sink")), Counter({"RUNNING": 5}), 60)
