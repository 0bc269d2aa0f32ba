"""Reads: whole batches, limits, any offset, across segments and restarts."""

from __future__ import annotations

import pytest
from tests.unit.log.workbench import SMALL, append, batch, everything, fill, open_log, rows

from kohort.log.disk import Disk
from kohort.log.log_config import LogConfig
from kohort.log.partition_log import OffsetOutOfRange, PartitionLog
from kohort.model.errors import ErrorCode
from kohort.wire.record_batches import iter_batches


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


def test_a_read_starts_with_the_batch_that_holds_the_offset(any_log: PartitionLog) -> None:
    for offset in range(any_log.log_end_offset):
        header, _ = next(iter_batches(any_log.read(offset, 300)[0]))
        assert header.base_offset <= offset <= header.last_offset


@pytest.mark.parametrize("max_bytes", [1, 130, 500, 1999, 1 << 20])
def test_a_consumer_that_goes_on_reads_every_record_once(any_log: PartitionLog, max_bytes: int) -> None:
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


def test_a_read_ends_at_the_offset_it_is_told(log: PartitionLog) -> None:
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
