"""Blocking reader of ranges of offsets, for Spark: one socket for each broker, no event loop, no group.

One Fetch is always in flight while the caller works on the response before it, and no other is buffered. Record batches
are views of the memory they were received into: nothing is decoded here. Leaders are followed when they move.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from random import random
from typing import TypeVar

from kohort.client.arguments import bootstrap_addresses
from kohort.client.cluster.metadata import Broker, ClusterView, read_view
from kohort.client.cluster.offset_specs import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from kohort.client.cluster.retry import Waits, is_worth_a_retry
from kohort.client.consumer.batch import CORRUPT_RESPONSES, unreadable
from kohort.client.errors import BrokerUnreachable, UnknownPartition, UnknownTopic
from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.model.ids import NO_TOPIC_ID, TopicPartition, topic_id_text
from kohort.net.blocking_connection import BlockingConnection
from kohort.net.sasl import Sasl
from kohort.wire.messages import FetchRequest, FetchResponse, ListOffsetsRequest, MetadataRequest
from kohort.wire.visible_batches import visible_batches

T = TypeVar("T")

_NEWEST_BY_NAME = 12
_MAX_WAIT_MS = 500

Lost = Callable[[TopicPartition, int, int, str], None]
"""Called with offsets that are gone: partition, first, the one after the last, and why."""


def read_ranges(
    bootstrap_servers: str | Sequence[str],
    ranges: Iterable[tuple[TopicPartition, int, int]],
    max_bytes: int = 1 << 20,
    *,
    client_id: str = "kohort",
    timeout_ms: int = 60_000,
    tls: ssl.SSLContext | None = None,
    sasl: Sasl | None = None,
    isolation: int = READ_UNCOMMITTED,
    rack: str = "",
    topic_ids: Mapping[str, str] | None = None,
    lost: Lost | None = None,
) -> Generator[tuple[TopicPartition, memoryview, int]]:
    """Yield (partition, whole record batches, the offset asked for) until every range (partition, start, stop) is read.

    The first batch may begin before the offset asked for and the last one end after `stop`: the records outside are
    the caller's to skip. `max_bytes` bounds one response, but one batch always comes. `timeout_ms` is how long the
    cluster may take to get any further. With `isolation` READ_COMMITTED, control batches and those of aborted
    transactions are left out; without it, all that is stored comes.
    `rack` lets brokers send the reader to a replica nearby (KIP-392). `topic_ids` are those of topics, in Kafka's text,
    that must not be others under the same names.

    Raises `KafkaError`: OFFSET_OUT_OF_RANGE where retention was faster or the topic is not the one it was,
    `UnknownTopic`, `BrokerUnreachable`, or the last error when the time was up. With `lost`, it is called with
    offsets and topics that are gone, and they are left out instead.
    """
    bootstrap = bootstrap_addresses(bootstrap_servers)
    reader = RangeReader(bootstrap, max_bytes, client_id, timeout_ms, tls, sasl, isolation, rack, lost)
    with closing(reader):
        yield from reader.read(ranges, topic_ids)


@dataclass(slots=True, eq=False)
class _Range:
    partition: TopicPartition
    position: int
    stop: int
    replica: int = -1


@dataclass
class RangeReader:
    """Connections, and what is known of leaders, for one reading of ranges after another; see `read_ranges`."""

    bootstrap: list[tuple[str, int]]
    max_bytes: int = 1 << 20
    client_id: str = "kohort"
    timeout_ms: int = 60_000
    tls: ssl.SSLContext | None = None
    sasl: Sasl | None = None
    isolation: int = READ_UNCOMMITTED
    rack: str = ""
    lost: Lost | None = None

    def __post_init__(self) -> None:
        self._view = ClusterView()
        self._topic_ids: Mapping[str, str] = {}
        self._connections: dict[tuple[str, int], BlockingConnection] = {}
        self._waits = Waits(random)
        self._deadline_s = 0.0
        self._corrupt_responses = 0

    def read(
        self, ranges: Iterable[tuple[TopicPartition, int, int]], topic_ids: Mapping[str, str] | None = None
    ) -> Generator[tuple[TopicPartition, memoryview, int]]:
        """Yield the batches of ranges, one range after another; connections stay open. See `read_ranges`."""
        self._topic_ids = topic_ids or {}
        for name, known in self._topic_ids.items():
            if (topic_id := self._view.topic_id(name)) != NO_TOPIC_ID and topic_id_text(topic_id) != known:
                self._view = self._view.without(name)
        try:
            yield from self._read([_Range(partition, start, stop) for partition, start, stop in ranges if start < stop])
        finally:
            if any(each.awaits_answers for each in self._connections.values()):
                self.close()

    def _read(self, wanted: list[_Range]) -> Iterator[tuple[TopicPartition, memoryview, int]]:
        """Read the ranges, always one request ahead."""
        ahead: BlockingConnection | None = None
        at = 0
        self._extend_deadline()
        while at < len(wanted):
            now = wanted[at]
            if now.position >= now.stop:
                at += 1
                continue
            asked_for = now.position
            try:
                connection = ahead or self._send_fetch(now)
                ahead = None
                records, next_offset = self._receive_batches(connection, now)
            except KafkaError as error:
                ahead = None
                if not self._skip_lost_offsets(error, now):
                    self._wait_or_raise(error, now)
                continue
            now.position = next_offset
            if next_offset > asked_for:
                self._extend_deadline()
            elif time.monotonic() > self._deadline_s:
                text = f"{now.partition} has no record from offset {asked_for} on, though the range ends at {now.stop}"
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
            if now.position >= now.stop:
                at += 1
            if at < len(wanted):
                try:
                    ahead = self._send_fetch(wanted[at])
                except KafkaError as error:
                    if not self._skip_lost_offsets(error, wanted[at]):
                        self._wait_or_raise(error, wanted[at])
            if records is not None:
                yield now.partition, records, asked_for
                # However long the caller took: that is no time in which the cluster got no further.
                self._extend_deadline()

    def close(self) -> None:
        """Close every connection."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _send_fetch(self, wanted: _Range) -> BlockingConnection:
        """Send a Fetch to the leader, or to the replica that it named."""
        topic, partition = wanted.partition
        leader = self._leader(wanted.partition)
        connection = self._connection(self._view.brokers.get(wanted.replica, leader))
        fetch = FetchRequest.Topic.Partition(
            partition=partition, fetch_offset=wanted.position, partition_max_bytes=self.max_bytes
        )
        topic_id = self._view.topic_id(topic)  # another topic under this name may have these offsets, too
        connection.send(
            FetchRequest(
                max_wait_ms=_MAX_WAIT_MS,
                min_bytes=1,
                max_bytes=self.max_bytes,
                isolation_level=self.isolation,
                topics=[FetchRequest.Topic(topic=topic, topic_id=topic_id, partitions=[fetch])],
                rack_id=self.rack,
            ),
            highest=_NEWEST_BY_NAME if topic_id == NO_TOPIC_ID else None,
        )
        return connection

    def _receive_batches(self, connection: BlockingConnection, wanted: _Range) -> tuple[memoryview | None, int]:
        """Receive a Fetch's response; return its whole batches, if any, and the offset after them."""
        response: FetchResponse = connection.receive()
        if response.error_code:
            raise KafkaError(error_for(response.error_code))
        found = response.responses[0].partitions[0]
        code = error_for(found.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE and wanted.replica < 0:
            raise _OutOfRange(wanted, *self._offset_range(connection, wanted.partition))
        if code is not ErrorCode.NONE:
            # A replica that is behind does not know the offset yet; the leader does.
            is_behind = code is ErrorCode.OFFSET_OUT_OF_RANGE
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE if is_behind else code, f"{wanted.partition}: {code.text}")
        if found.preferred_read_replica >= 0:
            wanted.replica = found.preferred_read_replica
            return None, wanted.position
        aborted = None
        if self.isolation == READ_COMMITTED:
            aborted = [(entry.producer_id, entry.first_offset) for entry in found.aborted_transactions or ()]
        fetched = memoryview(found.records or b"")
        visible = visible_batches(
            fetched, wanted.position, aborted, stop=found.high_watermark, shows_control=aborted is None
        )
        if visible.fault is not None and visible.next_offset == wanted.position:
            raise unreadable(wanted.partition, wanted.position, None, visible.fault.text)
        if not visible.raw:
            return None, visible.next_offset
        whole = visible.whole
        records = memoryview(b"".join([raw.view for raw in visible.raw])) if whole is None else whole
        return records, visible.next_offset

    def _skip_lost_offsets(self, error: KafkaError, wanted: _Range) -> bool:
        """Move on behind offsets that are gone, where that is asked for, and return whether they were."""
        if self.lost is None or not isinstance(error, _OutOfRange | _TopicRecreated | UnknownTopic | UnknownPartition):
            return False
        first = wanted.stop
        if isinstance(error, _OutOfRange) and error.start > wanted.position:
            first = min(error.start, wanted.stop)
        self.lost(wanted.partition, wanted.position, first, error.text)
        wanted.position = first
        self._extend_deadline()
        return True

    def _offset_range(self, connection: BlockingConnection, partition: TopicPartition) -> tuple[int, int]:
        """Return the first offset that the leader has and the next one it will assign."""
        ends = []
        for timestamp in (EARLIEST, LATEST):
            asked = ListOffsetsRequest.Topic.Partition(partition_index=partition.partition, timestamp=timestamp)
            topic = ListOffsetsRequest.Topic(name=partition.topic, partitions=[asked])
            response = connection.call(ListOffsetsRequest(replica_id=-1, topics=[topic]))
            ends.append(response.topics[0].partitions[0].offset)
        return ends[0], ends[1]

    def _wait_or_raise(self, error: KafkaError, wanted: _Range) -> None:
        """Before another try: drop what may be stale, and wait. Raises the error where that is pointless."""
        self._corrupt_responses += error.code is ErrorCode.CORRUPT_MESSAGE
        is_final = not is_worth_a_retry(error) or isinstance(error, _TopicRecreated | UnknownTopic | UnknownPartition)
        is_final = is_final or self._corrupt_responses >= CORRUPT_RESPONSES
        wait_s = self._waits.next_s()
        if is_final or time.monotonic() + wait_s > self._deadline_s:
            raise error
        self.close()
        wanted.replica = -1
        self._view = self._view.without(wanted.partition.topic)
        time.sleep(wait_s)

    def _extend_deadline(self) -> None:
        self._waits.reset()
        self._corrupt_responses = 0
        self._deadline_s = time.monotonic() + self.timeout_ms / 1000

    def _leader(self, partition: TopicPartition) -> Broker:
        if (found := self._view.leader(partition)) is not None:
            return found
        request = MetadataRequest(topics=[MetadataRequest.Topic(name=partition.topic)], allow_auto_topic_creation=False)
        response = self._any_connection().call(request)
        self._view = read_view(response, self._view)
        topic = self._view.topics.get(partition.topic)
        if topic is None or topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopic(partition.topic)
        if topic.error is not ErrorCode.NONE:
            raise KafkaError(topic.error, f"topic {partition.topic!r}: {topic.error.text}")
        known = self._topic_ids.get(partition.topic)
        if known is not None and topic.topic_id != NO_TOPIC_ID and topic_id_text(topic.topic_id) != known:
            self._view = self._view.without(partition.topic)
            raise _TopicRecreated(partition.topic)
        if partition.partition not in topic.partitions:
            raise UnknownPartition(partition, len(topic.partitions))
        if (found := self._view.leader(partition)) is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader at the moment")
        return found

    def _any_connection(self) -> BlockingConnection:
        attempts: list[tuple[str, str]] = []
        for host, port in self.bootstrap:
            try:
                return self._connection(Broker(-1, host, port))
            except KafkaError as error:
                if error.code is not ErrorCode.NETWORK_EXCEPTION:
                    raise
                attempts.append((f"{host}:{port}", error.text))
        raise BrokerUnreachable(attempts)

    def _connection(self, broker: Broker) -> BlockingConnection:
        key = broker.host, broker.port
        if key in self._connections and self._connections[key].is_over:  # brokers close those that were idle
            self._connections.pop(key).close()
        if key not in self._connections:
            self._connections[key] = BlockingConnection(
                *key, self.client_id, tls=self.tls, sasl=self.sasl, timeout_ms=min(30_000, self.timeout_ms)
            )
        return self._connections[key]


class _TopicRecreated(KafkaError):
    """A topic is another one than the ranges were planned for, under the same name."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_ID,
            f"topic {topic!r} was deleted and created again: the records that were to be read are gone",
        )


ADVICE = "; start from an offset that exists, or raise retention.ms"
"""How the sentence about an offset out of range ends; a caller with an option of its own names that instead."""


class _OutOfRange(KafkaError):
    """The broker does not have the offset asked for, only those from `start` up to `end`."""

    def __init__(self, wanted: _Range, start: int, end: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {wanted.position} of {wanted.partition} is out of range, the broker has {start} to {end}:"
            f" retention deleted the records, or the topic was deleted and created again{ADVICE}",
        )
        self.start = start
        self.end = end
