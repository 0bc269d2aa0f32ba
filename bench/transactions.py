"""Kafka's own producer and consumer, in transactions, on our broker and on theirs.

A transaction is committed over and over: how many MiB/s that makes with 1, 100 and 10,000 records in each, and how
long commitTransaction() takes once all records are acknowledged, which is EndTxn's answer. Then offsets are sent to
transactions (TxnOffsetCommit), counted by the CPU seconds that the broker used, and what was written is read by
`read_committed`, beside the same by the same broker's `read_uncommitted`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from interop.brokers import Broker
from interop.java_lines import JavaLines
from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker

from bench.result import Aim, Outcome, Result
from bench.throughput import DELETING
from interop import jars

PARTITIONS = 6
SIZE = 1024
PEER = "Apache Kafka"
TRANSACTIONS: Mapping[int, tuple[int, int]] = {1: (2000, 300), 100: (1000, 100), 10_000: (30, 5)}
"""By records in each, how many transactions a sample has, and how many where the run is quick."""
GROUPS = 16
"""Producers that send offsets, each to a group of its own."""
AT_LEAST, AT_MOST = Aim(1, of_ratio=True), Aim(0.7, of_ratio=True, at_most=True)
ENDS = "one request at a time; both brokers answer before they write the markers"
OFFSETS = (
    "by the broker's CPU seconds; a batch holds records of one producer, so that each request is an append of its own, "
    "where OffsetCommits to one partition share one"
)
_numbers = count(1)


@dataclass(slots=True)
class Samples:
    """What was measured on one broker."""

    mib_s: dict[int, list[float]] = field(default_factory=lambda: {each: [] for each in TRANSACTIONS})
    commit_ms: dict[int, list[float]] = field(default_factory=lambda: {each: [] for each in TRANSACTIONS})
    offsets_per_cpu_s: list[float] = field(default_factory=list)
    read_mib_s: dict[str, list[float]] = field(default_factory=lambda: {"read_committed": [], "read_uncommitted": []})

    def produce(self, java: JavaLines, broker: Broker, records: int, transactions: int) -> str:
        """Fill a fresh topic, and return its name."""
        topic = f"transactions-{records}-{next(_numbers)}"
        _create(broker, topic)
        line = java.ask(f"produce {broker.bootstrap} {topic} {PARTITIONS} {transactions} {records} {SIZE}")
        mib_s, *commits = map(float, line.split())
        self.mib_s[records].append(mib_s)
        self.commit_ms[records].append(statistics.median(commits))
        return topic

    def read(self, java: JavaLines, broker: Broker, topic: str, records: int) -> None:
        """Read a topic both ways."""
        for isolation, found in self.read_mib_s.items():
            found.append(float(java.ask(f"read {broker.bootstrap} {topic} {PARTITIONS} {records} {isolation}")))

    def commit_offsets(self, java: JavaLines, broker: Broker, seconds: int) -> None:
        """Send offsets to transactions for so long."""
        topic = f"offsets-{next(_numbers)}"
        _create(broker, topic)
        cpu_s = broker.child.cpu_s()
        answered = int(java.ask(f"offsets {broker.bootstrap} {topic} {GROUPS} {seconds}"))
        self.offsets_per_cpu_s.append(answered / (broker.child.cpu_s() - cpu_s))


def _create(broker: Broker, topic: str) -> None:
    where = ("--bootstrap-server", broker.bootstrap, "--topic", topic)
    jars.run("org.apache.kafka.tools.TopicCommand", *where, "--create", "--partitions", str(PARTITIONS))


def _delete(broker: Broker, topic: str) -> None:
    jars.run(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", broker.bootstrap, "--topic", topic, "--delete"
    )


def _sample(samples: Samples, java: JavaLines, broker: Broker, quick: bool) -> None:
    for records, numbers in TRANSACTIONS.items():
        transactions = numbers[quick]
        topic = samples.produce(java, broker, records, transactions)
        if records == max(TRANSACTIONS):
            samples.read(java, broker, topic, records * transactions)
        _delete(broker, topic)
    samples.commit_offsets(java, broker, 2 if quick else 5)


def transactions(quick: bool) -> Iterator[Outcome]:
    """Run all of it on both brokers in turn."""
    found = {"kohort": Samples(), "apache": Samples()}
    with (
        KohortBroker() as ours,
        ApacheKafka(DELETING) as theirs,
        JavaLines("Transactions", Path(__file__).resolve().parent / "java", heap="1g") as java,
    ):
        for broker in (ours, theirs):  # a JVM compiles what is hot, before anything counts
            _sample(Samples(), java, broker, quick=True)
        for turn in range(1 if quick else 4):
            for broker in (ours, theirs) if turn % 2 else (theirs, ours):
                _sample(found[broker.name], java, broker, quick)
    our, their = found["kohort"], found["apache"]
    for records in TRANSACTIONS:
        name = f"transactions of {records:,} record{'s' * (records > 1)}"
        yield Result(f"{name}, produce", "MiB/s", our.mib_s[records], their.mib_s[records], PEER, AT_LEAST)
        commits = our.commit_ms[records], their.commit_ms[records]
        yield Result(f"{name}, EndTxn", "ms", *commits, PEER, AT_MOST, ENDS)
    both = our.offsets_per_cpu_s, their.offsets_per_cpu_s
    yield Result("TxnOffsetCommit per core", "/s", *both, PEER, AT_LEAST, OFFSETS)
    committed, uncommitted = our.read_mib_s["read_committed"], our.read_mib_s["read_uncommitted"]
    yield Result("fetch, read_committed", "MiB/s", committed, their.read_mib_s["read_committed"], PEER, AT_LEAST)
    yield Result("fetch, read_committed", "MiB/s", committed, uncommitted, "kohort, read_uncommitted")
