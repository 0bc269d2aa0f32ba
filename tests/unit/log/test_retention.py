"""What goes from the beginning of a log: by size, by time, by request, and never more than that."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.log.workbench import DIRECTORY, SMALL, append, batch, everything, fill, names, open_log

from kohort.log.disk import Disk, read_file
from kohort.log.memory_disk import MemoryDisk
from kohort.log.partition_log import OffsetOutOfRange


def bases(disk: Disk) -> list[int]:
    return [int(name[:20]) for name in names(disk, ".log")]


def test_the_size_that_is_kept_is_never_less_than_asked(disk: Disk) -> None:
    log = open_log(disk, replace(SMALL, retention_bytes=5000))
    fill(log)
    before, sizes = log.size, [disk.open(f"{DIRECTORY}/{name}").size for name in names(disk, ".log")]
    freed = log.enforce_retention(0)
    assert log.size == before - freed
    assert 5000 <= log.size < 5000 + sizes[0]
    assert log.log_start_offset == bases(disk)[0] > 0
    assert [row.offset for row in everything(log)] == list(range(log.log_start_offset, log.log_end_offset))
    assert log.enforce_retention(0) == 0
    with pytest.raises(OffsetOutOfRange):
        log.read(log.log_start_offset - 1, 100)


def test_segments_whose_newest_record_is_too_old_go(disk: Disk) -> None:
    log = open_log(disk, replace(SMALL, retention_ms=1000))
    total = fill(log)  # record n has the time 1000 + n
    starts = bases(disk)
    log.enforce_retention(1000 + 1000 + starts[1] - 1)
    assert bases(disk) == starts, "the newest record of the first segment is just not too old"
    log.enforce_retention(1000 + 1000 + starts[1])
    assert bases(disk) == starts[1:]
    assert log.log_start_offset == starts[1]
    assert log.log_end_offset == total


@pytest.mark.parametrize("reopened", [False, True])
def test_when_every_record_is_too_old_the_end_of_the_log_stays(disk: Disk, reopened: bool) -> None:
    log = open_log(disk)
    total = fill(log)
    if reopened:
        log.close()
        log = open_log(disk)
    assert log.enforce_retention(1 << 50) > 0
    assert (log.log_start_offset, log.log_end_offset, log.size) == (total, total, 0)
    assert bases(disk) == [total]
    assert log.enforce_retention(1 << 51) == 0
    for ending in ("killed", "closed"):
        if ending == "closed":
            log.close()
        log = open_log(disk)
        assert (log.log_start_offset, log.log_end_offset) == (total, total)
    append(log)
    assert [row.offset for row in everything(log)] == [total]


def test_without_limits_nothing_goes(disk: Disk) -> None:
    log = open_log(disk, replace(SMALL, retention_ms=-1, retention_bytes=-1))
    fill(log)
    assert log.enforce_retention(1 << 50) == 0


def test_a_compacted_topic_is_not_deleted_by_time_or_size(disk: Disk) -> None:
    log = open_log(disk, replace(SMALL, retention_ms=1, retention_bytes=1, cleanup_policy="compact"))
    fill(log)
    assert log.enforce_retention(1 << 50) == 0
    log.config = replace(log.config, cleanup_policy="compact,delete")
    assert log.enforce_retention(1 << 50) > 0


def test_nothing_that_is_not_durable_goes() -> None:
    log = open_log(MemoryDisk(), replace(SMALL, flush_policy="fsync", retention_bytes=0))
    append(log)
    log.flush()
    append(log)
    log.enforce_retention(0)
    assert log.log_start_offset <= log.high_watermark


def test_a_full_disk_does_not_keep_retention_from_making_room() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    fill(log)
    disk.capacity = disk.used
    assert log.enforce_retention(1 << 50) > 0
    assert log.log_start_offset == bases(disk)[0] > 0
    append(log)
    assert everything(log)


# -- DeleteRecords


def test_deleted_records_are_gone_and_stay_gone(disk: Disk) -> None:
    log = open_log(disk)
    total = fill(log)
    starts = bases(disk)
    assert log.delete_records(starts[2] + 1) == starts[2] + 1
    assert bases(disk) == starts[2:], "segments wholly below go at once"
    assert read_file(disk, f"{DIRECTORY}/log-start-offset-checkpoint") == b"0\n1\n%d\n" % (starts[2] + 1)
    for ending in ("killed", "closed"):
        if ending == "closed":
            log.close()
        log = open_log(disk)
        assert (log.log_start_offset, log.log_end_offset) == (starts[2] + 1, total)
        with pytest.raises(OffsetOutOfRange):
            log.read(starts[2], 100)
        assert [row.offset for row in everything(log)] == list(range(starts[2] + 1, total))


def test_the_beginning_never_moves_back(disk: Disk) -> None:
    log = open_log(disk)
    fill(log)
    log.delete_records(50)
    assert log.delete_records(20) == 50
    assert log.log_start_offset == 50


def test_everything_can_be_deleted_and_nothing_more(disk: Disk) -> None:
    log = open_log(disk)
    total = fill(log)
    for before in (-1, total + 1):
        with pytest.raises(OffsetOutOfRange):
            log.delete_records(before)
    assert log.delete_records(total) == total
    assert log.read(total, 100) == []
    append(log)
    assert [row.offset for row in everything(log)] == [total]


def test_leader_epochs_begin_with_the_log(disk: Disk) -> None:
    log = open_log(disk)
    for epoch in (1, 2, 2, 5):
        append(log, batch(10), leader_epoch=epoch)
    log.delete_records(15)
    assert read_file(disk, f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n2\n2 15\n5 30\n"
    assert log.end_offset_for_epoch(1) == (1, 15)
    assert log.end_offset_for_epoch(2) == (2, 30)


def test_what_was_not_flushed_stays_when_a_topic_turns_to_fsync() -> None:
    log = open_log(MemoryDisk(), replace(SMALL, retention_bytes=0))
    total = fill(log)
    log.config = replace(log.config, flush_policy="fsync")
    assert log.high_watermark == 0
    assert log.enforce_retention(0) == 0
    log.flush()
    assert log.enforce_retention(0) > 0
    assert log.log_start_offset == log.high_watermark == total


def test_an_empty_log_is_kept_as_it_is(disk: Disk) -> None:
    log = open_log(disk, replace(SMALL, retention_bytes=0))
    total = fill(log)
    for _ in range(3):
        log.enforce_retention(0)
        assert bases(disk) == [total]
    append(log)
    assert [row.offset for row in everything(log)] == [total]
