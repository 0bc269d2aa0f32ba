"""Kafka Streams on our broker and on theirs: how fast it counts words, and how long a rebalance takes.

The application is `interop/java/CountingStream.java`: a repartition topic and a store with a changelog, every count
written. One instance counts what is there when it starts; its time runs from its state RUNNING to the last count. Then
a third instance joins two that have settled, all at default settings but for the state's folder. The rebalance lasts
from when the group changes until it is stable with the tasks shared evenly, as DescribeGroups shows it: two rounds, as
Streams is cooperative. The other time is the third one's, from its first state REBALANCING, when it connects, until it
is RUNNING with its share; it was before that where its first round gave it nothing yet.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import NamedTuple

from interop.brokers import Broker
from interop.group import keyed
from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker
from interop.process import Child
from interop.producers import produce
from interop.streams import application, running
from interop.waiting import eventually

from bench.result import Aim, Outcome, Result
from kohort.model.ids import TopicPartition
from kohort.sync import Admin

PARTITIONS, KEYS = 6, 100
TASKS = 2 * PARTITIONS  # those that read the topic, and those that count
GUARANTEES = ("at_least_once", "exactly_once_v2")
PEER = "Apache Kafka"
SETTLED_S = (4.0, 4.6, 5.2, 5.8, 6.4)
"""A member that has just joined sends its first heartbeat after 3 s; then the third comes at any time between two."""
RUNS = "it connects before the rebalance, and restores its stores after it; neither depends on the group"
_STATE = re.compile(r"^state (\w+) (\d+)$", re.MULTILINE)
_numbers = count(1)


def states(instance: Child) -> list[tuple[str, int]]:
    """Return the states that an instance has come to, with when, in milliseconds."""
    return [(state, int(at_ms)) for state, at_ms in _STATE.findall(instance.text())]


def new_topics(broker: Broker) -> str:
    """Make the topics of an application, and return the name of the one that it reads."""
    name = f"words-{next(_numbers)}"
    with Admin(broker.bootstrap) as admin:
        for topic in (name, f"{name}-counts"):
            admin.create_topic(topic, PARTITIONS)
    return name


def counted_per_s(broker: Broker, guarantee: str, records: int, *settings: str) -> float:
    """Have one instance count so many records; return how many it counted in a second."""
    name = new_topics(broker)
    produce("librdkafka", broker.bootstrap, name, keyed(records, KEYS))
    setting = f"processing.guarantee={guarantee}"
    with (
        tempfile.TemporaryDirectory() as folder,
        application(broker.bootstrap, name, Path(folder), PARTITIONS, setting, *settings) as streams,
        Admin(broker.bootstrap) as admin,
    ):
        instance = streams.start(0)
        running(instance)
        ends = dict.fromkeys((TopicPartition(streams.counts, number) for number in range(PARTITIONS)), "latest")
        while sum(each.offset for each in admin.list_offsets(ends).values() if each) < records:
            time.sleep(0.02)
        end_ms = time.time() * 1000
        return records / (end_ms - next(at_ms for state, at_ms in states(instance) if state == "RUNNING")) * 1000


class Joined(NamedTuple):
    """How long a third instance took, in milliseconds."""

    rebalance: float
    running: float


def shares(admin: Admin, group_id: str) -> list[int]:
    """Return how many tasks each member has been assigned; nothing while the group rebalances."""
    found = admin.describe_groups([group_id])[group_id]
    given = [each.streams[1] for each in found.members if each.streams]
    return [len(assignment.active) for assignment in given if assignment] if found.state == "Stable" else []


def join(broker: Broker, settled_s: float) -> Joined:
    """Have a third instance join two that had so long to settle."""
    name = new_topics(broker)
    produce("librdkafka", broker.bootstrap, name, keyed(2 * KEYS, KEYS))
    defaults = ("session.timeout.ms=45000", "heartbeat.interval.ms=3000")
    with (
        tempfile.TemporaryDirectory() as folder,
        application(broker.bootstrap, name, Path(folder), PARTITIONS, *defaults) as streams,
        Admin(broker.bootstrap) as admin,
    ):
        for number in range(2):
            running(streams.start(number))
        streams.await_counts(KEYS, 2)
        time.sleep(settled_s)
        third = streams.start(2)
        eventually(lambda: shares(admin, streams.group_id) != [TASKS // 2] * 2, True, 60, every_s=0.002)
        began_ms = time.time() * 1000
        eventually(lambda: shares(admin, streams.group_id), [TASKS // 3] * 3, 60, every_s=0.002)
        shared_ms = time.time() * 1000
        eventually(lambda: states(third)[-1][0] == "RUNNING" and states(third)[-1][1] >= shared_ms, True, 60)
        return Joined(shared_ms - began_ms, states(third)[-1][1] - states(third)[0][1])


def streams(quick: bool) -> Iterator[Outcome]:
    """Have an instance count words on both brokers in turn."""
    records, rounds = (20_000, 1) if quick else (200_000, 3)
    with KohortBroker() as ours, ApacheKafka() as theirs:
        for guarantee in GUARANTEES:
            counted: dict[str, list[float]] = {"kohort": [], "apache": []}
            for turn in range(rounds):
                for broker in (ours, theirs) if turn % 2 else (theirs, ours):
                    counted[broker.name].append(counted_per_s(broker, guarantee, records))
            name, aim = f"Streams word count, {guarantee}", Aim(1, of_ratio=True)
            yield Result(name, "records/s", counted["kohort"], counted["apache"], PEER, aim)


def streams_join(quick: bool) -> Iterator[Outcome]:
    """Have a third instance join on both brokers in turn."""
    joined: dict[str, list[Joined]] = {"kohort": [], "apache": []}
    with KohortBroker() as ours, ApacheKafka() as theirs:
        for turn, settled_s in enumerate(SETTLED_S[:1] if quick else SETTLED_S):
            for broker in (ours, theirs) if turn % 2 else (theirs, ours):
                joined[broker.name].append(join(broker, settled_s))
    ours_ms, theirs_ms = joined["kohort"], joined["apache"]
    name, aim = "Streams, a third instance joins: the rebalance", Aim(0.1, of_ratio=True, at_most=True)
    yield Result(name, "ms", [one.rebalance for one in ours_ms], [one.rebalance for one in theirs_ms], PEER, aim)
    name = "Streams, a third instance joins: until it runs its share"
    yield Result(name, "ms", [one.running for one in ours_ms], [one.running for one in theirs_ms], PEER, None, RUNS)
