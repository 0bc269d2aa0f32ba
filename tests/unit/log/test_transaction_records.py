"""Records of `__transaction_state`: bytes as Kafka has them, and whatever else lies there."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.log.transaction_records import encode_event, read_event, record_of
from kohort.model.errors import KafkaError
from kohort.transaction.effects import TransactionForgotten, TransactionStored, Why
from kohort.transaction.transaction import State, Transaction
from kohort.wire.primitives import MalformedMessage
from kohort.wire.record_batches import decode_batch

OPEN = Transaction(
    "tx",
    7,
    3,
    60_000,
    State.ONGOING,
    frozenset({("b", 0), ("a", 2), ("a", 1)}),
    5,
    6,
    previous_producer_id=7,
    version=2,
)


def stored(transaction: Transaction) -> TransactionStored:
    return TransactionStored(transaction, Why.LOADED)


def test_a_record_is_as_kafka_writes_it() -> None:
    key, value = record_of(stored(OPEN))
    assert key == b"\0\0\0\x02tx"
    assert value is not None
    assert value.hex() == (
        "0001" "0000000000000007" "0003" "0000ea60" "01"
        "03" "0261" "03" "00000001" "00000002" "00" "0262" "02" "00000000" "00"
        "0000000000000006" "0000000000000005"
        "02" "00" "08" "0000000000000007" "02" "02" "0002"
    )  # fmt: skip


@pytest.mark.parametrize("state", sorted(set(State) - {State.DEAD, State.PREPARE_EPOCH_FENCE}))
def test_what_is_written_is_read(state: State) -> None:
    transaction = replace(OPEN, state=state, next_producer_id=9)
    if state is State.EMPTY:
        transaction = replace(transaction, partitions=frozenset())
    (record,) = decode_batch(encode_event(stored(transaction), 1))
    assert read_event(record.key, record.value) == stored(transaction)


def test_a_tombstone_forgets_the_id() -> None:
    event = TransactionForgotten("tx", Why.LOADED)
    assert read_event(*record_of(event)) == event


def test_version_0_is_read_and_other_record_types_are_skipped() -> None:
    value = bytes.fromhex("0000000000000000000700030000ea6000ffffffff" + "0" * 14 + "06" + "f" * 16)
    found = read_event(b"\0\0\0\x02tx", value)
    assert isinstance(found, TransactionStored)
    assert (found.transaction.state, found.transaction.version, found.transaction.update_ms) == (State.EMPTY, 0, 6)
    assert read_event(b"\0\x01rest", b"") is None


@pytest.mark.parametrize("state", [State.DEAD, State.PREPARE_EPOCH_FENCE, 8, -1])
def test_a_state_that_is_never_written_is_refused(state: int) -> None:
    _, value = record_of(stored(OPEN))
    assert value is not None
    with pytest.raises(MalformedMessage, match="unknown state"):
        read_event(b"\0\0\0\x02tx", value[:16] + (state & 255).to_bytes(1, "big") + value[17:])


@given(st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=80))
def test_any_bytes_are_a_record_or_refused(key: bytes | None, value: bytes | None) -> None:
    for start in (b"", b"\0\0\0\x02tx"):
        with contextlib.suppress(MalformedMessage):
            read_event(None if key is None else start + key, value)


def test_an_id_that_fits_no_record_is_refused() -> None:
    with pytest.raises(KafkaError):
        encode_event(stored(replace(OPEN, transactional_id="\ud800")), 1)
