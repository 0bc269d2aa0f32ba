"""One partition of `__transaction_state` as state: its transactional ids. `apply` folds one event."""

from __future__ import annotations

from dataclasses import dataclass, field

from kohort.transaction.effects import Event, TransactionStored
from kohort.transaction.transaction import Transaction


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
