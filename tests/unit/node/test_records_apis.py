"""Produce, Fetch, ListOffsets and what else reads and writes logs."""

from __future__ import annotations

import pytest
from tests.unit.node.desk import Desk, batch, fetch, only, produce
from tests.unit.wire.test_record_walk import forged

from kohort.log.disk import StorageError
from kohort.log.memory_disk import MemoryDisk
from kohort.model.errors import ErrorCode
from kohort.node.topics.topic import UNPACKED_AT_ONCE
from kohort.wire.compression import Compression, compress
from kohort.wire.messages import (
    ApiVersionsRequest,
    DeleteRecordsRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)
from kohort.wire.record_batches import Record, decode_batch, encode_batch, iter_batches


def values(partition: object) -> list[bytes | None]:
    records = partition.records or b""  # type: ignore[attr-defined]
    return [record.value for _, view in iter_batches(records) for record in decode_batch(view)]


@pytest.mark.parametrize("version", range(3, 13))
def test_a_produced_batch_is_fetched_with_its_offset_in_every_version(version: int) -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    for base in (0, 2):
        result = only(peer.call(produce("orders", batch(b"a", b"b")), version))
        assert (result.error_code, result.base_offset) == (0, base)
    answer = only(peer.call(fetch("orders", 1), max(4, version)))
    assert answer.high_watermark == 4
    # The batch that holds the offset comes whole; the client skips what it did not ask for.
    assert values(answer) == [b"a", b"b", b"a", b"b"]


def test_topics_are_named_by_id_from_produce_13_and_fetch_13_on() -> None:
    desk = Desk()
    topic_id = desk.create("orders")
    peer = desk.connect()
    message = produce("", batch(b"x"))
    message.topic_data[0].topic_id = topic_id
    assert only(peer.call(message, 13)).error_code == ErrorCode.NONE
    for version in range(13, 19):
        assert values(only(peer.call(fetch(topic_id), version))) == [b"x"]
    message.topic_data[0].topic_id = b"?" * 16
    assert only(peer.call(message, 13)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert only(peer.call(fetch(b"?" * 16), 13)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_produce_without_acks_is_not_answered_and_the_next_request_is() -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    peer.send(produce("orders", batch(b"x"), acks=0), 9)
    assert peer.answers() == []
    assert values(only(peer.call(fetch("orders"), 11))) == [b"x"]


def test_a_failed_produce_without_acks_closes_the_connection() -> None:
    peer = Desk().connect()
    peer.send(produce("nowhere", batch(b"x"), acks=0), 9)
    assert peer.answers() == []
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(peer.closed)


def test_acks_other_than_minus_one_zero_and_one_are_refused() -> None:
    desk = Desk()
    desk.create("orders")
    result = only(desk.connect().call(produce("orders", batch(b"x"), acks=2), 9))
    assert (result.error_code, result.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)


def damaged() -> bytes:
    broken = bytearray(batch(b"payload"))
    broken[-1] ^= 0xFF
    return bytes(broken)


def control() -> bytes:
    return batch(b"x", control=True)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (b"too short", ErrorCode.CORRUPT_MESSAGE),
        (damaged(), ErrorCode.CORRUPT_MESSAGE),
        (batch(b"x")[:-1], ErrorCode.CORRUPT_MESSAGE),
        (batch(b"x") + batch(b"y"), ErrorCode.INVALID_RECORD),
        (control(), ErrorCode.INVALID_RECORD),
        (batch(b"x", transactional=True), ErrorCode.INVALID_RECORD),
        (batch(b"x" * 2000), ErrorCode.MESSAGE_TOO_LARGE),
        (batch(b"x", timestamp_ms=1_700_007_200_000), ErrorCode.INVALID_TIMESTAMP),
        (batch(b"x", producer_id=5, producer_epoch=0, base_sequence=-1), ErrorCode.INVALID_RECORD),
        (batch(b"x", base_offset=7), ErrorCode.INVALID_RECORD),
        (batch(b"x", timestamp_ms=-2), ErrorCode.INVALID_TIMESTAMP),
        (forged(b"ab", (1 << 31) - 1), ErrorCode.INVALID_RECORD),
        (forged(b"", 1), ErrorCode.INVALID_RECORD),
    ],
)
def test_a_bad_batch_gets_kafkas_error_and_nothing_is_appended(records: bytes | None, code: ErrorCode) -> None:
    desk = Desk()
    desk.create("orders", max_message_bytes=1500)
    peer = desk.connect()
    assert only(peer.call(produce("orders", records), 9)).error_code == code
    assert desk.node.topics.partition("orders", 0).log.log_end_offset == 0  # type: ignore[union-attr]
    assert peer.closed is None


def test_records_that_are_none_are_refused_where_records_are_checked() -> None:
    desk = Desk()
    desk.create("orders")
    desk.create("compacted", cleanup_policy="compact")
    peer = desk.connect()
    garbage = forged(b"no record at all", 1)
    assert only(peer.call(produce("orders", garbage), 9)).error_code == ErrorCode.NONE
    assert only(peer.call(produce("compacted", garbage), 9)).error_code == ErrorCode.INVALID_RECORD
    desk.node.state.alter_broker([("kohort.produce.check.records", "true")], desk.clock.now_ms())
    result = only(peer.call(produce("orders", garbage), 9))
    assert result.error_code == ErrorCode.INVALID_RECORD
    assert "does not hold the records that it claims" in result.error_message
    assert only(peer.call(produce("orders", batch(b"x")), 9)).error_code == ErrorCode.NONE


def test_a_compacted_topic_takes_only_what_its_cleaner_can_read_at_once() -> None:
    desk = Desk()
    desk.create("compacted", cleanup_policy="compact")
    peer = desk.connect()
    for size, error in ((17 << 20, ErrorCode.INVALID_RECORD), (15 << 20, ErrorCode.NONE)):
        records = encode_batch([Record(0, desk.clock.now_ms(), b"k", bytes(size))], compression=Compression.GZIP)
        assert only(peer.call(produce("compacted", records), 9)).error_code == error


def test_few_batches_are_unpacked_at_a_time_and_a_client_that_leaves_makes_room() -> None:
    desk = Desk()
    desk.create("compacted", cleanup_policy="compact")
    bomb = forged(compress(Compression.ZSTD, bytes(64 << 20)), 1, Compression.ZSTD)
    desk.flushes_by_hand = True
    peers = [desk.connect() for _ in range(3 * UNPACKED_AT_ONCE)]
    gate = desk.node.topics.find_partition("compacted", 0).unpacking
    for peer in peers:
        peer.send(produce("compacted", bomb), 9)
    desk.node.flush(desk.clock.now_ms())
    assert gate._free == 0
    for peer in peers[:UNPACKED_AT_ONCE]:
        peer.leave()
    while desk.node.needs_flush:
        desk.node.flush(desk.clock.now_ms())
        assert 0 <= gate._free <= UNPACKED_AT_ONCE
    assert gate._free == UNPACKED_AT_ONCE
    for peer in peers[UNPACKED_AT_ONCE:]:
        assert [only(answer).error_code for answer in peer.answers()] == [ErrorCode.INVALID_RECORD]


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_a_batch_that_unpacks_to_too_much_is_refused_in_slices_and_others_are_served_between(
    codec: Compression,
) -> None:
    desk = Desk(kohort_produce_max_unpacked_bytes=8 << 20)
    desk.create("compacted", cleanup_policy="compact")
    bomb = forged(compress(codec, bytes(64 << 20)), 1, codec)
    desk.flushes_by_hand = True
    greedy, other = desk.connect(), desk.connect()
    greedy.send(produce("compacted", bomb), 9)
    turns = 0
    while not greedy.replies:
        other.send(ApiVersionsRequest(), 0)
        turns += 1
        assert len(other.replies) == turns
        desk.node.flush(desk.clock.now_ms())
    assert turns >= 8, "a turn unpacks a megabyte at most"
    [result] = greedy.answers()
    assert only(result).error_code == ErrorCode.INVALID_RECORD
    assert "more than 8388608 bytes" in only(result).error_message


def test_one_bad_partition_does_not_hinder_the_others() -> None:
    desk = Desk()
    desk.create("orders", 2)
    part = ProduceRequest.TopicData.PartitionData
    message = produce("orders", batch(b"x"))
    message.topic_data[0].partition_data += [part(index=1, records=damaged()), part(index=7, records=batch(b"z"))]
    results = desk.connect().call(message, 9).responses[0].partition_responses
    assert [result.error_code for result in results] == [
        ErrorCode.NONE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_zstd_is_refused_below_produce_7() -> None:
    pytest.importorskip("zstandard")
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    squeezed = batch(b"x" * 100, compression=Compression.ZSTD)
    assert only(peer.call(produce("orders", squeezed), 6)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert only(peer.call(produce("orders", squeezed), 7)).error_code == ErrorCode.NONE


def test_clients_may_not_produce_to_the_offsets_topic() -> None:
    desk = Desk()
    desk.create("__consumer_offsets")
    result = only(desk.connect().call(produce("__consumer_offsets", batch(b"x")), 9))
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_log_append_time_is_the_brokers_and_is_returned_to_the_producer() -> None:
    desk = Desk()
    desk.create("orders", message_timestamp_type="LogAppendTime")
    peer = desk.connect()
    result = only(peer.call(produce("orders", batch(b"x", timestamp_ms=5)), 9))
    assert result.log_append_time_ms == desk.clock.now_ms()
    fetched = only(peer.call(fetch("orders"), 11))
    ((_, view),) = iter_batches(fetched.records)
    assert decode_batch(view)[0].timestamp_ms == desk.clock.now_ms()


def test_an_idempotent_producer_is_answered_twice_but_appended_once() -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    producer_id = peer.call(InitProducerIdRequest(transactional_id=None), 4).producer_id
    first = batch(b"x", b"y", producer_id=producer_id, producer_epoch=0, base_sequence=0)
    second = batch(b"z", producer_id=producer_id, producer_epoch=0, base_sequence=2)
    gap = batch(b"!", producer_id=producer_id, producer_epoch=0, base_sequence=9)
    offsets = [only(peer.call(produce("orders", records), 9)).base_offset for records in (first, second, first, second)]
    assert offsets == [0, 2, 0, 2]
    assert only(peer.call(produce("orders", gap), 9)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert values(only(peer.call(fetch("orders"), 11))) == [b"x", b"y", b"z"]
    later = desk.restart(clean=False)
    assert only(later.connect().call(produce("orders", second), 9)).base_offset == 2


def test_producer_ids_are_never_given_again_after_a_restart() -> None:
    desk, given = Desk(), set()
    for clean in (True, False, True):
        peer = desk.connect()
        for version in range(6):
            answer = peer.call(InitProducerIdRequest(transactional_id=None), version)
            assert answer.error_code == 0
            assert answer.producer_id not in given
            given.add(answer.producer_id)
        desk = desk.restart(clean=clean)


def test_list_offsets_knows_beginning_end_newest_and_times() -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    base_ms = desk.clock.now_ms()
    for age_ms in (3000, 1000, 2000):
        peer.call(produce("orders", batch(b"x", timestamp_ms=base_ms - age_ms)), 9)

    def look_up(timestamp: int, version: int = 8, name: str = "orders", epoch: int = -1) -> tuple[int, int, int]:
        asked = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
        topic = ListOffsetsRequest.Topic(name=name, partitions=[asked])
        found = only(peer.call(ListOffsetsRequest(replica_id=-1, topics=[topic]), version))
        return found.error_code, found.offset, found.timestamp

    for version in range(1, 12):
        assert look_up(-1, version) == (0, 3, -1)
        assert look_up(-2, version) == (0, 0, -1)
        assert look_up(base_ms - 1500, version) == (0, 1, base_ms - 1000)
        assert look_up(base_ms, version) == (0, -1, -1)
    assert look_up(-3) == (0, 1, base_ms - 1000)
    assert look_up(-4) == (0, 0, -1)
    assert look_up(-5, 9) == (0, -1, -1)
    assert look_up(-3, 6)[0] == ErrorCode.UNSUPPORTED_VERSION
    assert look_up(-1, name="nowhere")[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert look_up(-1, epoch=4)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_deleted_records_are_gone_for_readers_and_stay_gone() -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    for _ in range(4):
        peer.call(produce("orders", batch(b"x")), 9)

    def delete(offset: int) -> tuple[int, int]:
        asked = DeleteRecordsRequest.Topic.Partition(partition_index=0, offset=offset)
        topic = DeleteRecordsRequest.Topic(name="orders", partitions=[asked])
        result = only(peer.call(DeleteRecordsRequest(topics=[topic], timeout_ms=1), 2))
        return result.error_code, result.low_watermark

    assert delete(3) == (0, 3)
    assert delete(1) == (0, 3)
    assert delete(5) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert only(peer.call(fetch("orders", 2), 11)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    desk = desk.restart(clean=False)
    assert only(desk.connect().call(fetch("orders", 3), 11)).log_start_offset == 3
    peer = desk.connect()
    assert delete(-1) == (0, 4)


def test_each_start_begins_a_leader_epoch_and_fences_the_one_before() -> None:
    desk = Desk()
    desk.create("orders")
    desk.connect().call(produce("orders", batch(b"old")), 9)
    desk = desk.restart(clean=False)
    peer = desk.connect()
    peer.call(produce("orders", batch(b"new")), 9)
    assert only(peer.call(fetch("orders", leader_epoch=0), 11)).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert only(peer.call(fetch("orders", leader_epoch=2), 11)).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    fetched = only(peer.call(fetch("orders", leader_epoch=1), 11))
    assert [header.partition_leader_epoch for header, _ in iter_batches(fetched.records)] == [0, 1]

    def end(epoch: int) -> tuple[int, int, int]:
        asked = OffsetForLeaderEpochRequest.Topic.Partition(partition=0, leader_epoch=epoch)
        topic = OffsetForLeaderEpochRequest.Topic(topic="orders", partitions=[asked])
        found = only(peer.call(OffsetForLeaderEpochRequest(topics=[topic]), 4))
        return found.error_code, found.leader_epoch, found.end_offset

    assert end(0) == (0, 0, 1)
    assert end(1) == (0, 1, 2)
    assert end(9) == (0, -1, -1)


def test_a_full_disk_refuses_produce_and_continues_serving_reads() -> None:
    disk = MemoryDisk()
    desk = Desk(disk)
    desk.create("orders")
    peer = desk.connect()
    peer.call(produce("orders", batch(b"kept")), 9)
    disk.capacity = disk.used
    assert only(peer.call(produce("orders", batch(b"x" * 1000)), 9)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert values(only(peer.call(fetch("orders"), 11))) == [b"kept"]
    disk.capacity = None
    assert only(peer.call(produce("orders", batch(b"again")), 9)).base_offset == 1


def test_with_fsync_the_reply_waits_for_the_flush_and_so_do_readers() -> None:
    desk = Desk(log_flush_interval_messages=1)
    desk.flushes_by_hand = True
    desk.create("orders")
    writer, reader = desk.connect(), desk.connect()
    reader.send(fetch("orders"), 11)
    writer.send(produce("orders", batch(b"a")), 9)
    writer.send(produce("orders", batch(b"b")), 9)
    assert writer.answers() == []
    assert desk.node.needs_flush
    desk.node.flush(desk.clock.now_ms())
    assert [only(answer).base_offset for answer in writer.answers()] == [0, 1]
    (answer,) = reader.answers()
    assert values(only(answer)) == [b"a", b"b"]
    assert not desk.node.needs_flush


def test_what_is_appended_during_a_flush_is_flushed_together_by_the_next_one() -> None:
    desk = Desk(log_flush_interval_messages=1)
    desk.flushes_by_hand = True
    desk.create("orders")
    writer = desk.connect()
    writer.send(produce("orders", batch(b"a")), 9)
    first = desk.node.begin_flush(desk.clock.now_ms())
    assert first is not None
    for value in (b"b", b"c"):
        writer.send(produce("orders", batch(value)), 9)
    assert desk.node.begin_flush(desk.clock.now_ms()) is None, "one flush at a time"
    assert not desk.node.needs_flush
    first.run()
    desk.node.end_flush(first, desk.clock.now_ms())
    assert [only(answer).base_offset for answer in writer.answers()] == [0]
    desk.node.flush(desk.clock.now_ms())
    assert [only(answer).base_offset for answer in writer.answers()] == [1, 2]
    assert only(writer.call(fetch("orders"), 11)).high_watermark == 3


def test_readers_see_nothing_of_a_flush_under_way() -> None:
    desk = Desk(log_flush_interval_messages=1)
    desk.flushes_by_hand = True
    desk.create("orders")
    writer = desk.connect()
    writer.send(produce("orders", batch(b"a")), 9)
    flush = desk.node.begin_flush(desk.clock.now_ms())
    assert flush is not None
    assert only(desk.connect().call(fetch("orders", max_wait_ms=0), 11)).high_watermark == 0


def test_repeated_batch_waits_for_the_flush_of_the_first_that_is_under_way() -> None:
    desk = Desk(log_flush_interval_messages=1)
    desk.flushes_by_hand = True
    desk.create("orders")
    first, second = desk.connect(), desk.connect()
    sent = produce("orders", batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0))
    first.send(sent, 9)
    flush = desk.node.begin_flush(desk.clock.now_ms())
    assert flush is not None
    second.send(sent, 9)
    assert second.answers() == []
    flush.run()
    desk.node.end_flush(flush, desk.clock.now_ms())
    assert [only(answer).base_offset for answer in second.answers()] == [0]


def test_what_was_appended_during_a_flush_that_fails_is_an_error_too() -> None:
    """After a failed fsync the next one may succeed although the bytes are lost."""
    desk = Desk(log_flush_interval_messages=1)
    desk.flushes_by_hand = True
    desk.create("orders")
    peer = desk.connect()
    peer.send(produce("orders", batch(b"a")), 9)
    flush = desk.node.begin_flush(desk.clock.now_ms())
    assert flush is not None
    peer.send(produce("orders", batch(b"b")), 9)

    def break_down(operation: str, path: str) -> None:
        if operation == "flush":
            raise StorageError(5, "input/output error", path)

    desk.disk.fault = break_down
    flush.run()
    desk.disk.fault = None
    desk.node.end_flush(flush, desk.clock.now_ms())
    desk.node.flush(desk.clock.now_ms())
    assert [only(answer).error_code for answer in peer.answers()] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2


def test_topic_that_is_deleted_before_its_records_are_flushed_disturbs_no_flush() -> None:
    desk = Desk(log_flush_interval_messages=1)
    desk.flushes_by_hand = True
    desk.create("orders")
    peer = desk.connect()
    peer.send(produce("orders", batch(b"a")), 9)
    topic = desk.node.topics.get("orders")
    assert topic is not None
    desk.node.topics.delete(topic, desk.clock.now_ms())
    desk.node.flush(desk.clock.now_ms())
    assert len(peer.answers()) == 1


def test_a_failed_flush_is_an_error_for_those_who_wait_for_it() -> None:
    desk = Desk(log_flush_interval_messages=1)
    desk.flushes_by_hand = True
    desk.create("orders")
    peer = desk.connect()
    peer.send(produce("orders", batch(b"a")), 9)

    def break_down(operation: str, path: str) -> None:
        if operation == "flush":
            raise StorageError(5, "input/output error", path)

    desk.disk.fault = break_down
    desk.node.flush(desk.clock.now_ms())
    (answer,) = peer.answers()
    assert (only(answer).error_code, only(answer).base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)


def test_what_a_failed_flush_may_have_lost_is_not_acknowledged_to_a_producer_that_repeats_it() -> None:
    """The repeated batch is still in the log, and a loss of power takes it: seed 409122 with two producers."""
    desk = Desk(log_flush_interval_messages=1)
    desk.create("orders")
    peer = desk.connect()
    first, second = (
        produce("orders", batch(b"a", producer_id=7, producer_epoch=0, base_sequence=sequence)) for sequence in (0, 1)
    )
    assert not only(peer.call(first, 9)).error_code

    def break_down(operation: str, path: str) -> None:
        if operation == "flush":
            raise StorageError(5, "input/output error", path)

    desk.disk.fault = break_down
    assert only(peer.call(second, 9)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    desk.disk.fault = None
    assert only(peer.call(second, 9)).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_retention_deletes_old_segments_on_its_timer() -> None:
    desk = Desk(log_retention_check_interval_ms=1000)
    desk.create("orders", segment_bytes=1024, retention_bytes=1024)
    peer = desk.connect()
    for _ in range(10):
        peer.call(produce("orders", batch(b"x" * 500)), 9)
    desk.advance(1000)
    assert only(peer.call(fetch("orders", 9), 11)).log_start_offset >= 6


def test_a_log_that_lost_its_end_is_reported_when_it_is_opened(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    desk.create("orders")
    peer = desk.connect()
    for _ in range(3):
        peer.call(produce("orders", batch(b"a", b"b")), 9)
    path = "orders-0/00000000000000000000.log"
    size = desk.disk.files[path].size
    desk.disk.tear(path, size - 1)
    desk = desk.restart(clean=False)
    partition = desk.node.topics.partition("orders", 0)
    assert partition is not None
    assert partition.log.log_end_offset == 4
    cut = size // 3 - 1
    assert caplog.messages == [
        f"recovered orders-0 after it was not closed: cut {cut} bytes that were no whole batch from {path} at byte"
        f" {size - cut - 1}; the log ends at offset 4, 2 records up to offset 5 are lost"
    ]
