"""Our client beside the others of Python: records a second, written to and read from Apache Kafka.

Each is a process of its own, all in turns. By wall the broker and the client share the machine; by CPU only the time of
the client's process counts, with the threads of its library.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from typing import NamedTuple

from interop.kafka import ApacheKafka

from bench.client_programs import PARTITIONS, PROGRAMS
from bench.result import Aim, Outcome, Result, Skipped, number
from bench.throughput import DELETING
from kohort import TopicPartition
from kohort.sync import Admin, Consumer

OURS = "kohort"
MODULES = {
    "aiokafka": "aiokafka",
    "kafka-python": "kafka",
    "confluent-kafka": "confluent_kafka",
    "confluent-kafka, AIO": "confluent_kafka",
}
AIMS = {
    ("consume", 100, "aiokafka"): Aim(2, of_ratio=True),
    ("consume", 100, "confluent-kafka"): Aim(1, of_ratio=True),
}
_numbers = count(1)


class Rate(NamedTuple):
    """Records a second, by wall and by the client's CPU."""

    wall: float
    cpu: float


def clients(quick: bool) -> Iterator[Outcome]:
    """Let all clients write, then all read, each size of records in turns."""
    sizes = {100: 50_000, 1024: 20_000} if quick else {100: 500_000, 1024: 200_000}
    missing = {library for library, module in MODULES.items() if find_spec(module) is None}
    for library in sorted(missing):
        yield Skipped(library, "it is not installed")
    libraries = [each for each in PROGRAMS if each not in missing]
    with ApacheKafka(DELETING) as broker, Admin(broker.bootstrap) as admin:
        for size, records in sizes.items():
            found: dict[tuple[str, str], list[Rate]] = {}
            for turn in range(2 if quick else 4):
                for library in libraries:
                    topic = f"clients-{next(_numbers)}"
                    admin.create_topic(topic, partitions=PARTITIONS)
                    for what in ("produce", "consume"):
                        rate = _rate(what, library, broker.bootstrap, topic, size, records)
                        if turn:  # the first one warms the broker up
                            found.setdefault((what, library), []).append(rate)
                    _require_all(broker.bootstrap, topic, records)
                    admin.delete_topic(topic)
            for what in ("produce", "consume"):
                for library in libraries[1:]:
                    yield _result(what, size, library, found[what, OURS], found[what, library])


def _result(what: str, size: int, library: str, ours: list[Rate], theirs: list[Rate]) -> Result:
    cpu = [statistics.median(each.cpu for each in rates) for rates in (ours, theirs)]
    return Result(
        f"{what}, {size} B, beside {library}",
        "records/s",
        [each.wall for each in ours],
        [each.wall for each in theirs],
        library,
        AIMS.get((what, size, library)),
        f"by the client's CPU {number(cpu[0])} beside {number(cpu[1])}, {cpu[0] / cpu[1]:.2f}×",
    )


def _rate(what: str, library: str, bootstrap: str, topic: str, size: int, records: int) -> Rate:
    command = [sys.executable, "-m", "bench.client_programs", what, library, bootstrap, topic, str(size), str(records)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{what} by {library} ended with {done.returncode}: {done.stderr[-2000:]}")
    took = json.loads(done.stdout)
    return Rate(records / took["wall_s"], records / took["cpu_s"])


def _require_all(bootstrap: str, topic: str, records: int) -> None:
    """Raise RuntimeError where the log does not have each record once."""
    with Consumer(bootstrap_servers=bootstrap) as consumer:
        ends = consumer.end_offsets([TopicPartition(topic, each) for each in range(PARTITIONS)])
    if (written := sum(ends.values())) != records:
        raise RuntimeError(f"{topic} has {written} records, not {records}")
