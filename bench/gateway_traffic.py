"""Traffic through a gateway in mode `rewrite` beside the direct connection, in front of Apache Kafka.

How fast ConsumerPerformance reads, what it costs the gateway, what it adds to the time of a Produce, and the memory of
a connection that carries nothing.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing

from interop.kafka import ApacheKafka
from interop.kohort_gateway import KohortGateway

from bench.result import Aim, Outcome, Result
from bench.throughput import HEAP, TOOLS, load
from interop import jars
from kohort.net.blocking_connection import BlockingConnection
from kohort.wire.messages import ProduceRequest
from kohort.wire.record_batches import Record, encode_batch

TOPIC = "gateway-traffic"
RECORD_BYTES = 1024
CONNECTIONS = 500
CONSUMED = Aim(0.8, of_ratio=True)
PER_CORE = Aim(200, of_ratio=False)
ADDED = Aim(1, of_ratio=False, at_most=True)


def gateway_traffic(quick: bool) -> Iterator[Outcome]:
    """Measure through the gateway and directly in turn."""
    records, rounds, requests = (200_000, 2, 500) if quick else (1_000_000, 5, 3_000)
    with ApacheKafka() as kafka, KohortGateway(kafka.bootstrap) as gateway:
        load(kafka, TOPIC, records, RECORD_BYTES)
        mib = records * RECORD_BYTES / (1 << 20)
        through, direct, per_core = [], [], []
        for _ in range(rounds):
            direct.append(consumed(kafka.bootstrap, records))
            cpu_s = gateway.child.cpu_s()
            through.append(consumed(gateway.bootstrap, records))
            per_core.append(mib / (gateway.child.cpu_s() - cpu_s))
        yield Result("gateway, consume", "MiB/s", through, direct, "directly", CONSUMED, "Java's ConsumerPerformance")
        yield Result("gateway, consume, per core", "MiB/s", per_core, [], "", PER_CORE, "of the gateway's CPU time")
        produce_ms(kafka.bootstrap, requests)
        produce_ms(gateway.bootstrap, requests)
        pairs = [
            (produce_ms(kafka.bootstrap, requests), produce_ms(gateway.bootstrap, requests)) for _ in range(rounds)
        ]
        added = [[high - low for low, high in zip(*pair, strict=True)] for pair in pairs]
        note = f"99th percentile of 1 KiB, acks=1; of the median {statistics.median(each[0] for each in added):.2f} ms"
        yield Result("gateway, added to a Produce", "ms", [each[1] for each in added], [], "", ADDED, note)
        yield Result("gateway, an idle connection", "KiB", [idle_kib(gateway)], [], "", None, "resident, both sides")


def consumed(bootstrap: str, records: int) -> float:
    """Return the MiB/s at which ConsumerPerformance reads the whole topic, its rebalance left out."""
    where = ("--bootstrap-server", bootstrap, "--topic", TOPIC)
    counted = ("--num-records", str(records), "--hide-header")
    text = jars.run(f"{TOOLS}.ConsumerPerformance", *where, *counted, timeout_s=300, heap=HEAP)
    fields = [re.split(", ", line) for line in text.splitlines() if line.count(", ") >= 9]
    return float(fields[-1][8])


def produce_ms(bootstrap: str, count: int) -> tuple[float, float]:
    """Return the median and the 99th percentile of the milliseconds of one Produce after another."""
    host, _, port = bootstrap.rpartition(":")
    batch = encode_batch([Record(0, 0, None, bytes(RECORD_BYTES))])
    partition = ProduceRequest.TopicData.PartitionData(index=0, records=batch)
    request = ProduceRequest(
        acks=1, timeout_ms=5000, topic_data=[ProduceRequest.TopicData(name=TOPIC, partition_data=[partition])]
    )
    taken = []
    with closing(BlockingConnection(host, int(port), "bench")) as connection:
        for _ in range(count):
            began_s = time.perf_counter()
            answer = connection.call(request, highest=12)
            taken.append(1000 * (time.perf_counter() - began_s))
            assert not answer.responses[0].partition_responses[0].error_code, "records are taken"
    percentiles = statistics.quantiles(taken, n=100)
    return percentiles[49], percentiles[98]


def idle_kib(gateway: KohortGateway) -> float:
    """Return what an open connection adds to the gateway's memory."""
    host, _, port = gateway.bootstrap.rpartition(":")
    before = gateway.child.rss_mib()
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):  # each has negotiated versions: its broker is connected too
            stack.enter_context(closing(BlockingConnection(host, int(port), "bench")))
        return 1024 * (gateway.child.rss_mib() - before) / CONNECTIONS
