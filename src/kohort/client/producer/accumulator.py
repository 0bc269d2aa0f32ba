"""Accumulator of the producer: the batches of each partition that wait or are in flight.

The law of order: a partition's batches leave in the order of their records, and a batch that failed and may be tried
again goes back before all that follow it. With idempotence, sequence numbers carry that order to the broker; the
numbers given to a batch stay with it for as long as its producer id does (KIP-98).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import NamedTuple

from kohort.model.errors import KafkaError
from kohort.model.ids import TopicPartition
from kohort.wire.codec import Buffer
from kohort.wire.record_batches import EncodedRecords, Record

NO_SEQUENCE = -1
_OVERHEAD_BYTES = 16
_SEQUENCES = 1 << 31


class RecordMetadata(NamedTuple):
    """Where a record was written. `offset` is -1 where the broker returned none (acks=0, or a repeated batch)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition as `seek` and `seek_to_end` of a consumer take it."""
        return TopicPartition(self.topic, self.partition)


class ProducerId(NamedTuple):
    """Producer id and epoch; `NO_PRODUCER_ID` writes without idempotence."""

    producer_id: int = -1
    epoch: int = -1


NO_PRODUCER_ID = ProducerId()


@dataclass(slots=True, eq=False)
class OutgoingBatch:
    """Records of one partition that travel together."""

    partition: TopicPartition
    number: int
    created_s: float
    records: list[Record] | EncodedRecords = field(default_factory=list)
    size: int = 0
    attempts: int = 0
    identity: ProducerId = NO_PRODUCER_ID
    sequence: int = NO_SEQUENCE
    encoded: Buffer | None = None
    is_done: bool = False
    error: KafkaError | None = None
    base_offset: int = -1
    log_append_time_ms: int = -1
    waiter: asyncio.Future[None] | None = None
    when_done: list[Callable[[], None]] | None = None

    def finish(self, error: KafkaError | None = None, base_offset: int = -1, log_append_time_ms: int = -1) -> None:
        """End the batch, and wake all that wait for one of its records."""
        self.is_done = True
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.error = error
        self.encoded = None
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)
        for notify in self.when_done or ():
            notify()


@dataclass(slots=True, eq=False, repr=False)
class Delivery:
    """One record's outcome. Await it for its `RecordMetadata`; a record that was not written raises its `KafkaError`.

    It may be left unawaited: `flush` waits for it, and a failure is logged.
    """

    _batch: OutgoingBatch
    _index: int
    _timestamp_ms: int

    def done(self) -> bool:
        """Return whether the record is written or has failed."""
        return self._batch.is_done

    def result(self) -> RecordMetadata:
        """Return where the record was written, once `done`. Raises `KafkaError`."""
        batch = self._batch
        if not batch.is_done:
            raise asyncio.InvalidStateError("the record has not been written yet")
        if batch.error is not None:
            raise batch.error
        offset = batch.base_offset + self._index if batch.base_offset >= 0 else -1
        timestamp_ms = self._timestamp_ms if batch.log_append_time_ms < 0 else batch.log_append_time_ms
        return RecordMetadata(*batch.partition, offset, timestamp_ms)

    def when_done(self, notify: Callable[[], None]) -> None:
        """Call `notify`, which must not raise, once the record is written or has failed."""
        batch = self._batch
        if batch.is_done:
            notify()
        elif batch.when_done is None:
            batch.when_done = [notify]
        else:
            batch.when_done.append(notify)

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        batch = self._batch
        if not batch.is_done:
            if batch.waiter is None:
                batch.waiter = asyncio.get_running_loop().create_future()
            # Shielded, so that one waiter that is cancelled does not cancel the others.
            yield from asyncio.shield(batch.waiter).__await__()
        return self.result()


@dataclass(slots=True, eq=False)
class OutgoingPartition:
    """One partition's batches: those that wait, oldest first, and those on their way, in the order sent."""

    partition: TopicPartition
    queue: deque[OutgoingBatch] = field(default_factory=deque)
    in_flight: list[OutgoingBatch] = field(default_factory=list)
    identity: ProducerId = NO_PRODUCER_ID
    next_sequence: int = 0
    is_known: bool = False  # the broker has written a batch with this producer id
    is_recovering: bool = False
    is_reset_due: bool = False
    made: int = 0
    not_before_s: float = 0.0

    def append(self, record: Record, size: int, clock_s: Callable[[], float], batch_bytes: int) -> OutgoingBatch:
        """Add a record of `size` bytes to the newest batch, or to a new one made now; return the batch."""
        batch = self.queue[-1] if self.queue else None
        records = None if batch is None else batch.records
        if batch is None or batch.attempts or batch.size + size > batch_bytes or not isinstance(records, list):
            records = []
            batch = self._add(records, clock_s)
        records.append(record)
        batch.size += size
        return batch

    def append_encoded(self, records: EncodedRecords, size: int, clock_s: Callable[[], float]) -> OutgoingBatch:
        """Add a batch of its own of records that are encoded."""
        batch = self._add(records, clock_s)
        batch.size = size
        return batch

    def _add(self, records: list[Record] | EncodedRecords, clock_s: Callable[[], float]) -> OutgoingBatch:
        self.made += 1
        batch = OutgoingBatch(self.partition, self.made, clock_s(), records)
        self.queue.append(batch)
        return batch

    def ready_at(self, linger_s: float, batch_bytes: int) -> float:
        """Return when the oldest waiting batch may leave, on the clock of `append`."""
        oldest = self.queue[0]
        is_full = len(self.queue) > 1 or oldest.size >= batch_bytes or oldest.attempts > 0
        return max(self.not_before_s, oldest.created_s if is_full else oldest.created_s + linger_s)

    def pop_oldest(self) -> OutgoingBatch:
        """Move the oldest waiting batch to those on their way, numbering it if it has no number under this identity."""
        batch = self.queue.popleft()
        batch.attempts += 1
        if self.identity != NO_PRODUCER_ID and (batch.identity != self.identity or batch.sequence == NO_SEQUENCE):
            batch.identity = self.identity
            batch.sequence = self.next_sequence
            batch.encoded = None
            self.next_sequence = sequence_after(self.next_sequence, len(batch.records))
        self.in_flight.append(batch)
        return batch

    def has_room(self, limit: int) -> bool:
        """Whether another batch may leave beside those on their way.

        A broker takes any sequence number as the first of a producer id that it has not met. Where the first batch
        fails, for a full disk, it would take the second: so that one leaves when the first is written.
        """
        return len(self.in_flight) < (limit if self.is_known else 1)

    def remove_written(self, batch: OutgoingBatch) -> None:
        """Take a batch that the broker has written from those on their way."""
        self.in_flight.remove(batch)
        self.is_known |= batch.identity.producer_id == self.identity.producer_id

    def put_back(self, batch: OutgoingBatch) -> None:
        """Return a batch that failed to the queue, before all that were made after it."""
        self.in_flight.remove(batch)
        self.queue.insert(sum(other.number < batch.number for other in self.queue), batch)
        self.is_recovering = True

    def reset(self, identity: ProducerId, first_sequence: int = 0) -> None:
        """Begin a new series of sequence numbers; what waits is numbered again when it leaves."""
        self.is_known &= identity.producer_id == self.identity.producer_id
        self.identity = identity
        self.next_sequence = first_sequence
        self.is_reset_due = False


def sequence_after(sequence: int, records: int) -> int:
    """Return the sequence number of the record that follows so many, of which the first has `sequence`."""
    return (sequence + records) % _SEQUENCES


def record_size(record: Record) -> int:
    """Return about how many bytes a record takes in an uncompressed batch."""
    size = _OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += 6 + len(name) + len(value or b"")
    return size
