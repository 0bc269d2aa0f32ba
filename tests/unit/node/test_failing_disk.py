"""A disk that fails for a while costs the requests of that while, and no restart: nothing acknowledged is lost."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from tests.unit.node.desk import Desk, Peer, batch, fetch, only, produce
from tests.unit.node.group_desk import GroupMember, committed, group_desk
from tests.unit.node.test_transactions import NEW, Producer, given
from tests.unit.node.test_transactions import committed as committed_records

from kohort.log.disk import StorageError
from kohort.log.memory_disk import CHANGES, failing
from kohort.model.errors import ErrorCode, KafkaError
from kohort.model.ids import group_partition

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
FSYNC: dict[str, Any] = {"log_flush_interval_messages": 1}


def code(peer: Peer, value: bytes = b"a", topic: str = "orders") -> ErrorCode:
    return ErrorCode(only(peer.call(produce(topic, batch(value)), 9)).error_code)


def end_offset(desk: Desk, topic: str = "orders") -> int:
    return int(desk.node.topics.find_partition(topic, 0).log.high_watermark)


# -- appends and reads


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        (
            failing(*CHANGES, code=errno.EROFS),
            "the disk is read-only: /memory/orders-0/00000000000000000000.log cannot be written; producers and commits"
            " get an error until it is mounted read-write, no restart is needed, 1 appends refused so far",
        ),
        (
            failing("append"),
            "the disk fails: /memory/orders-0/00000000000000000000.log cannot be written: append: EIO; producers and"
            " commits get an error until it works again, no restart is needed: look for the device in the system's log,"
            " 1 appends refused so far",
        ),
    ],
)
def test_a_disk_that_refuses_writes_is_reported_once_and_served_again_when_it_works(
    fault: Any, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    assert code(peer) is ErrorCode.NONE
    desk.disk.fault = fault
    for _ in range(20):
        assert code(peer) is STORAGE_ERROR
    assert caplog.messages == [line]
    assert only(peer.call(fetch("orders"), 11)).high_watermark == 1, "readers go on"
    desk.disk.fault = None
    desk.advance(10_000)
    assert code(peer) is ErrorCode.NONE
    assert caplog.messages[1:] == ["the disk works again: appends succeed after 10.0 s, 20 were refused"]


def test_a_file_that_cannot_be_read_costs_its_readers_an_error_and_one_line(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    assert code(peer) is ErrorCode.NONE
    desk.disk.fault = failing("read")
    for _ in range(20):
        assert only(peer.call(fetch("orders"), 11)).error_code == STORAGE_ERROR
    [line] = caplog.messages
    assert line.startswith("the disk fails: /memory/orders-0/00000000000000000000.log cannot be read: read: EIO; ")
    desk.disk.fault = None
    assert only(peer.call(fetch("orders"), 11)).error_code == ErrorCode.NONE


@pytest.mark.parametrize("operation", ["open", "create", "list", "rename", "make_directory", "append", "read"])
def test_a_log_that_could_not_be_opened_or_begun_takes_appends_as_soon_as_that_succeeds(operation: str) -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    desk.disk.fault = failing(operation, where="orders")
    code(peer)
    desk.disk.fault = None
    desk.advance(2_000)
    assert code(peer) is ErrorCode.NONE
    assert end_offset(desk) == end_offset(desk.restart(clean=False))


# -- failed flushes


def test_after_a_failed_flush_a_log_takes_appends_again_without_what_it_may_have_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    desk = Desk(**FSYNC)
    desk.create("orders")
    peer = desk.connect()
    first, second = (
        produce("orders", batch(b"a", producer_id=7, producer_epoch=0, base_sequence=sequence)) for sequence in (0, 1)
    )
    assert only(peer.call(first, 9)).base_offset == 0
    desk.disk.fault = failing("flush")
    for _ in range(5):
        assert only(peer.call(second, 9)).error_code == STORAGE_ERROR
        desk.advance(10_000)
    desk.disk.fault = None
    desk.advance(60_000)
    answer = only(peer.call(second, 9))
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 1), "its sequence was not used up"
    assert "orders-0 takes appends again, from offset 1 on" in caplog.messages
    desk.disk.lose_unflushed()
    assert end_offset(desk.restart(clean=False)) == 2


def test_records_that_wait_for_a_flush_are_not_acknowledged_when_their_log_is_opened_again() -> None:
    """The flush that is under way would succeed without them: they are cut off."""
    desk = Desk(**FSYNC)
    desk.create("orders", segment_bytes=1024)
    desk.flushes_by_hand = True
    peers = [desk.connect() for _ in range(3)]
    peers[0].send(produce("orders", batch(b"a" * 400)), 9)
    flush = desk.node.begin_flush(desk.clock.now_ms())
    assert flush is not None
    desk.disk.fault = failing("flush")
    peers[1].send(produce("orders", batch(b"b" * 900)), 9)  # which rolls the segment, and so flushes it
    desk.disk.fault = None
    desk.advance(1)
    desk.clock.advance(60_000)
    peers[2].send(produce("orders", batch(b"c")), 9)
    desk.advance(1)
    desk.clock.advance(60_000)
    peers[2].send(produce("orders", batch(b"d")), 9)
    flush.run()
    desk.node.end_flush(flush, desk.clock.now_ms())
    desk.node.flush(desk.clock.now_ms())
    answers = [[only(answer) for answer in peer.answers()] for peer in peers]
    kept = [result.base_offset for results in answers for result in results if not result.error_code]
    assert all(result.error_code for results in answers[:2] for result in results)
    desk.disk.lose_unflushed()
    log = desk.restart(clean=False).node.topics.find_partition("orders", 0).log
    assert log.log_end_offset == len(kept) == 1


def test_a_flush_that_does_not_end_costs_a_producer_its_timeout_and_an_error() -> None:
    desk = Desk(**FSYNC)
    desk.create("orders")
    desk.flushes_by_hand = True
    peer = desk.connect()
    peer.send(produce("orders", batch(b"a")), 9)
    flush = desk.node.begin_flush(desk.clock.now_ms())
    assert flush is not None
    desk.advance(999)
    assert peer.answers() == []
    desk.advance(1)
    [answer] = peer.answers()
    assert (only(answer).error_code, only(answer).base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    flush.run()
    desk.node.end_flush(flush, desk.clock.now_ms())
    assert peer.answers() == []
    assert end_offset(desk) == 1, "as in Kafka, the records are there"


def test_what_was_written_before_every_response_waited_for_a_flush_is_not_cut_off() -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    assert code(peer) is ErrorCode.NONE
    orders = desk.node.topics.find("orders")
    desk.disk.fault = failing("flush")
    desk.node.topics.alter(orders, [("flush.messages", "1")], desk.clock.now_ms())
    assert code(peer) is STORAGE_ERROR
    desk.disk.fault = None
    desk.advance(60_000)
    assert code(peer) is ErrorCode.NONE
    assert end_offset(desk) == 2


# -- what the broker keeps of its own


def test_topics_can_be_created_again_after_a_failed_flush_of_the_metadata_log() -> None:
    desk = Desk(**FSYNC)
    desk.disk.fault = failing("flush")
    for _ in range(3):
        with pytest.raises(OSError, match="EIO"):
            desk.create("orders")
    desk.disk.fault = None
    topic_id = desk.create("orders")
    desk.disk.lose_unflushed()
    topic = desk.restart(clean=False).node.topics.find("orders")
    assert topic.topic_id == topic_id


@pytest.mark.parametrize("operation", ["open", "read", "list"])
def test_groups_whose_log_cannot_be_read_at_a_start_are_loaded_once_it_can(operation: str) -> None:
    desk = group_desk()
    assert GroupMember(desk).commit(offset=5) == ErrorCode.NONE
    disk = desk.disk.clone()
    disk.fault = failing(operation, where="__consumer_offsets")
    desk = Desk(disk, desk.clock, **desk.settings)
    assert desk.node.coordinator.load_error("g") is ErrorCode.NOT_COORDINATOR
    desk.advance(30_000)
    assert desk.node.coordinator.load_error("g") is ErrorCode.NOT_COORDINATOR
    disk.fault = None
    desk.advance(60_000)
    assert committed(desk.connect()) == 5


def test_groups_are_not_new_where_a_disk_does_not_show_whether_their_log_is_there() -> None:
    desk = group_desk()
    assert GroupMember(desk).commit(offset=5) == ErrorCode.NONE
    disk = desk.disk.clone()
    disk.fault = failing("exists", where="__consumer_offsets")
    assert committed(Desk(disk, desk.clock, **desk.settings).connect()) == 5


def test_groups_of_other_partitions_continue_while_the_log_of_one_fails() -> None:
    desk = group_desk(offsets_topic_num_partitions=2, **FSYNC)
    names = {group_partition(name, 2): name for name in map(str, range(20))}
    first, second = (GroupMember(desk, group_id=names[partition]) for partition in (0, 1))
    assert (first.commit(offset=1), second.commit(offset=1)) == (ErrorCode.NONE, ErrorCode.NONE)
    desk.disk.fault = failing("flush", "append", where="__consumer_offsets-0")
    assert first.commit(offset=2) == ErrorCode.NOT_COORDINATOR
    assert second.commit(offset=2) == ErrorCode.NONE
    desk.disk.fault = None
    desk.advance(60_000)
    assert first.commit(offset=3) == ErrorCode.NONE


def test_what_was_decided_of_a_group_before_its_log_was_opened_again_is_not_stored() -> None:
    """A pass of the cleaner has failed: the log is opened again by the append, for which the group is unloaded."""
    desk = group_desk(offsets_topic_num_partitions=1)
    member = GroupMember(desk)
    assert member.commit(offset=1) == ErrorCode.NONE
    log = desk.node.topics.find_partition("__consumer_offsets", 0).log
    log.failure = StorageError(errno.EIO, "flush_directory")
    assert member.commit(offset=2) == ErrorCode.NOT_COORDINATOR
    desk.clock.advance(1_500)
    assert member.commit(offset=3) == ErrorCode.NOT_COORDINATOR
    desk.advance(60_000)
    assert committed(desk.connect()) == 1
    assert member.commit(offset=4) == ErrorCode.NONE


def test_round_that_cannot_be_stored_ends_before_its_log_is_opened_again() -> None:
    desk = group_desk(offsets_topic_num_partitions=1)
    assert GroupMember(desk).commit(offset=1) == ErrorCode.NONE
    member = GroupMember(desk)
    member.enter()
    log = desk.node.topics.find_partition("__consumer_offsets", 0).log
    log.failure = StorageError(errno.EIO, "flush_directory")
    desk.clock.advance(1_500)
    desk.advance(60_000)
    (answer,) = member.peer.answers()
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    desk.advance(60_000)
    assert member.commit(offset=2) == ErrorCode.NONE


def test_transactional_ids_are_loaded_again_after_a_failed_flush() -> None:
    desk = given(**FSYNC)
    producer = Producer(desk, NEW)
    producer.init()
    assert producer.write(b"a") is ErrorCode.NONE
    desk.disk.fault = failing("flush", where="__transaction_state")
    assert producer.end() is ErrorCode.NOT_COORDINATOR
    with pytest.raises(KafkaError, match="NOT_COORDINATOR"):
        desk.node.context.transactions.describe(producer.transactional_id)
    desk.disk.fault = None
    desk.advance(5_000)
    assert producer.end() is ErrorCode.NONE
    assert committed_records(desk) == [b"a"]


def test_markers_whose_flush_fails_are_written_again() -> None:
    desk = given(**FSYNC)
    producer = Producer(desk, NEW)
    producer.init()
    assert producer.write(b"a") is ErrorCode.NONE
    desk.disk.fault = failing("flush", where="t-0")
    assert producer.end() is ErrorCode.NONE, "it is decided with its record"
    desk.advance(2_000)
    desk.disk.fault = None
    desk.advance(120_000)
    assert committed_records(desk) == [b"a"]
    assert Producer(desk, NEW).init() is ErrorCode.NONE
