"""Offsets by time: the first record at or after a timestamp, over segments, restarts and deleted records."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest
from tests.unit.log.workbench import SMALL, append, batch, everything, fill, open_log

from kohort.log.disk import Disk
from kohort.log.partition_log import PartitionLog
from kohort.node.step_scheduler import result_of
from kohort.wire.record_batches import Compression, Record, encode_batch


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


def test_records_without_a_time_are_found_by_none(disk: Disk) -> None:
    log = open_log(disk)
    append(log, encode_batch([Record(0, -1, None, b"v")]))
    assert result_of(log.offset_for_timestamp(0)) is None
    assert result_of(log.max_timestamp_offset()) is None
    assert len(everything(log)) == 1
