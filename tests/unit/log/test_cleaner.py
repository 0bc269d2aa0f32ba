"""The cleaner of one log: what it may touch, when it is due, and that it does so piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal

import pytest
from tests.unit.log.workbench import DIRECTORY, everything, names, open_log

from kohort.log import cleaner
from kohort.log.disk import Disk, StorageError
from kohort.log.memory_disk import MemoryDisk
from kohort.log.partition_log import PartitionLog
from kohort.log.segments import LogConfig
from kohort.node.step_scheduler import result_of
from kohort.wire.compression import Compression
from kohort.wire.record_batches import CorruptBatch, Record, check_batch, encode_batch, iter_batches, read_header

COMPACT = LogConfig(
    segment_bytes=1000, index_interval_bytes=200, cleanup_policy=("compact",), retention_ms=-1, delete_retention_ms=100
)


def put(log: PartitionLog, *rows: tuple[str, str | None], time_ms: int = 1000, **header: int) -> None:
    """Append one batch of these keys and values."""
    records = [Record(0, time_ms, key.encode(), None if value is None else value.encode()) for key, value in rows]
    log.append([encode_batch(records, **header)], leader_epoch=0, now_ms=time_ms)  # type: ignore[arg-type]


def fill(log: PartitionLog, rounds: int = 40, keys: int = 5) -> None:
    for n in range(rounds):
        put(log, (f"key-{n % keys}", f"value {n}"))


def latest(log: PartitionLog) -> dict[str, str]:
    """Return what a reader makes of the log: the last value of each key that was not deleted."""
    found: dict[str, str] = {}
    for record in everything(log):
        assert record.key is not None
        if record.value is None:
            found.pop(record.key.decode(), None)
        else:
            found[record.key.decode()] = record.value.decode()
    return found


def offsets(log: PartitionLog) -> list[int]:
    return [record.offset for record in everything(log)]


def test_last_record_of_each_key_is_left_below_the_active_segment(disk: Disk) -> None:
    log = open_log(disk, COMPACT)
    fill(log)
    before, end, active = latest(log), log.log_end_offset, int(names(disk, ".log")[-1][:20])
    done = log.compact(0)
    assert done is not None
    assert done.first_dirty == active
    assert done.after_bytes < done.before_bytes
    assert offsets(log) == [*range(active - 5, active), *range(active, end)]
    assert (latest(log), log.log_start_offset, log.log_end_offset) == (before, 0, end)


def test_active_segment_is_closed_first_where_all_is_to_be_cleaned(disk: Disk) -> None:
    log = open_log(disk, COMPACT)
    fill(log)
    log.compact(0, roll=True)
    assert offsets(log) == [35, 36, 37, 38, 39]
    fill(log, 1)
    assert offsets(log) == [35, 36, 37, 38, 39, 40]


def test_cleaned_log_is_the_same_after_a_restart_and_after_a_kill(disk: Disk) -> None:
    log = open_log(disk, COMPACT)
    fill(log)
    log.compact(0)
    found = everything(log)
    assert everything(open_log(disk, COMPACT)) == found
    log.close()
    again = open_log(disk, COMPACT)
    assert again.recovery is None
    assert everything(again) == found


def test_reader_in_a_gap_continues_after_it(disk: Disk) -> None:
    log = open_log(disk, COMPACT)
    fill(log)
    log.compact(0, roll=True)
    for offset in range(36):
        (view,) = log.read(offset, 1)
        assert read_header(view).base_offset == 35


def test_segments_that_shrink_become_one(disk: Disk) -> None:
    log = open_log(disk, COMPACT)
    fill(log, 100)
    assert len(names(disk, ".log")) > 5
    log.compact(0)  # as in Kafka, what goes together is known by what segments were before a pass
    fill(log, 1)
    log.compact(0, roll=True)
    assert len(names(disk, ".log")) == 2
    assert not [name for name in disk.list(DIRECTORY) if name.endswith((".cleaned", ".swap"))]
    assert {name[:20] for name in names(disk, "index")} <= {name[:20] for name in names(disk, ".log")}


def test_offsets_by_time_are_found_in_a_cleaned_log(disk: Disk) -> None:
    log = open_log(disk, COMPACT)
    for n in range(60):
        put(log, (f"key-{n % 20}", f"value {n}"), time_ms=1000 + n)
    log.compact(0, roll=True)
    for n in range(60):
        found = result_of(log.offset_for_timestamp(1000 + n))
        assert found is not None
        assert found.offset == max(n, 40)


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_times_find_records_that_a_cleaner_left(
    disk: Disk, timestamp_type: Literal["CreateTime", "LogAppendTime"]
) -> None:
    log = open_log(disk, replace(COMPACT, message_timestamp_type=timestamp_type))
    put(log, ("a", "1"), ("b", "1"), ("c", "1"), time_ms=100)
    put(log, ("a", "2"), ("d", "1"), time_ms=90)
    put(log, ("e", "1"), time_ms=200, producer_id=7, producer_epoch=0, base_sequence=0)  # stays, empty
    put(log, ("e", "2"), time_ms=80)
    log.compact(0, roll=True)
    assert offsets(log) == [1, 2, 3, 4, 6]
    assert result_of(log.offset_for_timestamp(85)) == (100, 1, 0)
    assert result_of(log.offset_for_timestamp(101)) is None
    assert result_of(log.max_timestamp_offset()) == (100, 1, 0)


def test_second_pass_reads_only_what_is_new(disk: Disk) -> None:
    log = open_log(disk, COMPACT)
    fill(log)
    log.compact(0)
    clean = log.cleaner.cleanable(0)
    assert (clean.dirty_bytes, clean.ratio) == (0, 0)
    fill(log)
    assert 0.5 < log.cleaner.cleanable(0).ratio < 1
    again = open_log(disk, COMPACT)
    assert again.cleaner.cleanable(0) == log.cleaner.cleanable(0)


def test_cleaning_is_due_when_enough_is_dirty_and_only_by_the_policy() -> None:
    log = open_log(MemoryDisk(), COMPACT)
    assert not log.cleaner.is_worthwhile(0)
    fill(log)
    assert log.cleaner.is_worthwhile(0)
    log.config = replace(COMPACT, cleanup_policy=("delete",))
    assert not log.cleaner.is_worthwhile(0)
    log.config = COMPACT
    log.compact(0)
    put(log, *((f"new-{n}", "x" * 10) for n in range(5)))
    fill(log, 12, keys=12)
    assert log.cleaner.cleanable(0).ratio > 0
    log.config = replace(COMPACT, min_cleanable_ratio=1.0)
    assert not log.cleaner.is_worthwhile(0)
    log.config = replace(COMPACT, min_cleanable_ratio=1.0, max_compaction_lag_ms=500)
    assert log.cleaner.is_worthwhile(2_000)
    assert not log.cleaner.is_worthwhile(1_200)


def test_young_records_are_left_alone() -> None:
    log = open_log(MemoryDisk(), replace(COMPACT, min_compaction_lag_ms=1_000))
    for n in range(60):
        put(log, ("key", f"value {n}"), time_ms=n * 100)
    bounds = log.cleaner.cleanable(4_000)
    assert 0 < bounds.end <= 31
    log.compact(4_000)
    assert offsets(log) == [bounds.end - 1, *range(bounds.end, 60)]


def test_segment_of_a_compacted_log_gets_no_older_than_its_records_may() -> None:
    log = open_log(MemoryDisk(), replace(COMPACT, max_compaction_lag_ms=50))
    for n in range(3):
        put(log, ("key", "value"), time_ms=n * 40)
    assert len(log.cleaner._segments) == 2


def test_deleted_keys_are_gone_for_good_after_their_time(disk: Disk) -> None:
    log = open_log(disk, COMPACT)
    fill(log, 20)
    put(log, ("key-1", None), ("key-3", None))
    fill(log, 1)
    log.compact(0, roll=True)
    assert [record.key for record in everything(log) if record.value is None] == [b"key-1", b"key-3"]
    log.compact(99)
    assert latest(log).keys() == {"key-0", "key-2", "key-4"}
    assert len(everything(log)) == 5
    put(log, ("other", "value"))
    log.compact(100, roll=True)
    assert {record.key for record in everything(log)} == {b"key-0", b"key-2", b"key-4", b"other"}


def test_nothing_is_written_where_nothing_changes() -> None:
    disk = MemoryDisk()
    log = open_log(disk, COMPACT)
    for n in range(40):
        put(log, (f"key-{n}", "value"))
    log.compact(0)
    files = {path: file for path, file in disk.files.items() if path.endswith(".log")}
    assert len(files) > 3
    put(log, *((f"more-{n}", "value" * 20) for n in range(8)))
    log.compact(0)
    assert log.cleaner.first_dirty == 40
    assert all(disk.files[path] is file for path, file in files.items())


def test_idempotent_producer_continues_after_its_records_were_cleaned(disk: Disk) -> None:
    log = open_log(disk, COMPACT)
    for n in range(30):
        put(log, ("key", f"value {n}"), producer_id=5, producer_epoch=0, base_sequence=n)
    put(log, ("key", "by another"))
    log.compact(0, roll=True)
    assert len(everything(log)) == 1
    for name in names(disk, ".snapshot"):
        disk.remove(f"{DIRECTORY}/{name}")
    again = open_log(disk, COMPACT)
    following = encode_batch([Record(0, 0, b"key", b"v")], producer_id=5, producer_epoch=0, base_sequence=30)
    assert again.producers.check(read_header(following)) is None
    assert again.producers.check(read_header(encode_batch(
        [Record(0, 0, b"key", b"v")], producer_id=5, producer_epoch=0, base_sequence=29)))  # fmt: skip


def test_pass_takes_as_many_keys_as_there_is_memory_for() -> None:
    log = open_log(MemoryDisk(), COMPACT)
    fill(log, 120, keys=40)
    expected = latest(log)
    ends = [0]
    while log.cleaner.cleanable(0).dirty_bytes and ends[-1] < log.cleaner.cleanable(0).end:
        for _ in log.cleaner.begin(0, memory_bytes=2_000):
            pass
        assert log.cleaner.first_dirty > ends[-1]
        ends.append(log.cleaner.first_dirty)
        assert latest(log) == expected
    assert len(ends) > 5


def test_log_is_appended_to_and_read_between_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaner, "PIECE_BYTES", 200)
    log = open_log(MemoryDisk(), COMPACT)
    fill(log)
    reader = 0
    for size in log.cleaner.begin(0):
        assert 0 < size <= 200
        fill(log, 1)
        (view,) = log.read(reader, 100)
        reader = read_header(view).last_offset + 1
    assert latest(log) == {f"key-{n}": latest(log)[f"key-{n}"] for n in range(5)}
    assert log.log_end_offset > 60
    assert offsets(log)[0] >= 5


def test_pass_ends_when_the_segments_that_it_reads_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaner, "PIECE_BYTES", 200)
    disk = MemoryDisk()
    log = open_log(disk, COMPACT)
    fill(log)
    steps = log.cleaner.begin(0)
    for _ in range(15):
        next(steps)
    log.delete_records(30)
    assert list(steps) == []
    assert not names(disk, ".cleaned")
    assert offsets(log)[-1] == 39
    log.compact(0)
    assert latest(log).keys() == {f"key-{n}" for n in range(5)}


def test_closing_the_log_in_the_middle_of_a_pass_leaves_nothing_of_it() -> None:
    disk = MemoryDisk()
    log = open_log(disk, COMPACT)
    fill(log)
    steps = log.cleaner.begin(0)
    for _ in range(3):
        next(steps)
    found = everything(log)
    log.close()
    assert not names(disk, ".cleaned")
    assert everything(open_log(disk, COMPACT)) == found


def test_open_transaction_ends_what_can_be_cleaned() -> None:
    log = open_log(MemoryDisk(), COMPACT)
    fill(log, 20)
    record = [Record(0, 0, b"key-0", b"perhaps")]
    log.append(
        [encode_batch(record, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)],
        leader_epoch=0,
        now_ms=0,
    )
    fill(log, 20)
    log.compact(0, roll=True)
    assert log.cleaner.first_dirty == 20
    assert offsets(log) == [*range(15, 41)]
    assert log.compact(0) is None
    assert not log.cleaner.is_worthwhile(0), "until there is more that could end it"
    fill(log, 20)
    assert log.cleaner.is_worthwhile(0)


def test_log_with_a_damaged_batch_is_left_as_it_is() -> None:
    disk = MemoryDisk()
    log = open_log(disk, COMPACT)
    fill(log)
    disk.files[f"{DIRECTORY}/{0:020d}.log"].content[100] ^= 1
    with pytest.raises(CorruptBatch):
        log.compact(0)
    assert not names(disk, ".cleaned")
    assert len(log.cleaner._segments) > 3


def test_full_disk_costs_the_pass_and_nothing_else() -> None:
    disk = MemoryDisk()
    log = open_log(disk, COMPACT)
    fill(log, 40, keys=39)
    found = everything(log)
    disk.capacity = disk.used + 50
    with pytest.raises(StorageError):
        log.compact(0)
    assert everything(log) == found
    disk.capacity = None
    log.compact(0, roll=True)
    assert len(everything(log)) == 39


def test_compacted_and_deleted_log_loses_its_oldest_segments_too() -> None:
    config = replace(COMPACT, cleanup_policy=("compact", "delete"), retention_bytes=1500)
    log = open_log(MemoryDisk(), config)
    for n in range(60):
        put(log, (f"key-{n}", "value"))
    log.compact(0)
    assert len(everything(log)) == 60
    log.enforce_retention(0)
    assert 0 < log.log_start_offset < 60
    assert offsets(log) == [*range(log.log_start_offset, 60)]


def test_every_batch_of_a_cleaned_log_is_valid(disk: Disk) -> None:
    log = open_log(disk, COMPACT)
    for n in range(60):
        put(log, *((f"key-{at}", f"value {n}") for at in range(n % 7, n % 7 + 3)))
    log.compact(0, roll=True)
    last = -1
    for segment in log.cleaner._segments:
        for header, batch in iter_batches(segment.log.read(0, segment.size), strict=True):
            check_batch(batch)
            assert header.base_offset > last
            last = header.last_offset


FLUSHED = replace(COMPACT, flush_policy="fsync")


class Crash(BaseException):
    """The process ends here."""


def after(count: int, error: Callable[[str], BaseException]) -> Callable[[str, str], None]:
    """Return a fault that lets so many operations pass and then none any more, or only the one, as `error` says."""
    left = count

    def fault(operation: str, path: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise error(f"{operation} {path}")

    return fault


def written() -> MemoryDisk:
    """Return a disk with a log of several segments that was cleaned once, and is dirty again; all of it is flushed."""
    disk = MemoryDisk()
    log = open_log(disk, FLUSHED)
    fill(log, 60)
    put(log, ("key-2", None), ("key-9", None))
    fill(log, 12, keys=2)
    log.compact(0)
    for n in range(40):
        put(log, (f"key-{n % 7}", f"later {n}"), producer_id=3, producer_epoch=0, base_sequence=n)
    put(log, ("key-5", None))
    log.flush()
    return disk


def crashes(disk: MemoryDisk) -> Iterator[tuple[int, MemoryDisk]]:
    """Yield what the disk is after a crash before each operation of a cleaning, until one comes to its end."""
    for count in range(10_000):
        twin = disk.clone()
        log = open_log(twin, FLUSHED)
        twin.fault = after(count, Crash)
        try:
            log.compact(200, roll=True)
        except Crash:
            twin.fault = None
            yield count, twin
        else:
            return


def test_crash_at_any_point_of_a_cleaning_leaves_a_log_with_the_same_content() -> None:
    disk = written()
    log = open_log(disk.clone(), FLUSHED)
    expected, rows, end = latest(log), everything(log), log.log_end_offset
    count = 0
    for count, found in crashes(disk):
        for loses_power in (False, True):
            twin = found.clone()
            if loses_power:
                twin.lose_unflushed()
            again = open_log(twin, FLUSHED)
            assert latest(again) == expected, count
            assert again.log_end_offset == end, count
            left = [(each.offset, each.key, each.value) for each in everything(again)]
            assert set(left) <= {(each.offset, each.key, each.value) for each in rows}, count
            assert left == sorted(left), count
            assert not [name for name in names(twin, "") if name.endswith((".cleaned", ".swap"))]
            again.compact(200, roll=True)
            assert latest(again) == expected, count
            assert len(everything(again)) == len(expected) + 1, "all that is left is the last of its key"
    assert count > 30


def test_crash_while_a_crash_is_repaired_is_repaired_too() -> None:
    disk = written()
    expected = latest(open_log(disk.clone(), FLUSHED))
    tried = 0
    for _, found in crashes(disk):
        if not any(name.endswith(".swap") for name in names(found, "")):
            continue
        for count in range(1000):
            twin = found.clone()
            twin.fault = after(count, Crash)
            try:
                open_log(twin, FLUSHED)
            except Crash:
                twin.fault = None
                twin.lose_unflushed()
                assert latest(open_log(twin, FLUSHED)) == expected
                tried += 1
            else:
                break
    assert tried > 20


@pytest.mark.parametrize("lasts", [True, False])
def test_disk_that_fails_at_any_point_of_a_cleaning_costs_no_record(lasts: bool) -> None:
    disk = written()
    expected = latest(open_log(disk.clone(), FLUSHED))
    failed = 0
    for count in range(10_000):
        twin = disk.clone()
        log = open_log(twin, FLUSHED)
        fails = after(count, lambda text: StorageError(5, text))
        twin.fault = fails if lasts else once(fails)
        try:
            log.compact(200, roll=True)
        except StorageError:
            failed += 1
        else:
            if lasts:
                break
            if count > 2 * failed + 20:
                break
        twin.fault = None
        if log.failure is None:
            assert latest(log) == expected, count
            put(log, ("goes", "on"))
            log.flush()
            assert latest(log) == {**expected, "goes": "on"}
        log.close()
        again = open_log(twin, FLUSHED)
        assert {key: value for key, value in latest(again).items() if key != "goes"} == expected, count
    assert failed > 30


def once(fault: Callable[[str, str], None]) -> Callable[[str, str], None]:
    """Return a fault that fails one operation only."""
    has_failed = False

    def failing(operation: str, path: str) -> None:
        nonlocal has_failed
        if not has_failed:
            try:
                fault(operation, path)
            except StorageError:
                has_failed = True
                raise

    return failing


def test_swap_that_was_decided_is_finished() -> None:
    """The names are Kafka's, so either broker may repair what the other one began."""
    disk = MemoryDisk()
    fill(open_log(disk, COMPACT), 60)
    bases, rows = [int(name[:20]) for name in names(disk, ".log")], everything(open_log(disk, COMPACT))
    both = b"".join(bytes(disk.files[f"{DIRECTORY}/{base:020d}.log"].content) for base in bases[:2])
    disk.open(f"{DIRECTORY}/{0:020d}.log.swap", create=True).append([both])
    log = open_log(disk, COMPACT)
    assert [int(name[:20]) for name in names(disk, ".log")] == [bases[0], *bases[2:]]
    assert everything(log) == rows


def test_draft_of_a_cleaning_that_was_not_decided_is_removed() -> None:
    disk = written()
    disk.open(f"{DIRECTORY}/{0:020d}.log.cleaned", create=True).append([b"half a batch"])
    rows = everything(open_log(disk.clone(), FLUSHED))
    log = open_log(disk, FLUSHED)
    assert everything(log) == rows
    assert not names(disk, ".cleaned")


def test_a_compressed_batch_is_a_step_of_its_own_and_counts_what_it_unpacks_to(disk: Disk) -> None:
    log = open_log(disk, replace(COMPACT, segment_bytes=100_000))
    for n in range(4):
        put(log, (f"key-{n}", "x" * 1_000_000), compression=Compression.GZIP)
        put(log, ("small", "value"))
    log.roll()
    steps = list(log.cleaner.begin(0))
    assert len([size for size in steps if size > 1_000_000]) == 2 * 4, (
        "each is read twice: for its keys, and for its place"
    )
    assert max(steps) < 2_000_000
    assert latest(log)["key-3"] == "x" * 1_000_000
