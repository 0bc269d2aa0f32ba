"""The only way to bytes that last: what the log asks of a disk, and what a disk may answer.

Paths are relative, with `/`, and never leave the disk's root. Every operation raises `StorageError`, or `DiskFull`
when no space is left. The log knows no file system behind this; `memory_disk` and the broker's real disk do.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

Buffer = bytes | bytearray | memoryview


class StorageError(OSError):
    """The disk failed: an I/O error, a missing file, a path outside the root."""

    @property
    def is_passing(self) -> bool:
        """Whether the same may succeed later, when the disk works again; else its content is wrong."""
        return self.errno != errno.EINVAL


class DiskFull(StorageError):
    """No space is left, or a quota is used up. Nothing of the write remains."""

    def __init__(self, path: str, directory: str = "", needed_bytes: int = 0, free_bytes: int = 0) -> None:
        super().__init__(errno.ENOSPC, "no space left on the disk", path)
        self.directory = directory or "the data directory"
        """Where the disk is, for people."""
        self.needed_bytes = needed_bytes
        """What was to be written."""
        self.missing_bytes = max(needed_bytes - free_bytes, 1)
        """How much room that lacks at least."""


class Volume(NamedTuple):
    """The directory of a disk, and the file system that it is on. -1 bytes: unknown."""

    directory: str
    total_bytes: int
    usable_bytes: int


class File(Protocol):
    """One file. Reads see every append at once, whether it was flushed or not."""

    @property
    def size(self) -> int:
        """Bytes in the file."""

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write the buffers at the end, all of them or none, and return the position of the first byte."""

    def read(self, position: int, size: int) -> memoryview:
        """Return up to `size` bytes from `position`, fewer only at the end; where it can, without a copy."""

    def truncate(self, size: int) -> None:
        """Cut the file to `size` bytes. Views of it that were read before must be gone."""

    def flush(self) -> None:
        """Return when every byte is on the medium."""

    def flusher(self) -> Callable[[], None]:
        """Return a function that does what `flush` would do now; it must be called once, in any thread."""

    def close(self) -> None:
        """Release the open file. Views that were read stay valid."""


class Disk(Protocol):
    """A tree of files."""

    @property
    def directory(self) -> str:
        """Where the files are, for people."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open a file; `create` makes an empty one where there is none."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there. Raises StorageError where that is not known."""

    def list(self, directory: str) -> Iterable[str]:
        """Return the names in a directory, sorted; nothing when it does not exist."""

    def make_directory(self, path: str) -> None:
        """Make a directory and those above it; none of them need be new."""

    def remove(self, path: str) -> None:
        """Remove a file; one that is not there is no error. Views of it stay valid."""

    def remove_directory(self, path: str) -> None:
        """Remove a directory with all that is in it; one that is not there is no error."""

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file or directory in one step, over whatever file bears the new name."""

    def flush_directory(self, path: str) -> None:
        """Return when the names in a directory are on the medium."""

    def volume(self) -> Volume:
        """Return where the files are, and how much room there is. Raises StorageError."""


def check_path(path: str) -> None:
    """Raise StorageError for a path that may leave the root."""
    if path.startswith("/") or "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        raise StorageError(errno.EINVAL, "a path must be relative and stay below the root", path)


def read_file(disk: Disk, path: str) -> bytes:
    """Return all bytes of a small file. Raises StorageError when it is not there."""
    file = disk.open(path)
    try:
        return bytes(file.read(0, file.size))
    finally:
        file.close()


def replace_file(disk: Disk, path: str, content: bytes, *, durable: bool = False) -> None:
    """Put `content` in the place of a small file: a reader sees the old or the new bytes, never half."""
    draft = path + ".tmp"
    disk.remove(draft)
    file = disk.open(draft, create=True)
    try:
        file.append([content])
        if durable:
            file.flush()
    finally:
        file.close()
    disk.rename(draft, path)
    if durable:
        disk.flush_directory(path.rpartition("/")[0])
