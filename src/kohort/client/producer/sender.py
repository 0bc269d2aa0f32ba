"""Sender of the producer: sends batches to the partition leaders in order, and retries until the delivery timeout.

At most `max_in_flight` requests are on their way to a broker. Without idempotence a partition has one batch on its
way, because nothing else would preserve the order when it fails. With it there may be as many, and after a failure the
partition sends nothing until all of them are answered, then starts again with the oldest (KIP-98, KIP-360).

In a transaction, the producer id and epoch are the transaction's, and after a batch that is not written it cannot be
committed: everything that waits fails too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from math import inf
from typing import Protocol

from kohort.client.cluster.cluster import Cluster
from kohort.client.cluster.metadata import Broker
from kohort.client.cluster.retry import Waits, is_worth_a_retry
from kohort.client.errors import TransactionAborted, TransactionError
from kohort.client.producer.accumulator import NO_PRODUCER_ID, OutgoingBatch, OutgoingPartition, ProducerId
from kohort.client.producer.producer_config import ProducerConfig
from kohort.client.producer.producer_metrics import ProducerMetrics
from kohort.client.synchronization import BackgroundTasks, wait_until
from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.model.ids import NO_TOPIC_ID, TopicPartition
from kohort.net.connection import Connection
from kohort.wire.codec import Buffer
from kohort.wire.messages import InitProducerIdRequest, ProduceRequest, ProduceResponse
from kohort.wire.record_batches import EncodedRecords, Record, encode_batch, frame_records

log = logging.getLogger(__name__)

_NEWEST_BY_NAME = 12
_NEWEST_IN_VERSION_1 = 11
"""The newest Produce that does not add its partitions to the transaction by itself (KIP-890)."""
_LANE = "produce"
_NO_LEADER_WAIT_S = 0.1
_WAIT_MS = 100
_MARKERS_WAIT_MS = 20
"""The last transaction's markers are on their way: they come soon."""
_RESULT_MISSING = KafkaError(ErrorCode.NETWORK_EXCEPTION, "the broker's response leaves a batch out")

# The broker no longer follows this producer's numbers: a new identity, and numbers from 0, put that right.
_LOST_COUNT = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
    }
)


class TransactionalWrites(Protocol):
    """The transaction that a sender writes records of: `TransactionDriver`, or one that is driven elsewhere.

    With `version` 1 a partition may be written to once it was added (`may_write`), with 2 the write adds it (KIP-890).
    A new `identity` begins its sequence numbers at `first_sequence` in each partition: 0, unless another process has
    written to it under the same identity. What waits fails with `refusal` where there is
    one; `fail_batch` is called with the error of each batch that was not written.
    """

    @property
    def transactional_id(self) -> str: ...
    @property
    def identity(self) -> ProducerId: ...
    @property
    def version(self) -> int: ...
    @property
    def refusal(self) -> KafkaError | None: ...
    def may_write(self, partition: TopicPartition, /) -> bool: ...
    def first_sequence(self, partition: TopicPartition, /) -> int: ...
    def fail_batch(self, error: KafkaError, /) -> None: ...


_Results = dict[TopicPartition, tuple[KafkaError | None, int, int]]
"""The error or None, base offset and append time of each partition in a Produce request."""

_CONDITION_OF_THE_BROKER = frozenset(
    {
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
"""Refusals that last until an operator acts."""


class BatchSender:
    """The producer's background task. `released` is called with the bytes of every batch that is done with.

    With a `transaction` every record belongs to it.

    More than 20 attributes: the parts that it works with, and the state of its one task.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        released: Callable[[int], None],
        transaction: TransactionalWrites | None = None,
        metrics: ProducerMetrics | None = None,
    ) -> None:
        self._partitions: dict[TopicPartition, OutgoingPartition] = {}
        self._active: dict[TopicPartition, OutgoingPartition] = {}
        self._flushing = 0
        self._cluster = cluster
        self._config = config
        self._is_idempotent = config.is_idempotent
        self._acks = config.acks_number
        self._compression = config.codec
        self._linger_s = config.linger_ms / 1000
        self._timeout_s = config.delivery_timeout_ms / 1000
        self._released = released
        self._transaction = transaction
        self._metrics = metrics or ProducerMetrics()
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._requests: dict[Broker, int] = {}
        self._tasks = BackgroundTasks("kohort produce")
        self._identity = NO_PRODUCER_ID
        self._identifying: asyncio.Task[None] | None = None
        self._connecting: set[Broker] = set()
        self._waits: dict[TopicPartition, Waits] = {}
        self._ended: KafkaError | None = None

    def append(self, partition: TopicPartition, record: Record, size: int) -> tuple[OutgoingBatch, bool]:
        """Put a record of `size` bytes into a batch; return it, and whether it is new and the one before it full.

        Raises the `KafkaError` that ended this sender.
        """
        target = self._active.get(partition) or self._activate(partition)
        batch = target.append(record, size, self._loop.time, self._config.batch_size)
        if len(batch.records) > 1:
            return batch, False
        self._wake.set()
        return batch, len(target.queue) > 1

    def append_encoded(self, partition: TopicPartition, records: EncodedRecords) -> OutgoingBatch:
        """Put records that are encoded into a batch of their own. Raises the `KafkaError` that ended this sender."""
        target = self._active.get(partition) or self._activate(partition)
        batch = target.append_encoded(records, len(records.payload), self._loop.time)
        self._wake.set()
        return batch

    def _activate(self, partition: TopicPartition) -> OutgoingPartition:
        if self._ended is not None:
            raise self._ended
        target = self._partitions.get(partition)
        if target is None:
            target = self._partitions[partition] = OutgoingPartition(partition)
        self._active[partition] = target
        self._idle.clear()
        return target

    async def run(self) -> None:
        """Send until cancelled."""
        try:
            await self._run()
        except Exception as defect:
            log.exception("the producer's sender ended")
            self.fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the producer's sender ended: {defect!r}"))

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            next_s = self._send_ready(self._loop.time())
            if not self._active:
                self._idle.set()
            await wait_until(self._wake, None if next_s == inf else next_s)

    async def flush(self) -> None:
        """Wait until every batch is done with; nothing lingers meanwhile."""
        self._flushing += 1
        self._wake.set()
        try:
            await self._idle.wait()
        finally:
            self._flushing -= 1

    def wake(self) -> None:
        """Look again at what may be sent."""
        self._wake.set()

    def fail(self, reason: KafkaError) -> None:
        """Fail what was not written, and every record that comes later: nothing is left without an end."""
        self._ended = reason
        self._tasks.cancel()
        for partition in self._active.values():
            for batch in [*partition.in_flight, *partition.queue]:
                self._finish(batch, reason)
        self._active.clear()
        self._idle.set()

    async def stop(self) -> None:
        """Wait for the end of the requests on their way."""
        await self._tasks.wait()

    def _send_ready(self, now_s: float) -> float:
        """Start every request that may start now; return when to look again."""
        config = self._config
        next_s = inf
        if self._transaction is not None and (refusal := self._transaction.refusal) is not None:
            self._fail_waiting(refusal)
        ready: dict[Broker, list[OutgoingPartition]] = {}
        for partition in list(self._active.values()):
            next_s = min(next_s, self._expire(partition, now_s))
            if not partition.queue:
                if not partition.in_flight:
                    del self._active[partition.partition]
                continue
            if not self._may_send(partition):
                continue
            linger_s = 0.0 if self._flushing else self._linger_s
            at_s = partition.ready_at(linger_s, config.batch_size)
            if at_s > now_s:
                next_s = min(next_s, at_s)
                continue
            leader = self._cluster.view.leader(partition.partition)
            if leader is None:
                self._cluster.request_refresh()
                partition.not_before_s = now_s + _NO_LEADER_WAIT_S
                next_s = min(next_s, partition.not_before_s)
                continue
            ready.setdefault(leader, []).append(partition)
        for leader, partitions in ready.items():
            # Batches leave the queue for an open connection only: if each opened its own, one could overtake another.
            connection = self._cluster.pool.connected(leader, _LANE)
            if connection is None:
                self._connect(leader)
                continue
            while partitions and self._requests.get(leader, 0) < config.max_in_flight_requests_per_connection:
                partitions = self._start(leader, connection, partitions)
        return next_s

    def _connect(self, leader: Broker) -> None:
        if leader not in self._connecting:
            self._connecting.add(leader)
            self._tasks.spawn(self._open(leader))

    async def _open(self, leader: Broker) -> None:
        """Open the connection to a leader; until that worked its batches wait where they are."""
        try:
            await self._cluster.pool.connection(leader, _LANE)
        except KafkaError as error:
            log.info("producing to %s: %s", leader.address, error)
            self._cluster.request_refresh()
            for partition in self._active.values():
                if partition.queue and self._cluster.view.leader(partition.partition) == leader:
                    partition.queue[0].error = error
                    partition.not_before_s = self._loop.time() + _NO_LEADER_WAIT_S
        finally:
            self._connecting.discard(leader)
            self._wake.set()

    def _may_send(self, partition: OutgoingPartition) -> bool:
        config = self._config
        if partition.is_recovering or partition.is_reset_due:
            if partition.in_flight:
                return False
            partition.is_recovering = False
        if self._transaction is not None:
            if not self._transaction.may_write(partition.partition):
                return False
            if partition.identity != self._transaction.identity:
                first = self._transaction.first_sequence(partition.partition)
                partition.reset(self._transaction.identity, first)
        elif self._is_idempotent and (partition.identity == NO_PRODUCER_ID or partition.is_reset_due):
            if self._identity != NO_PRODUCER_ID and self._identity != partition.identity:
                partition.reset(self._identity)
            else:
                self._identify()
                return False
        return partition.has_room(config.max_in_flight_requests_per_connection if self._is_idempotent else 1)

    def _expire(self, partition: OutgoingPartition, now_s: float) -> float:
        """Fail the batches whose time is up; return when the next one's will be."""
        timeout_s = self._timeout_s
        while partition.queue and partition.queue[0].created_s + timeout_s <= now_s:
            batch = partition.queue.popleft()
            text = f"a batch for {partition.partition} was not written within {timeout_s:g} s (delivery_timeout_ms)"
            why = f": {batch.error.text}" if batch.error else ": its leader could not be reached"
            partition.is_reset_due |= batch.attempts > 0 and self._is_idempotent
            self._finish(batch, KafkaError(ErrorCode.REQUEST_TIMED_OUT, text + why))
        return partition.queue[0].created_s + timeout_s if partition.queue else inf

    def _start(
        self, leader: Broker, connection: Connection, partitions: list[OutgoingPartition]
    ) -> list[OutgoingPartition]:
        """Put a batch of each partition into one request, as many as fit, and send it; return the others."""
        batches: list[OutgoingBatch] = []
        size = 0
        while partitions and (not batches or size + partitions[0].queue[0].size <= self._config.max_request_size):
            batch = partitions.pop(0).pop_oldest()
            size += batch.size
            batches.append(batch)
        self._requests[leader] = self._requests.get(leader, 0) + 1
        self._tasks.spawn(self._deliver(leader, connection, batches))
        return partitions

    async def _deliver(self, leader: Broker, connection: Connection, batches: list[OutgoingBatch]) -> None:
        results: _Results = {}
        missing = _RESULT_MISSING
        began_s = self._loop.time()
        self._metrics.request_started(batches, began_s)
        try:
            results = await self._produce(connection, batches)
        except KafkaError as error:
            missing = error
        except Exception as defect:
            log.exception("a batch could not be made")
            missing = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a batch could not be made: {defect!r}")
        finally:
            self._metrics.request_ended(began_s, self._loop.time())
            self._requests[leader] -= 1
            self._wake.set()
        for batch in batches:
            failure, base_offset, append_time_ms = results.get(batch.partition, (missing, -1, -1))
            partition = self._partitions[batch.partition]
            if failure is None:
                partition.remove_written(batch)
                self._waits.pop(batch.partition, None)
                self._finish(batch, None, base_offset, append_time_ms)
            else:
                self._retry_or_fail(partition, batch, failure)

    async def _produce(self, connection: Connection, batches: list[OutgoingBatch]) -> _Results:
        """Send one Produce request and return what became of its batches."""
        config = self._config
        topics: dict[str, ProduceRequest.TopicData] = {}
        names: dict[bytes, str] = {}
        for batch in batches:
            name = batch.partition.topic
            if name not in topics:
                topic_id = self._cluster.view.topic_id(name)
                names[topic_id] = name
                topics[name] = ProduceRequest.TopicData(name=name, topic_id=topic_id)
            topics[name].partition_data.append(
                ProduceRequest.TopicData.PartitionData(index=batch.partition.partition, records=self._encode(batch))
            )
        data = list(topics.values())
        request = ProduceRequest(acks=self._acks, timeout_ms=config.request_timeout_ms, topic_data=data)
        highest = _NEWEST_BY_NAME if NO_TOPIC_ID in names else None
        if (transaction := self._transaction) is not None:
            request.transactional_id = transaction.transactional_id
            highest = _NEWEST_IN_VERSION_1 if transaction.version == 1 else highest
        if self._acks == 0:
            await connection.send(request, highest=highest)
            return {batch.partition: (None, -1, -1) for batch in batches}
        response = await connection.call(request, highest=highest, timeout_ms=config.request_timeout_ms)
        self._metrics.throttles.record(response.throttle_time_ms, self._now_ms())
        return _read_results(response, names)

    def _encode(self, batch: OutgoingBatch) -> Buffer:
        if batch.encoded is None:
            is_encoded = isinstance(batch.records, EncodedRecords)
            encode: Callable[..., Buffer] = frame_records if is_encoded else encode_batch
            batch.encoded = encode(
                batch.records,
                compression=self._compression,
                producer_id=batch.identity.producer_id,
                producer_epoch=batch.identity.epoch,
                base_sequence=batch.sequence,
                transactional=self._transaction is not None,
            )
        return batch.encoded

    def _retry_or_fail(self, partition: OutgoingPartition, batch: OutgoingBatch, error: KafkaError) -> None:
        is_first = partition.in_flight[0] is batch
        if error.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            # It was written by an attempt whose response got lost; the broker no longer knows where.
            partition.remove_written(batch)
            self._finish(batch, None)
            return
        is_lost_count = error.code in _LOST_COUNT and self._is_idempotent
        if is_lost_count and is_first and not partition.is_recovering:
            partition.is_reset_due = True
        # A transaction's numbers are fixed: where they are lost, it is aborted.
        is_lost = is_lost_count and self._transaction is not None and partition.is_reset_due
        if not is_lost and (is_lost_count or is_worth_a_retry(error)):
            batch.error = error
            partition.put_back(batch)
            self._metrics.retries.record(len(batch.records), self._now_ms())
            if error.code in _CONDITION_OF_THE_BROKER and batch.partition not in self._waits:
                log.warning(
                    "%s refuses records: %s; they are sent again for %g s (delivery_timeout_ms)",
                    batch.partition, error, self._timeout_s,
                )  # fmt: skip
            initial_ms = _MARKERS_WAIT_MS if error.code is ErrorCode.CONCURRENT_TRANSACTIONS else _WAIT_MS
            waits = self._waits.setdefault(batch.partition, self._cluster.waits(initial_ms))
            partition.not_before_s = self._loop.time() + waits.next_s()
            self._cluster.request_refresh()
            log.info("a batch for %s is tried again: %s", batch.partition, error)
            return
        partition.in_flight.remove(batch)
        partition.is_reset_due |= self._is_idempotent
        self._finish(batch, _explain(error, batch))

    def _finish(
        self, batch: OutgoingBatch, error: KafkaError | None, base_offset: int = -1, append_time_ms: int = -1
    ) -> None:
        if error is not None:
            self._metrics.errors.record(len(batch.records), self._now_ms())
            is_aborted = isinstance(error, TransactionAborted)
            text = "%d records for %s were not written: %s"
            log.log(logging.INFO if is_aborted else logging.ERROR, text, len(batch.records), batch.partition, error)
            if self._transaction is not None and not isinstance(error, TransactionError):
                self._transaction.fail_batch(error)
        batch.finish(error, base_offset, append_time_ms)
        self._released(batch.size)
        self._wake.set()

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    def _identify(self) -> None:
        """Get an identity in the background; the partitions that wait for it are looked at again then."""
        if self._identifying is None or self._identifying.done():
            self._identifying = self._tasks.spawn(self._init_producer_id(), "id")

    async def _init_producer_id(self) -> None:
        waits = self._cluster.waits()
        while True:
            try:
                response = await self._cluster.call_any(
                    InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFFFFFF)
                )
                if (code := error_for(response.error_code)) is not ErrorCode.NONE:
                    raise KafkaError(code, f"no producer id: {code.text}")
                self._identity = ProducerId(response.producer_id, response.producer_epoch)
                self._wake.set()
                return
            except KafkaError as error:
                if not is_worth_a_retry(error):
                    self._fail_waiting(error)
                    return
                log.info("a producer id is asked for again: %s", error)
            await asyncio.sleep(waits.next_s())

    def _fail_waiting(self, error: KafkaError) -> None:
        for partition in self._active.values():
            while partition.queue:
                self._finish(partition.queue.popleft(), error)


def _read_results(response: ProduceResponse, names: dict[bytes, str]) -> _Results:
    results: _Results = {}
    for topic in response.responses:
        for found in topic.partition_responses:
            partition = TopicPartition(topic.name or names.get(topic.topic_id, ""), found.index)
            code = error_for(found.error_code)
            text = found.error_message or code.text
            for record in found.record_errors:
                text += f" (record {record.batch_index}: {record.batch_index_error_message or 'invalid'})"
            error = None if code is ErrorCode.NONE else KafkaError(code, text)
            results[partition] = (error, found.base_offset, found.log_append_time_ms)
    return results


def _explain(error: KafkaError, batch: OutgoingBatch) -> KafkaError:
    match error.code:
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE:
            text = (
                f"a batch of about {batch.size} bytes is larger than {batch.partition.topic!r} takes: raise the topic's"
                " max.message.bytes, or send smaller records or batches (batch_size)"
            )
            return KafkaError(error.code, text)
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return KafkaError(error.code, f"this user may not write to {batch.partition.topic!r}")
        case _:
            return KafkaError(error.code, f"{batch.partition}: {error.text}")
