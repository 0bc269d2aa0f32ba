"""Connections that send what no client sends: half frames, changed frames, lengths that lie, random bytes.

The sound requests that are changed name a topic and groups of their own, so that one that stays sound harms no other.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from random import Random
from struct import pack

from kohort.wire import messages
from kohort.wire.frames import encode_request
from kohort.wire.record_batches import Record, encode_batch

TOPIC = "trampled"


def _sound_requests() -> list[bytes]:
    batch = encode_batch([Record(0, 0, None, b"x" * 40)] * 3)
    produce = messages.ProduceRequest.TopicData
    written = produce(name=TOPIC, partition_data=[produce.PartitionData(index=0, records=batch)])
    fetch = messages.FetchRequest.Topic(
        topic=TOPIC, partitions=[messages.FetchRequest.Topic.Partition(partition=0, partition_max_bytes=1 << 20)]
    )
    join = messages.JoinGroupRequest.Protocol(name="range", metadata=b"\0\3\0\0\0\0")
    commit = messages.OffsetCommitRequest.Topic
    pairs = [
        (messages.ProduceRequest(acks=-1, timeout_ms=100, topic_data=[written]), 9),
        (messages.FetchRequest(max_wait_ms=10, min_bytes=1, topics=[fetch]), 11),
        (messages.MetadataRequest(topics=[messages.MetadataRequest.Topic(name=TOPIC)]), 12),
        (
            messages.JoinGroupRequest(
                group_id="hostile",
                session_timeout_ms=6000,
                rebalance_timeout_ms=6000,
                protocol_type="consumer",
                protocols=[join],
            ),
            9,
        ),
        (
            messages.OffsetCommitRequest(
                group_id="hostile",
                topics=[commit(name=TOPIC, partitions=[commit.Partition(partition_index=0, committed_offset=1)])],
            ),
            8,
        ),
        (messages.FindCoordinatorRequest(key_type=0, coordinator_keys=["hostile"]), 4),
        (messages.ApiVersionsRequest(), 3),
    ]
    return [encode_request(message, version, 1, "hostile") for message, version in pairs]


class HostileBytes:
    """A sender of hostile bytes; `connections` and `sent` count them."""

    def __init__(self, port: int, random: Random) -> None:
        self._port = port
        self._random = random
        self._sound = _sound_requests()
        self._open: list[socket.socket] = []
        self.connections = 0
        self.sent = 0

    def burst(self, count: int) -> None:
        """Open so many connections and send on each; some stay open with half a frame until later ones follow."""
        for _ in range(count):
            with suppress(OSError):
                one = socket.create_connection(("127.0.0.1", self._port), timeout=0.5)
                self._open.append(one)
                self.connections += 1
                for _ in range(self._random.randint(1, 4)):
                    content = self._bytes()
                    one.sendall(content)
                    self.sent += len(content)
        while len(self._open) > 60:
            self._open.pop(self._random.randrange(len(self._open))).close()

    def close(self) -> None:
        """Close what is still open."""
        for each in self._open:
            each.close()
        self._open.clear()

    def _bytes(self) -> bytes:
        random = self._random
        frame = random.choice(self._sound)
        match random.randrange(5):
            case 0:  # half a frame
                return frame[: random.randrange(len(frame))]
            case 1:  # a changed frame
                changed = bytearray(frame)
                for _ in range(random.randint(1, 6)):
                    changed[random.randrange(4, len(changed))] = random.randrange(256)
                return bytes(changed)
            case 2:  # a length that lies
                return pack(">i", random.choice((-1, 0, 1, 7, 2**20, 2**31 - 1))) + random.randbytes(
                    random.randrange(64)
                )
            case 3:  # a right header before random bytes
                tail = random.randbytes(random.randrange(400))
                body = pack(">hhih", random.randrange(92), random.randrange(14), 1, 2) + b"me" + tail
                return pack(">i", len(body)) + body
            case _:
                return random.randbytes(random.randrange(1, 2000))
