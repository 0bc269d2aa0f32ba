"""The transaction coordinator as two functions: what a command leads to (`decide`), and one event folded (`apply`).

The rules are those of Kafka's `TransactionCoordinator`. Two versions of clients meet here (KIP-890). With version 2
each end of a transaction raises the producer's epoch, so that a request that comes late is fenced, and an abort without
a transaction is allowed; below it only InitProducerId raises it. What the coordinator ends itself, for a fence or a
time-out, it ends by version 2.

Kafka answers CONCURRENT_TRANSACTIONS while a record is on its way to the log. Here a record is in the log before its
decision takes effect, so no state is pending; a later request meets the state after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from kohort.model.errors import ErrorCode
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
from kohort.transaction.effects import (
    Append,
    Arm,
    Decision,
    Disarm,
    Effect,
    Event,
    Reply,
    TransactionForgotten,
    TransactionResult,
    TransactionStored,
    Why,
    WriteMarkers,
)
from kohort.transaction.transaction import (
    ENDING,
    LARGEST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    NOT_OPEN,
    State,
    Transaction,
    is_exhausted,
)


@dataclass(slots=True)
class Transactions:
    """The transactional ids of one partition. `max_timeout_ms` is Kafka's `transaction.max.timeout.ms`."""

    max_timeout_ms: int = 900_000
    by_id: dict[str, Transaction] = field(default_factory=dict)


def apply(transactions: Transactions, event: Event) -> None:
    """Change the state by what happened."""
    if isinstance(event, TransactionStored):
        transactions.by_id[event.transactional_id] = event.transaction
    else:
        transactions.by_id.pop(event.transactional_id, None)


EPOCH_RAISING = 2
"""The transaction version from which each end raises the epoch (KIP-890)."""

MOST_EXPIRED = 500
"""How many ids one `ExpireIds` forgets at most: the caller asks again as long as it forgets some."""

_ENDED = frozenset({State.COMPLETE_COMMIT, State.COMPLETE_ABORT})

Effects = Iterable[Effect]


def decide(transactions: Transactions, command: Command, now_ms: int) -> Decision:
    """Return what `command` leads to at `now_ms`, milliseconds since the epoch. Changes nothing."""
    return tuple(_DECISIONS[type(command)](transactions, command, now_ms))


def _refuse(error: ErrorCode) -> Reply:
    return Reply(TransactionResult(error))


# -- InitProducerId


def _init_producer(transactions: Transactions, command: InitProducer, now_ms: int) -> Effects:
    if not command.transactional_id:
        return (_refuse(ErrorCode.INVALID_REQUEST),)
    if not 0 < command.timeout_ms <= transactions.max_timeout_ms:
        return (_refuse(ErrorCode.INVALID_TRANSACTION_TIMEOUT),)
    known = transactions.by_id.get(command.transactional_id)
    if known is None:
        return _initialize(_unknown(command, now_ms), command, now_ms)
    if known.state in ENDING:
        return (_refuse(ErrorCode.CONCURRENT_TRANSACTIONS),)
    if not _is_expected(known, command.expected):
        return (_refuse(ErrorCode.PRODUCER_FENCED),)
    if known.state is State.ONGOING:
        # The sender comes again, when the transaction has ended, and gets an epoch that is larger once more.
        fence = _end_by_coordinator(known, command.new_producer_id, Why.FENCED, now_ms)
        return (*fence, _refuse(ErrorCode.CONCURRENT_TRANSACTIONS))
    return _initialize(known, command, now_ms)


def _unknown(command: InitProducer, now_ms: int) -> Transaction:
    return Transaction(
        command.transactional_id,
        command.new_producer_id,
        NO_EPOCH,
        command.timeout_ms,
        State.EMPTY,
        frozenset(),
        -1,
        now_ms,
    )


def _is_expected(known: Transaction, expected: tuple[int, int] | None) -> bool:
    """Whether the sender is the id's producer, as far as its id shows; the epoch is judged where it is raised.

    Its former id counts where the epoch had run out: then the answer with the new id may have been lost (KIP-360).
    """
    if expected is None or known.epoch == NO_EPOCH:
        return True
    producer_id, epoch = expected
    return producer_id == known.producer_id or (producer_id == known.previous_producer_id and is_exhausted(epoch))


def _initialize(known: Transaction, command: InitProducer, now_ms: int) -> Effects:
    """Give the sender an epoch, or an id, that fences each producer before it."""
    expected_epoch = None if command.expected is None else command.expected[1]
    initial = replace(
        known,
        state=State.EMPTY,
        partitions=frozenset(),
        timeout_ms=command.timeout_ms,
        start_ms=-1,
        update_ms=now_ms,
        previous_producer_id=known.producer_id,
    )
    if known.is_epoch_exhausted and expected_epoch in (None, known.epoch):
        last_epoch = NO_EPOCH if expected_epoch is None else known.epoch
        initial = replace(initial, producer_id=command.new_producer_id, epoch=0, last_epoch=last_epoch)
    elif expected_epoch is None:
        initial = replace(initial, epoch=known.epoch + 1, last_epoch=NO_EPOCH)
    elif known.epoch in (NO_EPOCH, expected_epoch):
        initial = replace(initial, epoch=known.epoch + 1, last_epoch=known.epoch)
    elif expected_epoch != known.last_epoch:  # if it is, this is a repetition, and gets the same answer
        return (_refuse(ErrorCode.PRODUCER_FENCED),)
    result = TransactionResult(ErrorCode.NONE, initial.producer_id, initial.epoch)
    return (Append(TransactionStored(initial, Why.INITIALIZED)), Reply(result))


# -- partitions


def _add_partitions(transactions: Transactions, command: AddPartitions, now_ms: int) -> Effects:
    if not command.transactional_id:
        return (_refuse(ErrorCode.INVALID_REQUEST),)
    known = transactions.by_id.get(command.transactional_id)
    if known is not None and known.state in ENDING:
        return (_refuse(ErrorCode.CONCURRENT_TRANSACTIONS),)
    if known is None or known.producer_id != command.producer_id:
        return (_refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING),)
    if known.epoch != command.epoch:
        return (_refuse(ErrorCode.PRODUCER_FENCED),)
    reply = Reply(TransactionResult(ErrorCode.NONE, known.producer_id, known.epoch))
    if known.state is State.ONGOING and command.partitions <= known.partitions:
        return (reply,)
    ongoing = replace(
        known,
        state=State.ONGOING,
        partitions=known.partitions | command.partitions,
        start_ms=known.start_ms if known.state is State.ONGOING else now_ms,
        update_ms=now_ms,
        previous_producer_id=known.producer_id,
        version=command.version,
    )
    return (Append(TransactionStored(ongoing, Why.PARTITIONS_ADDED)), *_watch(ongoing), reply)


def verify(transactions: Transactions, command: AddPartitions) -> ErrorCode:
    """Return NONE if the partitions are in the sender's open transaction, or why a write to them is refused.

    TRANSACTION_ABORTABLE where one of them is not in it (KIP-890).
    """
    if not command.transactional_id:
        return ErrorCode.INVALID_REQUEST
    known = transactions.by_id.get(command.transactional_id)
    if known is None or known.producer_id != command.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if known.epoch != command.epoch:
        return ErrorCode.PRODUCER_FENCED
    if known.state in ENDING:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return ErrorCode.NONE if command.partitions <= known.partitions else ErrorCode.TRANSACTION_ABORTABLE


def _watch(transaction: Transaction) -> Effects:
    deadline_ms = transaction.deadline_ms
    return () if deadline_ms is None else (Arm(transaction.transactional_id, deadline_ms),)


# -- the end


def _end_transaction(transactions: Transactions, command: EndTransaction, now_ms: int) -> Effects:
    if not command.transactional_id:
        return (_refuse(ErrorCode.INVALID_REQUEST),)
    known = transactions.by_id.get(command.transactional_id)
    if known is None:
        return (_refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING),)
    if command.version >= EPOCH_RAISING:
        if known.state in ENDING:
            return (_refuse(ErrorCode.CONCURRENT_TRANSACTIONS),)
        return _end_raising(known, command, now_ms)
    if known.producer_id != command.producer_id:
        return (_refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING),)
    if known.epoch != command.epoch:
        return (_refuse(ErrorCode.PRODUCER_FENCED),)
    if known.state in ENDING:
        return (_refuse(ErrorCode.CONCURRENT_TRANSACTIONS),)
    if known.state is State.ONGOING:
        return _end(known, command, now_ms)
    is_repeated = known.state is _complete(command)
    return (Reply(TransactionResult(ErrorCode.NONE if is_repeated else ErrorCode.INVALID_TXN_STATE)),)


def _end_raising(known: Transaction, command: EndTransaction, now_ms: int) -> Effects:
    """End a transaction of a client of version 2, for which the state is not enough to know a repetition."""
    is_last = command.epoch == LARGEST_EPOCH - 1
    is_overflow = known.previous_producer_id == command.producer_id and is_last and known.epoch == 0
    is_repeated = is_overflow or known.epoch == command.epoch + 1
    if known.producer_id != command.producer_id and not is_overflow:
        return (_refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING),)
    is_late = is_repeated and known.state in _ENDED
    if known.epoch != command.epoch and not is_late:
        return (_refuse(ErrorCode.PRODUCER_FENCED),)
    if known.state is State.ONGOING:
        return _end(known, command, now_ms)
    if is_late:
        if known.state is not _complete(command):
            return (_refuse(ErrorCode.INVALID_TXN_STATE),)
        return (Reply(TransactionResult(ErrorCode.NONE, known.producer_id, known.epoch)),)
    if command.is_commit:
        return (_refuse(ErrorCode.INVALID_TXN_STATE),)
    return _end(known, command, now_ms)  # an abort without a transaction raises the epoch too


def _end(known: Transaction, command: EndTransaction, now_ms: int) -> Effects:
    why = Why.COMMIT_REQUESTED if command.is_commit else Why.ABORT_REQUESTED
    ending = _prepared(known, _prepare(command), command.version, command.new_producer_id, now_ms)
    if command.version >= EPOCH_RAISING:
        ended = _completed(ending, now_ms)
        result = TransactionResult(ErrorCode.NONE, ended.producer_id, ended.epoch)
    else:
        result = TransactionResult(ErrorCode.NONE)
    return (
        Append(TransactionStored(ending, why)),
        Disarm(known.transactional_id),
        Reply(result),
        _markers(ending),
    )


def _end_by_coordinator(known: Transaction, new_producer_id: int, why: Why, now_ms: int) -> Effects:
    ending = _prepared(known, State.PREPARE_ABORT, EPOCH_RAISING, new_producer_id, now_ms)
    return (Append(TransactionStored(ending, why)), Disarm(known.transactional_id), _markers(ending))


def _prepared(known: Transaction, state: State, version: int, new_producer_id: int, now_ms: int) -> Transaction:
    """Return an id whose transaction is about to end; the epoch is that of its markers."""
    raised = replace(
        known,
        state=state,
        start_ms=known.start_ms if known.state is State.ONGOING else now_ms,
        update_ms=now_ms,
        version=version,
        previous_producer_id=known.producer_id,
    )
    if version < EPOCH_RAISING:
        return raised
    return replace(
        raised,
        epoch=min(known.epoch + 1, LARGEST_EPOCH),
        last_epoch=known.epoch,
        next_producer_id=new_producer_id if known.is_epoch_exhausted else NO_PRODUCER_ID,
    )


def _markers(ending: Transaction) -> WriteMarkers:
    return WriteMarkers(
        ending.transactional_id,
        ending.producer_id,
        ending.epoch,
        ending.state is State.PREPARE_COMMIT,
        ending.partitions,
        ending.version,
    )


def _markers_written(transactions: Transactions, command: MarkersWritten, now_ms: int) -> Effects:
    known = transactions.by_id.get(command.transactional_id)
    if known is None or known.state not in ENDING:
        return ()
    if (known.producer_id, known.epoch) != (command.producer_id, command.epoch):
        return ()
    return (Append(TransactionStored(_completed(known, now_ms), Why.MARKERS_WRITTEN)),)


def _completed(ending: Transaction, now_ms: int) -> Transaction:
    """Return an id whose transaction has ended; its producer has another id where the epoch ran out."""
    is_commit = ending.state is State.PREPARE_COMMIT
    ended = replace(
        ending,
        state=State.COMPLETE_COMMIT if is_commit else State.COMPLETE_ABORT,
        partitions=frozenset(),
        update_ms=now_ms,
        previous_producer_id=ending.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )
    if ending.version >= EPOCH_RAISING and ending.next_producer_id != NO_PRODUCER_ID:
        ended = replace(ended, producer_id=ending.next_producer_id, epoch=0)
    return ended


def _prepare(command: EndTransaction) -> State:
    return State.PREPARE_COMMIT if command.is_commit else State.PREPARE_ABORT


def _complete(command: EndTransaction) -> State:
    return State.COMPLETE_COMMIT if command.is_commit else State.COMPLETE_ABORT


# -- time


def _timed_out(transactions: Transactions, command: TimedOut, now_ms: int) -> Effects:
    known = transactions.by_id.get(command.transactional_id)
    deadline_ms = None if known is None else known.deadline_ms
    if known is None or deadline_ms is None:
        return ()
    if now_ms < deadline_ms:
        return (Arm(known.transactional_id, deadline_ms),)
    return _end_by_coordinator(known, command.new_producer_id, Why.TIMED_OUT, now_ms)


def _loaded(transactions: Transactions, command: Loaded, now_ms: int) -> Effects:
    del now_ms
    known = transactions.by_id.get(command.transactional_id)
    if known is None:
        return ()
    return (_markers(known),) if known.state in ENDING else _watch(known)


def _expire_ids(transactions: Transactions, command: ExpireIds, now_ms: int) -> Effects:
    expired = (
        transactional_id
        for transactional_id, known in transactions.by_id.items()
        if known.state in NOT_OPEN and now_ms - known.update_ms >= command.expiration_ms
    )
    return [Append(TransactionForgotten(each, Why.EXPIRED)) for each in islice(expired, MOST_EXPIRED)]


_DECISIONS: dict[type, Callable[[Transactions, Any, int], Effects]] = {
    InitProducer: _init_producer,
    AddPartitions: _add_partitions,
    EndTransaction: _end_transaction,
    MarkersWritten: _markers_written,
    TimedOut: _timed_out,
    Loaded: _loaded,
    ExpireIds: _expire_ids,
}
