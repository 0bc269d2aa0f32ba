"""Transactions as they were when they were wrong: each a context in which a broker or a client has the bug."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from tests.quality.replacing import replaced

from kohort.log.disk import StorageError
from kohort.log.partition_log import PartitionLog
from kohort.model.errors import ErrorCode
from kohort.node.topics.topic import Partition
from kohort.node.transaction_coordinator import MarkerWriter, TransactionCoordinator
from kohort.transaction import decisions
from kohort.transaction.commands import AddPartitions, EndTransaction
from kohort.transaction.decisions import Transactions
from kohort.transaction.effects import (
    Append,
    Decision,
    Effect,
    Reply,
    TransactionResult,
    TransactionStored,
    Why,
    WriteMarkers,
)
from kohort.transaction.transaction import Transaction
from kohort.wire import visible_batches as fetched_batches
from kohort.wire.visible_batches import VisibleBatches

Mutation = AbstractContextManager[None]


def kafka_14402() -> Mutation:
    """A write of version 1 is taken without a look at whether its partition is in an open transaction."""

    def verify(_coordinator: TransactionCoordinator, _command: AddPartitions) -> ErrorCode:
        return ErrorCode.NONE

    return replaced(TransactionCoordinator, "verify", verify)


def kafka_17754() -> Mutation:
    """A commit does not raise the epoch: its request, where it comes late, commits the next transaction."""
    right = decisions._end_transaction

    def end_transaction(transactions: Transactions, command: EndTransaction, now_ms: int) -> Iterator[Effect]:
        before = replace(command, version=1) if command.is_commit else command
        for effect in right(transactions, before, now_ms):
            if command.is_commit and isinstance(effect, Reply) and not effect.result.error:
                yield Reply(TransactionResult(ErrorCode.NONE, command.producer_id, command.epoch))
            else:
                yield effect

    return replaced(decisions, "_end_transaction", end_transaction)


def kafka_19367() -> Mutation:
    """The coordinator raises the epoch to fence a producer, and the abort that follows raises it once more."""
    right = decisions._end_by_coordinator

    def end_by_coordinator(known: Transaction, new_producer_id: int, why: Why, now_ms: int) -> Decision:
        return tuple(_raised(effect, known.epoch + 2) for effect in right(known, new_producer_id, why, now_ms))

    return replaced(decisions, "_end_by_coordinator", end_by_coordinator)


def _raised(effect: Any, epoch: int) -> Any:
    match effect:
        case Append(TransactionStored(transaction, why)):
            return Append(TransactionStored(replace(transaction, epoch=epoch), why))
        case WriteMarkers():
            return replace(effect, epoch=epoch)
        case _:
            return effect


def kafka_19999() -> Mutation:
    """A marker of version 2 needs a larger epoch than its partition knows, also where it comes once more."""
    right = MarkerWriter.end

    def end(writer: MarkerWriter, partition: Partition, markers: WriteMarkers, coordinator_epoch: int) -> None:
        known = {each.producer_id: each.epoch for each in partition.log.producers}
        if markers.version >= decisions.EPOCH_RAISING and known.get(markers.producer_id, -1) >= markers.epoch:
            raise StorageError(0, "the marker's epoch is not larger than the producer's", partition.directory)
        right(writer, partition, markers, coordinator_epoch)

    return replaced(MarkerWriter, "end", end)


def kop_1283() -> Mutation:
    """A reader of committed records is served up to the high watermark."""
    return replaced(PartitionLog, "last_stable_offset", PartitionLog.high_watermark)


def brod_659() -> Mutation:
    """A producer's first marker in an answer ends its aborted transaction, whatever it says."""
    right = fetched_batches.visible_batches

    def visible_batches(
        records: memoryview, fetch_offset: int, aborted: Sequence[tuple[int, int]] | None, **how: Any
    ) -> VisibleBatches:
        ended = {
            header.producer_id: header.base_offset
            for header, _ in reversed(list(fetched_batches.iter_batches(records)))
            if header.is_control
        }
        left = [each for each in aborted or () if each[1] < ended.get(each[0], each[1] + 1)]
        return right(records, fetch_offset, left, **how)

    return replaced(fetched_batches, "visible_batches", visible_batches)
