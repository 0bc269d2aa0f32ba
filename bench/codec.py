"""Microseconds per message, encoding and decoding, beside kio and kafka-python in one run.

    python bench/codec.py [--json FILE] [--seconds 0.1]

Every peer encodes and decodes the very bytes that kohort made; one whose bytes differ is marked. A figure is the best
of several short measurements, taken in turns, so that a busy machine troubles all alike. Peers that are not installed
are left out.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kohort.wire import codec
from kohort.wire.message import Message
from kohort.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    FetchResponse,
    HeartbeatRequest,
    JoinGroupResponse,
    MetadataResponse,
    OffsetCommitRequest,
)

ROUNDS = 7
GROUP = "orders-group"
MEMBER = "consumer-orders-1-8a7b6c5d-1111-2222-3333-444455556666"
TOPIC_ID = bytes.fromhex("1234567890abcdef1234567890abcdef")


@dataclass(frozen=True, slots=True)
class Case:
    """One message to measure: what it is, and where the peers keep theirs."""

    title: str
    message: Message
    version: int
    kio_module: str
    kafka_python_module: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """One measured line: microseconds per message."""

    case: str
    size_bytes: int
    library: str
    encode_us: float
    decode_us: float
    same_bytes: bool


def cases() -> Iterator[Case]:
    """Yield the messages of the table: small and frequent ones, then large ones."""
    group = "kafka.protocol.consumer.group"
    heartbeat = HeartbeatRequest(group_id=GROUP, generation_id=42, member_id=MEMBER)
    yield Case("HeartbeatRequest v4", heartbeat, 4, "heartbeat", group)
    members = [
        JoinGroupResponse.Member(member_id=f"consumer-{n:03d}-8a7b6c5d-1111-2222-3333-444455556666", metadata=b"x" * 60)
        for n in range(100)
    ]
    joined = JoinGroupResponse(
        generation_id=5,
        protocol_type="consumer",
        protocol_name="range",
        leader=MEMBER,
        member_id=MEMBER,
        members=members,
    )
    yield Case("JoinGroupResponse v9, 100 members", joined, 9, "join_group", group)
    partitions = [
        OffsetCommitRequest.Topic.Partition(partition_index=n, committed_offset=10**6 + n, committed_leader_epoch=3)
        for n in range(10)
    ]
    commit = OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=42,
        member_id=MEMBER,
        topics=[OffsetCommitRequest.Topic(name="orders", partitions=partitions)],
    )
    yield Case("OffsetCommitRequest v9, 10 partitions", commit, 9, "offset_commit", group)
    beat = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=MEMBER, member_epoch=42)
    yield Case("ConsumerGroupHeartbeatRequest v1", beat, 1, "consumer_group_heartbeat", None)
    assignment = ConsumerGroupHeartbeatResponse.Assignment(
        topic_partitions=[
            ConsumerGroupHeartbeatResponse.Assignment.TopicPartition(topic_id=TOPIC_ID, partitions=list(range(10)))
        ]
    )
    answer = ConsumerGroupHeartbeatResponse(
        member_id=MEMBER, member_epoch=43, heartbeat_interval_ms=5000, assignment=assignment
    )
    yield Case("ConsumerGroupHeartbeatResponse v1, 10 partitions", answer, 1, "consumer_group_heartbeat", None)
    yield Case("MetadataResponse v12, 1000 partitions", metadata(), 12, "metadata", "kafka.protocol.metadata.metadata")
    yield Case("FetchResponse v17, 12 × 100 kB", fetched(), 17, "fetch", None)


def metadata() -> MetadataResponse:
    """Return ten topics of a hundred partitions on three brokers."""
    topic, partition = MetadataResponse.Topic, MetadataResponse.Topic.Partition
    return MetadataResponse(
        brokers=[MetadataResponse.Broker(node_id=n, host=f"broker-{n}", port=9092, rack="a") for n in range(3)],
        cluster_id="c" * 22,
        controller_id=1,
        topics=[
            topic(
                name=f"topic-{t}",
                topic_id=TOPIC_ID,
                partitions=[
                    partition(
                        partition_index=n, leader_id=n % 3, leader_epoch=5, replica_nodes=[0, 1, 2], isr_nodes=[0, 1, 2]
                    )
                    for n in range(100)
                ],
            )
            for t in range(10)
        ],
    )


def fetched() -> FetchResponse:
    """Return twelve partitions with batches of 100 kB."""
    partitions = [
        FetchResponse.Response.Partition(partition_index=n, high_watermark=10**6, records=bytes(100_000))
        for n in range(12)
    ]
    return FetchResponse(session_id=7, responses=[FetchResponse.Response(topic_id=TOPIC_ID, partitions=partitions)])


Codec = tuple[str, Callable[[], object], Callable[[], object], bool]


def kohort_codec(case: Case) -> tuple[Codec, bytes]:
    """Return kohort's encoder and decoder of a case, and its bytes."""
    message, version, cls = case.message, case.version, type(case.message)
    blob = codec.encode(message, version)
    again, end = codec.decode(cls, version, blob)
    assert end == len(blob), "the whole message is read"
    assert codec.encode(again, version) == blob, "what was read is written alike"
    return ("kohort", lambda: codec.encode(message, version), lambda: codec.decode(cls, version, blob), True), blob


def kio_codec(case: Case, blob: bytes) -> Codec | None:
    """Return kio's, or None where it is not installed."""
    try:
        import kio
        from kio.serial import entity_reader, entity_writer
    except ImportError:
        return None
    name = type(case.message).__name__
    kind = "request" if name.endswith("Request") else "response"
    cls = getattr(importlib.import_module(f"kio.schema.{case.kio_module}.v{case.version}.{kind}"), name)
    read, write = entity_reader(cls), entity_writer(cls)
    entity, _ = read(blob, 0)

    def encode() -> bytes:
        stream = io.BytesIO()
        write(stream, entity)
        return stream.getvalue()

    return f"kio {_version_of(kio, 'kio')}", encode, lambda: read(blob, 0), encode() == blob


def kafka_python_codec(case: Case, blob: bytes) -> Codec | None:
    """Return kafka-python's, or None where it is not installed or has no such message."""
    if case.kafka_python_module is None:
        return None
    try:
        import kafka

        cls = getattr(importlib.import_module(case.kafka_python_module), type(case.message).__name__)
    except ImportError:
        return None
    version = case.version
    message = cls.decode(blob, version=version)
    message._header, message._version = None, version
    same = bytes(message.encode(version=version)) == blob
    name = f"kafka-python {_version_of(kafka, 'kafka-python')}"
    return name, lambda: message.encode(version=version), lambda: cls.decode(blob, version=version), same


def _version_of(module: Any, distribution: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return str(getattr(module, "__version__", ""))


def once_us(call: Callable[[], object], seconds: float) -> float:
    """Return microseconds per call over about `seconds`."""
    calls = 1
    while True:
        begun = time.perf_counter()
        for _ in range(calls):
            call()
        taken = time.perf_counter() - begun
        if taken >= seconds / 2:
            return taken / calls * 1e6
        calls = max(calls * 2, int(calls * seconds / max(taken, 1e-9)))


def measure(case: Case, seconds: float) -> list[Row]:
    """Measure one case with every library there is, in turns."""
    ours, blob = kohort_codec(case)
    found = [ours, kio_codec(case, blob), kafka_python_codec(case, blob)]
    codecs = [each for each in found if each is not None]
    encode_us = {name: float("inf") for name, *_ in codecs}
    decode_us = dict(encode_us)
    for _ in range(ROUNDS):
        for name, encode, decode, _ in codecs:
            encode_us[name] = min(encode_us[name], once_us(encode, seconds / ROUNDS))
            decode_us[name] = min(decode_us[name], once_us(decode, seconds / ROUNDS))
    return [Row(case.title, len(blob), name, encode_us[name], decode_us[name], same) for name, _, _, same in codecs]


def show(rows: list[Row]) -> None:
    """Print rows as a table; the peers' figures also as multiples of ours."""
    print(f"{'message':50} {'bytes':>8}  {'library':20} {'encode µs':>16} {'decode µs':>16}")
    ours = rows[0]
    for row in rows:
        if row.library == "kohort":
            ours = row
        encode = f"{row.encode_us:9.2f} ×{row.encode_us / ours.encode_us:<5.1f}"
        decode = f"{row.decode_us:9.2f} ×{row.decode_us / ours.decode_us:<5.1f}"
        mark = "" if row.same_bytes else "  other bytes"
        is_first = row is ours
        print(f"{row.case if is_first else '':50} {row.size_bytes if is_first else '':>8}  {row.library:20} "
              f"{encode:>16} {decode:>16}{mark}")  # fmt: skip


def main() -> int:
    """Measure, print the table, write the JSON file."""
    parser = argparse.ArgumentParser(description="microseconds per message, beside kio and kafka-python")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    parser.add_argument("--seconds", type=float, default=0.4, help="time per figure (default 0.4)")
    arguments = parser.parse_args()
    rows = [row for case in cases() for row in measure(case, arguments.seconds)]
    show(rows)
    if arguments.json:
        figures = [{name: getattr(row, name) for name in Row.__slots__} for row in rows]
        document = {"benchmark": "codec", "python": platform.python_version(), "rows": figures}
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
