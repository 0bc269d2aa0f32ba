"""One partition of `__transaction_state` on this node: its log, its transactional ids, and whether they are loaded."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from kohort.log.disk import StorageError
from kohort.log.transaction_records import read_event
from kohort.model.errors import KafkaError
from kohort.node.groups.offsets_partition import RESTORE, CoordinatedPartition
from kohort.transaction.transactions import Transactions, apply
from kohort.wire.primitives import MalformedMessage
from kohort.wire.record_batches import BatchHeader, CorruptBatch, sound_records

log = logging.getLogger("kohort.node")


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
