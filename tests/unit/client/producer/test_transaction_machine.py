"""Transactions of a producer as calls in and requests out, with the transitions of Kafka's `TransactionManager`."""

from __future__ import annotations

from typing import Any

import pytest

from kohort.client.cluster.committed_offsets import GroupMetadata, OffsetAndMetadata
from kohort.client.errors import ProducerFenced, TransactionAbortable, TransactionFatal
from kohort.client.producer.accumulator import NO_PRODUCER_ID, ProducerId
from kohort.client.producer.transaction_machine import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    EndTxn,
    InitProducerId,
    TransactionMachine,
    TransactionRequest,
    TransactionState,
    TxnOffsetCommit,
)
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MEMBER = GroupMetadata("g", 3, "m")
AT_7 = {T0: OffsetAndMetadata(7)}
LOST = KafkaError(ErrorCode.NETWORK_EXCEPTION)
COMMIT, ABORT = EndTxn(is_commit=True), EndTxn(is_commit=False)


def answer(
    machine: TransactionMachine,
    request: TransactionRequest,
    code: ErrorCode = ErrorCode.NONE,
    identity: ProducerId = NO_PRODUCER_ID,
) -> bool:
    """Answer the next request, which is `request`; return whether it is sent again."""
    sent = machine.next_request()
    assert sent == request
    assert sent is not None
    return machine.apply_answer(sent, KafkaError(code) if code else None, identity)


def ready() -> TransactionMachine:
    machine = TransactionMachine("tx")
    machine.initialize()
    answer(machine, InitProducerId(NO_PRODUCER_ID), identity=ProducerId(5, 0))
    return machine


def opened(version: int) -> TransactionMachine:
    machine = ready()
    machine.begin(version)
    return machine


def added(version: int) -> TransactionMachine:
    """Return a machine whose open transaction has one partition."""
    machine = opened(version)
    machine.add(T0)
    if version == 1:
        answer(machine, AddPartitionsToTxn(frozenset({T0})))
    return machine


def end(machine: TransactionMachine, request: EndTxn) -> None:
    machine.end(is_commit=request.is_commit)
    machine.mark_drained()


def test_version_1_adds_partitions_before_they_are_written_to_and_keeps_the_epoch() -> None:
    machine = opened(1)
    assert machine.add(T0)
    assert machine.add(T1)
    assert not machine.add(T0)
    assert not machine.may_write(T0)
    answer(machine, AddPartitionsToTxn(frozenset({T0, T1})))
    assert machine.may_write(T0)
    assert machine.may_write(T1)
    end(machine, COMMIT)
    answer(machine, COMMIT)
    assert (machine.state, machine.identity) == (TransactionState.READY, ProducerId(5, 0))
    assert not machine.may_write(T0), "the next transaction adds its partitions anew"


def test_version_2_adds_partitions_by_writing_and_every_end_raises_the_epoch() -> None:
    for request in (COMMIT, ABORT):
        machine = opened(2)
        machine.add(T0)
        assert machine.may_write(T0)
        assert machine.next_request() is None
        end(machine, request)
        answer(machine, request, identity=ProducerId(5, 1))
        assert (machine.state, machine.identity) == (TransactionState.READY, ProducerId(5, 1))


def test_version_1_raises_the_epoch_after_an_abort() -> None:
    machine = added(1)
    end(machine, ABORT)
    answer(machine, ABORT)
    assert machine.state is TransactionState.INITIALIZING
    answer(machine, InitProducerId(ProducerId(5, 0)), identity=ProducerId(5, 1))
    assert (machine.state, machine.identity) == (TransactionState.READY, ProducerId(5, 1))


def test_the_end_is_sent_once_no_record_is_on_its_way() -> None:
    machine = added(2)
    machine.end(is_commit=True)
    assert machine.next_request() is None
    machine.mark_drained()
    assert machine.next_request() == COMMIT


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("request_", [COMMIT, ABORT])
def test_a_transaction_without_records_ends_without_the_coordinator(version: int, request_: EndTxn) -> None:
    machine = opened(version)
    end(machine, request_)
    assert machine.next_request() is None
    assert machine.state is TransactionState.READY
    assert machine.begin(version) == 2


def test_offsets_follow_their_group_in_version_1_and_go_alone_in_version_2() -> None:
    machine = opened(1)
    offsets = machine.send_offsets(MEMBER, AT_7)
    answer(machine, AddOffsetsToTxn("g"))
    assert machine.is_pending(offsets)
    answer(machine, offsets)
    assert not machine.is_pending(offsets)
    end(machine, COMMIT)
    assert machine.next_request() == COMMIT

    machine = opened(2)
    answer(machine, machine.send_offsets(MEMBER, AT_7))
    end(machine, COMMIT)
    assert machine.next_request() == COMMIT


def test_a_refusal_that_may_pass_is_sent_again_with_what_came_meanwhile() -> None:
    machine = opened(1)
    machine.add(T0)
    assert answer(machine, AddPartitionsToTxn(frozenset({T0})), ErrorCode.CONCURRENT_TRANSACTIONS)
    machine.add(T1)
    assert not answer(machine, AddPartitionsToTxn(frozenset({T0, T1})))


def test_a_lost_request_of_version_1_is_answered_before_the_abort() -> None:
    machine = opened(1)
    machine.add(T0)
    request = machine.next_request()
    assert request is not None
    assert machine.note_lost_answer(request, LOST)
    end(machine, ABORT)
    assert machine.next_request() is request, "its late arrival would add the partition to the next transaction"
    machine.apply_answer(request, None, NO_PRODUCER_ID)
    assert machine.next_request() == ABORT


def test_a_refused_request_is_not_in_doubt_and_the_abort_needs_no_coordinator() -> None:
    machine = opened(1)
    machine.add(T0)
    answer(machine, AddPartitionsToTxn(frozenset({T0})), ErrorCode.CONCURRENT_TRANSACTIONS)
    end(machine, ABORT)
    assert machine.state is TransactionState.READY


def test_a_lost_request_of_version_2_does_not_hold_up_the_abort_whose_epoch_fences_it() -> None:
    machine = opened(2)
    request = machine.send_offsets(MEMBER, AT_7)
    assert machine.note_lost_answer(request, LOST)
    end(machine, ABORT)
    assert machine.next_request() == ABORT


def test_a_batch_that_was_not_written_leaves_only_the_abort() -> None:
    machine = added(2)
    machine.fail_batch(KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "too large"))
    assert machine.state is TransactionState.ABORTABLE_ERROR
    assert not machine.takes_records
    for refused in (lambda: machine.add(T1), lambda: machine.end(is_commit=True), lambda: machine.begin(2)):
        with pytest.raises(TransactionAbortable, match="can only be aborted: records were not written: too large"):
            refused()
    end(machine, ABORT)
    answer(machine, ABORT, identity=ProducerId(5, 1))
    machine.check()
    assert machine.begin(2) == 2


def test_a_batch_that_fails_while_the_commit_waits_for_it_stops_the_commit() -> None:
    machine = added(2)
    machine.end(is_commit=True)
    machine.fail_batch(KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    machine.mark_drained()
    assert machine.next_request() is None
    assert machine.state is TransactionState.ABORTABLE_ERROR


def test_what_fails_during_an_abort_changes_nothing() -> None:
    machine = added(2)
    machine.end(is_commit=False)
    machine.fail_batch(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    machine.mark_drained()
    assert machine.next_request() == ABORT


FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


@pytest.mark.parametrize("code", FENCED)
@pytest.mark.parametrize("end_", [COMMIT, ABORT])
def test_a_fenced_producer_does_nothing_more(code: ErrorCode, end_: EndTxn) -> None:
    machine = added(2)
    end(machine, end_)
    answer(machine, end_, code)
    assert machine.state is TransactionState.FATAL_ERROR
    assert machine.next_request() is None
    with pytest.raises(ProducerFenced, match=r"id 5, epoch 0.* is fenced") as fenced:
        machine.begin(2)
    assert ("not known" in fenced.value.text) == (end_ is COMMIT)


def test_a_write_with_a_superseded_epoch_may_be_aborted_and_a_fenced_one_not() -> None:
    machine = added(2)
    machine.fail_batch(KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH))
    assert machine.state is TransactionState.ABORTABLE_ERROR
    machine.fail_batch(KafkaError(ErrorCode.PRODUCER_FENCED))
    assert machine.state is TransactionState.FATAL_ERROR


OFFSETS = "offsets"
VERDICTS: list[tuple[Any, ErrorCode, type[Exception], str]] = [
    (
        AddPartitionsToTxn(frozenset({T0})),
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        TransactionAbortable,
        "AddPartitionsToTxn",
    ),
    (AddPartitionsToTxn(frozenset({T0})), ErrorCode.TRANSACTION_ABORTABLE, TransactionAbortable, "AddPartitionsToTxn"),
    (AddPartitionsToTxn(frozenset({T0})), ErrorCode.PRODUCER_FENCED, ProducerFenced, "is fenced"),
    (AddPartitionsToTxn(frozenset({T0})), ErrorCode.INVALID_PRODUCER_ID_MAPPING, TransactionFatal, "expiration"),
    (
        AddPartitionsToTxn(frozenset({T0})),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        TransactionFatal,
        "allow it Write",
    ),
    (OFFSETS, ErrorCode.ILLEGAL_GENERATION, TransactionAbortable, "member m in generation 3"),
    (OFFSETS, ErrorCode.UNKNOWN_MEMBER_ID, TransactionAbortable, "has rebalanced"),
    (OFFSETS, ErrorCode.FENCED_INSTANCE_ID, TransactionAbortable, "has rebalanced"),
    (OFFSETS, ErrorCode.GROUP_AUTHORIZATION_FAILED, TransactionAbortable, "allow it Read"),
    (OFFSETS, ErrorCode.INVALID_PRODUCER_EPOCH, ProducerFenced, "is fenced"),
    (OFFSETS, ErrorCode.UNSUPPORTED_VERSION, TransactionFatal, "can do nothing more"),
    (COMMIT, ErrorCode.TRANSACTION_ABORTABLE, TransactionAbortable, "can only be aborted"),
    (COMMIT, ErrorCode.INVALID_TXN_STATE, ProducerFenced, "was aborted: stop it$"),
    (COMMIT, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, TransactionFatal, "whether its last .* is not known"),
    (ABORT, ErrorCode.TRANSACTION_ABORTABLE, TransactionFatal, "EndTxn"),
]


@pytest.mark.parametrize(("request_", "code", "kind", "text"), VERDICTS)
def test_each_refusal_says_what_is_left_to_do(request_: Any, code: ErrorCode, kind: type[Exception], text: str) -> None:
    machine = opened(1) if isinstance(request_, AddPartitionsToTxn) else added(2)
    if request_ is OFFSETS:
        request_ = machine.send_offsets(MEMBER, AT_7)
    elif isinstance(request_, EndTxn):
        end(machine, request_)
    else:
        machine.add(T0)
    assert not answer(machine, request_, code)
    with pytest.raises(kind, match=text):
        machine.check()
    if isinstance(request_, TxnOffsetCommit):
        assert not machine.is_pending(request_)


@pytest.mark.parametrize("code", [ErrorCode.INVALID_TRANSACTION_TIMEOUT, ErrorCode.TRANSACTION_ABORTABLE])
def test_a_producer_without_an_id_can_do_nothing(code: ErrorCode) -> None:
    machine = TransactionMachine("tx")
    machine.initialize()
    answer(machine, InitProducerId(NO_PRODUCER_ID), code)
    with pytest.raises(TransactionFatal):
        machine.begin(2)


def test_calls_out_of_turn_are_refused_and_change_nothing() -> None:
    machine = TransactionMachine("tx")
    with pytest.raises(RuntimeError, match="'tx' cannot begin a transaction: it has no producer id yet"):
        machine.begin(2)
    machine = ready()
    for call in (
        lambda: machine.add(T0),
        lambda: machine.end(is_commit=True),
        lambda: machine.send_offsets(MEMBER, {}),
    ):
        with pytest.raises(RuntimeError, match="it has no transaction"):
            call()
    machine.begin(2)
    with pytest.raises(RuntimeError, match="cannot begin a transaction: it has an open transaction"):
        machine.begin(2)
    machine.end(is_commit=True)
    machine.end(is_commit=True)
    with pytest.raises(RuntimeError, match="cannot abort: it has a transaction whose commit is not answered yet"):
        machine.end(is_commit=False)
