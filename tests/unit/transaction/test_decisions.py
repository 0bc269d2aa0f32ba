"""The transaction coordinator's decisions, as a protocol engineer states them: KIP-98, KIP-360, KIP-890."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kohort.model.errors import ErrorCode
from kohort.transaction.commands import (
    AddPartitions,
    Command,
    EndTransaction,
    ExpireIds,
    InitProducer,
    Loaded,
    MarkersWritten,
    TimedOut,
)
from kohort.transaction.decisions import Transactions, apply, decide, verify
from kohort.transaction.effects import (
    Append,
    Arm,
    Effect,
    Reply,
    TransactionResult,
    TransactionStored,
    Why,
    WriteMarkers,
)
from kohort.transaction.transaction import LARGEST_EPOCH, State, Transaction

ID = "orders"
FENCED = ErrorCode.PRODUCER_FENCED
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
INVALID = ErrorCode.INVALID_TXN_STATE
P0, P1 = ("t", 0), ("t", 1)


class Coordinator:
    """Decides and applies at a clock that the test moves; producer ids are 1000, 1001 and so on."""

    def __init__(self) -> None:
        self.transactions = Transactions()
        self.now_ms = 1_000
        self.next_id = 1_000
        self.effects: tuple[Effect, ...] = ()

    def run(self, command: Command) -> TransactionResult | None:
        self.effects = decide(self.transactions, command, self.now_ms)
        for effect in self.effects:
            if isinstance(effect, Append):
                apply(self.transactions, effect.event)
        return next((effect.result for effect in self.effects if isinstance(effect, Reply)), None)

    def init(self, expected: tuple[int, int] | None = None, timeout_ms: int = 60_000) -> TransactionResult:
        self.next_id += 1
        result = self.run(InitProducer(ID, timeout_ms, expected, self.next_id - 1))
        assert result is not None
        return result

    def add(self, producer: TransactionResult, *partitions: tuple[str, int], version: int = 2) -> ErrorCode:
        result = self.run(AddPartitions(ID, producer.producer_id, producer.epoch, frozenset(partitions), version))
        assert result is not None
        return result.error

    def end(self, producer: TransactionResult, *, commit: bool = True, version: int = 2) -> TransactionResult:
        self.next_id += 1
        command = EndTransaction(ID, producer.producer_id, producer.epoch, commit, version, self.next_id - 1)
        result = self.run(command)
        assert result is not None
        return result

    @property
    def markers(self) -> WriteMarkers:
        (markers,) = (effect for effect in self.effects if isinstance(effect, WriteMarkers))
        return markers

    def write_markers(self) -> None:
        """The markers that the last command demanded are written."""
        self.run(MarkersWritten(ID, self.markers.producer_id, self.markers.epoch))

    def commit(self, producer: TransactionResult, **options: int) -> TransactionResult:
        result = self.end(producer, **options)
        self.write_markers()
        return result

    @property
    def transaction(self) -> Transaction:
        return self.transactions.by_id[ID]

    def set_epoch(self, epoch: int) -> TransactionResult:
        changed = replace(self.transaction, epoch=epoch)
        apply(self.transactions, TransactionStored(changed, Why.LOADED))
        return TransactionResult(ErrorCode.NONE, changed.producer_id, epoch)


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def test_a_new_transactional_id_gets_a_producer_id_and_epoch_0(coordinator: Coordinator) -> None:
    assert coordinator.init() == TransactionResult(ErrorCode.NONE, 1_000, 0)
    assert coordinator.transaction.state is State.EMPTY


def test_each_init_raises_the_epoch_and_fences_the_producer_before(coordinator: Coordinator) -> None:
    first = coordinator.init()
    assert coordinator.init() == TransactionResult(ErrorCode.NONE, 1_000, 1)
    assert coordinator.add(first, P0) is FENCED
    assert coordinator.end(first).error is FENCED


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_beyond_the_broker_s_is_refused(coordinator: Coordinator, timeout_ms: int) -> None:
    assert coordinator.init(timeout_ms=timeout_ms).error is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_a_transactional_id_is_not_empty(coordinator: Coordinator) -> None:
    for command in (
        InitProducer("", 1, None, 0),
        AddPartitions("", 0, 0, frozenset({P0}), 2),
        EndTransaction("", 0, 0, True, 2, 0),
    ):
        result = coordinator.run(command)
        assert result is not None
        assert result.error is ErrorCode.INVALID_REQUEST


def test_an_init_in_an_open_transaction_aborts_it_and_its_sender_comes_again(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    coordinator.add(producer, P0)
    assert coordinator.init().error is BUSY
    assert (coordinator.markers.epoch, coordinator.markers.is_commit) == (1, False)
    assert coordinator.init().error is BUSY  # as long as a marker is missing
    coordinator.run(MarkersWritten(ID, 1_000, 1))
    assert coordinator.init() == TransactionResult(ErrorCode.NONE, 1_000, 2)


def test_a_producer_that_recovers_keeps_its_id_by_a_larger_epoch(coordinator: Coordinator) -> None:
    coordinator.init()
    assert coordinator.init(expected=(1_000, 0)) == TransactionResult(ErrorCode.NONE, 1_000, 1)
    assert coordinator.init(expected=(1_000, 0)) == TransactionResult(ErrorCode.NONE, 1_000, 1), "a repetition"
    coordinator.init()
    assert coordinator.init(expected=(1_000, 0)).error is FENCED
    assert coordinator.init(expected=(77, 2)).error is FENCED


def test_an_epoch_that_has_run_out_gives_way_to_another_producer_id(coordinator: Coordinator) -> None:
    coordinator.init()
    coordinator.set_epoch(LARGEST_EPOCH - 1)
    renewed = coordinator.init()
    assert (renewed.producer_id, renewed.epoch) == (1_001, 0)
    assert coordinator.transaction.previous_producer_id == 1_000


def test_a_repeated_recovery_with_the_exhausted_epoch_gets_the_new_id_again(coordinator: Coordinator) -> None:
    coordinator.init()
    coordinator.set_epoch(LARGEST_EPOCH - 1)
    renewed = coordinator.init(expected=(1_000, LARGEST_EPOCH - 1))
    assert renewed == TransactionResult(ErrorCode.NONE, 1_001, 0)
    assert coordinator.init(expected=(1_000, LARGEST_EPOCH - 1)) == renewed


@pytest.mark.parametrize("version", [0, 2])
def test_partitions_begin_a_transaction_and_markers_end_it(coordinator: Coordinator, version: int) -> None:
    producer = coordinator.init()
    assert coordinator.add(producer, P0, version=version) is ErrorCode.NONE
    assert coordinator.add(producer, P1, version=version) is ErrorCode.NONE
    coordinator.end(producer, version=version)
    assert coordinator.transaction.state is State.PREPARE_COMMIT
    assert coordinator.markers.partitions == {P0, P1}
    assert coordinator.add(producer, P0, version=version) in (BUSY, FENCED)
    coordinator.effects = (WriteMarkers(ID, 1_000, coordinator.transaction.epoch, True, frozenset({P0}), version),)
    coordinator.write_markers()
    assert coordinator.transaction.state is State.COMPLETE_COMMIT
    assert not coordinator.transaction.partitions


def test_partitions_that_are_in_the_transaction_already_cost_no_record(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    coordinator.add(producer, P0, P1)
    assert coordinator.add(producer, P0) is ErrorCode.NONE
    assert not any(isinstance(effect, Append) for effect in coordinator.effects)


def test_version_2_raises_the_epoch_with_each_end(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    coordinator.add(producer, P0)
    after = coordinator.end(producer)
    assert after == TransactionResult(ErrorCode.NONE, 1_000, 1)
    assert coordinator.markers.epoch == 1
    coordinator.write_markers()
    assert coordinator.add(producer, P0) is FENCED, "what comes late from the transaction before"
    assert coordinator.add(after, P0) is ErrorCode.NONE


def test_below_version_2_an_end_keeps_the_epoch(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    coordinator.add(producer, P0, version=0)
    coordinator.commit(producer, version=0)
    assert coordinator.transaction.epoch == 0
    assert coordinator.end(producer, version=0).error is ErrorCode.NONE, "a repetition"
    assert coordinator.end(producer, commit=False, version=0).error is INVALID


def test_a_repeated_end_gets_the_same_answer_and_ends_nothing_else(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    coordinator.add(producer, P0)
    after = coordinator.end(producer)
    assert coordinator.end(producer).error is BUSY
    assert coordinator.end(producer, commit=False).error is BUSY
    coordinator.run(MarkersWritten(ID, 1_000, 1))
    assert coordinator.end(producer) == after
    assert coordinator.end(producer, commit=False).error is INVALID
    coordinator.add(after, P0)
    assert coordinator.end(producer).error is FENCED


def test_version_2_may_abort_without_a_transaction_but_not_commit(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    assert coordinator.end(producer).error is INVALID
    after = coordinator.end(producer, commit=False)
    assert (after.error, after.epoch) == (ErrorCode.NONE, 1)
    coordinator.write_markers()
    again = coordinator.end(after, commit=False)
    assert (again.error, again.epoch) == (ErrorCode.NONE, 2)
    coordinator.write_markers()
    assert coordinator.end(again).error is INVALID


def test_below_version_2_an_end_without_a_transaction_is_refused(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    assert coordinator.end(producer, commit=False, version=0).error is INVALID


def test_version_2_gives_the_next_producer_id_with_the_end_that_uses_the_epoch_up(coordinator: Coordinator) -> None:
    coordinator.init()
    producer = coordinator.set_epoch(LARGEST_EPOCH - 1)
    coordinator.add(producer, P0)
    after = coordinator.end(producer)
    assert (after.producer_id, after.epoch) == (1_001, 0)
    assert (coordinator.markers.producer_id, coordinator.markers.epoch) == (1_000, LARGEST_EPOCH)
    coordinator.write_markers()
    assert coordinator.end(producer) == after, "the answer was lost and the end comes again"
    assert coordinator.add(after, P0) is ErrorCode.NONE


def test_an_unknown_transactional_id_or_another_producer_id_is_refused(coordinator: Coordinator) -> None:
    stranger = TransactionResult(ErrorCode.NONE, 5, 0)
    for _ in range(2):
        assert coordinator.add(stranger, P0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert coordinator.end(stranger).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert coordinator.end(stranger, version=0).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        coordinator.init()


def test_a_transaction_that_lasts_too_long_is_aborted_and_its_producer_fenced(coordinator: Coordinator) -> None:
    producer = coordinator.init(timeout_ms=5_000)
    coordinator.add(producer, P0)
    assert Arm(ID, 6_000) in coordinator.effects
    coordinator.now_ms = 5_999
    coordinator.run(TimedOut(ID, 7_000))
    assert coordinator.effects == (Arm(ID, 6_000),)
    coordinator.now_ms = 6_000
    coordinator.run(TimedOut(ID, 7_000))
    assert (coordinator.markers.is_commit, coordinator.markers.epoch) == (False, 1)
    coordinator.write_markers()
    assert coordinator.transaction.state is State.COMPLETE_ABORT
    assert coordinator.end(producer, version=0).error is FENCED
    coordinator.run(TimedOut(ID, 7_000))
    assert coordinator.effects == ()


def test_markers_of_another_epoch_end_nothing(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    coordinator.add(producer, P0)
    coordinator.end(producer)
    coordinator.run(MarkersWritten(ID, 1_000, 0))
    assert coordinator.transaction.state is State.PREPARE_COMMIT


def test_a_coordinator_that_loads_goes_on_where_the_record_says(coordinator: Coordinator) -> None:
    producer = coordinator.init(timeout_ms=5_000)
    coordinator.run(Loaded(ID))
    assert coordinator.effects == ()
    coordinator.add(producer, P0)
    coordinator.run(Loaded(ID))
    assert coordinator.effects == (Arm(ID, 6_000),)
    coordinator.end(producer)
    markers = coordinator.markers
    coordinator.run(Loaded(ID))
    assert coordinator.markers == markers


def test_ids_at_rest_expire_and_open_transactions_do_not(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    coordinator.add(producer, P0)
    coordinator.now_ms += 100_000
    coordinator.run(ExpireIds(100_000))
    assert ID in coordinator.transactions.by_id
    coordinator.commit(producer)
    coordinator.now_ms += 99_999
    coordinator.run(ExpireIds(100_000))
    assert ID in coordinator.transactions.by_id
    coordinator.now_ms += 1
    coordinator.run(ExpireIds(100_000))
    assert ID not in coordinator.transactions.by_id


def test_a_write_outside_the_transaction_is_abortable(coordinator: Coordinator) -> None:
    def check(producer: TransactionResult, partition: tuple[str, int]) -> ErrorCode:
        asked = AddPartitions(ID, producer.producer_id, producer.epoch, frozenset({partition}), 0)
        return verify(coordinator.transactions, asked)

    producer = coordinator.init()
    coordinator.add(producer, P0, version=0)
    assert check(producer, P0) is ErrorCode.NONE
    assert check(producer, P1) is ErrorCode.TRANSACTION_ABORTABLE
    assert check(replace(producer, epoch=3), P0) is FENCED
    assert check(replace(producer, producer_id=3), P0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    coordinator.end(producer, version=0)
    assert check(producer, P0) is BUSY
