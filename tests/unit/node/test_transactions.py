"""Transactions end to end at one node: producers of both versions, readers, offsets, crashes, what operators see."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Any

import pytest
from tests.unit.node.desk import Desk, Peer, batch, fetch, only, produce

from kohort.log.disk import StorageError
from kohort.model.errors import ErrorCode
from kohort.wire.apis import VERSIONS, Api
from kohort.wire.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DeleteTopicsRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    ListTransactionsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from kohort.wire.record_batches import decode_batch, iter_batches

OLD, NEW = 0, 2
"""The versions of transactions."""


class Producer:
    """A transactional producer of one version."""

    def __init__(self, desk: Desk, version: int = NEW, transactional_id: str = "tx", timeout_ms: int = 60_000) -> None:
        self.peer = desk.connect()
        self.version = version
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.id = self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    def init(self) -> ErrorCode:
        message = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms)
        answer = self.peer.call(message, 5)
        self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return ErrorCode(answer.error_code)

    def add(self, topic: str = "t", *partitions: int, version: int = 3) -> ErrorCode:
        asked = AddPartitionsToTxnRequest.V3AndBelowTopic(name=topic, partitions=list(partitions or (0,)))
        message = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[asked],
        )
        (result,) = self.peer.call(message, version).results_by_topic_v3_and_below
        return ErrorCode(result.results_by_partition[0].partition_error_code)

    def write(self, *values: bytes, topic: str = "t", partition: int = 0, adds: bool = True) -> ErrorCode:
        if self.version == OLD and adds and (error := self.add(topic, partition)):
            return error
        key = topic, partition
        sequence = self.sequences.get(key, 0)
        records = batch(
            *values, producer_id=self.id, producer_epoch=self.epoch, base_sequence=sequence, transactional=True
        )
        message = produce(topic, records, partition=partition)
        message.transactional_id = self.transactional_id
        error = ErrorCode(only(self.peer.call(message, 12 if self.version == NEW else 11)).error_code)
        if not error:
            self.sequences[key] = sequence + len(values)
        return error

    def end(self, *, commit: bool = True, version: int | None = None) -> ErrorCode:
        message = EndTxnRequest(
            transactional_id=self.transactional_id, producer_id=self.id, producer_epoch=self.epoch, committed=commit
        )
        answer = self.peer.call(message, version if version is not None else 5 if self.version == NEW else 4)
        if not answer.error_code and answer.producer_epoch >= 0:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return ErrorCode(answer.error_code)

    def commit_offset(self, offset: int, version: int | None = None) -> ErrorCode:
        if self.version == OLD:
            message = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id, producer_id=self.id, producer_epoch=self.epoch, group_id="g"
            )
            if error := self.peer.call(message, 3).error_code:
                return ErrorCode(error)
        partition = TxnOffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=offset)
        commit = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id="g",
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequest.Topic(name="t", partitions=[partition])],
        )
        answer = self.peer.call(commit, version if version is not None else 5 if self.version == NEW else 4)
        return ErrorCode(answer.topics[0].partitions[0].error_code)


@pytest.fixture
def desk() -> Desk:
    return given()


def given(**settings: Any) -> Desk:
    desk = Desk(**settings)
    desk.create("t", 2)
    return desk


@pytest.fixture(params=[OLD, NEW])
def producer(request: pytest.FixtureRequest, desk: Desk) -> Producer:
    producer = Producer(desk, request.param)
    assert producer.init() is ErrorCode.NONE
    return producer


def committed(desk: Desk, partition: int = 0) -> list[bytes | None]:
    """Return what a reader of committed records makes of a partition, as clients do it."""
    answer = only(desk.connect().call(fetch("t", partition=partition, isolation_level=1, max_wait_ms=0), 11))
    assert answer.error_code == 0
    waiting = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
    aborted: set[int] = set()
    values: list[bytes | None] = []
    for header, one in _batches(answer.records):
        while waiting and waiting[0][0] <= header.base_offset:
            aborted.add(waiting.pop(0)[1])
        if header.is_control:
            aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            values += [record.value for record in decode_batch(one)]
    return values


def _batches(records: Any) -> Iterable[tuple[Any, memoryview]]:
    return iter_batches(b"".join(records) if isinstance(records, list) else records)


def offset_of(peer: Peer, *, stable: bool = False) -> tuple[ErrorCode, int]:
    group = OffsetFetchRequest.Group(
        group_id="g", topics=[OffsetFetchRequest.Group.Topic(name="t", partition_indexes=[0])]
    )
    answer = peer.call(OffsetFetchRequest(groups=[group], require_stable=stable), 8)
    found = answer.groups[0].topics[0].partitions[0]
    return ErrorCode(found.error_code), found.committed_offset


def latest(desk: Desk, isolation: int) -> int:
    partition = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=-1, current_leader_epoch=-1)
    message = ListOffsetsRequest(
        isolation_level=isolation, topics=[ListOffsetsRequest.Topic(name="t", partitions=[partition])]
    )
    return int(only(desk.connect().call(message, 5)).offset)


# -- commit and abort


def test_records_are_read_once_their_transaction_commits(desk: Desk, producer: Producer) -> None:
    assert producer.write(b"a") is ErrorCode.NONE
    assert producer.write(b"b", partition=1) is ErrorCode.NONE
    assert (committed(desk), committed(desk, 1)) == ([], [])
    assert (latest(desk, 0), latest(desk, 1)) == (1, 0)
    assert producer.end() is ErrorCode.NONE
    assert (committed(desk), committed(desk, 1)) == ([b"a"], [b"b"])
    assert latest(desk, 1) == 2


def test_records_of_an_aborted_transaction_are_never_read(desk: Desk, producer: Producer) -> None:
    for value, commit in ((b"a", False), (b"b", True), (b"c", False), (b"d", True)):
        assert producer.write(value) is ErrorCode.NONE
        assert producer.end(commit=commit) is ErrorCode.NONE
    assert committed(desk) == [b"b", b"d"]


def test_a_reader_that_waits_gets_records_with_the_commit(desk: Desk, producer: Producer) -> None:
    reader = desk.connect()
    reader.send(fetch("t", isolation_level=1, max_wait_ms=10_000), 11)
    producer.write(b"a")
    assert reader.answers() == []
    producer.end()
    (answer,) = reader.answers()
    assert only(answer).error_code == 0
    assert len(list(_batches(only(answer).records))) == 2


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_end_txn_commits(desk: Desk, version: int) -> None:
    producer = Producer(desk, NEW if version == 5 else OLD)
    producer.init()
    producer.write(b"a")
    assert producer.end(version=version) is ErrorCode.NONE
    assert committed(desk) == [b"a"]


def test_a_second_producer_of_the_id_fences_the_first_and_aborts_its_transaction(
    desk: Desk, producer: Producer
) -> None:
    producer.write(b"a")
    second = Producer(desk, producer.version)
    assert second.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    assert second.init() is ErrorCode.NONE
    assert producer.write(b"late", adds=False) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.end() is ErrorCode.PRODUCER_FENCED
    second.write(b"b")
    second.end()
    assert committed(desk) == [b"b"]


def test_old_clients_are_fenced_by_the_error_that_they_know(desk: Desk) -> None:
    producer = Producer(desk, OLD)
    producer.init()
    Producer(desk, OLD).init()
    assert producer.add(version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.add(version=2) is ErrorCode.PRODUCER_FENCED
    assert producer.end(version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.end(version=2) is ErrorCode.PRODUCER_FENCED


def test_a_transaction_that_times_out_is_aborted(desk: Desk) -> None:
    producer = Producer(desk, NEW, timeout_ms=5_000)
    producer.init()
    producer.write(b"a")
    desk.advance(5_000)
    assert latest(desk, 1) == latest(desk, 0) == 2
    assert committed(desk) == []
    assert producer.write(b"late") is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_write_outside_its_transaction_is_refused(desk: Desk) -> None:
    producer = Producer(desk, OLD)
    producer.init()
    assert producer.write(b"a", adds=False) is ErrorCode.TRANSACTION_ABORTABLE
    assert committed(desk) == []


def test_a_write_of_an_unknown_producer_is_refused(desk: Desk) -> None:
    producer = Producer(desk, NEW)
    producer.id, producer.epoch = 77, 0
    assert producer.write(b"a") is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_partitions_that_do_not_exist_prevent_the_others(desk: Desk) -> None:
    producer = Producer(desk, OLD)
    producer.init()
    assert producer.add("t", 0, 7) is ErrorCode.OPERATION_NOT_ATTEMPTED
    assert producer.add("nothing") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.add("__transaction_state") is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert producer.end() is ErrorCode.INVALID_TXN_STATE


def test_brokers_may_add_and_verify_the_partitions_of_several_transactions(desk: Desk) -> None:
    producer = Producer(desk, OLD)
    producer.init()
    producer.add("t", 0)
    several = AddPartitionsToTxnRequest.Transaction
    known = {"transactional_id": "tx", "producer_id": producer.id, "producer_epoch": producer.epoch}
    topics = [several.Topic(name="t", partitions=[0, 1])]
    message = AddPartitionsToTxnRequest(
        transactions=[
            several(verify_only=True, topics=topics, **known),
            several(verify_only=False, topics=topics, **known),
            several(transactional_id="other", producer_id=1, producer_epoch=0, verify_only=True, topics=topics),
        ]
    )
    answer = producer.peer.call(message, 4)
    found = [
        [each.partition_error_code for each in result.topic_results[0].results_by_partition]
        for result in answer.results_by_transaction
    ]
    unknown = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert found == [[ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE], [ErrorCode.NONE] * 2, [unknown] * 2]


def test_a_topic_that_is_deleted_meanwhile_does_not_delay_the_end(desk: Desk, producer: Producer) -> None:
    producer.write(b"a")
    desk.create("gone")
    producer.write(b"b", topic="gone")
    desk.connect().call(DeleteTopicsRequest(topic_names=["gone"], timeout_ms=1000), 3)
    assert producer.end() is ErrorCode.NONE
    assert committed(desk) == [b"a"]
    assert producer.write(b"c") is ErrorCode.NONE


# -- offsets


def test_offsets_count_together_with_the_records(desk: Desk, producer: Producer) -> None:
    peer = desk.connect()
    producer.write(b"a")
    assert producer.commit_offset(5) is ErrorCode.NONE
    assert offset_of(peer) == (ErrorCode.NONE, -1)
    assert offset_of(peer, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    producer.end()
    assert offset_of(peer, stable=True) == (ErrorCode.NONE, 5)
    producer.commit_offset(9)
    producer.end(commit=False)
    assert offset_of(peer, stable=True) == (ErrorCode.NONE, 5)


@pytest.mark.parametrize("version", range(VERSIONS[Api.TXN_OFFSET_COMMIT].highest))
def test_every_version_of_txn_offset_commit_by_name_commits(desk: Desk, version: int) -> None:
    producer = Producer(desk, NEW if version >= 5 else OLD)
    producer.init()
    assert producer.commit_offset(5, version) is ErrorCode.NONE
    producer.end()
    assert offset_of(desk.connect()) == (ErrorCode.NONE, 5)


def test_offsets_outside_a_transaction_are_refused(desk: Desk) -> None:
    producer = Producer(desk, NEW)
    producer.init()
    assert producer.commit_offset(5, 4) is ErrorCode.TRANSACTION_ABORTABLE
    assert producer.commit_offset(5, 3) is ErrorCode.INVALID_TXN_STATE


def test_a_plain_commit_in_the_same_turn_has_a_batch_of_its_own(desk: Desk) -> None:
    producer = Producer(desk, NEW)
    producer.init()
    plain = OffsetCommitRequest.Topic.Partition(partition_index=1, committed_offset=3)
    message = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequest.Topic(name="t", partitions=[plain])],
    )
    desk.connect().call(message, 8)
    producer.commit_offset(5)
    desk.connect().call(message, 8)
    producer.end(commit=False)
    assert desk.node.coordinator.offset("g", "t", 1, b"\0" * 16) is not None
    assert offset_of(desk.connect()) == (ErrorCode.NONE, -1)


# -- crashes


@pytest.mark.parametrize("clean", [True, False])
def test_an_open_transaction_continues_after_a_restart(desk: Desk, producer: Producer, clean: bool) -> None:
    producer.write(b"a")
    producer.commit_offset(5)
    restarted = desk.restart(clean=clean)
    assert committed(restarted) == []
    assert offset_of(restarted.connect(), stable=True)[0] is ErrorCode.UNSTABLE_OFFSET_COMMIT
    producer.peer = restarted.connect()
    assert producer.write(b"b") is ErrorCode.NONE
    assert producer.end() is ErrorCode.NONE
    assert committed(restarted) == [b"a", b"b"]
    assert offset_of(restarted.connect(), stable=True) == (ErrorCode.NONE, 5)


def test_an_open_transaction_times_out_after_a_restart_too(desk: Desk) -> None:
    producer = Producer(desk, NEW, timeout_ms=5_000)
    producer.init()
    producer.write(b"a")
    restarted = desk.restart(clean=False)
    restarted.advance(5_000)
    assert latest(restarted, 1) == 2
    assert committed(restarted) == []


def test_a_commit_that_was_stored_is_finished_after_a_crash(desk: Desk, producer: Producer) -> None:
    producer.write(b"a")
    producer.write(b"b", partition=1)
    producer.commit_offset(5)

    def fault(operation: str, path: str) -> None:
        if operation in ("append", "write") and (path.startswith("t-1") or "__consumer_offsets" in path):
            raise StorageError(errno.EIO, "broken", path)

    desk.disk.fault = fault
    assert producer.end() is ErrorCode.NONE, "it is decided with its record"
    assert (committed(desk), committed(desk, 1)) == ([b"a"], [])
    desk.disk.fault = None
    restarted = desk.restart(clean=False)
    assert (committed(restarted), committed(restarted, 1)) == ([b"a"], [b"b"])
    assert offset_of(restarted.connect(), stable=True) == (ErrorCode.NONE, 5)


def test_markers_that_cannot_be_written_are_tried_again(desk: Desk, producer: Producer) -> None:
    producer.write(b"a")

    def fault(operation: str, path: str) -> None:
        if operation in ("append", "write") and path.startswith("t-0"):
            raise StorageError(errno.EIO, "broken", path)

    desk.disk.fault = fault
    assert producer.end() is ErrorCode.NONE
    second = Producer(desk, producer.version)
    assert second.init() is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.disk.fault = None
    desk.advance(1_000)
    assert committed(desk) == [b"a"]
    assert second.init() is ErrorCode.NONE


def test_an_end_that_cannot_be_stored_is_no_end(desk: Desk, producer: Producer) -> None:
    producer.write(b"a")

    def fault(operation: str, path: str) -> None:
        if operation in ("append", "write") and "__transaction_state" in path:
            raise StorageError(errno.ENOSPC, "full", path)

    desk.disk.fault = fault
    assert producer.end() is ErrorCode.NOT_COORDINATOR
    desk.disk.fault = None
    assert committed(desk) == []
    assert producer.end() is ErrorCode.NONE
    assert committed(desk) == [b"a"]


def test_with_fsync_the_answer_and_the_markers_wait_for_the_record() -> None:
    desk = given(log_flush_interval_messages=1)
    producer = Producer(desk, NEW)
    producer.init()
    producer.write(b"a")
    desk.flushes_by_hand = True
    log = desk.node.topics.find_partition("t", 0).log
    end = log.log_end_offset
    producer.peer.send(
        EndTxnRequest(transactional_id="tx", producer_id=producer.id, producer_epoch=producer.epoch, committed=True), 5
    )
    assert producer.peer.answers() == []
    assert log.log_end_offset == end
    desk.node.flush(desk.clock.now_ms())
    assert [answer.error_code for answer in producer.peer.answers()] == [0]
    assert log.log_end_offset == end + 1
    desk.flushes_by_hand = False
    desk.advance(1)
    assert committed(desk) == [b"a"]


def test_a_batch_that_overtakes_one_that_has_to_be_sent_again_is_out_of_order(desk: Desk) -> None:
    """The batches behind it in a producer's pipeline arrive when the transaction before has ended."""
    producer = Producer(desk, NEW)
    producer.init()
    producer.write(b"a")
    producer.write(b"a", partition=1)

    def fault(operation: str, path: str) -> None:
        if operation in ("append", "write") and path.startswith("t-1"):
            raise StorageError(errno.EIO, "broken", path)

    desk.disk.fault = fault
    producer.end()
    assert producer.write(b"b") is ErrorCode.CONCURRENT_TRANSACTIONS, "the marker of partition 1 is not written"
    desk.disk.fault = None
    desk.advance(10_000)
    producer.sequences["t", 0] = 1
    assert producer.write(b"c") is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producer.sequences["t", 0] = 0
    assert (producer.write(b"b"), producer.write(b"c")) == (ErrorCode.NONE, ErrorCode.NONE)
    producer.end()
    assert committed(desk) == [b"a", b"b", b"c"]


def test_a_partition_that_cannot_be_read_when_a_write_arrives_is_not_written_outside_of_the_transaction() -> None:
    """It would be in no transaction, and nothing would ever end it there: seed 408433 with two producers."""
    desk = given()
    desk.connect().call(produce("t", batch(b"before")), 9)
    desk = desk.restart(clean=False)
    producer = Producer(desk, NEW)
    producer.init()
    failures = iter([StorageError(errno.EIO, "input/output error", "t-0")])

    def fail_once(operation: str, path: str) -> None:
        if (
            operation == "read"
            and path.startswith("t-0")
            and path.endswith(".log")
            and (failure := next(failures, None)) is not None
        ):
            raise failure

    desk.disk.fault = fail_once
    assert producer.write(b"a") is ErrorCode.CONCURRENT_TRANSACTIONS, "which it sends again"
    assert next(failures, None) is None
    assert producer.write(b"a") is ErrorCode.NONE
    assert producer.end(commit=False) is ErrorCode.NONE
    assert desk.node.topics.find_partition("t", 0).log.last_stable_offset == 3


def test_a_transaction_of_many_partitions_ends_in_steps() -> None:
    desk = Desk()
    desk.create("t", 300)
    producer = Producer(desk, OLD)
    producer.init()
    producer.add("t", *range(300))
    producer.write(b"a", partition=299, adds=False)
    assert producer.end() is ErrorCode.NONE
    assert committed(desk, 299) == [b"a"]
    assert producer.add("t", 0) is ErrorCode.NONE


# -- operators


def test_operators_see_transactions_and_their_producers(desk: Desk, producer: Producer) -> None:
    producer.write(b"a", b"b")
    peer = desk.connect()
    (described,) = peer.call(DescribeTransactionsRequest(transactional_ids=["tx"]), 0).transaction_states
    assert (described.error_code, described.transaction_state, described.producer_id) == (0, "Ongoing", producer.id)
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("t", [0])]
    asked = DescribeProducersRequest.Topic(name="t", partition_indexes=[0, 9])
    known, missing = peer.call(DescribeProducersRequest(topics=[asked]), 0).topics[0].partitions
    (active,) = known.active_producers
    assert (active.producer_id, active.last_sequence, active.current_txn_start_offset) == (producer.id, 1, 0)
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer = peer.call(DescribeTransactionsRequest(transactional_ids=["other", ""]), 0)
    errors = [each.error_code for each in answer.transaction_states]
    assert errors == [ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, ["a", "b"]),
        ({"state_filters": ["Ongoing"]}, ["a"]),
        ({"state_filters": ["Nonsense"]}, []),
        ({"producer_id_filters": [1]}, ["b"]),
        ({"duration_filter": 999}, ["a"]),
        ({"duration_filter": 1000}, []),
        ({"transactional_id_pattern": "[b-z]"}, ["b"]),
    ],
)
def test_transactions_are_listed_by_state_producer_duration_and_pattern(
    desk: Desk, filters: dict[str, Any], found: list[str]
) -> None:
    for name in ("a", "b"):
        Producer(desk, NEW, name).init()
    producer = Producer(desk, NEW, "a")
    producer.init()
    producer.write(b"x")
    desk.advance(1_000)
    answer = desk.connect().call(ListTransactionsRequest(**filters), 2)
    assert sorted(each.transactional_id for each in answer.transaction_states) == found
    assert answer.unknown_state_filters == [each for each in filters.get("state_filters", ()) if each == "Nonsense"]


def test_a_pattern_that_is_none_is_refused(desk: Desk) -> None:
    answer = desk.connect().call(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def abort(desk: Desk, producer: Producer, *, epoch: int, partition: int = 0, coordinator_epoch: int = 0) -> ErrorCode:
    marker = WriteTxnMarkersRequest.Marker(
        producer_id=producer.id,
        producer_epoch=epoch,
        transaction_result=False,
        coordinator_epoch=coordinator_epoch,
        topics=[WriteTxnMarkersRequest.Marker.Topic(name="t", partition_indexes=[partition])],
    )
    (answer,) = desk.connect().call(WriteTxnMarkersRequest(markers=[marker]), 1).markers
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def test_an_operator_aborts_a_transaction_in_one_partition(desk: Desk, producer: Producer) -> None:
    producer.write(b"a")
    assert abort(desk, producer, epoch=producer.epoch) is ErrorCode.NONE
    assert latest(desk, 1) == 2
    assert abort(desk, producer, epoch=producer.epoch) is ErrorCode.NONE, "a repeated marker ends nothing more"
    assert committed(desk) == []
    assert abort(desk, producer, epoch=producer.epoch - 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert abort(desk, producer, epoch=0, partition=9) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_coordinator_of_before_is_fenced(desk: Desk, producer: Producer) -> None:
    producer.write(b"a")
    assert abort(desk, producer, epoch=producer.epoch, coordinator_epoch=5) is ErrorCode.NONE
    assert abort(desk, producer, epoch=producer.epoch, coordinator_epoch=4) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_ids_that_are_not_used_expire() -> None:
    hour = 3_600_000
    desk = given(
        transactional_id_expiration_ms=hour, transaction_remove_expired_transaction_cleanup_interval_ms=hour // 2
    )
    Producer(desk, NEW, "old").init()
    for _ in range(3):
        desk.advance(hour // 2)
    assert desk.connect().call(ListTransactionsRequest(), 0).transaction_states == []


def test_a_partition_whose_records_cannot_be_read_is_not_served(desk: Desk) -> None:
    producer = Producer(desk, NEW)
    producer.init()
    topic = desk.node.topics.get("__transaction_state")
    assert topic is not None
    partition = topic.partitions[desk.node.context.transactions.partition_of("tx")]
    partition.append([batch(b"no key")], desk.clock.now_ms())
    restarted = desk.restart()
    assert Producer(restarted).init() is ErrorCode.NOT_COORDINATOR
    other = next(
        name
        for name in map(str, range(99))
        if restarted.node.context.transactions.partition_of(name) != partition.index
    )
    assert Producer(restarted, transactional_id=other).init() is ErrorCode.NONE
