"""Transactions of a producer as a state machine: calls of the program and answers of coordinators in, requests out.

The states, and which may follow which, are those of Kafka's `TransactionManager`. It knows no connection and no time:
`next_request` returns what is to be sent next, one request at a time, and `apply_answer` takes its answer.

With version 1 of transactions a partition is added by a request before anything is written to it, and an abort is
followed by InitProducerId, which raises the epoch. With version 2 (KIP-890) a write adds its partition, and the answer
to EndTxn has the next producer id and epoch. With version 1 a request that was lost is sent again until it is answered,
also if the transaction is to be aborted meanwhile: its late arrival would count for the next one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kohort.client.cluster.committed_offsets import GroupMetadata, PartitionOffsets
from kohort.client.cluster.retry import is_worth_a_retry
from kohort.client.errors import ProducerFenced, TransactionAbortable, TransactionError, TransactionFatal
from kohort.client.producer.accumulator import NO_PRODUCER_ID, ProducerId
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition

EPOCH_RAISING = 2
"""The transaction version from which each end raises the producer's epoch (KIP-890)."""


class TransactionState(Enum):
    """Where a transactional producer is, in the words of Kafka's `TransactionManager`."""

    UNINITIALIZED = "has no producer id yet"
    INITIALIZING = "is given a producer id"
    READY = "has no transaction"
    IN_TRANSACTION = "has an open transaction"
    COMMITTING = "has a transaction whose commit is not answered yet"
    ABORTING = "has a transaction whose abort is not answered yet"
    ABORTABLE_ERROR = "has a transaction that failed and must be aborted"
    FATAL_ERROR = "failed for good"


_S = TransactionState
_BEFORE: Mapping[TransactionState, frozenset[TransactionState]] = {
    _S.UNINITIALIZED: frozenset(),
    _S.INITIALIZING: frozenset({_S.UNINITIALIZED, _S.ABORTING}),
    _S.READY: frozenset({_S.INITIALIZING, _S.COMMITTING, _S.ABORTING}),
    _S.IN_TRANSACTION: frozenset({_S.READY}),
    _S.COMMITTING: frozenset({_S.IN_TRANSACTION}),
    _S.ABORTING: frozenset({_S.IN_TRANSACTION, _S.ABORTABLE_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.IN_TRANSACTION, _S.COMMITTING}),
    _S.FATAL_ERROR: frozenset(_S),
}
"""From which states each one may be entered."""


class InitProducerId(NamedTuple):
    """Get a producer id and epoch, or with `current` the epoch after it (KIP-360); it fences every earlier producer."""

    current: ProducerId


class AddPartitionsToTxn(NamedTuple):
    """Add partitions to the transaction before they are written to (version 1)."""

    partitions: frozenset[TopicPartition]


class AddOffsetsToTxn(NamedTuple):
    """Add the group's partition of `__consumer_offsets` to the transaction (version 1)."""

    group_id: str


@dataclass(frozen=True, eq=False)
class TxnOffsetCommit:
    """Commit offsets of a group that count once the transaction commits, as a member with its generation (KIP-447)."""

    group: GroupMetadata
    offsets: PartitionOffsets


class EndTxn(NamedTuple):
    """Commit or abort."""

    is_commit: bool


TransactionRequest = InitProducerId | AddPartitionsToTxn | AddOffsetsToTxn | TxnOffsetCommit | EndTxn

_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
_FATAL = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""Codes after which no transaction of this producer can succeed, whatever they answer (KIP-1050)."""


@dataclass(eq=False)
class TransactionMachine:
    """The transactions of one producer, one after another. `version` is that of the open one, or of the last.

    `error` is why the open transaction must be aborted or, in FATAL_ERROR, why nothing continues. `begun` counts
    transactions. Misuse, such as two transactions at once, raises RuntimeError and changes nothing.
    """

    transactional_id: str
    state: TransactionState = TransactionState.UNINITIALIZED
    identity: ProducerId = NO_PRODUCER_ID
    version: int = 1
    error: TransactionError | None = None
    begun: int = 0
    _new: set[TopicPartition] = field(default_factory=set)
    _added: set[TopicPartition] = field(default_factory=set)
    _offsets: deque[AddOffsetsToTxn | TxnOffsetCommit] = field(default_factory=deque)
    _lost: TransactionRequest | None = None
    _is_started: bool = False
    """Whether the coordinator may know the open transaction, so that its end must be sent there."""
    _is_drained: bool = False

    # Calls of the program

    def initialize(self) -> None:
        """Begin to get a producer id."""
        self._require("be initialized", TransactionState.UNINITIALIZED)
        self._enter(TransactionState.INITIALIZING)

    def begin(self, version: int) -> int:
        """Open a transaction of this version, 1 or 2; return its number."""
        self._require("begin a transaction", TransactionState.READY)
        self._enter(TransactionState.IN_TRANSACTION)
        self.version = version
        self.begun += 1
        return self.begun

    def add(self, partition: TopicPartition) -> bool:
        """Add a partition that is to be written to; return whether it is new to the transaction."""
        self._require("send records", TransactionState.IN_TRANSACTION)
        if partition in self._added or partition in self._new:
            return False
        if self.version >= EPOCH_RAISING:
            self._added.add(partition)
            self._is_started = True
        else:
            self._new.add(partition)
        return True

    def send_offsets(self, group: GroupMetadata, offsets: PartitionOffsets) -> TxnOffsetCommit:
        """Commit a group's offsets in the transaction; `is_pending` is False once the request returned is done."""
        self._require("send offsets", TransactionState.IN_TRANSACTION)
        request = TxnOffsetCommit(group, offsets)
        if self.version >= EPOCH_RAISING:
            self._is_started = True
        else:
            self._offsets.append(AddOffsetsToTxn(group.group_id))
        self._offsets.append(request)
        return request

    def is_pending(self, request: TxnOffsetCommit) -> bool:
        """Return whether the offsets are neither committed nor dropped."""
        return request in self._offsets

    def end(self, *, is_commit: bool) -> None:
        """Refuse records from now on; the end is sent after `mark_drained`. A repeated call changes nothing."""
        wanted = TransactionState.COMMITTING if is_commit else TransactionState.ABORTING
        if self.state is wanted:
            return
        if is_commit:
            self._require("commit", TransactionState.IN_TRANSACTION)
        else:
            self._require("abort", TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR)
            self.error = None
            self._drop_waiting()
        self._enter(wanted)

    def check(self) -> None:
        """Raise why the transaction can only be aborted, or why nothing continues."""
        if self.error is not None:
            raise self.error

    def mark_drained(self) -> None:
        """Note that no record of the transaction waits or is on its way: its end may be sent."""
        if self.state in (TransactionState.COMMITTING, TransactionState.ABORTING):
            self._is_drained = True
            self._complete_if_unknown()

    # What the sender of records asks

    def may_write(self, partition: TopicPartition) -> bool:
        """Return whether records may be sent to this partition now: it is in the transaction."""
        return partition in self._added

    @property
    def is_adding(self) -> bool:
        """Whether partitions of the transaction may not be written to yet."""
        return bool(self._new)

    @property
    def is_open(self) -> bool:
        """Whether there is a transaction that has not ended."""
        return self.state in _OPEN

    @property
    def takes_records(self) -> bool:
        """Whether records that wait are still to be written; else they fail."""
        return self.state in (TransactionState.IN_TRANSACTION, TransactionState.COMMITTING)

    def fail_batch(self, error: KafkaError) -> None:
        """Note that a batch of the transaction was not written: the transaction cannot be committed."""
        is_fatal = error.code in _FATAL or error.code is ErrorCode.PRODUCER_FENCED
        self.fail(error, f"records were not written: {error.text}", is_fatal=is_fatal)

    def fail(self, error: KafkaError, what: str, *, is_fatal: bool) -> None:
        """Make the transaction abort only, or the producer unusable."""
        if self.state is TransactionState.FATAL_ERROR:
            return
        if is_fatal:
            self.error = self._fatal(error, what)
            self._drop_waiting()
            self._enter(TransactionState.FATAL_ERROR)
        elif self.state in _BEFORE[TransactionState.ABORTABLE_ERROR]:
            text = f"the transaction of {self.transactional_id!r} can only be aborted: {what}"
            self.error = TransactionAbortable(error.code, text)
            self._drop_waiting()
            self._is_drained = False
            self._enter(TransactionState.ABORTABLE_ERROR)

    # Requests and their answers

    def next_request(self) -> TransactionRequest | None:
        """Return the request to send now, or None; the same again until `apply_answer`."""
        if self.state is TransactionState.FATAL_ERROR:
            return None
        if self._lost is not None:
            return self._lost
        if self.state is TransactionState.INITIALIZING:
            return InitProducerId(self.identity)
        if self.takes_records and self._new:
            return AddPartitionsToTxn(frozenset(self._new))
        if self.takes_records and self._offsets:
            return self._offsets[0]
        if self._is_drained:
            return EndTxn(self.state is TransactionState.COMMITTING)
        return None

    def apply_answer(self, request: TransactionRequest, error: KafkaError | None, identity: ProducerId) -> bool:
        """Take the answer: an error, or None and for InitProducerId and EndTxn of version 2 the producer's `identity`.

        Return whether the request is to be sent again, after a wait.
        """
        self._lost = None
        if error is None:
            self._succeed(request, identity)
            return False
        if is_worth_a_retry(error):
            return True
        self._refuse(request, error)
        return False

    def note_lost_answer(self, request: TransactionRequest, error: KafkaError) -> bool:
        """Note that no answer came, and whether the request was carried out is unknown. Return as `apply_answer`."""
        if not is_worth_a_retry(error):
            self._lost = None
            self._refuse(request, error)
            return False
        if self.version < EPOCH_RAISING and not isinstance(request, InitProducerId):
            self._lost = request
        return True

    def _succeed(self, request: TransactionRequest, identity: ProducerId) -> None:
        match request:
            case InitProducerId():
                self.identity = identity
                self._enter(TransactionState.READY)
            case AddPartitionsToTxn(partitions):
                self._new -= partitions
                self._added |= partitions
                self._is_started = True
            case AddOffsetsToTxn() | TxnOffsetCommit():
                if self._offsets and self._offsets[0] is request:
                    self._offsets.popleft()
                self._is_started = True
            case EndTxn() if self.version >= EPOCH_RAISING:
                assert identity != NO_PRODUCER_ID, "the end of a transaction of version 2 raises the epoch"
                self.identity = identity
                self._complete()
            case EndTxn(is_commit):
                self._complete(then=TransactionState.READY if is_commit else TransactionState.INITIALIZING)
        self._complete_if_unknown()

    def _refuse(self, request: TransactionRequest, error: KafkaError) -> None:
        is_abortable = not isinstance(request, InitProducerId | EndTxn) or (
            error.code is ErrorCode.TRANSACTION_ABORTABLE and request == EndTxn(is_commit=True)
        )
        is_fatal = not is_abortable or error.code in _FATAL or error.code in _FENCED
        self.fail(error, _remedy(request, error), is_fatal=is_fatal)
        self._complete_if_unknown()

    # The inside

    def _complete_if_unknown(self) -> None:
        """End a transaction of which the coordinator knows nothing."""
        if self._is_drained and not self._is_started and isinstance(self.next_request(), EndTxn):
            self._complete()

    def _complete(self, *, then: TransactionState = TransactionState.READY) -> None:
        self._drop_waiting()
        self._added.clear()
        self._is_started = self._is_drained = False
        self._enter(then)

    def _drop_waiting(self) -> None:
        self._new.clear()
        self._offsets.clear()

    def _fatal(self, error: KafkaError, what: str) -> TransactionFatal:
        is_ended = error.code is ErrorCode.INVALID_TXN_STATE  # by the coordinator, which only ever aborts by itself
        is_doubtful = self.state is TransactionState.COMMITTING and not is_ended
        doubt = "; whether its last transaction was committed is not known" if is_doubtful else ""
        if error.code in _FENCED or is_ended:
            text = (
                f"the producer {self.transactional_id!r} (id {self.identity.producer_id}, epoch {self.identity.epoch})"
                " is fenced: another one took over its transactional id, or its transaction took longer than"
                f" transaction_timeout_ms and was aborted: stop it{doubt}"
            )
            return ProducerFenced(error.code if is_ended else ErrorCode.PRODUCER_FENCED, text)
        text = f"the producer {self.transactional_id!r} can do nothing more: {what}: stop it{doubt}"
        return TransactionFatal(error.code, text)

    def _require(self, what: str, *states: TransactionState) -> None:
        """Raise the error that prevents it, or RuntimeError where the program calls out of turn."""
        if self.state in states:
            return
        self.check()
        raise RuntimeError(f"the producer {self.transactional_id!r} cannot {what}: it {self.state.value}")

    def _enter(self, state: TransactionState) -> None:
        assert self.state in _BEFORE[state], f"{state.name} does not follow {self.state.name}"
        self.state = state


_OPEN = frozenset(
    {
        TransactionState.IN_TRANSACTION,
        TransactionState.COMMITTING,
        TransactionState.ABORTING,
        TransactionState.ABORTABLE_ERROR,
    }
)


def _remedy(request: TransactionRequest, error: KafkaError) -> str:
    """Return what was refused, and what helps."""
    match request, error.code:
        case InitProducerId(), ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            return "transaction_timeout_ms is longer than the brokers' transaction.max.timeout.ms: lower it"
        case _, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return "this user may not use the transactional id: allow it Write and Describe on it"
        case _, ErrorCode.INVALID_PRODUCER_ID_MAPPING:
            return "the coordinator no longer has its producer id (transactional.id.expiration.ms)"
        case TxnOffsetCommit(group), (
            ErrorCode.ILLEGAL_GENERATION
            | ErrorCode.UNKNOWN_MEMBER_ID
            | ErrorCode.STALE_MEMBER_EPOCH
            | ErrorCode.FENCED_INSTANCE_ID
        ):
            return (
                f"group {group.group_id!r} refused the offsets of member {group.member_id or '(none)'} in generation"
                f" {group.generation}, because it has rebalanced: the partitions' owners read the records again"
            )
        case AddOffsetsToTxn() | TxnOffsetCommit(), ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return "this user may not commit offsets of the group: allow it Read on it"
    return f"{type(request).__name__}: {error.text}"
