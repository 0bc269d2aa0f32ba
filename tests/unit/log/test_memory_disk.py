"""The disk in memory: the same contract as the real one, and its faults."""

from __future__ import annotations

import pytest

from kohort.log.disk import Disk, DiskFull, StorageError, read_file, replace_file
from kohort.log.memory_disk import MemoryDisk


def test_files_are_appended_read_and_cut(disk: Disk) -> None:
    disk.make_directory("a/b")
    file = disk.open("a/b/c", create=True)
    assert file.append([b"hello ", bytearray(b"wor"), memoryview(b"ld")]) == 0
    assert file.append([b"!"]) == 11
    assert file.append([]) == 12
    assert file.size == 12
    assert file.read(6, 5) == b"world"
    assert file.read(6, 500) == b"world!"
    assert file.read(12, 5) == file.read(99, 5) == b""
    file.truncate(5)
    assert (file.size, bytes(file.read(0, 99))) == (5, b"hello")
    file.append([b"?"])
    file.flush()
    file.close()
    assert read_file(disk, "a/b/c") == b"hello?"
    assert disk.open("a/b/c").size == 6
    assert disk.open("a/b/c", create=True).size == 6, "create takes what is there"


def test_names_are_listed_sorted_renamed_and_removed(disk: Disk) -> None:
    disk.make_directory("a/inner")
    for name in ("z", "b", "m"):
        disk.open(f"a/{name}", create=True).append([name.encode()])
    assert list(disk.list("a")) == ["b", "inner", "m", "z"]
    assert list(disk.list("")) == ["a"]
    assert list(disk.list("nowhere")) == []
    disk.rename("a/z", "a/b")
    assert read_file(disk, "a/b") == b"z"
    disk.rename("a", "moved")
    assert list(disk.list("moved")) == ["b", "inner", "m"]
    assert disk.exists("moved/inner")
    assert not disk.exists("a/b")
    disk.remove("moved/m")
    disk.remove("moved/m")
    disk.flush_directory("moved")
    disk.flush_directory("")
    disk.remove_directory("moved")
    disk.remove_directory("moved")
    assert list(disk.list("")) == []


def test_what_is_not_there_is_a_storage_error(disk: Disk) -> None:
    for attempt in (
        lambda: disk.open("missing"),
        lambda: disk.open("no/directory", create=True),
        lambda: disk.rename("missing", "other"),
        lambda: read_file(disk, "missing"),
    ):
        with pytest.raises(StorageError):
            attempt()


@pytest.mark.parametrize("path", ["/etc/passwd", "../up", "a/../../up", "a//b", "a/./b", "", "a\0b", "a/.."])
def test_no_path_leaves_the_root(disk: Disk, path: str) -> None:
    disk.make_directory("a")
    for attempt in (
        lambda: disk.open(path, create=True),
        lambda: disk.make_directory(path),
        lambda: disk.rename("a", path),
    ):
        with pytest.raises(StorageError):
            attempt()
    assert disk.exists("a")


def test_a_file_is_replaced_as_a_whole(disk: Disk) -> None:
    disk.make_directory("a")
    for content in (b"first", b"second, longer", b"3rd"):
        replace_file(disk, "a/f", content, durable=True)
        assert read_file(disk, "a/f") == content
    assert list(disk.list("a")) == ["f"]


def test_a_full_disk_takes_nothing_of_an_append() -> None:
    disk = MemoryDisk(capacity=10)
    file = disk.open("f", create=True)
    file.append([b"12345678"])
    with pytest.raises(DiskFull):
        file.append([b"9", b"0a"])
    assert file.size == 8
    assert file.append([b"90"]) == 8


def test_a_power_failure_leaves_what_was_flushed() -> None:
    disk = MemoryDisk()
    file = disk.open("f", create=True)
    file.append([b"kept"])
    file.flush()
    file.append([b" lost"])
    twin = disk.clone()
    disk.lose_unflushed()
    assert read_file(disk, "f") == b"kept"
    assert read_file(twin, "f") == b"kept lost"
    twin.tear("f", 6)
    assert read_file(twin, "f") == b"kept l"
    twin.lose_unflushed()
    assert read_file(twin, "f") == b"kept", "a clone knows what was flushed"
