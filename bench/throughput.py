"""Produce and fetch in MiB/s by Apache Kafka's own performance tools, on our broker and on theirs."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from interop.brokers import Broker
from interop.kafka import ApacheKafka
from interop.kohort_broker import KohortBroker

from bench.coordinator import brokers_over_tls
from bench.result import Aim, Outcome, Result
from interop import jars

TOOLS = "org.apache.kafka.tools"
PARTITIONS = 6
PRODUCER = ("acks=all", "batch.size=65536", "linger.ms=5")
HEAP = "1g"
DELETING = {"log.segment.delete.delay.ms": "0"}
"""A deleted topic's pages are free at once, as ours are: otherwise the other broker writes on memory that is still
warm and this one on pages that the machine must find anew, which costs up to two seconds a GiB."""
AIMS = {"produce": Aim(1, of_ratio=True), "fetch": Aim(0.8, of_ratio=True)}
TLS_AIMS = {"produce": Aim(0.8, of_ratio=True), "fetch": Aim(0.8, of_ratio=True)}
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of a tool: its MiB/s, and the broker's CPU seconds per GiB."""

    mib_s: float
    cpu_s_per_gib: float


def load(
    broker: Broker,
    topic: str,
    records: int,
    size: int,
    partitions: int = PARTITIONS,
    codec: str = "none",
    secured: tuple[str, ...] = (),
) -> str:
    """Create a topic, fill it with ProducerPerformance, and return what that printed; `secured` is how to connect."""
    where = ("--bootstrap-server", broker.bootstrap, "--topic", topic, *secured)
    jars.run(f"{TOOLS}.TopicCommand", *where, "--create", "--partitions", str(partitions))
    sizes = ("--num-records", str(records), "--record-size", str(size), "--throughput", "-1")
    return jars.run(
        f"{TOOLS}.ProducerPerformance",
        *(*where, *sizes),
        *("--command-property", *PRODUCER, f"compression.type={codec}"),
        timeout_s=300,
        heap=HEAP,
    )


def produce_and_fetch(broker: Broker, records: int, size: int, secured: tuple[str, ...] = ()) -> dict[str, Sample]:
    """Fill a fresh topic, read all of it, remove it, and return both samples."""
    topic = f"throughput-{size}-{next(_numbers)}"
    gib = records * size / (1 << 30)
    cpu = broker.child.cpu_s()
    text = load(broker, topic, records, size, secured=secured)
    found = re.findall(rf"^{records} records sent, [\d.]+ records/sec \(([\d.]+) MB/sec\)", text, re.MULTILINE)
    samples = {"produce": Sample(float(found[-1]), (broker.child.cpu_s() - cpu) / gib)}
    cpu = broker.child.cpu_s()
    where = ("--bootstrap-server", broker.bootstrap, "--topic", topic, *secured)
    counted = ("--num-records", str(records), "--hide-header")
    text = jars.run(f"{TOOLS}.ConsumerPerformance", *where, *counted, timeout_s=300, heap=HEAP)
    fields = [line.split(", ") for line in text.splitlines() if line.count(", ") >= 9]
    # The column that leaves the rebalance out: fetch.MB.sec.
    samples["fetch"] = Sample(float(fields[-1][8]), (broker.child.cpu_s() - cpu) / gib)
    jars.run(f"{TOOLS}.TopicCommand", *where, "--delete")
    return samples


def throughput(quick: bool) -> Iterator[Outcome]:
    """Run both tools on both brokers in turn."""
    sizes = {1024: 200_000, 100: 1_000_000} if quick else {1024: 1_000_000, 100: 5_000_000}
    with KohortBroker() as ours, ApacheKafka(DELETING) as theirs:
        yield from _in_turns(ours, theirs, sizes, AIMS, 2 if quick else 6)


def throughput_over_tls(quick: bool) -> Iterator[Outcome]:
    """Do the same over TLS, with records of one size."""
    with brokers_over_tls(DELETING) as (ours, theirs, authority):
        client = authority.with_name("client.properties")
        client.write_text(
            f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={authority}\n", encoding="utf-8"
        )
        sizes, secured = {1024: 100_000 if quick else 500_000}, ("--command-config", str(client))
        yield from _in_turns(ours, theirs, sizes, TLS_AIMS, 2 if quick else 4, secured)


def _in_turns(
    ours: Broker,
    theirs: Broker,
    sizes: Mapping[int, int],
    aims: Mapping[str, Aim],
    turns: int,
    secured: tuple[str, ...] = (),
) -> Iterator[Outcome]:
    for broker in (ours, theirs):  # a JVM compiles what is hot, before anything counts
        produce_and_fetch(broker, 300_000, 512, secured)
    for size, records in sizes.items():
        found: dict[str, list[dict[str, Sample]]] = {"kohort": [], "apache": []}
        for turn in range(turns):
            for broker in (ours, theirs) if turn % 2 else (theirs, ours):
                found[broker.name].append(produce_and_fetch(broker, records, size, secured))
        for what, aim in aims.items():
            our_samples, their_samples = ([each[what] for each in found[name]] for name in ("kohort", "apache"))
            cpu = [statistics.median(s.cpu_s_per_gib for s in samples) for samples in (our_samples, their_samples)]
            yield Result(
                f"{what}, {size} B records" + (", TLS" if secured else ""),
                "MiB/s",
                [each.mib_s for each in our_samples],
                [each.mib_s for each in their_samples],
                "Apache Kafka",
                aim,
                f"broker CPU {cpu[0]:.1f} beside {cpu[1]:.1f} s per GiB",
            )
