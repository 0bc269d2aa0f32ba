"""One partition of `__transaction_state` on this node: its log, its transactional ids, and whether they are loaded."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from kohort.log.disk import StorageError
from kohort.log.transaction_records import read_event
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.groups.offsets_partition import Status
from kohort.node.topics.topic import Partition
from kohort.transaction.transactions import Transactions, apply
from kohort.wire.primitives import MalformedMessage
from kohort.wire.record_batches import BatchHeader, CorruptBatch, iter_batches, sound_records

log = logging.getLogger("kohort.node")

LOAD_BYTES = 5 << 20
"""How much of the log is read at a time (Kafka's transaction.state.log.load.buffer.size)."""


@dataclass(slots=True, eq=False)
class TransactionPartition:
    """The state and the log of one partition. `problem` is why it cannot be served."""

    partition: Partition
    max_timeout_ms: int
    transactions: Transactions = field(init=False)
    status: Status = Status.LOADING
    problem: str = ""
    is_failed_for_now: bool = False
    """Whether it failed because its disk does."""

    def __post_init__(self) -> None:
        self.transactions = Transactions(self.max_timeout_ms)

    @property
    def error(self) -> ErrorCode:
        """The error for senders while the partition is not active."""
        if self.status is Status.LOADING:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return ErrorCode.NOT_COORDINATOR if self.status is Status.FAILED else ErrorCode.NONE

    def load(self) -> None:
        """Fold the log from its start. What cannot be read fails the partition, not the node."""
        try:
            self._fold()
        except StorageError as error:
            self.fail(str(error), is_for_now=error.is_passing)
        except (CorruptBatch, MalformedMessage, KafkaError) as error:
            self.fail(f"{error}; put the segment back from a copy while the broker is stopped")
        else:
            self.status, self.problem, self.is_failed_for_now = Status.ACTIVE, "", False

    def fail(self, problem: str, *, is_for_now: bool = False) -> None:
        """Serve nothing from this partition, for now or until the broker starts again."""
        self.status, self.is_failed_for_now = Status.FAILED, is_for_now
        self.transactions = Transactions(self.max_timeout_ms)
        if problem != self.problem:
            self.problem = problem
            log.error("%s cannot be served: %s", self.partition.directory, problem)

    def _fold(self) -> None:
        source = self.partition.log
        source.require_sound()
        offset, skipped = source.log_start_offset, 0
        while offset < source.log_end_offset:
            start = offset
            for view in source.read(offset, LOAD_BYTES, up_to=source.log_end_offset):
                for header, batch in iter_batches(view):
                    if not header.is_control:
                        skipped += self._fold_batch(header, batch)
                    offset = header.last_offset + 1
            if offset == start:
                break  # a cleaner left nothing of the last records
        if skipped:
            log.info("%s: skipped %d records of other types", self.partition.directory, skipped)

    def _fold_batch(self, header: BatchHeader, batch: memoryview) -> int:
        """Fold the records of a batch; return how many were of other types."""
        skipped = 0
        for record in sound_records(header, batch):
            try:
                event = read_event(record.key, record.value)
            except MalformedMessage as error:
                raise MalformedMessage(f"record at offset {record.offset}: {error}") from error
            if event is None:
                skipped += 1
            else:
                apply(self.transactions, event)
        return skipped
