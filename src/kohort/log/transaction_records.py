"""Records of `__transaction_state`: a transactional id to bytes and back, as Kafka writes and reads them.

The value has version 1, and version 0 is read too; a value of None is a tombstone. It knows no log and no clock.
"""

from __future__ import annotations

from collections import defaultdict
from struct import Struct

from kohort.log.group_records import read_text, read_version, text
from kohort.model.errors import ErrorCode, KafkaError
from kohort.transaction.effects import Event, TransactionForgotten, TransactionStored, Why
from kohort.transaction.transaction import State, Transaction
from kohort.wire.codec import decode, encode
from kohort.wire.messages import TransactionLogValue
from kohort.wire.primitives import MalformedMessage, UnencodableMessage
from kohort.wire.record_batches import Record, encode_batch

TRANSACTION = 0
"""The type of a record, and of its key."""

_VERSION = 1
_SHORT = Struct(">h")
_STATES = frozenset(State) - {State.DEAD, State.PREPARE_EPOCH_FENCE}
"""The states that a record may have; the others are never written."""


def encode_event(event: Event, now_ms: int) -> bytes:
    """Return a batch with the record of an event. Raises KafkaError when it fits no record."""
    try:
        key, value = record_of(event)
    except (UnencodableMessage, UnicodeEncodeError) as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"a transactional id fits no record: {error}") from error
    return encode_batch([Record(0, now_ms, key, value)])


def record_of(event: Event) -> tuple[bytes, bytes | None]:
    """Return the key and the value of an event's record; a value of None is a tombstone."""
    key = _SHORT.pack(TRANSACTION) + text(event.transactional_id)
    return key, None if isinstance(event, TransactionForgotten) else _value(event.transaction)


def _value(transaction: Transaction) -> bytes:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in sorted(transaction.partitions):
        by_topic[topic].append(partition)
    several = TransactionLogValue.TransactionPartition
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None
        if transaction.state is State.EMPTY
        else [several(topic=topic, partition_ids=partitions) for topic, partitions in by_topic.items()],
        transaction_last_update_timestamp_ms=transaction.update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.version,
    )
    return _SHORT.pack(_VERSION) + encode(value, _VERSION)


def read_event(key: bytes | None, value: bytes | None) -> Event | None:
    """Return the event of a record; None for a record of another type. Raises MalformedMessage."""
    if key is None or len(key) < _SHORT.size:
        raise MalformedMessage("its key has no record type")
    if _SHORT.unpack_from(key)[0] != TRANSACTION:
        return None
    transactional_id, _ = read_text(key, _SHORT.size)
    if value is None:
        return TransactionForgotten(transactional_id, Why.LOADED)
    found, _ = decode(TransactionLogValue, read_version(value, _VERSION), value, _SHORT.size)
    if found.transaction_status not in _STATES:
        raise MalformedMessage(f"transactional id {transactional_id} has the unknown state {found.transaction_status}")
    partitions = frozenset(
        (each.topic, partition) for each in found.transaction_partitions or () for partition in each.partition_ids
    )
    transaction = Transaction(
        transactional_id,
        found.producer_id,
        found.producer_epoch,
        found.transaction_timeout_ms,
        State(found.transaction_status),
        partitions,
        found.transaction_start_timestamp_ms,
        found.transaction_last_update_timestamp_ms,
        found.previous_producer_id,
        found.next_producer_id,
        found.client_transaction_version,
    )
    return TransactionStored(transaction, Why.LOADED)
