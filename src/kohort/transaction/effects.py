"""What a command leads to: effects that the runtime carries out in their order.

An `Append` becomes a record of `__transaction_state` and then changes the state; if it cannot be stored, nothing of the
decision happens. A `Reply` leaves, and `WriteMarkers` begins, once the record before it is as durable as the topic
promises: no marker is older than the record that demands it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kohort.model.errors import ErrorCode
from kohort.transaction.transaction import NO_EPOCH, NO_PRODUCER_ID, TopicPartition, Transaction


class Why(StrEnum):
    """Why a transactional id has changed."""

    INITIALIZED = "initialized"
    FENCED = "fenced"
    TIMED_OUT = "timed_out"
    PARTITIONS_ADDED = "partitions_added"
    COMMIT_REQUESTED = "commit_requested"
    ABORT_REQUESTED = "abort_requested"
    MARKERS_WRITTEN = "markers_written"
    EXPIRED = "expired"
    LOADED = "loaded"


@dataclass(frozen=True, slots=True)
class TransactionStored:
    """A transactional id has the state of `transaction` now."""

    transaction: Transaction
    why: Why

    @property
    def transactional_id(self) -> str:
        """The id."""
        return self.transaction.transactional_id


@dataclass(frozen=True, slots=True)
class TransactionForgotten:
    """A transactional id is not known any more."""

    transactional_id: str
    why: Why


Event = TransactionStored | TransactionForgotten


@dataclass(frozen=True, slots=True)
class TransactionResult:
    """The answer to a command: an error, or the producer's id and epoch from now on, -1 where it gets none."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class Append:
    """Make the event a record, and let it happen."""

    event: Event


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the request being decided."""

    result: TransactionResult


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """Write a marker to every partition, then decide `MarkersWritten`. A partition that is gone needs none."""

    transactional_id: str
    producer_id: int
    epoch: int
    is_commit: bool
    partitions: frozenset[TopicPartition]
    version: int


@dataclass(frozen=True, slots=True)
class Arm:
    """Have `TimedOut` decided for the id at `deadline_ms`, and no more at an earlier time."""

    transactional_id: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class Disarm:
    """Have no `TimedOut` decided for the id."""

    transactional_id: str


Effect = Append | Reply | WriteMarkers | Arm | Disarm
Decision = tuple[Effect, ...]
