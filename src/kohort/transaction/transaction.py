"""One transactional id: its producer, and the transaction that is open or ends (Kafka's `TransactionMetadata`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

NO_PRODUCER_ID = -1
NO_EPOCH = -1

LARGEST_EPOCH = (1 << 15) - 1
"""Epochs are int16; the largest is for fencing only, so that a producer is always fenced by a larger one."""

MOST_TIMEOUT_MS = (1 << 31) - 1
"""The timeout of a transaction that another system commits (KIP-939): it never times out."""

TopicPartition = tuple[str, int]


class State(IntEnum):
    """The state of a transactional id, by the number that records have."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def text(self) -> str:
        """Kafka's name of the state, such as `PrepareCommit`."""
        return "".join(part.capitalize() for part in self.name.split("_"))


ENDING = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
"""How a transaction ends is decided; not all of its partitions have its marker yet."""

NOT_OPEN = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
"""Nothing is open: the id may start a transaction, or expire."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional id as one record of `__transaction_state` stores it. Times are milliseconds since the epoch.

    `epoch` is the producer's epoch; in a state of `ENDING` it is that of the markers. `previous_producer_id` and
    `next_producer_id` are -1 but where an epoch has run out (KIP-360, KIP-890). `version` is the transaction version of
    the client that acted last: 2 where each end raises the epoch. `last_epoch` is the one before a raise that a client
    demanded, -1 if there was none; it is not recorded.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    timeout_ms: int
    state: State
    partitions: frozenset[TopicPartition]
    start_ms: int
    update_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    version: int = 0
    last_epoch: int = field(default=NO_EPOCH, compare=False)

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the epoch cannot be raised for a client any more: the producer needs another id."""
        return is_exhausted(self.epoch)

    @property
    def deadline_ms(self) -> int | None:
        """When an open transaction is aborted, or None."""
        if self.state is not State.ONGOING or self.timeout_ms == MOST_TIMEOUT_MS:
            return None
        return self.start_ms + self.timeout_ms


def is_exhausted(epoch: int) -> bool:
    """Whether an epoch is the last that a client may have."""
    return epoch >= LARGEST_EPOCH - 1
