"""A cleaning that a crash or a failing disk ends at any point: the log loads, and says what it said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests.unit.log.test_cleaner import COMPACT, fill, latest, put
from tests.unit.log.workbench import DIRECTORY, everything, names, open_log

from kohort.log.disk import StorageError
from kohort.log.memory_disk import MemoryDisk

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


def test_crash_at_any_point_of_a_cleaning_leaves_a_log_that_says_the_same() -> None:
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
