"""Streams groups (KIP-1071) of Kafka Streams 4.4.0 on our broker and on Apache Kafka 4.4.0: heartbeats, moves, words.

Heartbeats are those of members that have settled, each with a connection of its own on which five are under way, as in
row `coordinator`, with parking turned off; what counts is the CPU time of the broker. The application of the other
figures is that of `streams`. A third instance joins two that have settled, at default settings; after a kill the time
counts until the other instance has all tasks, with a session timeout of 6 s on both.

Tasks with state move to a second instance, which takes a bounded number of records a second into its stores: counted is
for how long each partition of the output got no count, beyond what is usual, while records came all the time. The peer
of this figure is our own broker with warm-ups turned off, so that the sticky assignor moves tasks at once; what Apache
Kafka does at the same settings is in its note.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from interop.brokers import Broker
from interop.group import keyed
from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker
from interop.producers import Load, produce
from interop.streams import STREAMS_PROTOCOL, Application, application, running
from interop.waiting import eventually
from interop.wire import Wire

from bench.result import Aim, Outcome, Result
from bench.streams import KEYS, PARTITIONS, TASKS, counted_per_s, new_topics, shares
from interop import jars
from kohort.client import ResourceType
from kohort.model.ids import TopicPartition
from kohort.sync import Admin, Consumer
from kohort.wire import messages as m

PEER = "Apache Kafka 4.4.0"
VERSION = "4.4.0"
CONNECTIONS, IN_FLIGHT = 20, 5
SESSIONS = {
    "group.streams.min.session.timeout.ms": "6000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.heartbeat.interval.ms": "1000",
}
NOT_YET = (14, 15, 16)
"""Errors of a coordinator that is being made."""
STATE_KEYS, RESTORED_PER_S = 60_000, 1_500
"""Half of the keys move: 20 s of restoring, as 1 GB takes at 50 MB/s."""
USUAL_S = 1.0
"""Counts are written every 200 ms, and a busy machine adds to it."""
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
        self.epoch, self.owned, self.is_quiet = 0, none, False
        self.news: dict[str, Any] = {}
        """What the next heartbeat has to report: tasks are named once, as Kafka Streams does."""

    def send(self) -> None:
        """Send a heartbeat with what is owned."""
        sent, self.news = self.join if self.epoch == 0 else self.news, {}
        self.wire.send(m.StreamsGroupHeartbeatRequest(member_epoch=self.epoch, **self.who, **sent), 0)

    def receive(self) -> None:
        """Take what its answer has."""
        answer = self.wire.receive()
        if self.epoch == 0 and answer.error_code in NOT_YET:
            self.wire.call(m.FindCoordinatorRequest(coordinator_keys=[self.who["group_id"]]), 4)
            return
        assert answer.error_code == 0, answer
        self.is_quiet = answer.active_tasks is None and answer.member_epoch == self.epoch
        self.epoch, task = answer.member_epoch, m.StreamsGroupHeartbeatRequest.ActiveTask
        for each in [answer.active_tasks] if answer.active_tasks is not None else []:
            active = [task(subtopology_id=one.subtopology_id, partitions=one.partitions) for one in each]
            self.owned = self.news = {**self.owned, "active_tasks": active}


def _beats_per_cpu_s(broker: Broker, count: int) -> float:
    """Return how many heartbeats of settled members a second of the broker's CPU is enough for."""
    topic = new_topics(broker)
    members = [_Member(broker, topic, number) for number in range(CONNECTIONS)]
    deadline = time.monotonic() + 60
    while (
        not all(each.is_quiet for each in members)
        or sum(len(each.owned["active_tasks"]) for each in members) < PARTITIONS
    ):
        assert time.monotonic() < deadline, "the members have settled"
        _beat_all(members)
    used_s = broker.child.cpu_s()
    for _ in range(count // (IN_FLIGHT * len(members))):
        _beat_all(members, IN_FLIGHT)
    used_s = broker.child.cpu_s() - used_s
    for each in members:
        each.wire.close()
    return count / used_s


def _beat_all(members: Sequence[_Member], in_flight: int = 1) -> None:
    """Have all members send so many heartbeats, and then all take the answers."""
    for each in [*members] * in_flight:
        each.send()
    for each in [*members] * in_flight:
        each.receive()


@contextmanager
def _settled(broker: Broker) -> Iterator[tuple[Application, Admin]]:
    """Yield an application of two instances that share its tasks."""
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
        eventually(lambda: shares(admin, streams.group_id), [TASKS // 2] * 2, 90)
        yield streams, admin


def _joined_ms(broker: Broker) -> float:
    """Return how many ms pass from when a third instance is a member until it has its share."""
    with _settled(broker) as (streams, admin):
        streams.start(2, version=VERSION)
        eventually(
            lambda: len(admin.describe_groups([streams.group_id])[streams.group_id].members), 3, 60, every_s=0.005
        )
        began_s = time.monotonic()
        eventually(lambda: shares(admin, streams.group_id), [TASKS // 3] * 3, 120, every_s=0.005)
        return 1000 * (time.monotonic() - began_s)


def _back_ms(broker: Broker) -> float:
    """Return how many ms pass from when one of two instances is killed until the other one has all tasks."""
    with _settled(broker) as (streams, admin):
        streams.started[0].crash()
        began_s = time.monotonic()
        eventually(lambda: shares(admin, streams.group_id), [TASKS], 90, every_s=0.005)
        return 1000 * (time.monotonic() - began_s)


def _moved_s(broker: Broker, warmups: int) -> float:
    """Return for how many partition-seconds nothing was counted while half of the tasks with state move."""
    name = new_topics(broker)
    with (
        tempfile.TemporaryDirectory() as folder,
        application(broker.bootstrap, name, Path(folder), PARTITIONS, STREAMS_PROTOCOL) as streams,
        Admin(broker.bootstrap) as admin,
    ):
        admin.alter_configs(ResourceType.TOPIC, streams.counts, {"message.timestamp.type": "LogAppendTime"})
        bounds = {
            "num.warmup.replicas": str(warmups),
            "acceptable.recovery.lag": "500",
            "task.offset.interval.ms": "15000",
        }
        changes = {f"streams.{setting}": value for setting, value in bounds.items()}
        admin.alter_configs(ResourceType.GROUP, streams.group_id, changes)
        produce("librdkafka", broker.bootstrap, name, keyed(STATE_KEYS, STATE_KEYS))
        running(streams.start(0, version=VERSION))
        ends = dict.fromkeys((TopicPartition(streams.counts, number) for number in range(PARTITIONS)), "latest")
        eventually(lambda: _end(admin, ends) >= STATE_KEYS, True, 120)
        with Load(broker.bootstrap, name, keys=KEYS, pause_s=0.1) as load:
            counted = _end(admin, ends)
            eventually(lambda: _end(admin, ends) >= counted + 10 * KEYS, True, 60)
            began_ms = time.time() * 1000
            streams.start(1, version=VERSION, restored_per_s=RESTORED_PER_S)
            eventually(lambda: _stateful(admin, streams.group_id), [PARTITIONS // 2] * 2, 240)
            time.sleep(STATE_KEYS / 2 / RESTORED_PER_S + 5)
            load.stop()
        return _unread_s(broker, streams.counts, began_ms)


def _end(admin: Admin, ends: dict[TopicPartition, str]) -> int:
    return sum(each.offset for each in admin.list_offsets(ends).values() if each)


def _stateful(admin: Admin, group_id: str) -> list[int]:
    """Return how many tasks with a store each member has been assigned."""
    given = [each.streams[1] for each in admin.describe_groups([group_id])[group_id].members if each.streams]
    return sorted(sum(task.subtopology == 1 for task in each.active) for each in given if each is not None)


def _unread_s(broker: Broker, topic: str, since_ms: float) -> float:
    """Return the seconds without a record beyond the usual pause, of all partitions of a topic."""
    arrived: list[list[float]] = [[since_ms] for _ in range(PARTITIONS)]
    with Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(PARTITIONS)])
        while batches := consumer.poll(3000):
            for record in chain.from_iterable(batches):
                if record.timestamp_ms > since_ms:
                    arrived[record.partition].append(record.timestamp_ms)
    gaps = [(after - before) / 1000 for each in arrived for before, after in pairwise(each)]
    return sum(gap - USUAL_S for gap in gaps if gap > USUAL_S)


def streams_groups(quick: bool) -> Iterator[Outcome]:
    """Measure both brokers in turn."""
    rounds, beats, records = (1, 8_000, 20_000) if quick else (3, 40_000, 200_000)
    found: dict[str, dict[str, list[float]]] = {"kohort": {}, "apache": {}}

    def note(broker: Broker, name: str, value: float) -> None:
        found[broker.name].setdefault(name, []).append(value)

    ours, theirs = _both(ours=UNPARKED)
    with ours, theirs:
        _beats_per_cpu_s(theirs, 2 * beats)  # for the JVM's compiler
        for _ in range(rounds):
            for broker in (ours, theirs):
                note(broker, "beats", _beats_per_cpu_s(broker, beats))
    ours, theirs = _both(SESSIONS)
    with ours, theirs:
        for _ in range(rounds):
            for broker in (theirs, ours):
                note(broker, "words", counted_per_s(broker, "at_least_once", records, STREAMS_PROTOCOL))
                note(broker, "back", _back_ms(broker))
    ours, theirs = _both()
    with ours, theirs:
        for _ in range(rounds):
            for broker in (theirs, ours):
                note(broker, "joined", _joined_ms(broker))
            note(ours, "moved", _moved_s(ours, 2))
            note(ours, "moved at once", _moved_s(ours, 0))
            note(theirs, "moved", _moved_s(theirs, 2))
    for name, text, unit, aim in (
        ("beats", "StreamsGroupHeartbeat per second of the broker's CPU", "heartbeats/s", Aim(2, of_ratio=True)),
        ("words", "streams group, word count", "records/s", Aim(1, of_ratio=True)),
        ("joined", "streams group, a third instance joins", "ms", Aim(0.1, of_ratio=True, at_most=True)),
        ("back", "streams group, one of two is killed: tasks are back", "ms", Aim(1, of_ratio=True, at_most=True)),
    ):
        yield Result(text, unit, found["kohort"][name], found["apache"][name], PEER, aim)
    text = "streams group, half of the state moves: partition-seconds without counts"
    at_once, others = found["kohort"]["moved at once"], [round(each, 1) for each in found["apache"]["moved"]]
    aim, others_did = Aim(0.1, of_ratio=True, at_most=True), f"{PEER} with warm-ups: {others} s"
    yield Result(text, "s", found["kohort"]["moved"], at_once, "without warm-ups", aim, others_did)
