"""Appending, closing and opening again, rolling, limits, and the files beside the segments."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.log.workbench import DIRECTORY, SMALL, append, batch, everything, fill, names, open_log, rows

from kohort.log.disk import Disk, StorageError, read_file, replace_file
from kohort.log.memory_disk import MemoryDisk, failing
from kohort.log.partition_log import Appended, OffsetOutOfRange, PartitionLog
from kohort.log.segments import LogConfig
from kohort.model.errors import ErrorCode, KafkaError
from kohort.node.step_scheduler import result_of
from kohort.wire.record_batches import Record, TimestampType, encode_batch, read_header


def test_a_log_without_records_costs_no_file(disk: Disk) -> None:
    log = open_log(disk)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.size) == (0, 0, 0, 0)
    assert log.read(0, 1000) == []
    assert result_of(log.offset_for_timestamp(0)) is None
    assert result_of(log.max_timestamp_offset()) is None
    log.close()
    assert not disk.exists(DIRECTORY)


def test_records_get_consecutive_offsets(disk: Disk) -> None:
    log = open_log(disk)
    assert append(log, batch(3)) == Appended(0, 2, -1, 0)
    assert append(log, batch(2), batch(1)) == Appended(3, 5, -1, 0)
    assert log.log_end_offset == log.high_watermark == 6
    assert [row.offset for row in everything(log)] == list(range(6))


def test_only_base_offset_and_leader_epoch_of_a_batch_change(disk: Disk) -> None:
    log, sent = open_log(disk), batch(2, producer_id=5, producer_epoch=0, base_sequence=0)
    append(log)
    append(log, sent, leader_epoch=7)
    stored = bytes(log.read(1, 1000)[0])
    header = read_header(stored)
    assert (header.base_offset, header.partition_leader_epoch) == (1, 7)
    assert stored[8:12] == sent[8:12]
    assert stored[16:] == sent[16:]


def test_the_batch_that_was_sent_is_not_touched(disk: Disk) -> None:
    sent = bytearray(batch(2))
    before = bytes(sent)
    append(open_log(disk), bytes(sent))
    open_log(disk).append([memoryview(sent)], leader_epoch=3, now_ms=0)
    assert sent == before


def test_a_full_segment_is_rolled_and_named_by_its_first_offset(disk: Disk) -> None:
    log = open_log(disk)
    total = fill(log)
    bases = [int(name[:20]) for name in names(disk, ".log")]
    assert len(bases) > 3
    assert all(disk.open(f"{DIRECTORY}/{name}").size <= SMALL.segment_bytes for name in names(disk, ".log"))
    assert [rows(log.read(base, 1))[0].offset for base in bases] == bases
    assert len(everything(log)) == total


def test_a_segment_is_rolled_when_its_records_span_too_long_a_time(disk: Disk) -> None:
    log = open_log(disk, LogConfig(segment_ms=1000))
    for timestamp_ms in (5000, 5999, 6000, 6001, 6500):
        append(log, batch(timestamp_ms=timestamp_ms))
    assert [int(name[:20]) for name in names(disk, ".log")] == [0, 3]


def test_the_age_of_a_segment_is_known_after_a_restart(disk: Disk) -> None:
    config = LogConfig(segment_ms=1000)
    log = open_log(disk, config)
    append(log, batch(timestamp_ms=5000))
    log.close()
    log = open_log(disk, config)
    append(log, batch(timestamp_ms=6001))
    assert len(names(disk, ".log")) == 2


def test_a_segment_is_rolled_before_relative_offsets_overflow(disk: Disk) -> None:
    log = open_log(disk, LogConfig())
    append(log)
    log.log_end_offset = (1 << 31) - 1
    append(log)
    append(log)
    assert [int(name[:20]) for name in names(disk, ".log")] == [0, 1 << 31]
    assert [row.offset for row in everything(log)] == [0, (1 << 31) - 1, 1 << 31]


def test_a_batch_above_max_message_bytes_is_refused(disk: Disk) -> None:
    sent = batch(size=500)
    log = open_log(disk, LogConfig(max_message_bytes=len(sent) - 1))
    with pytest.raises(KafkaError) as caught:
        append(log, sent)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert not disk.exists(DIRECTORY)
    log.config = LogConfig(max_message_bytes=len(sent))
    append(log, sent)


def test_batches_larger_than_a_segment_are_refused(disk: Disk) -> None:
    log = open_log(disk)
    with pytest.raises(KafkaError) as caught:
        append(log, *[batch(size=500)] * 4)
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
    assert log.log_end_offset == 0


def test_a_batch_whose_offsets_do_not_match_its_records_is_refused(disk: Disk) -> None:
    gap = encode_batch([Record(0, 0, None, None), Record(2, 0, None, None)], own_offsets=True)
    for sent in (gap, batch(2) + b"\x00"):
        with pytest.raises(KafkaError) as caught:
            append(open_log(disk), sent)
        assert caught.value.code is ErrorCode.INVALID_RECORD
    with pytest.raises(ValueError, match="at least one batch"):
        open_log(disk).append([], leader_epoch=0, now_ms=0)


def test_log_append_time_stamps_the_brokers_time(disk: Disk) -> None:
    log = open_log(disk, replace(SMALL, message_timestamp_type="LogAppendTime"))
    assert append(log, batch(3), now_ms=777_000).append_time_ms == 777_000
    found = log.read(0, 1000)
    assert {row.timestamp_ms for row in rows(found)} == {777_000}
    assert read_header(found[0]).timestamp_type is TimestampType.LOG_APPEND_TIME


# -- opening again


def test_a_closed_log_opens_without_recovery_and_as_it_was(disk: Disk) -> None:
    log = open_log(disk)
    total = fill(log)
    before = everything(log)
    log.close()
    log = open_log(disk)
    assert log.recovery is None
    assert (log.log_start_offset, log.log_end_offset) == (0, total)
    assert everything(log) == before
    append(log)
    assert log.log_end_offset == total + 1


def test_an_append_takes_back_the_clean_shutdown(disk: Disk) -> None:
    log = open_log(disk)
    append(log)
    log.close()
    assert names(disk, "clean-shutdown")
    log = open_log(disk)
    log.close()
    log = open_log(disk)
    assert log.recovery is None
    append(log)
    assert not names(disk, "clean-shutdown")
    log = open_log(disk)
    assert log.recovery is not None
    assert log.log_end_offset == 2


def test_a_clean_shutdown_is_not_believed_about_another_file(disk: Disk) -> None:
    log = open_log(disk)
    append(log, batch(3))
    log.close()
    disk.open(f"{DIRECTORY}/{names(disk, '.log')[0]}").append([b"garbage"])
    log = open_log(disk)
    assert log.recovery is not None
    assert log.recovery.cut_bytes == 7
    assert log.log_end_offset == 3


def test_closing_twice_and_reading_after_it(disk: Disk) -> None:
    log = open_log(disk)
    append(log)
    log.close()
    log.close()
    assert len(rows(log.read(0, 100))) == 1


def test_a_log_can_be_deleted(disk: Disk) -> None:
    log = open_log(disk)
    fill(log)
    view = log.read(0, 500)
    log.delete()
    assert not disk.exists(DIRECTORY)
    assert rows(view), "what was read stays readable"


def test_the_topic_id_is_stored_in_kafkas_file(disk: Disk) -> None:
    topic_id = bytes(range(16))
    log = PartitionLog.open(disk, DIRECTORY, SMALL, 0, topic_id=topic_id)
    append(log)
    assert read_file(disk, f"{DIRECTORY}/partition.metadata") == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert open_log(disk).topic_id == topic_id
    with pytest.raises(StorageError, match="topic id"):
        PartitionLog.open(disk, DIRECTORY, SMALL, 0, topic_id=bytes(15) + b"\x01")


# -- fsync


FSYNC = replace(SMALL, flush_policy="fsync")


def test_under_fsync_the_high_watermark_waits_for_the_flush(disk: Disk) -> None:
    log = open_log(disk, FSYNC)
    append(log, batch(3))
    assert (log.log_end_offset, log.high_watermark, log.is_dirty) == (3, 0, True)
    assert log.read(0, 1000) == []
    with pytest.raises(OffsetOutOfRange):
        log.read(4, 1000)
    log.flush()
    assert (log.high_watermark, log.is_dirty) == (3, False)
    assert len(rows(log.read(0, 1000))) == 3


def test_under_fsync_a_power_failure_takes_nothing_below_the_high_watermark() -> None:
    disk = MemoryDisk()
    log = open_log(disk, FSYNC)
    for _ in range(40):
        append(log, batch(2))
        log.flush()
    append(log)
    before = everything(log)
    disk.lose_unflushed()
    log = open_log(disk, FSYNC)
    assert log.log_end_offset == log.high_watermark == 80
    assert everything(log) == before


def test_a_failed_flush_ends_the_appends_and_not_the_reads() -> None:
    disk = MemoryDisk()
    log = open_log(disk, FSYNC)
    append(log)
    log.flush()
    append(log)
    disk.fault = failing("flush")
    with pytest.raises(StorageError):
        log.flush()
    disk.fault = None
    with pytest.raises(StorageError, match="takes no appends until the disk works: flush: EIO"):
        append(log)
    assert log.high_watermark == 1
    assert len(everything(log)) == 1
    log.close()
    assert not names(disk, "clean-shutdown")


def test_a_log_that_is_opened_again_after_a_failed_flush_has_what_was_flushed_and_nothing_else() -> None:
    disk = MemoryDisk()
    log = open_log(disk, FSYNC)
    append(log)
    log.flush()
    append(log)
    disk.fault = failing("flush")
    with pytest.raises(StorageError):
        log.flush()
    with pytest.raises(StorageError):
        log.reopened(0)
    assert log.high_watermark == 1, "where the disk still fails the log is as it was"
    disk.fault = None
    log = log.reopened(0)
    assert (log.log_end_offset, log.high_watermark, log.failure) == (1, 1, None)
    append(log)
    log.flush()
    disk.lose_unflushed()
    assert open_log(disk, FSYNC).log_end_offset == 2


def test_a_log_whose_appends_do_not_wait_for_a_flush_has_them_when_it_is_opened_again() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    append(log)
    disk.fault = failing("flush")
    with pytest.raises(StorageError):
        log.flush()
    disk.fault = None
    log = log.reopened(0)
    assert (log.log_end_offset, log.high_watermark, log.failure) == (1, 1, None)


# -- leader epochs


def test_leader_epochs_are_stored_in_kafkas_file(disk: Disk) -> None:
    log = open_log(disk)
    for epoch in (0, 0, 3, 3, 4):
        append(log, leader_epoch=epoch)
    assert read_file(disk, f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n3\n0 0\n3 2\n4 4\n"
    for one in (log, open_log(disk)):
        assert one.end_offset_for_epoch(4)[0] == 4
        answers = [one.end_offset_for_epoch(epoch) for epoch in range(-1, 6)]
        assert answers == [(-1, -1), (0, 2), (0, 2), (0, 2), (3, 4), (4, 5), (-1, -1)]


def test_leader_epochs_follow_the_log_when_its_end_is_lost(disk: Disk) -> None:
    log = open_log(disk)
    append(log, leader_epoch=1)
    append(log, leader_epoch=2)
    file = disk.open(f"{DIRECTORY}/{names(disk, '.log')[0]}")
    log.close()
    disk.remove(f"{DIRECTORY}/clean-shutdown")
    file.truncate(file.size - 1)
    assert open_log(disk).end_offset_for_epoch(1) == (1, 1)
    assert open_log(disk).end_offset_for_epoch(2) == (-1, -1)


def test_lost_leader_epochs_come_back_from_the_batches(disk: Disk) -> None:
    log = open_log(disk)
    append(log, leader_epoch=1)
    append(log, leader_epoch=2)
    disk.remove(f"{DIRECTORY}/leader-epoch-checkpoint")
    assert open_log(disk).end_offset_for_epoch(1) == (1, 1)


def test_a_flush_reaches_the_segments_that_were_rolled_since_the_last_one() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    total = fill(log)
    assert len(names(disk, ".log")) > 3
    log.flush()
    disk.lose_unflushed()
    assert [row.offset for row in everything(open_log(disk))] == list(range(total))


def reports_of(disk: Disk, config: LogConfig = SMALL) -> tuple[PartitionLog, list[str]]:
    """Open a log, and return it with what it reports."""
    found: list[str] = []
    return PartitionLog.open(disk, DIRECTORY, config, 0, report=found.append), found


def filled(disk: Disk, config: LogConfig = SMALL) -> tuple[int, list[int]]:
    """Fill and close a log; return its end and the base offsets of its segments."""
    log = open_log(disk, config)
    fill(log)
    log.close()
    return log.log_end_offset, [int(name[:20]) for name in names(disk, ".log")]


def test_a_missing_segment_in_the_middle_is_reported_when_the_log_is_opened_and_read_past(disk: Disk) -> None:
    total, bases = filled(disk)
    disk.remove(f"{DIRECTORY}/{bases[1]:020d}.log")
    log, found = reports_of(disk)
    text = (
        f"{DIRECTORY}: no segment has the offsets {bases[1]} to {bases[2] - 1}, a file is missing: readers go on at"
        f" {bases[2]}; put the segment back from a copy while the broker is stopped"
    )
    assert found == [text]
    for _ in range(2):
        assert [row.offset for row in everything(log)] == [*range(bases[1]), *range(bases[2], total)]
    assert found == [text], "once"


def test_a_segment_that_lies_where_another_belongs_is_reported_when_the_log_is_opened(disk: Disk) -> None:
    _, bases = filled(disk)
    replace_file(disk, f"{DIRECTORY}/{bases[1]:020d}.log", read_file(disk, f"{DIRECTORY}/{bases[2]:020d}.log"))
    _, found = reports_of(disk)
    assert found == [
        f"{DIRECTORY}/{bases[1]:020d}.log begins at offset {bases[2]}: it is another file, or a copy of one; put the"
        " right one back from a copy while the broker is stopped, or see `kohort log verify`"
    ]


def test_an_intact_log_reports_nothing_whatever_its_indexes_are(disk: Disk) -> None:
    _, bases = filled(disk)
    disk.remove(f"{DIRECTORY}/{bases[0]:020d}.index")
    replace_file(disk, f"{DIRECTORY}/{bases[1]:020d}.index", bytes(80))
    replace_file(disk, f"{DIRECTORY}/{bases[2]:020d}.index", b"\x7f" * 80)
    assert reports_of(disk)[1] == []


def test_what_a_cleaner_may_have_removed_is_not_missing(disk: Disk) -> None:
    config = replace(SMALL, cleanup_policy=("compact",))
    _, bases = filled(disk, config)
    disk.remove(f"{DIRECTORY}/{bases[1]:020d}.log")
    log, found = reports_of(disk, config)
    assert everything(log)
    assert found == []
