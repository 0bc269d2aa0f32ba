"""The segments of one log: reads of whole batches, offsets by time, and what retention removes from the beginning."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest
from tests.unit.log.workbench import DIRECTORY, SMALL, append, batch, everything, fill, names, open_log, rows

from kohort.log.disk import Disk, read_file
from kohort.log.memory_disk import MemoryDisk
from kohort.log.partition_log import OffsetOutOfRange, PartitionLog
from kohort.log.segments import LogConfig
from kohort.model.errors import ErrorCode
from kohort.node.step_scheduler import result_of
from kohort.wire.compression import Compression
from kohort.wire.record_batches import Record, encode_batch, iter_batches


@pytest.fixture
def log(disk: Disk) -> PartitionLog:
    log = open_log(disk)
    fill(log)
    return log


@pytest.fixture(params=["warm", "reopened", "recovered"])
def any_log(request: pytest.FixtureRequest, disk: Disk) -> PartitionLog:
    """The same log while it is written, after a clean shutdown, and after a kill."""
    log = open_log(disk)
    fill(log)
    if request.param == "reopened":
        log.close()
    return log if request.param == "warm" else open_log(disk)


def test_a_read_starts_with_the_batch_with_the_offset(any_log: PartitionLog) -> None:
    for offset in range(any_log.log_end_offset):
        header, _ = next(iter_batches(any_log.read(offset, 300)[0]))
        assert header.base_offset <= offset <= header.last_offset


@pytest.mark.parametrize("max_bytes", [1, 130, 500, 1999, 1 << 20])
def test_a_consumer_that_continues_reads_every_record_once(any_log: PartitionLog, max_bytes: int) -> None:
    found = everything(any_log, max_bytes)
    assert [row.offset for row in found] == list(range(any_log.log_end_offset))
    assert [row.timestamp_ms for row in found] == [1000 + n for n in range(len(found))]


@pytest.mark.parametrize("max_bytes", [200, 400, 999])
def test_a_read_is_as_long_as_it_may_be_and_not_longer(log: PartitionLog, max_bytes: int) -> None:
    for offset in range(log.log_end_offset):
        (view,) = log.read(offset, max_bytes, at_least_one=False) or [memoryview(b"")]
        assert len(view) <= max_bytes
        (one,) = log.read(offset, 1)
        (all_of_it,) = log.read(offset, 1 << 20)
        if len(view) < len(all_of_it):
            sizes = [header.size for header, _ in iter_batches(all_of_it)]
            fitting = [sum(sizes[:n]) for n in range(len(sizes) + 1) if sum(sizes[:n]) <= max_bytes]
            assert len(view) == fitting[-1]
        assert rows([one])[0].offset <= offset


def test_one_batch_comes_through_even_when_it_is_too_large(log: PartitionLog) -> None:
    assert log.read(7, 1, at_least_one=False) == []
    assert log.read(7, 0, at_least_one=False) == []
    (view,) = log.read(7, 1)
    assert len(list(iter_batches(view, strict=True))) == 1


def test_a_read_ends_at_the_requested_offset(log: PartitionLog) -> None:
    borders = [row.offset for row in everything(log) if row.key]
    for up_to in borders[:40]:
        (header, _), *_ = iter_batches(log.read(up_to, 1)[0])
        found = everything(log, 300, up_to=header.base_offset)
        assert [row.offset for row in found] == list(range(header.base_offset))


def test_at_the_end_there_is_nothing_and_beyond_it_an_error(log: PartitionLog) -> None:
    end = log.log_end_offset
    assert log.read(end, 1000) == []
    for offset in (-1, end + 1):
        with pytest.raises(OffsetOutOfRange) as caught:
            log.read(offset, 1000)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_reader_at_the_tail_sees_each_append_even_over_a_roll(disk: Disk) -> None:
    log = open_log(disk)
    for n in range(100):
        assert log.read(n, 1000) == []
        append(log, batch(fill=b"%d" % (n % 10)))
        assert [row.offset for row in rows(log.read(n, 1000))] == [n]


def test_what_was_read_stays_as_it_was_when_the_log_grows_and_shrinks(disk: Disk) -> None:
    log = open_log(disk)
    fill(log, 30)
    views = [log.read(offset, 400) for offset in range(0, log.log_end_offset, 7)]
    before = [bytes(view[0]) for view in views]
    fill(log, 200)
    log.delete_records(log.high_watermark)
    log.close()
    assert [bytes(view[0]) for view in views] == before


def test_many_readers_at_many_places(log: PartitionLog) -> None:
    at = {reader: reader % log.log_end_offset for reader in range(200)}
    for _ in range(10):
        for reader, offset in at.items():
            if views := log.read(offset, 250):
                found = [row.offset for row in rows(views) if row.offset >= offset]
                assert found[0] == offset
                at[reader] = found[-1] + 1


def test_large_batches_are_read_by_reference_to_the_file(disk: Disk) -> None:
    log = open_log(disk, LogConfig(max_message_bytes=1 << 22))
    for n in range(5):
        append(log, batch(size=700_000, fill=b"%d" % n))
    for n in range(5):
        (row,) = rows(log.read(n, 1000))
        assert row.value == b"%d" % n * 700_000


def test_an_index_for_every_batch_and_one_for_none_read_alike(disk: Disk) -> None:
    for interval in (0, 1 << 20):
        log = PartitionLog.open(disk, f"t-{interval}", LogConfig(index_interval_bytes=interval), 0)
        total = fill(log)
        assert [row.offset for row in everything(log, 150)] == list(range(total))
        assert all(rows(log.read(offset, 1))[0].offset <= offset for offset in range(total))
    assert SMALL.index_interval_bytes > 0


def bases(disk: Disk) -> list[int]:
    return [int(name[:20]) for name in names(disk, ".log")]


def test_the_size_that_stays_is_never_less_than_asked(disk: Disk) -> None:
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
    log = open_log(disk, replace(SMALL, retention_ms=1, retention_bytes=1, cleanup_policy=("compact",)))
    fill(log)
    assert log.enforce_retention(1 << 50) == 0
    log.config = replace(log.config, cleanup_policy=("compact", "delete"))
    assert log.enforce_retention(1 << 50) > 0


def test_nothing_that_is_not_durable_goes() -> None:
    log = open_log(MemoryDisk(), replace(SMALL, flush_policy="fsync", retention_bytes=0))
    append(log)
    log.flush()
    append(log)
    log.enforce_retention(0)
    assert log.log_start_offset <= log.high_watermark


def test_a_full_disk_does_not_prevent_retention_from_making_room() -> None:
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


def test_an_empty_log_stays_as_it_is(disk: Disk) -> None:
    log = open_log(disk, replace(SMALL, retention_bytes=0))
    total = fill(log)
    for _ in range(3):
        log.enforce_retention(0)
        assert bases(disk) == [total]
    append(log)
    assert [row.offset for row in everything(log)] == [total]


@pytest.mark.parametrize("ending", ["open", "closed", "killed"])
def test_each_records_time_finds_it(disk: Disk, ending: str) -> None:
    log = open_log(disk)
    total = fill(log)
    if ending == "closed":
        log.close()
    if ending != "open":
        log = open_log(disk)
    assert [result_of(log.offset_for_timestamp(1000 + n)) for n in range(total)] == [
        (1000 + n, n, 0) for n in range(total)
    ]
    assert result_of(log.offset_for_timestamp(0)) == (1000, 0, 0)
    assert result_of(log.offset_for_timestamp(1000 + total)) is None
    assert result_of(log.max_timestamp_offset()) == (999 + total, total - 1, 0)


TIMES = [5, 3, 9, 9, 2, 20, 1, 20, 20, 7, 30, 8, 8, 31, 4] * 8


@pytest.fixture
def disordered(disk: Disk) -> PartitionLog:
    log = open_log(disk)
    for at in range(0, len(TIMES), 3):
        rows = [Record(0, timestamp, b"k", b"v" * 60) for timestamp in TIMES[at : at + 3]]
        append(log, encode_batch(rows, compression=Compression.GZIP), leader_epoch=at)
    return log


def first(timestamp: int, start: int = 0) -> int | None:
    return next((n for n, time in enumerate(TIMES) if n >= start and time >= timestamp), None)


def test_timestamps_need_not_be_in_order(disordered: PartitionLog) -> None:
    for timestamp in range(33):
        found = result_of(disordered.offset_for_timestamp(timestamp))
        assert (None if found is None else found.offset) == first(timestamp)
        assert found is None or found.leader_epoch == found.offset // 3 * 3


def test_the_latest_record_is_the_first_of_the_latest(disordered: PartitionLog) -> None:
    assert result_of(disordered.max_timestamp_offset()) == (31, TIMES.index(31), TIMES.index(31) // 3 * 3)


def test_deleted_records_are_not_found(disordered: PartitionLog) -> None:
    for start in (1, 4, 17, 40, 90):
        disordered.delete_records(start)
        for timestamp in range(33):
            found = result_of(disordered.offset_for_timestamp(timestamp))
            assert (None if found is None else found.offset) == first(timestamp, start)


def test_what_consumers_may_not_see_is_not_found(disk: Disk) -> None:
    log = open_log(disk, replace(SMALL, flush_policy="fsync"))
    append(log, batch(timestamp_ms=10))
    log.flush()
    append(log, batch(timestamp_ms=20))
    assert result_of(log.offset_for_timestamp(11)) is None
    assert result_of(log.offset_for_timestamp(5)) == (10, 0, 0)


def test_under_log_append_time_batches_are_points_in_time(disk: Disk) -> None:
    log = open_log(disk, replace(SMALL, message_timestamp_type="LogAppendTime"))
    sizes = [3, 1, 4, 1, 5]
    for n, size in enumerate(sizes):
        append(log, batch(size), now_ms=100 * (n + 1))
    starts = [0, *accumulate(sizes)]
    assert [result_of(log.offset_for_timestamp(100 * n + 1)) for n in range(5)] == [
        (100 * (n + 1), starts[n], 0) for n in range(5)
    ]


def test_under_log_append_time_a_time_finds_the_rest_of_a_batch_that_was_cut(disk: Disk) -> None:
    log = open_log(disk, replace(SMALL, message_timestamp_type="LogAppendTime"))
    append(log, batch(10), now_ms=100)
    append(log, batch(5), now_ms=50)
    log.delete_records(4)
    assert result_of(log.offset_for_timestamp(60)) == (100, 4, 0)
    assert result_of(log.max_timestamp_offset()) == (100, 4, 0)
    log.delete_records(12)
    assert result_of(log.offset_for_timestamp(60)) is None
    assert result_of(log.max_timestamp_offset()) == (50, 12, 0)


def test_the_latest_record_is_one_that_is_left(disordered: PartitionLog) -> None:
    for start in (1, 14, 17, 44, 111, 119):
        disordered.delete_records(start)
        expected = max(TIMES[start:])
        assert result_of(disordered.max_timestamp_offset())[:2] == (expected, TIMES.index(expected, start))
    disordered.delete_records(len(TIMES))
    assert result_of(disordered.max_timestamp_offset()) is None


def test_the_latest_record_is_one_that_its_reader_may_see(disordered: PartitionLog) -> None:
    assert result_of(disordered.max_timestamp_offset(13))[:2] == (30, 10)
    assert result_of(disordered.max_timestamp_offset(1))[:2] == (5, 0)
    assert result_of(disordered.max_timestamp_offset(0)) is None


def test_records_without_a_time_are_found_by_none(disk: Disk) -> None:
    log = open_log(disk)
    append(log, encode_batch([Record(0, -1, None, b"v")]))
    assert result_of(log.offset_for_timestamp(0)) is None
    assert result_of(log.max_timestamp_offset()) is None
    assert len(everything(log)) == 1
