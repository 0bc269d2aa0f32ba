"""A disk in memory, with the faults of real ones: it can be full, fail, forget what was not flushed, tear a tail.

Used by tests, by brokers that need not outlive their process, and by simulations of crashes. A crash leaves names
(files created, renamed, removed) and may take any unflushed bytes from the ends of files.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from kohort.log.disk import Buffer, DiskFull, StorageError, Volume, check_path

Fault = Callable[[str, str], None]
"""Called with (operation, path) before each operation; what it raises is what the caller gets."""

CHANGES = ("create", "append", "write", "truncate", "make_directory", "remove", "rename")
"""Operations that a disk refuses which is mounted read-only."""


def failing(*operations: str, code: int = errno.EIO, where: str = "") -> Fault:
    """Return a fault that makes these operations, all if none is named, fail on paths that contain `where`."""

    def fault(operation: str, path: str) -> None:
        if where in path and (not operations or operation in operations):
            raise StorageError(code, f"{operation}: {errno.errorcode[code]}", path)

    return fault


class MemoryFile:
    """One file of a `MemoryDisk`."""

    def __init__(self, disk: MemoryDisk, path: str) -> None:
        self._disk = disk
        self.path = path
        self.content = bytearray()
        self.flushed = 0
        """Bytes from the start that survive a crash."""

    @property
    def size(self) -> int:
        return len(self.content)

    def append(self, buffers: Sequence[Buffer]) -> int:
        content = b"".join(buffers)
        self._disk.spend(self.path, len(content))
        position = len(self.content)
        self.content += content
        return position

    def read(self, position: int, size: int) -> memoryview:
        self._disk.meet_fault("read", self.path)
        return memoryview(bytes(memoryview(self.content)[position : position + size]))

    def truncate(self, size: int) -> None:
        self._disk.meet_fault("truncate", self.path)
        del self.content[size:]
        self.flushed = min(self.flushed, size)

    def flush(self) -> None:
        self.flusher()()

    def flusher(self) -> Callable[[], None]:
        size = len(self.content)

        def flush() -> None:
            self._disk.meet_fault("flush", self.path)
            self.flushed = max(self.flushed, min(size, len(self.content)))

        return flush

    def close(self) -> None:
        """There is no file to close."""


class MemoryDisk:
    """Files in memory; `capacity` bounds their bytes, `fault` may raise on any operation."""

    directory = "/memory"

    def __init__(self, capacity: int | None = None) -> None:
        self.files: dict[str, MemoryFile] = {}
        self.directories: set[str] = {""}
        self.capacity = capacity
        self.fault: Fault | None = None

    # -- the disk's own verbs

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        check_path(path)
        file = self.files.get(path)
        if file is not None:
            self.meet_fault("open", path)
        else:
            if not create:
                raise StorageError(errno.ENOENT, "no such file", path)
            self.meet_fault("create", path)
            if path.rpartition("/")[0] not in self.directories:
                raise StorageError(errno.ENOENT, "no such directory", path)
            file = self.files[path] = MemoryFile(self, path)
        return file

    def exists(self, path: str) -> bool:
        self.meet_fault("exists", path)
        return path in self.files or path in self.directories

    def list(self, directory: str) -> list[str]:
        self.meet_fault("list", directory)
        prefix = directory + "/" if directory else ""
        paths = [*self.files, *self.directories]
        return sorted(
            {p[len(prefix) :].partition("/")[0] for p in paths if p.startswith(prefix) and p != prefix} - {""}
        )

    def make_directory(self, path: str) -> None:
        check_path(path)
        self.meet_fault("make_directory", path)
        parts = path.split("/")
        self.directories.update("/".join(parts[: n + 1]) for n in range(len(parts)))

    def remove(self, path: str) -> None:
        self.meet_fault("remove", path)
        self.files.pop(path, None)

    def remove_directory(self, path: str) -> None:
        self.meet_fault("remove", path)
        for name in [name for name in self.files if name.startswith(path + "/")]:
            del self.files[name]
        self.directories = {name for name in self.directories if name != path and not name.startswith(path + "/")}

    def rename(self, path: str, new_path: str) -> None:
        check_path(new_path)
        self.meet_fault("rename", path)
        if path in self.files:
            file = self.files.pop(path)
            file.path = new_path
            self.files[new_path] = file
        elif path in self.directories:
            for name in [name for name in self.files if name.startswith(path + "/")]:
                self.files[new_path + name[len(path) :]] = self.files.pop(name)
            inside = {name for name in self.directories if name == path or name.startswith(path + "/")}
            self.directories = self.directories - inside | {new_path + name[len(path) :] for name in inside}
        else:
            raise StorageError(errno.ENOENT, "no such file", path)

    def flush_directory(self, path: str) -> None:
        self.meet_fault("flush_directory", path)

    def volume(self) -> Volume:
        if self.capacity is None:
            return Volume(self.directory, -1, -1)
        return Volume(self.directory, self.capacity, max(0, self.capacity - self.used))

    # -- faults

    def meet_fault(self, operation: str, path: str) -> None:
        """Let the fault hook object to an operation."""
        if self.fault is not None:
            self.fault(operation, path)

    def spend(self, path: str, size: int) -> None:
        """Take `size` bytes of the capacity. Raises DiskFull when they are not there."""
        self.meet_fault("append", path)
        if self.capacity is not None and self.used + size > self.capacity:
            raise DiskFull(path, self.directory, size, max(self.capacity - self.used, 0))

    @property
    def used(self) -> int:
        """Bytes in all files."""
        return sum(file.size for file in self.files.values())

    def lose_unflushed(self) -> None:
        """Crash as a machine without power does: only flushed bytes remain."""
        for file in self.files.values():
            del file.content[file.flushed :]

    def tear(self, path: str, size: int) -> None:
        """Crash in the middle of a write: of this file, only the first `size` bytes remain."""
        del self.files[path].content[size:]

    def clone(self) -> MemoryDisk:
        """Return a disk of its own with the same bytes: what a second process would find after a kill now."""
        twin = MemoryDisk(self.capacity)
        twin.directories = set(self.directories)
        for path, file in self.files.items():
            copy = twin.files[path] = MemoryFile(twin, path)
            copy.content, copy.flushed = bytearray(file.content), file.flushed
        return twin
