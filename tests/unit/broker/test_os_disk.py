"""The real disk: failed appends leave nothing, reads copy nothing and outlive what they read, files are bounded."""

from __future__ import annotations

import errno
import gc
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from kohort.broker.os_disk import STALLED_SECONDS, OperationTimer, OsDisk
from kohort.log.disk import DiskFull, StorageError


@pytest.fixture
def disk(tmp_path: Path) -> OsDisk:
    return OsDisk(tmp_path)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


# -- failing appends


@pytest.fixture
def small_files() -> Iterator[int]:
    """No file of this process may exceed 10,000 bytes: a write is cut short there, and the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    yield 10_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [3000, 300_000])
def test_an_append_that_fails_halfway_leaves_nothing(disk: OsDisk, tmp_path: Path, small_files: int, size: int) -> None:
    file = disk.open("f", create=True)
    file.append([b"a" * (small_files - 1000)])
    for _ in range(2):
        with pytest.raises(StorageError) as caught:
            file.append([b"b" * size])
        assert caught.value.errno == errno.EFBIG
        assert file.size == (tmp_path / "f").stat().st_size == small_files - 1000
    assert file.append([b"c" * 1000]) == small_files - 1000
    assert (tmp_path / "f").read_bytes() == b"a" * 9000 + b"c" * 1000
    assert file.read(8999, 2) == b"ac"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_no_space_is_a_full_disk(disk: OsDisk, tmp_path: Path) -> None:
    (tmp_path / "f").symlink_to("/dev/full")
    file = disk.open("f", create=True)
    for content in (b"x", bytes(1 << 20)):
        with pytest.raises(DiskFull) as caught:
            file.append([content])
        assert caught.value.errno == errno.ENOSPC
        assert caught.value.filename == "f"
    assert file.size == 0


def test_a_disk_without_permission_is_a_storage_error(disk: OsDisk, tmp_path: Path) -> None:
    (tmp_path / "d").write_text("a file, not a directory")
    for attempt in (lambda: disk.open("d/f", create=True), lambda: disk.list("d"), lambda: disk.make_directory("d/e")):
        with pytest.raises(StorageError):
            attempt()


def test_many_buffers_are_one_append(disk: OsDisk) -> None:
    file = disk.open("f", create=True)
    buffers = [b"%05d" % n * 100 for n in range(2000)]
    file.append([b"start"])
    assert file.append(buffers) == 5
    assert file.read(5, 1 << 30) == b"".join(buffers)


# -- reading


def test_the_tail_is_read_without_copy_and_without_a_map(disk: OsDisk) -> None:
    file = disk.open("f", create=True)
    file.append([b"one "])
    file.append([b"two "])
    view = file.read(0, 8)
    assert view == b"one two "
    assert view.readonly
    file.append([b"three"])
    assert file.read(4, 100) == b"two three"
    assert file._map is None
    assert view.obj is file.read(4, 100).obj, "both look into the same memory"


@pytest.mark.parametrize("step", [100, 5_000, 70_000, 400_000])
def test_every_range_reads_what_was_appended(disk: OsDisk, step: int) -> None:
    file = disk.open("f", create=True)
    content = b"".join(b"%08d" % n for n in range(200_000))
    for at in range(0, len(content), step):
        file.append([content[at : at + step]])
    for position in range(0, len(content), 123_457):
        for size in (1, 1000, 40_000, 300_000, len(content)):
            assert file.read(position, size) == content[position : position + size]
    file.close()
    assert file.read(1_000_000, 50_000) == content[1_000_000:1_050_000]
    assert disk.open("f").read(1_000_000, 50_000) == content[1_000_000:1_050_000]


def test_small_and_large_appends_may_take_turns(disk: OsDisk) -> None:
    file, content, borders = disk.open("f", create=True), b"", [0]
    for n, size in enumerate([100, 300_000, 200, 50, 400_000, 1, 3000, 300_000, 10]):
        part = b"%d" % n * size
        assert file.append([part[:7], part[7:]]) == len(content)
        content += part
        borders.append(len(content))
        for position in (at + shift for at in borders for shift in (-5, -1, 0, 3) if at + shift >= 0):
            for length in (1, 8, 60_000):
                assert file.read(position, length) == content[position : position + length]


def test_views_outlive_growth_close_and_removal(disk: OsDisk) -> None:
    file = disk.open("f", create=True)
    file.append([b"x" * 500_000])
    mapped = file.read(0, 400_000)
    file.append([b"y" * 500_000])
    again = file.read(450_000, 100_000)
    file.append([b"z"])
    tail = file.read(1_000_000, 1)
    file.close()
    disk.remove("f")
    assert mapped == b"x" * 400_000
    assert again == b"x" * 50_000 + b"y" * 50_000
    assert tail == b"z"


def test_a_file_is_never_cut_under_a_view(disk: OsDisk) -> None:
    file = disk.open("f", create=True)
    file.append([b"x" * 500_000])
    view = file.read(0, 400_000)
    with pytest.raises(StorageError, match="never cut"):
        file.truncate(10)
    assert view[399_999] == ord("x")
    view.release()
    file.truncate(10)
    assert (file.size, bytes(file.read(0, 100))) == (10, b"x" * 10)
    file.append([b"yy"])
    assert file.read(9, 100) == b"xyy"


# -- bounds


def test_tail_caches_share_one_budget(tmp_path: Path) -> None:
    disk = OsDisk(tmp_path, tail_bytes=100_000)
    files = [disk.open(f"f{n}", create=True) for n in range(40)]
    for _ in range(5):
        for n, file in enumerate(files):
            file.append([b"%02d" % n * 1000])
    assert sum(len(chunk.buffer) for file in files for chunk in file._chunks) <= 100_000
    for n, file in enumerate(files):
        assert file.read(0, 10_000) == b"%02d" % n * 5000
    files[-1].close()
    assert sum(len(chunk.buffer) for file in files for chunk in file._chunks) == disk._chunk_bytes


def test_open_files_are_bounded_and_reopen_by_themselves(tmp_path: Path) -> None:
    disk = OsDisk(tmp_path, open_limit=10, tail_bytes=0)
    gc.collect()  # maps of other tests hold descriptors too
    before = descriptors()
    files = [disk.open(f"f{n}", create=True) for n in range(100)]
    for turn in range(3):
        for n, file in enumerate(files):
            assert file.append([b"%02d" % n * 20_000]) == turn * 40_000
            assert file.read(turn * 40_000 + 39_998, 2) == b"%02d" % n
            assert file.read(0, 40_000) == b"%02d" % n * 20_000, "large enough for a map"
            assert descriptors() - before <= 10
    for file in files:
        file.flush()
    assert descriptors() > before
    disk.close()
    assert descriptors() == before
    assert files[7].read(0, 4) == b"0707", "a closed file is opened again when it is read"
    assert files[7].append([b"more"]) == 120_000
    disk.close()


def test_a_log_is_opened_where_the_process_has_no_descriptor_left(tmp_path: Path) -> None:
    disk = OsDisk(tmp_path, tail_bytes=0)
    files = [disk.open(f"f{n}", create=True) for n in range(20)]
    late = disk.open("f0", create=True)
    disk.release(late)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(tmp_path, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        assert late.append([b"x"]) == 0
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        disk.close()
    assert files[3].size == 0


def test_opening_to_look_needs_no_descriptor(disk: OsDisk) -> None:
    disk.open("f", create=True).append([b"abc"])
    before = descriptors()
    files = [disk.open("f") for _ in range(50)]
    assert {file.size for file in files} == {3}
    assert descriptors() == before


# -- one process


def test_a_directory_belongs_to_one_broker(tmp_path: Path) -> None:
    first, second = OsDisk(tmp_path / "new"), OsDisk(tmp_path / "new")
    first.lock()
    with pytest.raises(StorageError, match="another broker"):
        second.lock()
    first.unlock()
    second.lock()
    second.unlock()


def test_an_abandoned_disk_changes_nothing_any_more(disk: OsDisk, tmp_path: Path) -> None:
    disk.lock()
    file = disk.open("f", create=True)
    file.append([b"kept"])
    view = file.read(0, 4)
    disk.abandon()
    other = OsDisk(tmp_path)
    other.lock()
    other.unlock()
    for attempt in (
        lambda: file.append([b"late"]),
        lambda: file.truncate(0),
        lambda: disk.open("g", create=True),
        lambda: disk.remove("f"),
        lambda: disk.rename("f", "g"),
    ):
        with pytest.raises(StorageError):
            attempt()
    assert view == b"kept"
    assert (tmp_path / "f").read_bytes() == b"kept"


def test_a_disk_that_is_read_only_changes_nothing(tmp_path: Path) -> None:
    written = OsDisk(tmp_path)
    written.make_directory("d")
    written.open("d/f", create=True).append([b"kept"])
    written.close()
    sealed = OsDisk(tmp_path, is_read_only=True)
    file = sealed.open("d/f")
    assert bytes(file.read(0, 4)) == b"kept"
    changes = (
        lambda: file.append([b"x"]),
        lambda: file.truncate(0),
        lambda: sealed.open("d/new", create=True),
        lambda: sealed.remove("d/f"),
        lambda: sealed.rename("d/f", "d/g"),
        lambda: sealed.make_directory("e"),
        lambda: sealed.remove_directory("d"),
        sealed.lock,
    )
    for change in changes:
        with pytest.raises(StorageError):
            change()
    assert {path.name: path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()} == {"f": 4}


# -- disks that fail


def test_a_page_that_cannot_be_read_is_an_error_and_ends_no_process(disk: OsDisk, tmp_path: Path) -> None:
    file = disk.open("a", create=True)
    file.append([b"x" * (1 << 20)])
    assert file.read(0, 1 << 20)[-1:] == b"x"
    os.truncate(tmp_path / "a", 4096)  # as a disk that has lost the rest
    with pytest.raises(StorageError, match="Input/output error"):
        file.read(0, 1 << 20)
    assert file.read(0, 4096) == b"x" * 4096


def test_a_file_that_may_be_there_is_not_missing(disk: OsDisk, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    assert (disk.exists("a"), disk.exists("b"), disk.exists("a/b")) == (True, False, False)
    with pytest.raises(StorageError, match="too long"):
        disk.exists("x" * 300)


def test_a_lock_that_cannot_be_opened_is_an_error_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()  # as one of another user: root may open every file
    with pytest.raises(StorageError, match=r"Is a directory: '.*/\.lock'"):
        _ = OsDisk(tmp_path, is_read_only=True).is_locked


@pytest.mark.parametrize("below", ["", "data"])
def test_a_root_that_is_a_file_is_an_error_of_the_disk_and_not_of_the_socket(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError) as failed:
        OsDisk(tmp_path / "file" / below).lock()
    assert failed.value.errno in (errno.EEXIST, errno.ENOTDIR)


PATH = "orders-0/00000000000000000000.log"


def test_an_operation_that_takes_long_is_reported_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING")
    timer, operation = OperationTimer("no client is served until it does"), ("append to", PATH)
    for second in range(20):
        timer.look(operation, "/data", float(second))
    timer.look(None, "/data", 20.0)
    timer.look(None, "/data", 40.0)
    assert caplog.messages == [
        f"the disk does not answer: the append to /data/{PATH} has taken {STALLED_SECONDS:.0f}"
        " s; no client is served until it does: look for the device in the system's log",
        "the disk answers again: the append to /data/orders-0/00000000000000000000.log took 20 s",
    ]


def test_many_short_operations_are_no_long_one(caplog: pytest.LogCaptureFixture) -> None:
    timer = OperationTimer("no client is served until it does")
    for second in range(40):
        timer.look(("append to", f"orders-{second % 2}"), "/data", float(second))
    assert not caplog.messages
