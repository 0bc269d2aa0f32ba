"""The real disk: `kohort.log.disk` over a directory of the file system. The one module that imports `os`.

Appends are one system call each and leave nothing behind when they fail. Reads copy nothing: recent bytes come from
a bounded tail cache of what was appended, older ones from a memory map, which is renewed when the file has grown and
under which a file is never cut. Open files are bounded; the least recently used is closed and reopened on demand.

The event loop waits for the disk when it appends and reads, so a thread (`DiskWatch`) reports a disk that does not
answer: one log line when an operation takes long, one when it has ended.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import mmap
import os
import shutil
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

from kohort.log.disk import Buffer, DiskFull, StorageError, Volume, check_path

_SMALL_READ = 32 * 1024
"""Reads up to this size are copied: cheaper than a map, and an error of the disk is an error of the call."""

_MOST_BUFFERS = 512
"""Of one system call; IOV_MAX is 1024 on Linux and macOS."""

_MAP_OPTIONS: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
_MAP_DESCRIPTORS = 0 if _MAP_OPTIONS else 1
"""Until Python 3.13 each map has a descriptor of its own."""

_POPULATE_READ = 22 if sys.platform == "linux" else 0
"""MADV_POPULATE_READ, of Linux 5.14 and newer: reads pages now, and fails where touching them would end the process."""

_FIRST_CHUNK, _LARGEST_CHUNK = 4 * 1024, 256 * 1024


def _storage_error(error: OSError, path: str) -> StorageError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(path)
    return StorageError(error.errno, error.strerror, path)


@contextmanager
def _storage_errors(path: str) -> Iterator[None]:
    """Have the system's errors be those of a disk."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise _storage_error(error, path) from error


Operation = tuple[str, str]
"""What is done to the disk, and the path."""


class _Chunk:
    """A piece of a file's end, as it was appended. Bytes are written once, so views of it stay true."""

    __slots__ = ("buffer", "file", "start", "used", "view")

    def __init__(self, file: OsFile, start: int, size: int) -> None:
        self.file = file
        self.start = start
        self.used = 0
        self.buffer = bytearray(size)
        self.view = memoryview(self.buffer).toreadonly()


class OsFile:
    """One file of an `OsDisk`."""

    __slots__ = ("_chunks", "_descriptor", "_disk", "_map", "_size", "_view", "path")

    def __init__(self, disk: OsDisk, path: str, size: int, descriptor: int = -1) -> None:
        self._disk = disk
        self.path = path
        self._size = size
        self._descriptor = descriptor
        self._chunks: list[_Chunk] = []
        self._map: mmap.mmap | None = None
        self._view = memoryview(b"")

    @property
    def size(self) -> int:
        return self._size

    def append(self, buffers: Sequence[Buffer]) -> int:
        size = 0
        for buffer in buffers:
            size += len(buffer)
        start = self._size
        if size > _LARGEST_CHUNK:
            # To copy this much costs more than to map it when it is read.
            self._write_all(buffers, size, start)
            self._size = start + size
            return start
        chunk = self._chunks[-1] if self._chunks else None
        if chunk is None or chunk.start + chunk.used != start or chunk.used + size > len(chunk.buffer):
            chunk = self._disk.new_chunk(self, start, size, 2 * len(chunk.buffer) if chunk else _FIRST_CHUNK)
            self._chunks.append(chunk)
        at = chunk.used
        for buffer in buffers:
            chunk.buffer[at : at + len(buffer)] = buffer
            at += len(buffer)
        self._write_all([chunk.view[chunk.used : at]], size, start)
        chunk.used = at
        self._size = start + size
        return start

    def _write_all(self, buffers: Sequence[Buffer], size: int, position: int) -> None:
        """Write everything or nothing: what part of it came to be is cut off again."""
        disk = self._disk
        disk.busy = "append to", self.path
        descriptor = -1
        try:
            descriptor = disk.descriptor(self)
            written = os.pwritev(descriptor, buffers[:_MOST_BUFFERS], position)
            if written < size:  # a signal, a disk that fills up, or more buffers than one call takes
                rest = memoryview(b"".join(buffers))
                while written < size:
                    written += os.pwrite(descriptor, rest[written:], position + written)
        except OSError as error:
            with suppress(OSError):  # else the next append overwrites it: appends know their position
                if descriptor >= 0:
                    os.ftruncate(descriptor, self._size)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(self.path, disk.directory, size, disk.free_bytes()) from error
            raise _storage_error(error, self.path) from error
        finally:
            disk.busy = None

    def read(self, position: int, size: int) -> memoryview:
        end = min(position + size, self._size)
        if end <= position:
            return memoryview(b"")
        chunks = self._chunks
        for chunk in reversed(chunks) if chunks and chunks[0].start <= position else ():
            if chunk.start <= position:
                if end <= chunk.start + chunk.used:
                    return chunk.view[position - chunk.start : end - chunk.start]
                break
        disk = self._disk
        disk.busy = "read of", self.path
        try:
            if end - position <= _SMALL_READ:
                return memoryview(os.pread(disk.descriptor(self), end - position, position))
            if end > len(self._view):
                self._renew_map()
            self._read_pages(position, end)
            return self._view[position:end]
        except OSError as error:
            raise _storage_error(error, self.path) from error
        finally:
            disk.busy = None

    def _read_pages(self, position: int, end: int) -> None:
        """Have the system read what a view is about to show: a page that cannot be read ends the process by SIGBUS."""
        assert self._map is not None, "a view of nothing is empty"
        start = position - position % mmap.PAGESIZE
        try:
            if _POPULATE_READ:
                self._map.madvise(_POPULATE_READ, start, end - start)
        except OSError as error:
            if error.errno != errno.EINVAL:  # of an older kernel
                raise OSError(errno.EIO, os.strerror(errno.EIO)) from error

    def _renew_map(self) -> None:
        # The old map lives on for as long as a view of it.
        self._map = self._disk.map(self)
        self._view = memoryview(self._map)

    def truncate(self, size: int) -> None:
        self._forget_chunks()
        self._view = memoryview(b"")
        if self._map is not None:
            try:
                self._map.close()
            except BufferError:
                # An access to such a view after the cut would end the process by SIGBUS.
                raise StorageError(errno.EBUSY, "a file is never cut under a view of it", self.path) from None
            self._map = None
            self._disk.unmapped()
        with _storage_errors(self.path):
            os.ftruncate(self._disk.descriptor(self), size)
        self._size = min(size, self._size)

    def flush(self) -> None:
        with _storage_errors(self.path):
            os.fsync(self._disk.descriptor(self))

    def flusher(self) -> Callable[[], None]:
        with _storage_errors(self.path):
            descriptor = os.dup(self._disk.descriptor(self))

        def flush() -> None:
            self._disk.flushing = "flush of", self.path
            try:
                with _storage_errors(self.path):
                    os.fsync(descriptor)
            finally:
                self._disk.flushing = None
                os.close(descriptor)

        return flush

    def close(self) -> None:
        self._forget_chunks()
        self._disk.release(self)

    def _forget_chunks(self) -> None:
        for chunk in self._chunks:
            self._disk.drop_chunk(chunk)
        self._chunks = []


class OsDisk:
    """The files below `root`. One that `is_read_only` changes nothing there: whatever would is a StorageError.

    `open_limit` bounds the descriptors of open files and of their maps; `tail_bytes` bounds the tail caches of all
    files together.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        open_limit: int = 768,
        tail_bytes: int = 32 << 20,
        is_read_only: bool = False,
    ) -> None:
        self.root = Path(root)
        self._is_read_only = is_read_only
        self._prefix = f"{os.fspath(self.root)}/"
        self._open: OrderedDict[OsFile, None] = OrderedDict()
        self.open_limit = open_limit
        self._maps = 0
        self._chunks: deque[_Chunk] = deque()
        self._chunk_bytes = 0
        self._tail_bytes = tail_bytes
        self._lock = -1
        self._is_abandoned = False
        self.busy: Operation | None = None
        """What the caller waits for, for `DiskWatch`."""
        self.flushing: Operation | None = None
        """What the thread waits for that flushes."""

    @property
    def directory(self) -> str:
        return os.path.abspath(self.root)

    def open(self, path: str, *, create: bool = False) -> OsFile:
        full = self._full(path)
        if create:
            self._require_writable(path)
        with _storage_errors(path):
            if create:
                descriptor = self._descriptor_of(full, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
                file = OsFile(self, path, os.fstat(descriptor).st_size, descriptor)
                self._register(file)
                return file
            return OsFile(self, path, os.stat(full).st_size)

    def exists(self, path: str) -> bool:
        try:
            os.stat(self._full(path))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise _storage_error(error, path) from error
        return True

    def list(self, directory: str) -> list[str]:
        with _storage_errors(directory), suppress(FileNotFoundError):
            return sorted(os.listdir(self._full(directory) if directory else self.root))
        return []

    def make_directory(self, path: str) -> None:
        self._attempt(path, lambda full: os.makedirs(full, exist_ok=True))

    def remove(self, path: str) -> None:
        self._attempt(path, os.unlink, absent_is_fine=True)

    def remove_directory(self, path: str) -> None:
        self._attempt(path, shutil.rmtree, absent_is_fine=True)

    def rename(self, path: str, new_path: str) -> None:
        new_full = self._full(new_path)
        self._attempt(path, lambda full: os.replace(full, new_full))

    def flush_directory(self, path: str) -> None:
        with _storage_errors(path):
            descriptor = os.open(self._full(path) if path else self._prefix, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def volume(self) -> Volume:
        with _storage_errors(str(self.root)):
            found = os.statvfs(self.root)
        return Volume(self.directory, found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def lock(self) -> None:
        """Take the root for this process, until `unlock` or its end.

        Raises StorageError when another process has it (two brokers on one directory would destroy it), and where the
        root cannot be made or written.
        """
        self._require_writable(".lock")
        with _storage_errors(str(self.root)):
            self.root.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise StorageError(error.errno, "another broker uses this directory", str(self.root)) from None
        self._lock = descriptor

    @property
    def is_locked(self) -> bool:
        """Whether a running broker has the root, ours or Apache Kafka's, which locks the same file by other means.

        Raises StorageError where this user may not open the file.
        """
        mode = "rb" if self._is_read_only else "rb+"
        lock = self.root / ".lock"
        with _storage_errors(str(lock)), suppress(FileNotFoundError), lock.open(mode) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                if file.writable():
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

    def unlock(self) -> None:
        """Give the root back."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def close(self) -> None:
        """Close every file, and give the root back. Files reopen when they are used again; views stay valid."""
        while self._open:
            self.release(next(iter(self._open)))
        while self._chunks:
            self._chunks.popleft().file._chunks.clear()
        self._chunk_bytes = 0
        self.unlock()

    def abandon(self) -> None:
        """Close as a killed process does: open files of this disk can no longer change anything."""
        self._is_abandoned = True
        self.close()

    # -- what the files share

    def descriptor(self, file: OsFile) -> int:
        """Return the open descriptor of a file; one that was closed for want of room is reopened. Raises OSError."""
        descriptor = file._descriptor
        if descriptor >= 0:
            self._open.move_to_end(file)
            return descriptor
        if self._is_abandoned:
            raise OSError(errno.EBADF, "the disk was abandoned")
        mode = os.O_RDONLY if self._is_read_only else os.O_RDWR
        file._descriptor = self._descriptor_of(self._full(file.path), mode | os.O_CLOEXEC)
        self._register(file)
        return file._descriptor

    def _descriptor_of(self, full: str, flags: int) -> int:
        try:
            return os.open(full, flags, 0o644)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._open:
                raise
        # Something else in this process has used up the descriptors: an open log is worth less than this one.
        self._release_down_to(self._descriptors // 2)
        return os.open(full, flags, 0o644)

    def map(self, file: OsFile) -> mmap.mmap:
        """Return a map of a file as it is now, in the place of the one that it has. Raises OSError."""
        descriptor = self.descriptor(file)
        if file._map is None:
            self._maps += _MAP_DESCRIPTORS
        file._map = None
        made = mmap.mmap(descriptor, file.size, access=mmap.ACCESS_READ, **_MAP_OPTIONS)
        self._release_down_to(self.open_limit, file)
        return made

    def free_bytes(self) -> int:
        """Return how much room there is; 0 where the system does not report it."""
        with suppress(StorageError):
            return self.volume().usable_bytes
        return 0

    def unmapped(self) -> None:
        """Note that a file has no map any more."""
        self._maps -= _MAP_DESCRIPTORS

    @property
    def _descriptors(self) -> int:
        return len(self._open) + self._maps

    def _register(self, file: OsFile) -> None:
        self._open[file] = None
        self._release_down_to(self.open_limit, file)

    def _release_down_to(self, count: int, needed: OsFile | None = None) -> None:
        """Close the least recently used files until no more descriptors than `count` are open."""
        while self._descriptors > count and self._open and next(iter(self._open)) is not needed:
            self.release(next(iter(self._open)))

    def release(self, file: OsFile) -> None:
        """Close a file's descriptor and release its map; views of the map stay valid."""
        self._open.pop(file, None)
        if file._map is not None:
            self.unmapped()
        file._map, file._view = None, memoryview(b"")
        if file._descriptor >= 0:
            os.close(file._descriptor)
            file._descriptor = -1

    def new_chunk(self, file: OsFile, start: int, size: int, wanted: int) -> _Chunk:
        """Return room for an append of `size` bytes in a file's tail cache; the oldest chunks of all make way."""
        chunk = _Chunk(file, start, max(size, min(wanted, _LARGEST_CHUNK)))
        self._chunks.append(chunk)
        self._chunk_bytes += len(chunk.buffer)
        while self._chunk_bytes > self._tail_bytes and len(self._chunks) > 1:
            oldest = self._chunks.popleft()
            self._chunk_bytes -= len(oldest.buffer)
            oldest.file._chunks.remove(oldest)
        return chunk

    def drop_chunk(self, chunk: _Chunk) -> None:
        """Take a chunk out of the account of tail caches."""
        self._chunks.remove(chunk)
        self._chunk_bytes -= len(chunk.buffer)

    def _require_writable(self, path: str) -> None:
        if self._is_read_only:
            raise StorageError(errno.EROFS, "the disk was opened to be read only", path)

    def _full(self, path: str) -> str:
        if self._is_abandoned:
            raise StorageError(errno.EBADF, "the disk was abandoned", path)
        check_path(path)
        return self._prefix + path

    def _attempt(self, path: str, action: Callable[[str], None], *, absent_is_fine: bool = False) -> None:
        self._require_writable(path)
        with _storage_errors(path):
            try:
                action(self._full(path))
            except FileNotFoundError:
                if not absent_is_fine:
                    raise


log = logging.getLogger("kohort.broker")

STALLED_SECONDS = 10.0
"""An operation that takes longer is reported."""


class DiskWatch:
    """Watches one disk from `start` to `stop`."""

    def __init__(self, disk: OsDisk) -> None:
        self._disk = disk
        self._is_over = Event()

    def start(self) -> None:
        """Begin to watch."""
        self._is_over.clear()
        Thread(target=self._watch, name="kohort-disk-watch", daemon=True).start()

    def stop(self) -> None:
        """Cease; a thread that is about to look ends soon."""
        self._is_over.set()

    def _watch(self) -> None:
        caller = OperationTimer("no client is served until it does")
        flusher = OperationTimer("what waits for the flush is not answered until it ends")
        while not self._is_over.wait(STALLED_SECONDS / 10):
            now = time.monotonic()
            caller.look(self._disk.busy, self._disk.directory, now)
            flusher.look(self._disk.flushing, self._disk.directory, now)


class OperationTimer:
    """The operation that was under way when it was last looked; each is an object of its own."""

    def __init__(self, consequence: str) -> None:
        self._consequence = consequence
        self._operation: Operation | None = None
        self._since = 0.0
        self._is_reported = False

    def look(self, operation: Operation | None, directory: str, now: float) -> None:
        """Take what is under way now."""
        if operation is self._operation:
            if operation is not None and not self._is_reported and now - self._since >= STALLED_SECONDS:
                self._is_reported = True
                log.error(
                    "the disk does not answer: the %s %s/%s has taken %.0f s; %s: look for the device in the system's"
                    " log", operation[0], directory, operation[1], now - self._since, self._consequence,
                )  # fmt: skip
            return
        if self._is_reported and self._operation is not None:
            what, path = self._operation
            log.warning("the disk answers again: the %s %s/%s took %.0f s", what, directory, path, now - self._since)
        self._operation, self._since, self._is_reported = operation, now, False
