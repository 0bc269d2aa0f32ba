"""Streams groups (KIP-1071) of Kafka Streams 4.4.0 on our broker and on Apache Kafka 4.4.0: heartbeats, moves, words.

Heartbeats are those of members that have settled, one after another on each of some connections, with parking turned
off; what counts is the CPU time of the broker. The application of the other figures is that of `streams`. A third
instance joins two that have settled, at default settings; after a kill the time counts until the other instance has all
tasks, with a session timeout of 6 s on both.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from interop.brokers import Broker
from interop.group import keyed
from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker
from interop.producers import produce
from interop.streams import STREAMS_PROTOCOL, application, running
from interop.waiting import eventually
from interop.wire import Wire

from bench.result import Aim, Outcome, Result
from bench.streams import KEYS, PARTITIONS, TASKS, counted_per_s, new_topics, shares
from interop import jars
from kohort.sync import Admin
from kohort.wire import messages as m

PEER = "Apache Kafka 4.4.0"
VERSION = "4.4.0"
CONNECTIONS = 8
SESSIONS = {
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.heartbeat.interval.ms": "1000",
}
NOT_YET = (14, 15, 16)
"""Errors of a coordinator that is being made."""
UNPARKED = {"kohort.group.consumer.heartbeat.park.ms": "0"}


def _both(
    settings: dict[str, str] | None = None, ours: dict[str, str] | None = None
) -> tuple[KohortBroker, ApacheKafka]:
    given = settings or {}
    return KohortBroker({**given, **(ours or {})}), ApacheKafka(given, pom=jars.NEWEST)


class _Member:
    """A member that is one connection."""

    def __init__(self, broker: Broker, topic: str, number: int) -> None:
        self.wire = Wire(broker.bootstrap)
        self.who: dict[str, Any] = {"group_id": f"beats-{topic}", "member_id": f"m{number}"}
        sub = m.StreamsGroupHeartbeatRequest.Topology.Subtopology
        lists: dict[str, Any] = {"state_changelog_topics": [], "repartition_sink_topics": [], "copartition_groups": []}
        one = sub(
            subtopology_id="0", source_topics=[topic], source_topic_regex=[], repartition_source_topics=[], **lists
        )
        topology = m.StreamsGroupHeartbeatRequest.Topology(epoch=0, subtopologies=[one])
        none: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        self.join: dict[str, Any] = {
            "rebalance_timeout_ms": 60_000,
            "topology": topology,
            "process_id": f"p{number}",
            **none,
        }
        self.epoch, self.owned = 0, none
        self.is_quiet = False

    def beat(self) -> None:
        """Send a heartbeat with what is owned, and take what the answer has."""
        sent = self.join if self.epoch == 0 else self.owned
        answer = self.wire.call(m.StreamsGroupHeartbeatRequest(member_epoch=self.epoch, **self.who, **sent), 0)
        if self.epoch == 0 and answer.error_code in NOT_YET:
            self.wire.call(m.FindCoordinatorRequest(coordinator_keys=[self.who["group_id"]]), 4)
            return
        assert answer.error_code == 0, answer
        self.is_quiet = answer.active_tasks is None and answer.member_epoch == self.epoch
        self.epoch, task = answer.member_epoch, m.StreamsGroupHeartbeatRequest.ActiveTask
        for each in [answer.active_tasks] if answer.active_tasks is not None else []:
            active = [task(subtopology_id=one.subtopology_id, partitions=one.partitions) for one in each]
            self.owned = {**self.owned, "active_tasks": active}


def _beats_per_cpu_s(broker: Broker, count: int) -> float:
    """Return how many heartbeats of settled members a second of the broker's CPU is enough for."""
    topic = new_topics(broker)
    members = [_Member(broker, topic, number) for number in range(CONNECTIONS)]
    deadline = time.monotonic() + 60
    while not all(each.is_quiet and each.owned["active_tasks"] for each in members[:PARTITIONS]):
        assert time.monotonic() < deadline, "the members have settled"
        for each in members:
            each.beat()
    _beat_all(members, count)  # for the JVM's compiler
    used_s = broker.child.cpu_s()
    _beat_all(members, count)
    return count / (broker.child.cpu_s() - used_s)


def _beat_all(members: list[_Member], count: int) -> None:
    for _ in range(count // len(members)):
        for each in members:
            each.beat()


def _joined_and_killed(broker: Broker) -> tuple[float, float]:
    """Return how many ms a third instance takes to join two, and the last one to have all tasks after kills."""
    name = new_topics(broker)
    produce("librdkafka", broker.bootstrap, name, keyed(2 * KEYS, KEYS))
    with (
        tempfile.TemporaryDirectory() as folder,
        application(broker.bootstrap, name, Path(folder), PARTITIONS, STREAMS_PROTOCOL) as streams,
        Admin(broker.bootstrap) as admin,
    ):
        for number in range(2):
            running(streams.start(number, version=VERSION))
        streams.await_counts(KEYS, 2)
        eventually(lambda: shares(admin, streams.group_id), [TASKS // 2] * 2, 60)
        streams.start(2, version=VERSION)
        eventually(
            lambda: len(admin.describe_groups([streams.group_id])[streams.group_id].members), 3, 60, every_s=0.005
        )
        began_s = time.monotonic()
        eventually(lambda: shares(admin, streams.group_id), [TASKS // 3] * 3, 90, every_s=0.005)
        joined_ms = 1000 * (time.monotonic() - began_s)
        for each in streams.started[:2]:
            each.crash()
        began_s = time.monotonic()
        eventually(lambda: shares(admin, streams.group_id), [TASKS], 90, every_s=0.005)
        return joined_ms, 1000 * (time.monotonic() - began_s)


def streams_groups(quick: bool) -> Iterator[Outcome]:
    """Measure both brokers in turn."""
    rounds, beats, records = (1, 8_000, 20_000) if quick else (3, 40_000, 200_000)
    found: dict[str, dict[str, list[float]]] = {"kohort": {}, "apache": {}}

    def note(broker: Broker, name: str, value: float) -> None:
        found[broker.name].setdefault(name, []).append(value)

    ours, theirs = _both(ours=UNPARKED)
    with ours, theirs:
        for _ in range(rounds):
            for broker in (ours, theirs):
                note(broker, "beats", _beats_per_cpu_s(broker, beats))
    ours, theirs = _both(SESSIONS)
    with ours, theirs:
        for _ in range(rounds):
            for broker in (theirs, ours):
                note(broker, "words", counted_per_s(broker, "at_least_once", records, STREAMS_PROTOCOL))
                joined_ms, back_ms = _joined_and_killed(broker)
                note(broker, "joined", joined_ms)
                note(broker, "back", back_ms)
    for name, text, unit, aim in (
        ("beats", "StreamsGroupHeartbeat per second of the broker's CPU", "heartbeats/s", Aim(2, of_ratio=True)),
        ("words", "streams group, word count", "records/s", Aim(1, of_ratio=True)),
        ("joined", "streams group, a third instance joins", "ms", Aim(0.1, of_ratio=True, at_most=True)),
        ("back", "streams group, two of three are killed: tasks are back", "ms", Aim(1, of_ratio=True, at_most=True)),
    ):
        yield Result(text, unit, found["kohort"][name], found["apache"][name], PEER, aim)
