"""Driver of a producer's transactions: sends what the state machine asks for to the coordinators, and waits for it.

It writes no records: a `BatchSender` that is given the driver asks it what may be written, with which producer id and
epoch. A program whose records are written elsewhere, by other processes, uses it alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from kohort.client.cluster.cluster import Cluster, CoordinatorType
from kohort.client.cluster.committed_offsets import GroupMetadata, PartitionOffsets
from kohort.client.errors import TransactionAborted, TransactionRetriable
from kohort.client.producer.accumulator import ProducerId
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
from kohort.client.synchronization import BackgroundTasks, BroadcastEvent
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition
from kohort.net.api_versions import BrokerVersions
from kohort.wire.apis import Api

log = logging.getLogger(__name__)

_FEATURE = "transaction.version"
_FIRST_WAIT_MS = 20
"""The markers of the last transaction are written after its end is answered: mostly a few milliseconds later."""


@dataclass(eq=False)
class TransactionDriver:
    """The transactions of one transactional id, one after another; `machine` may be read. Without a sender:

    driver = TransactionDriver(cluster, "job-7", 60_000, 60_000)
    await driver.start()
    driver.begin()                      # from now to the end `identity` and `version` stay as they are
    driver.add(partition)               # each that will be written to
    await driver.wait_until_added()     # with version 1 records may be written from now on
    await driver.send_offsets(group, offsets)
    driver.begin_end(is_commit=True)
    await driver.end()                  # once no record is on its way; then begin() again
    """

    _cluster: Cluster
    transactional_id: str
    transaction_timeout_ms: int
    max_block_ms: int

    def __post_init__(self) -> None:
        self.machine = TransactionMachine(self.transactional_id)
        self._changed = BroadcastEvent()
        self._tasks = BackgroundTasks("kohort transactions")
        self._on_change: Callable[[], None] = self._changed.notify
        self._newest_version = 1
        self._hindrance: KafkaError | None = None
        """Why the request on its way is sent again."""

    async def start(self, on_change: Callable[[], None] | None = None) -> None:
        """Get a producer id and epoch: earlier producers of the transactional id are fenced, their transaction ends.

        `on_change` is called whenever `may_write` or `refusal` may return something else. Raises `TransactionFatal`,
        `TransactionRetriable`.
        """
        self._on_change = on_change or self._on_change
        self._tasks.spawn(self._run())
        self.machine.initialize()
        if not await self._wait_until(lambda: self.machine.state is TransactionState.READY):
            raise TransactionRetriable(ErrorCode.REQUEST_TIMED_OUT, self._timeout_text("InitProducerId"))
        self.machine.check()

    async def stop(self) -> None:
        """Send nothing more; an open transaction is left to its timeout."""
        await self._tasks.stop()

    # For the program

    def begin(self) -> int:
        """Open a transaction of the version that the cluster has now; return its number.

        Raises RuntimeError where one is open, `TransactionFatal`.
        """
        return self.machine.begin(self._newest_version)

    def add(self, partition: TopicPartition) -> None:
        """Add a partition to the transaction; with version 1 it may be written to once `may_write` is true.

        Raises `TransactionError` where the transaction has failed, RuntimeError where none is open.
        """
        if self.machine.add(partition):
            self._changed.notify()

    async def wait_until_added(self) -> None:
        """Wait until every partition that was added may be written to. Raises `TransactionError`."""
        await self._wait_for_answer(lambda: not self.machine.is_adding, "AddPartitionsToTxn")

    async def send_offsets(self, group: GroupMetadata, offsets: PartitionOffsets) -> None:
        """Commit offsets of a group that count once the transaction commits. Raises `TransactionError`."""
        machine = self.machine
        request = machine.send_offsets(group, offsets)
        self._changed.notify()
        await self._wait_for_answer(lambda: not machine.is_pending(request), "TxnOffsetCommit")

    def begin_end(self, *, is_commit: bool) -> None:
        """Take no more records; what waits is still written before a commit, and fails before an abort."""
        self.machine.end(is_commit=is_commit)
        self._notify()

    async def end(self) -> None:
        """Commit or abort as `begin_end` began; call it when no record waits or is on its way.

        Raises `TransactionAbortable` where a commit is no longer possible, `TransactionFatal`, and
        `TransactionRetriable` where no answer came: then this may be called again.
        """
        machine = self.machine
        machine.mark_drained()
        self._notify()
        if not await self._wait_until(lambda: self.machine.state in _AFTER_END):
            raise self.end_timeout_error()
        machine.check()

    def end_timeout_error(self) -> TransactionRetriable:
        """Return the error of a commit or abort that takes longer than `max_block_ms`."""
        call = "commit" if self.machine.state is TransactionState.COMMITTING else "abort"
        text = f"{self._timeout_text(f'the {call}')}; call {call}() again"
        return TransactionRetriable(ErrorCode.REQUEST_TIMED_OUT, text)

    # For the sender of records

    @property
    def identity(self) -> ProducerId:
        """The producer id and epoch under which records are written now."""
        return self.machine.identity

    @property
    def version(self) -> int:
        """The version of the open transaction, 1 or 2."""
        return self.machine.version

    @property
    def refusal(self) -> KafkaError | None:
        """Why records that wait are not written any more; None where they are."""
        if self.machine.takes_records:
            return None
        return self.machine.error or TransactionAborted(self.transactional_id)

    def may_write(self, partition: TopicPartition) -> bool:
        """Return whether records may be sent to this partition now."""
        return self.machine.may_write(partition)

    def first_sequence(self, partition: TopicPartition) -> int:  # noqa: ARG002
        """Return 0: all records of an identity come from one sender."""
        return 0

    def fail_batch(self, error: KafkaError) -> None:
        """Note that records of the open transaction were not written: it can only be aborted."""
        self.machine.fail_batch(error)
        self._notify()

    # The inside

    async def _wait_for_answer(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for what a transaction needs; without an answer it can only be aborted. Raises `TransactionError`."""
        if not await self._wait_until(condition):
            self.machine.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT), self._timeout_text(what), is_fatal=False)
        self.machine.check()

    async def _wait_until(self, condition: Callable[[], bool]) -> bool:
        """Wait until a condition is true or a failure prevents it; return False after `max_block_ms`."""
        until_s = asyncio.get_running_loop().time() + self.max_block_ms / 1000
        while not condition() and self.machine.state not in _FAILED:
            if asyncio.get_running_loop().time() >= until_s:
                return False
            await self._changed.wait(until_s)
        return True

    def _timeout_text(self, what: str) -> str:
        why = self._hindrance.text if self._hindrance else "the brokers do not answer"
        return f"{what} of {self.transactional_id!r} took longer than max_block_ms={self.max_block_ms}: {why}"

    def _notify(self) -> None:
        self._changed.notify()
        self._on_change()

    async def _run(self) -> None:
        waits = self._cluster.waits(_FIRST_WAIT_MS)
        try:
            while True:
                request = self.machine.next_request()
                if request is None:
                    await self._changed.wait()
                elif await self._carry_out(request):
                    await asyncio.sleep(waits.next_s())
                else:
                    waits.reset()
        except Exception as defect:
            log.exception("the transactions of %r ended", self.transactional_id)
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(defect))
            self.machine.fail(error, f"a defect: {defect!r}", is_fatal=True)
            self._notify()

    async def _carry_out(self, request: TransactionRequest) -> bool:
        """Send one request and give its answer to the machine; return whether it is to be sent again."""
        machine = self.machine
        error: KafkaError | None = None
        try:
            code, identity = await self._ask(request)
            error = KafkaError(code) if code else None
            is_repeated = machine.apply_answer(request, error, identity)
        except KafkaError as failure:
            error = failure
            is_repeated = machine.note_lost_answer(request, error)
        self._hindrance = error if is_repeated else None
        if error is not None:
            log.info("transactions of %r: %s: %s", self.transactional_id, type(request).__name__, error)
        self._notify()
        return is_repeated

    async def _ask(self, request: TransactionRequest) -> tuple[ErrorCode, ProducerId]:
        message, highest = message_of(self.machine, request, self.transaction_timeout_ms)
        if isinstance(request, TxnOffsetCommit):
            key, kind = request.group.group_id, CoordinatorType.GROUP
        else:
            key, kind = self.transactional_id, CoordinatorType.TRANSACTION
        if isinstance(request, EndTxn):
            await self._note_version()  # before: it may fail, and then the answer would be lost
        answer = await self._cluster.call_coordinator(key, message, code_of, kind=kind, highest=highest)
        if isinstance(request, InitProducerId):
            await self._check_version()
        return code_of(answer), identity_of(answer)

    async def _check_version(self) -> None:
        versions = await self._note_version()
        if versions is not None and not versions.supports(Api.INIT_PRODUCER_ID, 3):
            text = f"{versions.address} is too old: transactions need Apache Kafka 2.5 or newer (KIP-360, KIP-447)"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)

    async def _note_version(self) -> BrokerVersions | None:
        """Note the version of transactions that the cluster has now, as the coordinator's connection shows it."""
        broker = await self._cluster.coordinator(self.transactional_id, kind=CoordinatorType.TRANSACTION)
        if (versions := self._cluster.versions(broker)) is not None:
            self._newest_version = EPOCH_RAISING if versions.level(_FEATURE) >= EPOCH_RAISING else 1
        return versions


_FAILED = frozenset({TransactionState.ABORTABLE_ERROR, TransactionState.FATAL_ERROR})
_AFTER_END = frozenset({TransactionState.READY, *_FAILED})
