"""Kafka Streams on our broker and on theirs: how fast it counts words, and how long a rebalance takes.

The application is `interop/java/CountingStream.java`: a repartition topic and a store with a changelog, every count
written. One instance counts what is there when it starts; its time runs from its state RUNNING to the last count. Then
a third instance joins two that have settled, all at default settings but for the state's folder: the time is the third
one's from its first state REBALANCING, which is before its JoinGroup, to RUNNING, so what its tasks restore is in it.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from interop.brokers import Broker
from interop.group import keyed
from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker
from interop.process import Child
from interop.producers import produce
from interop.streams import application, running

from bench.result import Aim, Outcome, Result
from kohort.model.ids import TopicPartition
from kohort.sync import Admin

PARTITIONS, KEYS = 6, 100
GUARANTEES = ("at_least_once", "exactly_once_v2")
PEER = "Apache Kafka"
SETTLED_S = (4.0, 4.6, 5.2, 5.8, 6.4)
"""A member that has just joined sends its first heartbeat after 3 s; then the third comes at any time between two."""
_STATE = re.compile(r"^state (\w+) (\d+)$", re.MULTILINE)
_numbers = count(1)


def states(instance: Child) -> list[tuple[str, int]]:
    """Return the states that an instance has come to, with when, in milliseconds."""
    return [(state, int(at_ms)) for state, at_ms in _STATE.findall(instance.text())]


def _topics(broker: Broker) -> str:
    name = f"words-{next(_numbers)}"
    with Admin(broker.bootstrap) as admin:
        for topic in (name, f"{name}-counts"):
            admin.create_topic(topic, PARTITIONS)
    return name


def counted_per_s(broker: Broker, guarantee: str, records: int) -> float:
    """Have one instance count so many records; return how many it counted in a second."""
    name = _topics(broker)
    produce("librdkafka", broker.bootstrap, name, keyed(records, KEYS))
    setting = f"processing.guarantee={guarantee}"
    with (
        tempfile.TemporaryDirectory() as folder,
        application(broker.bootstrap, name, Path(folder), PARTITIONS, setting) as streams,
        Admin(broker.bootstrap) as admin,
    ):
        instance = streams.start(0)
        running(instance)
        ends = dict.fromkeys((TopicPartition(streams.counts, number) for number in range(PARTITIONS)), "latest")
        while sum(each.offset for each in admin.list_offsets(ends).values() if each) < records:
            time.sleep(0.02)
        end_ms = time.time() * 1000
        return records / (end_ms - next(at_ms for state, at_ms in states(instance) if state == "RUNNING")) * 1000


def rebalance_ms(broker: Broker, settled_s: float) -> float:
    """Have a third instance join two that had so long to settle; return how long it took to have its tasks."""
    name = _topics(broker)
    produce("librdkafka", broker.bootstrap, name, keyed(2 * KEYS, KEYS))
    defaults = ("session.timeout.ms=45000", "heartbeat.interval.ms=3000")
    with (
        tempfile.TemporaryDirectory() as folder,
        application(broker.bootstrap, name, Path(folder), PARTITIONS, *defaults) as streams,
    ):
        for number in range(2):
            running(streams.start(number))
        streams.await_counts(KEYS, 2)
        time.sleep(settled_s)
        third = streams.start(2)
        running(third)
        found = states(third)
        return found[-1][1] - found[0][1]


def streams(quick: bool) -> Iterator[Outcome]:
    """Run all of it on both brokers in turn."""
    records, rounds = (20_000, 1) if quick else (200_000, 3)
    with KohortBroker() as ours, ApacheKafka() as theirs:
        for guarantee in GUARANTEES:
            counted: dict[str, list[float]] = {"kohort": [], "apache": []}
            for turn in range(rounds):
                for broker in (ours, theirs) if turn % 2 else (theirs, ours):
                    counted[broker.name].append(counted_per_s(broker, guarantee, records))
            name, aim = f"Streams word count, {guarantee}", Aim(1, of_ratio=True)
            yield Result(name, "records/s", counted["kohort"], counted["apache"], PEER, aim)
        taken: dict[str, list[float]] = {"kohort": [], "apache": []}
        for turn, settled_s in enumerate(SETTLED_S[:1] if quick else SETTLED_S):
            for broker in (ours, theirs) if turn % 2 else (theirs, ours):
                taken[broker.name].append(rebalance_ms(broker, settled_s))
        name, aim = "Streams, the third instance joins", Aim(0.1, of_ratio=True, at_most=True)
        yield Result(name, "ms", taken["kohort"], taken["apache"], PEER, aim)
