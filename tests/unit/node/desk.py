"""A node on a disk in memory under a clock that stands still, and peers that speak to it in frames."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from kohort.log.memory_disk import MemoryDisk
from kohort.node.configuration.config import Config
from kohort.node.node import Node
from kohort.testing.clock import ManualClock
from kohort.wire.apis import Api, response_class
from kohort.wire.frames import FrameSplitter, decode_response, encode_request
from kohort.wire.messages import CreateTopicsRequest, FetchRequest, ProduceRequest
from kohort.wire.record_batches import Record, encode_batch


class Desk:
    """One node and its surroundings."""

    def __init__(
        self,
        disk: MemoryDisk | None = None,
        clock: ManualClock | None = None,
        elapsed_us: Callable[[], int] | None = None,
        **settings: Any,
    ) -> None:
        self.disk = disk or MemoryDisk()
        self.clock = clock or ManualClock()
        texts = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.settings = settings
        self.flushes_by_hand = False
        """Whether the test says when a batch of input ends; else each chunk is one."""
        self.node = Node(Config(texts), self.disk, Random(7).randbytes, self.clock.now_ms(), elapsed_us=elapsed_us)
        self.node.start(self.clock.now_ms())

    def connect(self, client_id: str = "tester", host: str = "192.0.2.1") -> Peer:
        return Peer(self, client_id, host)

    def advance(self, by_ms: int) -> None:
        """Let time pass, stopping at each deadline that the node asks for."""
        end_ms = self.clock.now_ms() + by_ms
        while (deadline_ms := self.node.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            self.clock.advance(max(0, deadline_ms - self.clock.now_ms()))
            self._tick()
        self.clock.advance(end_ms - self.clock.now_ms())
        self._tick()

    def _tick(self) -> None:
        self.node.tick(self.clock.now_ms())
        while not self.flushes_by_hand:
            self.node.flush(self.clock.now_ms())
            if not self.node.needs_flush:
                break

    def restart(self, *, clean: bool = True, **settings: Any) -> Desk:
        """Return a new node on the same disk."""
        if clean:
            self.node.stop(self.clock.now_ms())
        self.clock.advance(1)
        return Desk(self.disk, self.clock, **(self.settings | settings))

    def create(self, name: str, partitions: int = 1, **configs: Any) -> bytes:
        """Create a topic and return its id."""
        texts = {key.replace("_", "."): str(value) for key, value in configs.items()}
        return self.node.topics.create(name, partitions, texts, self.clock.now_ms()).topic_id


class Peer:
    """A client's end of one connection."""

    def __init__(self, desk: Desk, client_id: str, host: str) -> None:
        self._desk = desk
        self._client_id = client_id
        self._sent: dict[int, tuple[type[Any], int]] = {}
        self._count = 0
        self._splitter = FrameSplitter(1 << 30)
        self.replies: list[tuple[int, Any]] = []
        self.closed: str | None = None
        self.throttled: list[bool] = []
        self.sends = 0
        self.connection = desk.node.connections.open(host, self._take, self._close, self.throttled.append)

    def send(self, message: Any, version: int) -> int:
        """Send a request and return its correlation id."""
        frame, number = self.frame(message, version)
        self.feed(frame)
        return number

    def frame(self, message: Any, version: int) -> tuple[bytes, int]:
        """Return a request as bytes, and its correlation id; its answer will be understood."""
        self._count += 1
        self._sent[self._count] = response_class(Api(message.API_KEY)), version
        return encode_request(message, version, self._count, self._client_id), self._count

    def feed(self, chunk: bytes) -> None:
        """Send bytes as they are."""
        self._desk.node.connections.receive(self.connection, chunk, self._desk.clock.now_ms())
        if not self._desk.flushes_by_hand:
            self._desk.node.flush(self._desk.clock.now_ms())
        while not self._desk.flushes_by_hand and self._desk.node.needs_flush:
            self._desk.node.flush(self._desk.clock.now_ms())

    def call(self, message: Any, version: int) -> Any:
        """Send a request and return its answer, which must come at once."""
        number = self.send(message, version)
        assert self.closed is None, self.closed
        assert [reply[0] for reply in self.replies] == [number], "the answer comes at once and alone"
        return self.replies.pop()[1]

    def answers(self) -> list[Any]:
        """Take the answers that have come, in order."""
        taken = [reply for _, reply in self.replies]
        self.replies.clear()
        return taken

    def leave(self) -> None:
        """Close the connection from the client's side."""
        self._desk.node.connections.drop(self.connection, self._desk.clock.now_ms())

    def _take(self, buffers: list[Any]) -> None:
        self.sends += 1
        for buffer in buffers:
            for frame in self._splitter.feed(buffer):
                number = int.from_bytes(frame[:4], "big")
                cls, version = self._sent[number]
                self.replies.append((number, decode_response(cls, version, frame)[1]))

    def _close(self, reason: str) -> None:
        self.closed = reason


def batch(*values: bytes, timestamp_ms: int = 1_700_000_000_000, **fields: Any) -> bytes:
    """Return one record batch."""
    return encode_batch([Record(0, timestamp_ms, None, value) for value in values], **fields)


def produce(topic: str, records: Any, *, partition: int = 0, acks: int = -1) -> ProduceRequest:
    """Return a Produce request for one partition, by topic name."""
    part = ProduceRequest.TopicData.PartitionData(index=partition, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[ProduceRequest.TopicData(name=topic, partition_data=[part])]
    )


def fetch(
    topic: str | bytes, offset: int = 0, *, partition: int = 0, partition_max_bytes: int = 1 << 20, **fields: Any
) -> FetchRequest:
    """Return a Fetch request for one partition, by topic name (v4-12) or id (v13+)."""
    names = {"topic_id": topic} if isinstance(topic, bytes) else {"topic": topic}
    asked = FetchRequest.Topic.Partition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=partition_max_bytes,
        current_leader_epoch=fields.pop("leader_epoch", -1),
    )
    fields = {"max_wait_ms": 500, "min_bytes": 1} | fields
    return FetchRequest(topics=[FetchRequest.Topic(partitions=[asked], **names)], **fields)


def create(name: str, partitions: int = 1, *, replication: int = 1, **configs: str) -> CreateTopicsRequest:
    """Return a CreateTopics request for one topic."""
    rows = [CreateTopicsRequest.Topic.Config(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreateTopicsRequest.Topic(
        name=name, num_partitions=partitions, replication_factor=replication, configs=rows
    )
    return CreateTopicsRequest(topics=[topic])


def only(response: Any) -> Any:
    """Return the one partition of a Produce, Fetch or ListOffsets response."""
    topics = getattr(response, "responses", None) or response.topics
    (topic,) = topics
    (partition,) = getattr(topic, "partition_responses", None) or topic.partitions
    return partition
