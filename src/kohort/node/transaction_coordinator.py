"""All transactional ids of one node: which partition of `__transaction_state` each is in, and what may be asked of it.

It carries out the decisions of `kohort.transaction` in their order: the record first, then, as soon as that is as
durable as the topic promises, the answer and the markers on the transaction's partitions, all of which are on this
node. A partition that is gone needs no marker. One whose disk fails now is tried again. A producer or a coordinator
that has come since makes a marker needless: it has ended the transaction there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from kohort.group.decisions import append_error
from kohort.log.disk import StorageError
from kohort.log.transaction_records import encode_event, read_event
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import group_partition
from kohort.node.broker_state import Services
from kohort.node.durability import Durability
from kohort.node.groups.coordinator import OFFSETS_TOPIC, Coordinator
from kohort.node.groups.offsets_partition import RESTORE, CoordinatedPartition, Status
from kohort.node.groups.runtime import RELOAD_MS, load_later
from kohort.node.step_scheduler import Steps
from kohort.node.topics.topic import Partition, Topic
from kohort.transaction.commands import (
    AddPartitions,
    Command,
    EndTransaction,
    ExpireIds,
    InitProducer,
    Loaded,
    MarkersWritten,
    TimedOut,
)
from kohort.transaction.decisions import Transactions, apply, decide, verify
from kohort.transaction.effects import (
    Append,
    Arm,
    Decision,
    Disarm,
    Reply,
    TransactionResult,
    TransactionStored,
    WriteMarkers,
)
from kohort.transaction.transaction import TopicPartition, Transaction
from kohort.wire.primitives import MalformedMessage
from kohort.wire.record_batches import BatchHeader, CorruptBatch, Marker, checked_records, encode_marker

log = logging.getLogger("kohort.node")

AGAIN_MS = 1_000
"""How long to wait before a marker is written, or something decided, again whose record could not be stored."""

_MARKER_STEPS = 4


class MarkerWriter:
    """Writes markers; `groups` returns the group coordinator, for offsets that transactions commit."""

    def __init__(self, services: Services, groups: Callable[[], Coordinator]) -> None:
        self._services = services
        self._groups = groups

    def write(self, markers: WriteMarkers, coordinator_epoch: int, written: Callable[[], None]) -> None:
        """Write all markers of a transaction, and call `written` once they are as durable as their topics promise.

        They begin in the next turn of the event loop: EndTxn is answered before, as Kafka does.
        """
        self._write(markers, coordinator_epoch, sorted(markers.partitions), written)

    def _write(
        self, markers: WriteMarkers, coordinator_epoch: int, left: list[TopicPartition], written: Callable[[], None]
    ) -> None:
        self._services.steps.in_slices(self._steps(markers, coordinator_epoch, left, written))

    def _steps(
        self, markers: WriteMarkers, coordinator_epoch: int, left: list[TopicPartition], written: Callable[[], None]
    ) -> Steps[None]:
        failed: list[TopicPartition] = []
        ended: list[tuple[TopicPartition, Partition]] = []
        for topic, index in left:
            found = self._services.topics.get(topic)
            if found is not None and index < len(found.partitions):
                partition = found.partitions[index]
                try:
                    self.end(partition, markers, coordinator_epoch)
                    ended.append(((topic, index), partition))
                except StorageError:  # logged by the partition, once
                    failed.append((topic, index))
                except KafkaError as error:
                    log.info("no marker of producer %d in %s: %s", markers.producer_id, partition.directory, error)
            yield _MARKER_STEPS

        def tried() -> None:
            if not failed:
                written()
                return
            again = partial(self._write, markers, coordinator_epoch, failed, written)
            deadline_ms = self._services.clock.now_ms + AGAIN_MS
            self._services.timers.arm(("markers", markers.transactional_id), deadline_ms, lambda _: again())

        _when_all_durable(self._services.durability, ended, failed, tried)

    def end(self, partition: Partition, markers: WriteMarkers, coordinator_epoch: int) -> None:
        """End a producer's transaction in one partition. Raises KafkaError, StorageError.

        INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED report that a newer producer or coordinator was there.
        """
        now_ms = self._services.clock.now_ms
        producer_id, epoch = markers.producer_id, markers.epoch
        partition.log.producers.check_marker(producer_id, epoch, coordinator_epoch)
        marker = encode_marker(producer_id, epoch, Marker(markers.is_commit, coordinator_epoch), now_ms)
        partition.append([marker], now_ms)
        if partition.topic.name == OFFSETS_TOPIC:
            self._groups().end_transaction(partition.index, producer_id, is_commit=markers.is_commit)
        self._services.durability.wake_fetches(partition)


def _when_all_durable(
    durability: Durability,
    ended: list[tuple[TopicPartition, Partition]],
    failed: list[TopicPartition],
    tried: Callable[[], None],
) -> None:
    """Call `tried` when no marker waits for its flush; those whose flush fails join the `failed`."""
    waiting = 1

    def released(place: TopicPartition | None, error: ErrorCode) -> None:
        nonlocal waiting
        waiting -= 1
        if error and place is not None:
            failed.append(place)
        if not waiting:
            tried()

    for place, partition in ended:
        if durability.when_durable(partition, partial(released, place)):
            waiting += 1
    released(None, ErrorCode.NONE)


@dataclass(slots=True, eq=False)
class TransactionPartition(CoordinatedPartition):
    """The state and the log of one partition."""

    max_timeout_ms: int
    transactions: Transactions = field(init=False)

    def forget(self) -> None:
        """Begin without transactional ids."""
        self.transactions = Transactions(self.max_timeout_ms)

    def load(self) -> None:
        """Fold the log from its start. What cannot be read fails the partition, not the node."""
        try:
            skipped = sum(self._fold(header, batch) for header, batch in self.batches() if not header.is_control)
        except StorageError as error:
            self.fail(str(error), is_for_now=error.is_passing)
        except (CorruptBatch, MalformedMessage, KafkaError) as error:
            self.fail(f"{error}; {RESTORE}")
        else:
            self.loaded()
            if skipped:
                log.info("%s: skipped %d records of other types", self.partition.directory, skipped)

    def _fold(self, header: BatchHeader, batch: memoryview) -> int:
        """Fold the records of a batch; return how many were of other types."""
        skipped = 0
        for record in checked_records(header, batch):
            try:
                event = read_event(record.key, record.value)
            except MalformedMessage as error:
                raise MalformedMessage(f"record at offset {record.offset}: {error}") from error
            if event is None:
                skipped += 1
            else:
                apply(self.transactions, event)
        return skipped


TRANSACTION_TOPIC = "__transaction_state"

Ticket = Callable[[TransactionResult], None]
"""Takes the answer of one request, now or later."""


class TransactionCoordinator:
    """All transactional ids of one node. Start it after the node's topics are known.

    `groups` returns the group coordinator, for the offsets that transactions commit.
    """

    def __init__(self, services: Services, groups: Callable[[], Coordinator]) -> None:
        self._services = services
        self._config = services.config
        self._clock = services.clock
        self._timers = services.timers
        self.partitions: list[TransactionPartition] = []
        self.markers = MarkerWriter(services, groups)
        self._spare_id: int | None = None
        """A producer id that no decision has used yet."""

    # -- life

    def start(self) -> None:
        """Replay every partition that has a log, and continue what was under way."""
        topic = self._services.topics.get(TRANSACTION_TOPIC)
        if topic is not None:
            self._host(topic)
        self._expire_later()

    def ensure_topic(self) -> Topic:
        """Return `__transaction_state`, created if there is none. Raises KafkaError, StorageError."""
        topic = self._services.topics.get(TRANSACTION_TOPIC)
        if topic is not None and self.partitions:
            return topic
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": str(self._config.transaction_state_log_segment_bytes),
        }
        partitions = self._config.transaction_state_log_num_partitions
        topic = self._services.topics.ensure_internal(TRANSACTION_TOPIC, partitions, configs, self._clock.now_ms)
        if not self.partitions:
            self._host(topic)
        return topic

    def _host(self, topic: Topic) -> None:
        max_timeout_ms = self._config.transaction_max_timeout_ms
        self.partitions += [TransactionPartition(partition, max_timeout_ms) for partition in topic.partitions]
        for hosted in self.partitions:
            hosted.partition.on_lost = partial(self._unload, hosted)
            if hosted.partition.may_have_files:
                self._load(hosted, RELOAD_MS)
            else:
                hosted.status = Status.ACTIVE

    def _load(self, hosted: TransactionPartition, again_ms: int) -> None:
        """Replay a partition and continue what was under way; where the disk fails now, after `again_ms`."""
        hosted.load()
        for transactional_id in sorted(hosted.transactions.by_id):
            self._run(hosted, Loaded(transactional_id), None)
        if hosted.is_failed_for_now:
            self._load_later(hosted, again_ms)

    def _load_later(self, hosted: TransactionPartition, wait_ms: int) -> None:
        load_later(self._timers, self._clock, hosted.partition.directory, wait_ms, partial(self._load, hosted))

    def _unload(self, hosted: TransactionPartition) -> None:
        """Forget a partition's transactional ids until its log takes appends again, since a flush of it has failed."""
        if hosted.status is Status.ACTIVE:
            hosted.fail("a flush failed", is_for_now=True)
            self._load_later(hosted, RELOAD_MS)

    # -- asking

    def init_producer(
        self, transactional_id: str, timeout_ms: int, expected: tuple[int, int] | None, ticket: Ticket
    ) -> None:
        """Give a producer its id and epoch."""
        self._submit(
            transactional_id, lambda new_id: InitProducer(transactional_id, timeout_ms, expected, new_id), ticket
        )

    def add_partitions(self, command: AddPartitions, ticket: Ticket) -> None:
        """Add partitions to a transaction, which begins with the first."""
        hosted = self._active(command.transactional_id, ticket)
        if hosted is not None:
            self._run(hosted, command, ticket)

    def end(
        self, transactional_id: str, producer: tuple[int, int], ticket: Ticket, *, is_commit: bool, version: int
    ) -> None:
        """Commit or abort a transaction."""
        self._submit(
            transactional_id,
            lambda new_id: EndTransaction(transactional_id, *producer, is_commit, version, new_id),
            ticket,
        )

    def has(self, command: AddPartitions) -> bool:
        """Whether partitions are in the open transaction of the producer, by a record that waits for no flush."""
        hosted = self._hosted(command.transactional_id) if self.partitions else None
        if hosted is None or hosted.status is not Status.ACTIVE or hosted.partition.flushes:
            return False
        return not verify(hosted.transactions, command)

    def verify(self, command: AddPartitions) -> ErrorCode:
        """Return NONE if partitions are in an open transaction of the producer, or why a write to them is refused."""
        refused: list[TransactionResult] = []
        hosted = self._active(command.transactional_id, refused.append)
        return refused[0].error if hosted is None else verify(hosted.transactions, command)

    def describe(self, transactional_id: str) -> Transaction:
        """Return a transactional id as it is. Raises KafkaError."""
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        hosted = self._hosted(transactional_id) if self.partitions else None
        if hosted is not None and hosted.status is not Status.ACTIVE:
            raise KafkaError(hosted.error)
        known = None if hosted is None else hosted.transactions.by_id.get(transactional_id)
        if known is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return known

    def transactions(self) -> Iterator[Transaction]:
        """Yield all transactional ids, by partition. Raises KafkaError while one is loading."""
        for hosted in self.partitions:
            if hosted.status is Status.LOADING:
                raise KafkaError(hosted.error)
            yield from list(hosted.transactions.by_id.values())

    def partition_of(self, transactional_id: str) -> int:
        """Return the partition of `__transaction_state` that an id is in."""
        return group_partition(
            transactional_id, len(self.partitions) or self._config.transaction_state_log_num_partitions
        )

    def _hosted(self, transactional_id: str) -> TransactionPartition:
        return self.partitions[self.partition_of(transactional_id)]

    def _active(self, transactional_id: str, ticket: Ticket) -> TransactionPartition | None:
        """Return the partition of an id; None when the request was refused."""
        try:
            self.ensure_topic()
        except (KafkaError, StorageError) as error:
            log.error("%s cannot be created: %s", TRANSACTION_TOPIC, error)
            ticket(TransactionResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return None
        hosted = self._hosted(transactional_id)
        if hosted.status is Status.ACTIVE:
            return hosted
        ticket(TransactionResult(hosted.error))
        return None

    def _submit(self, transactional_id: str, command: Callable[[int], Command], ticket: Ticket) -> None:
        """Decide a command that may need a producer id that was never used."""
        hosted = self._active(transactional_id, ticket)
        if hosted is None:
            return
        try:
            new_id = self._unused_id()
        except StorageError as error:
            log.error("no producer id can be reserved: %s", error)
            ticket(TransactionResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            self._run(hosted, command(new_id), ticket)

    def _unused_id(self) -> int:
        if self._spare_id is None:
            self._spare_id = self._services.state.next_producer_id(self._clock.now_ms)
        return self._spare_id

    # -- running

    def _run(self, hosted: TransactionPartition, command: Command, ticket: Ticket | None) -> None:
        """Carry out a command in the order that `kohort.transaction.effects` states."""
        decision = decide(hosted.transactions, command, self._clock.now_ms)
        error = self._append(hosted, decision)
        if error:
            self._not_stored(hosted, command, error, ticket)
            return
        for effect in decision:
            if isinstance(effect, Append):
                apply(hosted.transactions, effect.event)
                stored = effect.event.transaction if isinstance(effect.event, TransactionStored) else None
                if stored is not None and self._spare_id in (stored.producer_id, stored.next_producer_id):
                    self._spare_id = None
            elif isinstance(effect, Arm):
                self._watch(hosted, effect.transactional_id, effect.deadline_ms)
            elif isinstance(effect, Disarm):
                self._timers.disarm(("transaction", effect.transactional_id))
        released = partial(self._release, hosted, decision, ticket)
        if not self._services.durability.when_durable(hosted.partition, released):
            released(ErrorCode.NONE)

    def _append(self, hosted: TransactionPartition, decision: Decision) -> ErrorCode:
        """Append the records of a decision, as one batch each; return why they are not in the log, or NONE."""
        now_ms = self._clock.now_ms
        try:
            batches = [encode_event(effect.event, now_ms) for effect in decision if isinstance(effect, Append)]
            if batches:
                hosted.partition.append(batches, now_ms)
        except StorageError:  # logged by the partition, once
            return append_error(ErrorCode.KAFKA_STORAGE_ERROR)
        except KafkaError as error:
            log.error("append to %s: %s", hosted.partition.directory, error)
            return append_error(error.code)
        return ErrorCode.NONE

    def _not_stored(
        self, hosted: TransactionPartition, command: Command, error: ErrorCode, ticket: Ticket | None
    ) -> None:
        """Answer a request with the error; decide again later what no client asked for."""
        if ticket is not None:
            ticket(TransactionResult(error))
        elif isinstance(command, MarkersWritten):
            again = partial(self._run, hosted, command, None)
            key = "markers", command.transactional_id
            self._timers.arm(key, self._clock.now_ms + AGAIN_MS, lambda _: again())
        elif isinstance(command, TimedOut):
            self._watch(hosted, command.transactional_id, self._clock.now_ms + AGAIN_MS)

    def _release(
        self, hosted: TransactionPartition, decision: Decision, ticket: Ticket | None, error: ErrorCode
    ) -> None:
        """The record is durable: answer, and write the markers. After a failed flush the answer is an error."""
        for effect in decision:
            if isinstance(effect, Reply) and ticket is not None:
                ticket(TransactionResult(append_error(error)) if error else effect.result)
            elif isinstance(effect, WriteMarkers) and not error:
                command = MarkersWritten(effect.transactional_id, effect.producer_id, effect.epoch)
                written = partial(self._written, hosted, hosted.transactions, command)
                self.markers.write(effect, hosted.partition.leader_epoch, written)

    def _written(self, hosted: TransactionPartition, decided: Transactions, command: MarkersWritten) -> None:
        if hosted.transactions is decided:  # else the partition was loaded again, which writes its markers once more
            self._run(hosted, command, None)

    def _watch(self, hosted: TransactionPartition, transactional_id: str, deadline_ms: int) -> None:
        def fire(now_ms: int) -> None:
            if hosted.status is not Status.ACTIVE:
                return
            try:
                new_id = self._unused_id()
            except StorageError:
                self._watch(hosted, transactional_id, now_ms + AGAIN_MS)
            else:
                self._run(hosted, TimedOut(transactional_id, new_id), None)

        self._timers.arm(("transaction", transactional_id), deadline_ms, fire)

    # -- what happens without a request

    def _expire_later(self) -> None:
        interval_ms = self._config.transaction_remove_expired_transaction_cleanup_interval_ms
        deadline_ms = self._clock.now_ms + interval_ms
        self._timers.arm("transactional ids expiry", deadline_ms, self._expire)

    def _expire(self, now_ms: int) -> None:  # noqa: ARG002
        self._services.steps.in_slices(self._expire_in_steps())

    def _expire_in_steps(self) -> Steps[None]:
        for hosted in self.partitions:
            before = -1
            while hosted.status is Status.ACTIVE and len(hosted.transactions.by_id) != before:
                before = len(hosted.transactions.by_id)
                self._run(hosted, ExpireIds(self._config.transactional_id_expiration_ms), None)
                yield 1 + before // 16
        self._expire_later()
