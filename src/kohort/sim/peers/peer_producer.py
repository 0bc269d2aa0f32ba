"""The producer of a world: numbered records, acknowledged by all, each in its log once however often it is sent.

An idempotent producer (KIP-98): one request is on its way, with the oldest batch of each partition, and what failed is
sent again as it was. Where the broker has lost count the partition begins anew under another producer id; only then may
a record stand in the log twice. Observers see what is acknowledged.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kohort.member.deadlines import Backoff
from kohort.model.errors import ErrorCode, error_for
from kohort.model.ids import TopicPartition
from kohort.sim.peers.peer_connection import ClientPlace, PeerConnections
from kohort.sim.peers.peer_metadata import PeerMetadata
from kohort.wire.apis import Api
from kohort.wire.messages import InitProducerIdRequest, ProduceRequest
from kohort.wire.record_batches import Record, encode_batch

PRODUCE_VERSION = 11
"""The newest that names topics is 12."""
_LARGEST_BATCH = 50
_PAUSE_US, _MOST = 400_000, 10
"""How long it pauses between two writings on average, and how many records it writes then at most."""
_LOST_COUNT = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
    }
)


class _Identity(NamedTuple):
    producer_id: int
    epoch: int


@dataclass(slots=True, eq=False)
class _Outgoing:
    """The batches of one partition that are not acknowledged."""

    queue: deque[list[bytes]] = field(default_factory=deque)
    """The values of each batch."""
    encoded: bytes | None = None
    """The oldest, as it is sent until it is acknowledged."""
    identity: _Identity | None = None
    sequence: int = 0


class Feeder:
    """One producer. It writes to `topics`, by name with their partitions, as they are by then."""

    def __init__(
        self,
        place: ClientPlace,
        topics: Mapping[str, int],
        *,
        value: Callable[[int], bytes] = lambda number: b"%d" % number,
        key: Callable[[bytes], bytes | None] = lambda _: None,
    ) -> None:
        self.number = 0
        """How many records there have been."""
        self._host, self._random, self._observer = place.host, place.random, place.observer
        self._topics = topics
        self._value = value
        self._key = key
        versions = {Api.PRODUCE: PRODUCE_VERSION}
        self._connections = PeerConnections(place.host.name, "", place, versions=versions)
        self._metadata = PeerMetadata(self._connections, 60_000)
        self._waits = Backoff(place.random.random)
        self._identity: _Identity | None = None
        self._partitions: defaultdict[TopicPartition, _Outgoing] = defaultdict(_Outgoing)
        self._is_busy = False
        self._is_feeding = False

    @property
    def is_idle(self) -> bool:
        """Whether every record is acknowledged."""
        return not any(outgoing.queue for outgoing in self._partitions.values())

    def start(self, *, is_feeding: bool = True) -> None:
        """Begin: some records now and then, until `stop`; or only what is asked for."""
        self._metadata.look()
        self._is_feeding = is_feeding
        self._feed()

    def stop(self) -> None:
        """Write no more than what was begun, and bursts."""
        self._is_feeding = False

    def burst(self, topic: str, count: int) -> None:
        """Write so many records at once, to any of a topic's partitions."""
        partitions = self._topics.get(topic, 0)
        while partitions and count > 0:
            some = min(count, self._random.randint(1, _LARGEST_BATCH))
            self._add(TopicPartition(topic, self._random.randrange(partitions)), self._numbered(some))
            count -= some
        self._send()

    def write(self, partition: TopicPartition, values: list[bytes]) -> None:
        """Write these records, in order."""
        self._add(partition, values)
        self._send()

    def touch(self) -> None:
        """Write one more record to each partition there is."""
        for topic, partitions in self._topics.items():
            for index in range(partitions):
                self._add(TopicPartition(topic, index), self._numbered(1))
        self._send()

    # -- the inside

    def _feed(self) -> None:
        if not self._is_feeding:
            return
        if self._topics:
            topic = self._random.choice(list(self._topics))
            self.burst(topic, self._random.randint(1, _MOST))
        self._host.after_us(int(_PAUSE_US * (0.5 + self._random.random())), self._feed)

    def _numbered(self, count: int) -> list[bytes]:
        return [self._value(number) for number in range(self.number, self.number + count)]

    def _add(self, partition: TopicPartition, values: list[bytes]) -> None:
        self._partitions[partition].queue.append(values)
        self.number += len(values)

    def _send(self) -> None:
        if self._is_busy:
            return
        for partition, outgoing in self._partitions.items():
            if partition.partition >= self._topics.get(partition.topic, 0):
                outgoing.queue.clear()  # it was deleted
                outgoing.encoded = None
        ready = {partition: outgoing for partition, outgoing in self._partitions.items() if outgoing.queue}
        if not ready:
            return
        self._is_busy = True
        if self._identity is None:
            self._connections.send(
                self._connections.any,
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000),
                self._identified,
            )
            return
        topics: dict[str, ProduceRequest.TopicData] = {}
        sent = {partition: (outgoing, self._encoded(outgoing)) for partition, outgoing in ready.items()}
        for (name, index), (_, records) in sent.items():
            topic = topics.setdefault(name, ProduceRequest.TopicData(name=name))
            topic.partition_data.append(ProduceRequest.TopicData.PartitionData(index=index, records=records))
        request = ProduceRequest(
            acks=-1, timeout_ms=self._connections.request_timeout_ms, topic_data=list(topics.values())
        )
        self._connections.send(self._connections.records, request, lambda _, answer: self._answered(sent, answer))

    def _encoded(self, outgoing: _Outgoing) -> bytes:
        if outgoing.encoded is None:
            assert self._identity is not None, "who produces has an identity"
            if outgoing.identity is None:
                outgoing.identity, outgoing.sequence = self._identity, 0
            now_ms = self._host.now_ms()
            outgoing.encoded = encode_batch(
                [Record(0, now_ms, self._key(value), value) for value in outgoing.queue[0]],
                producer_id=outgoing.identity.producer_id,
                producer_epoch=outgoing.identity.epoch,
                base_sequence=outgoing.sequence,
            )
        return outgoing.encoded

    def _identified(self, code: ErrorCode, answer: Any) -> None:
        self._is_busy = False
        if code is ErrorCode.NONE and not answer.error_code:
            self._identity = _Identity(answer.producer_id, answer.producer_epoch)
            self._send()
        else:
            self._send_later()

    def _answered(self, sent: dict[TopicPartition, tuple[_Outgoing, bytes]], answer: Any) -> None:
        self._is_busy = False
        is_whole = answer is not None
        for topic in () if answer is None else answer.responses:
            for found in topic.partition_responses:
                partition = TopicPartition(topic.name, found.index)
                outgoing, batch = sent[partition]
                if outgoing.encoded is batch:  # else its partition was deleted meanwhile
                    is_whole &= self._take(partition, outgoing, error_for(found.error_code), found.base_offset)
        if is_whole:
            self._waits.reset()
            self._send()
        else:
            self._send_later()

    def _take(self, partition: TopicPartition, outgoing: _Outgoing, code: ErrorCode, offset: int) -> bool:
        """Take what became of a batch; return whether it is done with."""
        if code is ErrorCode.NONE or code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            count = len(outgoing.queue.popleft())
            outgoing.encoded = None
            outgoing.sequence += count
            if code is ErrorCode.NONE:
                self._observer.produced(partition, offset, count)
            return True
        if code in _LOST_COUNT:
            if outgoing.identity == self._identity:
                self._identity = None
            outgoing.identity = outgoing.encoded = None
        return False

    def _send_later(self) -> None:
        self._metadata.request_refresh()
        self._is_busy = True
        self._host.after_us(self._waits.next_ms() * 1000, self._send_again)

    def _send_again(self) -> None:
        self._is_busy = False
        self._send()
