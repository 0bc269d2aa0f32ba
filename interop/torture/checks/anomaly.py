"""What a check finds: a broken promise by its name, the object that it concerns, and the values that show it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Name(StrEnum):
    """The promises that can be broken."""

    LOST_RECORD = "an acknowledged record is not in the log"
    DOUBLED_RECORD = "a record of an idempotent producer is in the log more than once"
    MOVED_RECORD = "the log holds another record at an acknowledged offset"
    REORDERED_RECORDS = "a record stands before one that was acknowledged earlier"
    RECORD_FROM_NOWHERE = "the log holds a record that no producer sent"
    VANISHED_RECORD = "a record that was read is not in the log, or another one"
    ABORTED_RECORD_READ = "a read_committed consumer read a record of an aborted transaction"
    SKIPPED_RECORDS = "a consumer skipped records of a partition that it kept"
    REREAD_RECORDS = "a consumer read a partition that it kept a second time"
    UNREAD_RECORD = "a record below the committed offset was read by no member of the group"
    LOWERED_COMMIT = "a committed offset went back"
    COMMIT_FROM_NOWHERE = "a committed offset is one that no member sent"
    TORN_TRANSACTION = "a transaction is visible in part"
    LOST_TRANSACTION = "a committed transaction is not visible"
    ABORTED_TRANSACTION_VISIBLE = "an aborted transaction is visible"
    LOST_COPY = "an offset was committed in a transaction whose copy of the record is not visible"
    DOUBLED_COPY = "a record was copied more than once, or its offset was not committed with it"
    UNHANDLED_RECORD = "a record below the committed offset was not handled, and is no dead letter"
    REORDERED_HANDLERS = "a record was handled before an earlier one of its key had finished"
    HANDLED_AGAIN = "a record was handled again although a commit had it finished"
    LATE_COMMIT = "a record was handled again because its end was not committed in the time that the guide names"
    WRONG_DEAD_LETTER = "a dead letter is of a record that was not read, or that had not failed often enough"
    NO_CONVERGENCE = "a group had not read everything some time after the last fault"
    BROKER_ENDED = "the broker ended by itself"
    TRACEBACK = "the broker logged an exception that it did not expect"
    CLIENT_ENDED = "a client of ours ended by itself"
    DAMAGED_LOG = "`kohort log verify` found damage"


class Anomaly(NamedTuple):
    """One broken promise."""

    name: Name
    where: str
    detail: str

    def __str__(self) -> str:
        return f"{self.where}: {self.name}: {self.detail}"
