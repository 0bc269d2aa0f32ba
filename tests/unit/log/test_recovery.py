"""What is left of a log after a kill, a power failure, a full disk or damage: every whole batch, and no half one."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.unit.log.workbench import DIRECTORY, SMALL, append, batch, everything, fill, names, open_log, overwrite, rows

from kohort.log.disk import Disk, DiskFull, StorageError, read_file
from kohort.log.memory_disk import MemoryDisk
from kohort.log.segments import LogConfig
from kohort.node.step_scheduler import result_of
from kohort.wire.record_batches import CorruptBatch, check_batch, iter_batches

DURABLE = replace(SMALL, flush_policy="fsync")


class Killed(BaseException):
    """The process ended here."""


def last_log(disk: Disk) -> str:
    return f"{DIRECTORY}/{names(disk, '.log')[-1]}"


def test_a_killed_log_loses_nothing(disk: Disk) -> None:
    log = open_log(disk)
    fill(log)
    before = everything(log)
    log = open_log(disk)
    assert log.recovery is not None
    assert log.recovery[1:4] == (0, None, 0)
    assert everything(log) == before


def test_a_torn_append_is_cut_at_every_byte_and_nothing_before_it() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    total = fill(log, 20)
    before = everything(log)
    start = disk.files[last_log(disk)].size
    append(log, batch(3, size=20))
    path, end = last_log(disk), disk.files[last_log(disk)].size
    start = start if start < end else 0
    for size in range(start, end):
        torn = disk.clone()
        torn.tear(path, size)
        log = open_log(torn)
        assert log.log_end_offset == total, f"torn at {size}"
        assert torn.files[path].size == start
        assert everything(log) == before
        append(log, batch(2))
        assert len(everything(open_log(torn))) == total + 2


def test_garbage_behind_the_last_batch_is_cut(disk: Disk) -> None:
    for garbage in (b"\x00", bytes(61), bytes(5000), b"\xff" * 300, batch()[:60], batch(5)[:-1]):
        log = open_log(disk)
        total = fill(log, 3)
        file = disk.open(last_log(disk))
        file.append([garbage])
        log = open_log(disk)
        assert log.log_end_offset == total
        assert log.recovery is not None
        assert log.recovery.cut_bytes == len(garbage)
        assert log.recovery.set_aside is None
        assert f"cut {len(garbage)} bytes" in (log.recovery.sentence or "")


def test_a_zeroed_end_is_cut(disk: Disk) -> None:
    log = open_log(disk)
    append(log)
    append(log, batch(4))
    log.close()
    disk.remove(f"{DIRECTORY}/clean-shutdown")
    damage(disk, disk.open(last_log(disk)).size - 100, bytes(100))
    log = open_log(disk)
    assert log.log_end_offset == 1
    assert len(everything(log)) == 1


def damage(disk: Disk, position: int, content: bytes) -> None:
    overwrite(disk, last_log(disk), position, content)


def test_a_valid_batch_behind_a_damaged_one_is_never_cut(disk: Disk) -> None:
    log = open_log(disk)
    for n in range(4):
        append(log, batch(2, fill=b"%d" % n))
    (view,) = log.read(0, 10_000)
    sizes = [header.size for header, _ in iter_batches(view)]
    del view
    log.close()
    disk.remove(f"{DIRECTORY}/clean-shutdown")
    damage(disk, sizes[0] + 100, b"\xee")
    log = open_log(disk)
    assert log.recovery is not None
    assert (log.recovery.cut_bytes, log.recovery.corrupt_batches) == (0, 1)
    assert "1 batches with a wrong CRC stay in orders-0/00000000000000000000.log" in (log.recovery.sentence or "")
    assert log.log_end_offset == 8
    assert [row.offset for row in rows(log.read(4, 10_000))] == [4, 5, 6, 7]
    (found,) = log.read(2, 1)
    with pytest.raises(CorruptBatch):
        check_batch(found)


def test_valid_batches_that_cannot_be_reached_are_set_aside(disk: Disk) -> None:
    log = open_log(disk)
    for n in range(4):
        append(log, batch(2, fill=b"%d" % n))
    (view,) = log.read(0, 10_000)
    whole = bytes(view)
    first = next(iter_batches(whole))[0].size
    del view
    log.close()
    disk.remove(f"{DIRECTORY}/clean-shutdown")
    damage(disk, first + 8, struct.pack(">i", 1 << 30))
    log = open_log(disk)
    assert log.log_end_offset == 2
    assert log.recovery is not None
    assert log.recovery.set_aside == f"{DIRECTORY}/00000000000000000000.log.cut"
    cut = read_file(disk, log.recovery.set_aside)
    assert cut[8 + 4 :] == whole[first + 12 :]
    append(log)
    assert [row.offset for row in everything(open_log(disk))] == [0, 1, 2]


def test_a_batch_with_offsets_that_were_given_before_is_no_batch_of_the_log(disk: Disk) -> None:
    log = open_log(disk)
    append(log, batch(3))
    file = disk.open(last_log(disk))
    file.append([batch(1)])
    log = open_log(disk)
    assert log.log_end_offset == 3
    assert log.recovery is not None
    assert log.recovery.set_aside is not None


def test_an_empty_newest_segment_does_not_hide_a_torn_one_before_it(disk: Disk) -> None:
    log = open_log(disk)
    append(log, batch(3))
    file = disk.open(last_log(disk))
    file.append([batch()[:70]])
    disk.open(f"{DIRECTORY}/00000000000000000004.log", create=True)
    log = open_log(disk)
    assert log.log_end_offset == 4
    assert [row.offset for row in everything(log)] == [0, 1, 2]
    append(log)
    assert [row.offset for row in everything(log)] == [0, 1, 2, 4]


def test_deleted_offsets_never_come_again() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    for _ in range(5):
        append(log)
    log.delete_records(4)
    disk.tear(last_log(disk), 0)
    log = open_log(disk)
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
    append(log)
    assert [row.offset for row in everything(log)] == [4]
    assert [row.offset for row in everything(open_log(disk))] == [4]


def test_what_a_crash_left_lying_about_is_swept_up(disk: Disk) -> None:
    log = open_log(disk)
    append(log)
    for name in ("00000000000000000099.index", "00000000000000000099.timeindex", "partition.metadata.tmp"):
        disk.open(f"{DIRECTORY}/{name}", create=True).append([b"junk"])
    open_log(disk)
    assert names(disk, ".tmp") == names(disk, "99.index") == names(disk, "99.timeindex") == []


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("fault", ["missing", "empty", "cut", "zeros", "garbage", "beyond", "elsewhere", "misnamed"])
def test_a_bad_index_costs_time_and_nothing_else(disk: Disk, suffix: str, fault: str) -> None:
    log = open_log(disk)
    total = fill(log)
    log.close()
    name = f"{DIRECTORY}/{names(disk, suffix)[1]}"
    content = read_file(disk, name)
    disk.remove(name)
    replaced = {
        "empty": b"",
        "cut": content[:-5],
        "zeros": content + bytes(100),  # as Kafka fills them up
        "garbage": b"\xa5" * 100,
        "beyond": struct.pack(">ii", 1, 1 << 30) if suffix == ".index" else struct.pack(">qi", 1 << 60, 5),
        "misnamed": b"\x00\x00\x00\x00" + content[-4:] if suffix == ".index" else struct.pack(">qi", 1, 1),
        "elsewhere": struct.pack(">ii", 3, 17) if suffix == ".index" else struct.pack(">qi", 5, 1),
    }
    if fault != "missing":
        disk.open(name, create=True).append([replaced[fault]])
    log = open_log(disk)
    assert log.recovery is None
    assert [row.offset for row in everything(log)] == list(range(total))
    assert [row.offset for offset in range(total) for row in rows(log.read(offset, 1)) if row.offset == offset]
    if fault not in ("beyond", "elsewhere", "misnamed") or suffix == ".index":
        for timestamp in range(1000, 1000 + total, 7):
            found = result_of(log.offset_for_timestamp(timestamp))
            assert found is not None
            assert found.offset == timestamp - 1000


# -- full and failing disks


def test_a_disk_that_is_full_at_any_point_refuses_and_loses_nothing() -> None:
    roomy = MemoryDisk()
    fill(open_log(roomy), 14)
    for capacity in range(0, roomy.used + 40, 13):
        disk = MemoryDisk(capacity)
        log = open_log(disk)
        acknowledged = 0
        for n in range(14):
            try:
                acknowledged = append(log, batch(n % 5 + 1)).last_offset + 1
            except DiskFull:
                break
        assert log.log_end_offset == acknowledged
        assert len(everything(log)) == acknowledged, "reads go on"
        killed = open_log(disk.clone())
        assert killed.log_end_offset == acknowledged
        disk.capacity = None
        append(log, batch(2))
        assert [row.offset for row in everything(log)] == list(range(acknowledged + 2))
        log.close()
        assert [row.offset for row in everything(open_log(disk))] == list(range(acknowledged + 2))


def test_a_log_on_a_full_disk_closes_and_opens() -> None:
    disk = MemoryDisk()
    log = open_log(disk)
    total = fill(log)
    disk.capacity = disk.used
    log.close()
    log = open_log(disk)
    assert log.log_end_offset == total
    assert len(everything(log)) == total


def test_a_kill_at_any_operation_loses_nothing_acknowledged() -> None:
    def work(disk: MemoryDisk, acknowledged: list[int]) -> None:
        log = open_log(disk)
        for n in range(24):
            append(log, batch(n % 4 + 1), leader_epoch=n // 6)
            acknowledged[0] = log.log_end_offset
            if n == 12:
                log.delete_records(5)
                log.close()
                log = open_log(disk)
        log.close()

    operations = 0

    def count(_operation: str, _path: str) -> None:
        nonlocal operations
        operations += 1

    disk = MemoryDisk()
    disk.fault = count
    work(disk, [0])
    for at in range(operations):
        disk, left, acknowledged = MemoryDisk(), at, [0]

        def kill(_operation: str, _path: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed

        disk.fault = kill
        with pytest.raises(Killed):
            work(disk, acknowledged)
        disk.fault = None
        log = open_log(disk)
        assert log.log_end_offset >= acknowledged[0]
        found = [row.offset for row in everything(log)]
        assert found == list(range(log.log_start_offset, log.log_end_offset))
        append(log)
        assert everything(log)[-1].offset == log.log_end_offset - 1


def test_a_failing_disk_is_a_storage_error_at_any_operation() -> None:
    for failing in ("create", "make_directory", "append", "rename", "remove", "read"):
        disk = MemoryDisk()
        log = open_log(disk)
        total = fill(log, 8)

        def fail(operation: str, path: str, failing: str = failing) -> None:
            if operation == failing:
                raise StorageError(5, "input/output error", path)

        disk.fault = fail
        for _ in range(20):
            try:
                append(log, batch(3))
                total += 3
            except StorageError:
                pass
        disk.fault = None
        append(log)
        assert [row.offset for row in everything(log)] == list(range(total + 1))
        assert [row.offset for row in everything(open_log(disk, SMALL))] == list(range(total + 1))


@pytest.mark.parametrize("config", [SMALL, DURABLE], ids=["written", "flushed"])
@pytest.mark.parametrize("end", ["closed", "killed", "without power"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_disk_that_fails_for_a_moment_at_any_operation_loses_nothing_acknowledged(
    config: LogConfig, end: str, times: int
) -> None:
    for at in range(500):
        disk, left = MemoryDisk(), at
        log = open_log(disk, config)
        acknowledged: list[int] = []

        def fail(operation: str, path: str) -> None:
            nonlocal left
            left -= 1
            if -times <= left < 0:
                raise StorageError(5, f"{operation}: input/output error", path)

        disk.fault = fail
        for number in range(12):
            with suppress(StorageError):
                offset = append(log, batch(2)).base_offset
                log.flush()
                acknowledged += [offset, offset + 1]
                if number % 5 == 2:
                    log.roll()
        disk.fault = None
        if end == "closed":
            log.close()
        elif end == "without power" and config.is_durable:
            disk.lose_unflushed()
        found = [row.offset for row in everything(open_log(disk, config))]
        assert set(acknowledged) <= set(found)
        assert found == list(range(len(found)))
        if left >= 0:
            return
    raise AssertionError("more operations than were foreseen")


def test_an_empty_segment_that_begins_before_the_end_of_the_last_one_never_was() -> None:
    """A disk could not say that it was made, nor that it was removed again; the log went on without it."""
    disk = MemoryDisk()
    log = open_log(disk)
    append(log, batch(5))
    disk.open(f"{DIRECTORY}/00000000000000000002.log", create=True)
    log = open_log(disk)
    assert append(log).base_offset == 5
    assert [row.offset for row in everything(open_log(disk))] == list(range(6))


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("bit", [31, 40, 62])
def test_an_offset_that_no_batch_of_its_segment_has_stops_no_start(bit: int, is_closed: bool) -> None:
    """No CRC covers the base offset: one flipped bit moves a batch beyond what an index can hold."""
    disk = MemoryDisk()
    log = open_log(disk)
    for _ in range(2):
        append(log, batch(3, size=190))
    start = disk.files[last_log(disk)].size // 2
    if is_closed:
        log.close()
    disk.files[last_log(disk)].content[start + 7 - bit // 8] ^= 1 << bit % 8
    log = open_log(disk)
    assert log.log_end_offset == (6 if is_closed else 3)
    if log.recovery is not None:
        assert f"at byte {start}; the log ends at offset 3" in (log.recovery.sentence or "")
    end = append(log).base_offset + 1
    log.close()
    assert open_log(disk).log_end_offset == end
