"""A transactional producer of a world: transactions of numbered records and an offset, one after another.

The rules are those of the client that ships (`TransactionMachine`), in virtual time. Each record's value names its
transaction, and the offset that a transaction commits is its number, so that a reader sees which ones count. A request
of version 1 without an answer ends the process: if it came late, it would count for the next transaction (KAFKA-17754).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kohort.client.cluster.committed_offsets import (
    NEWEST_BY_NAME,
    GroupMetadata,
    OffsetAndMetadata,
    fetch_request,
    fetched,
)
from kohort.client.cluster.retry import is_worth_a_retry
from kohort.client.producer.accumulator import NO_PRODUCER_ID
from kohort.client.producer.transaction_machine import (
    EPOCH_RAISING,
    EndTxn,
    InitProducerId,
    TransactionMachine,
    TransactionRequest,
    TransactionState,
    TxnOffsetCommit,
)
from kohort.client.producer.transaction_messages import code_of, identity_of, message_of
from kohort.member.deadlines import Backoff
from kohort.member.member_state import MOVED
from kohort.model.errors import ErrorCode, KafkaError, error_for
from kohort.model.ids import TopicPartition
from kohort.sim.kernel.world_observer import OUTPUT, OUTPUT_PARTITIONS
from kohort.sim.peers.peer_connection import ClientPlace, PeerConnections
from kohort.wire.apis import Api
from kohort.wire.messages import ProduceRequest
from kohort.wire.record_batches import Record, encode_batch

_REQUEST_TIMEOUT_MS = 2_000
_PRODUCE_VERSIONS = {1: 11, 2: 12}
_MOST_BATCHES, _MOST_RECORDS = 4, 5
_TRANSACTION_COORDINATOR = 1


class ProducerPlan(NamedTuple):
    """One transactional producer. `version` is that of its transactions; times are milliseconds.

    `aborts` and `dawdles` are how likely a transaction is aborted by its program, or takes about as long as its
    timeout. After `delivery_ms` without an acknowledgement it is aborted, with 0 at the first failure. `first_epoch` is
    the one that its transactional id has reached before the world begins, -1 for a new id.
    """

    name: str
    version: int
    timeout_ms: int
    pause_ms: int
    aborts: float
    dawdles: float
    delivery_ms: int = 5_000
    first_epoch: int = -1

    @property
    def group_id(self) -> str:
        """The group whose offset its transactions commit."""
        return f"of-{self.name}"


@dataclass(slots=True, eq=False)
class _SentBatch:
    """Records of one partition, which are encoded once and sent until they are acknowledged."""

    partition: TopicPartition
    values: list[bytes]
    encoded: bytes | None = None


@dataclass(slots=True, eq=False)
class _SentTransaction:
    """The open transaction. `is_commit` is None until it is to end."""

    number: int
    left: list[_SentBatch]
    until_us: int
    offsets: TxnOffsetCommit | None = None
    is_commit: bool | None = None
    is_done: bool = False
    """Whether its program has nothing more to do before the end."""
    sequences: dict[TopicPartition, int] = field(default_factory=dict)


class TransactionalProducer:
    """One process. `numbers` numbers the transactions of its transactional id, in whichever process they are.

    `ended` is called once when the process has ended by itself, `end_sent` when it has sent the request that ends a
    transaction.

    More than 20 attributes: it stands for a whole producer, its transaction and its requests.
    """

    def __init__(
        self,
        plan: ProducerPlan,
        place: ClientPlace,
        numbers: Iterator[int],
        ended: Callable[[TransactionalProducer], None],
        end_sent: Callable[[TransactionalProducer], None],
    ) -> None:
        self.plan = plan
        self.host = place.host
        self.is_over = False
        self.is_last = False
        """Whether its next transaction is the last, and commits."""
        self.is_finished = False
        """Whether it has committed its last transaction."""
        self.failure: str = ""
        self._network, self._random, self._observer = place.network, place.random, place.observer
        self._numbers = numbers
        self._ended = ended
        self._end_sent = end_sent
        self.machine = TransactionMachine(plan.name)
        self._connections = self._connect(plan.name, place, _TRANSACTION_COORDINATOR)
        self._group = self._connect(plan.group_id, place, 0)
        self._waits = Backoff(place.random.random)
        self._transaction: _SentTransaction | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._identity = NO_PRODUCER_ID
        self._is_asking = self._is_writing = self._is_waiting = False
        self._is_placed = False
        """Whether it knows where its group stands."""

    def _connect(self, key: str, place: ClientPlace, kind: int) -> PeerConnections:
        return PeerConnections(
            self.plan.name,
            key,
            place,
            versions={Api.PRODUCE: _PRODUCE_VERSIONS[self.plan.version], Api.OFFSET_FETCH: NEWEST_BY_NAME},
            request_timeout_ms=_REQUEST_TIMEOUT_MS,
            coordinator_type=kind,
        )

    # -- its life

    def start(self) -> None:
        """Begin the process: get a producer id and epoch, which fences every process before it."""
        if not self.host.is_up:
            self.host.boot()
        self.machine.initialize()
        self._proceed()

    def finish(self) -> None:
        """Commit one more transaction, and begin none after it."""
        self.is_last = True
        self._proceed()

    def kill(self) -> None:
        """End the process where it stands; its kernel resets its connections."""
        if not self.is_over:
            self._network.close_all(self.host)
            self.is_over = True
            self.host.kill()

    def _fail(self, why: str) -> None:
        self.failure = why
        self._connections.close()
        self._group.close()
        self.kill()
        self._ended(self)

    # -- what is next

    def _proceed(self) -> None:
        if self.is_over:
            return
        machine = self.machine
        if machine.identity != self._identity:
            self._identity = machine.identity
            self._sequences.clear()
            self._observer.producer_identified(self.plan.name, *self._identity)
        if machine.state is TransactionState.FATAL_ERROR:
            self._fail(f"{machine.error}")
            return
        transaction = self._transaction
        if transaction is not None and machine.state is TransactionState.READY:
            self._close(transaction)
            transaction = None
        if transaction is not None:
            self._work_on(transaction)
        elif machine.state is TransactionState.READY and not self._is_waiting and not self.is_finished:
            self._look_up() if not self._is_placed else self._wait(self._pause_us(), self._begin)
        if not self._is_asking and (request := machine.next_request()) is not None:
            self._ask(request)

    def _pause_us(self) -> int:
        return int(self.plan.pause_ms * 1000 * (0.2 + self._random.random()))

    def _wait(self, delay_us: int, action: Callable[[], None]) -> None:
        def go() -> None:
            self._is_waiting = False
            if not self.is_over:
                action()

        self._is_waiting = True
        self.host.after_us(delay_us, go)

    def _begin(self) -> None:
        random, number = self._random, next(self._numbers)
        self.machine.begin(self.plan.version)
        batches, index = [], 0
        for _ in range(random.randint(1, _MOST_BATCHES)):
            partition = TopicPartition(OUTPUT, random.randrange(OUTPUT_PARTITIONS))
            count = random.randint(1, _MOST_RECORDS)
            values = [b"%s:%d:%d" % (self.plan.name.encode(), number, index + each) for each in range(count)]
            batches.append(_SentBatch(partition, values))
            index += count
        self._transaction = transaction = _SentTransaction(number, batches, self._delivery_until_us)
        transaction.is_done = self.is_last or random.random() >= self.plan.dawdles
        if not transaction.is_done:
            self.host.after_us(int(self.plan.timeout_ms * 1000 * 1.2 * random.random()), self._dawdled, transaction)
        self._observer.transaction_began(self.plan.name, number, index)
        self._proceed()

    @property
    def _delivery_until_us(self) -> int:
        return self.host.scheduler.now_us + self.plan.delivery_ms * 1000

    def _dawdled(self, transaction: _SentTransaction) -> None:
        transaction.is_done = True
        transaction.until_us = self._delivery_until_us
        self._proceed()

    def _work_on(self, transaction: _SentTransaction) -> None:
        machine = self.machine
        if machine.state is TransactionState.ABORTABLE_ERROR and not self._is_writing:
            self._end(transaction, is_commit=False)
        elif machine.state is TransactionState.IN_TRANSACTION and not self._is_writing and not self._is_waiting:
            if transaction.left and (transaction.is_done or len(transaction.left) > 1):
                self._write(transaction)
            elif transaction.left or not transaction.is_done:
                return
            elif transaction.offsets is None:
                offset = OffsetAndMetadata(transaction.number)
                group = GroupMetadata(self.plan.group_id)
                transaction.offsets = machine.send_offsets(group, {TopicPartition(OUTPUT, 0): offset})
            elif not machine.is_pending(transaction.offsets):
                self._end(transaction, is_commit=self.is_last or self._random.random() >= self.plan.aborts)

    def _end(self, transaction: _SentTransaction, *, is_commit: bool) -> None:
        transaction.is_commit = is_commit
        self._observer.transaction_ending(self.plan.name, transaction.number, is_commit)
        self.machine.end(is_commit=is_commit)
        self.machine.mark_drained()

    def _close(self, transaction: _SentTransaction) -> None:
        """Report the end of a transaction, which was answered."""
        assert transaction.is_commit is not None, "a transaction ends because its program wants that"
        self._transaction = None
        self._observer.transaction_ended(self.plan.name, transaction.number, transaction.is_commit)
        self.is_finished = self.is_last and transaction.is_commit

    # -- requests of the transaction

    def _ask(self, request: TransactionRequest) -> None:
        self._is_asking = True
        message, highest = message_of(self.machine, request, self.plan.timeout_ms)
        connections = self._group if isinstance(request, TxnOffsetCommit) else self._connections
        connections.send(
            connections.group,
            message,
            lambda code, answer: self._answered(connections, request, code, answer),
            version=highest,
        )
        if isinstance(request, EndTxn):
            self._end_sent(self)

    def _answered(
        self, connections: PeerConnections, request: TransactionRequest, code: ErrorCode, answer: Any
    ) -> None:
        if self.is_over:
            return
        if answer is None:
            if self._is_lost_for_good(request):
                self._fail(f"{type(request).__name__} was not answered")
                return
            connections.forget_coordinator()
            is_repeated = self.machine.note_lost_answer(request, KafkaError(code))
        else:
            error = code_of(answer)
            if error in MOVED:
                connections.rediscover()
            is_repeated = self.machine.apply_answer(request, KafkaError(error) if error else None, identity_of(answer))
        self._is_asking = is_repeated
        if is_repeated:
            self.host.after_us(self._waits.next_ms() * 1000, self._ask_again)
        else:
            self._waits.reset()
        self._proceed()

    def _is_lost_for_good(self, request: TransactionRequest) -> bool:
        """Whether a request without an answer must not be followed by others under the same epoch."""
        return self.plan.version < EPOCH_RAISING and not isinstance(request, InitProducerId)

    def _ask_again(self) -> None:
        self._is_asking = False
        self._proceed()

    # -- records

    def _write(self, transaction: _SentTransaction) -> None:
        """Send the oldest batch, once its partition may be written to."""
        batch = transaction.left[0]
        self.machine.add(batch.partition)
        if not self.machine.may_write(batch.partition):
            return
        if batch.encoded is None:
            now_ms = self.host.now_ms()
            batch.encoded = encode_batch(
                [Record(0, now_ms, None, value) for value in batch.values],
                producer_id=self._identity.producer_id,
                producer_epoch=self._identity.epoch,
                base_sequence=self._sequences.get(batch.partition, 0),
                transactional=True,
            )
        partition = ProduceRequest.TopicData.PartitionData(index=batch.partition.partition, records=batch.encoded)
        request = ProduceRequest(
            transactional_id=self.plan.name,
            acks=-1,
            timeout_ms=_REQUEST_TIMEOUT_MS,
            topic_data=[ProduceRequest.TopicData(name=OUTPUT, partition_data=[partition])],
        )
        self._is_writing = True
        self._connections.send(
            self._connections.records, request, lambda code, answer: self._wrote(transaction, batch, code, answer)
        )

    def _wrote(self, transaction: _SentTransaction, batch: _SentBatch, code: ErrorCode, answer: Any) -> None:
        self._is_writing = False
        if self.is_over:
            return
        offset = -1
        if answer is not None:
            found = answer.responses[0].partition_responses[0]
            code, offset = error_for(found.error_code), found.base_offset
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            transaction.left.remove(batch)
            self._sequences[batch.partition] = self._sequences.get(batch.partition, 0) + len(batch.values)
            self._observer.transaction_wrote(self.plan.name, transaction.number, batch.partition, offset)
        elif not is_worth_a_retry(KafkaError(code)) or self.host.scheduler.now_us >= transaction.until_us:
            self.machine.fail_batch(KafkaError(code))
        else:
            self._wait(self._waits.next_ms() * 1000, self._proceed)
        self._proceed()

    # -- where the group stands

    def _look_up(self) -> None:
        """Find the offset that the last transaction committed; one that is pending is waited for (KIP-447)."""
        self._is_waiting = True
        partition = TopicPartition(OUTPUT, 0)
        request = fetch_request(self.plan.group_id, [partition], is_stable=True, topic_ids={})
        asked_us = self.host.scheduler.now_us

        def answered(_: ErrorCode, answer: Any) -> None:
            self._is_waiting = False
            result = None if answer is None else fetched(answer, {})
            if result is None or result.error or result.failed:
                if result is not None and result.error in MOVED:
                    self._group.rediscover()
                self._wait(self._waits.next_ms() * 1000, self._proceed)
                return
            self._is_placed = True
            offset = result.found.get(partition)
            number = -1 if offset is None else offset.offset
            self._observer.transaction_offset_found(self.plan.name, number, asked_us)
            self._proceed()

        self._group.send(self._group.group, request, answered)
