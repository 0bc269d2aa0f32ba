"""The log of a manifest table: numbered entries, each written whole and never over another.

An entry becomes one by a hard link from a finished file to its number, which fails where the number is taken: a
compare-and-swap that local file systems and NFS have. A writer that loses reads the new
entries, decides again and takes the next number. A number is never used twice: entries that a checkpoint made
superfluous are emptied, not removed.
"""

from __future__ import annotations

import errno
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from kohort.spark.tables.manifest_state import Entry, TableState
from kohort.spark.tables.table import TableBroken

ENTRIES_PER_CHECKPOINT = 100
"""Entries after which the whole state is written down, so that a newcomer need not read them all."""

_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV)
"""How a file system says that it has no hard links; another error (a full disk) is that error."""


class ManifestLog:
    """The entries of one table below `directory`, and the state that they fold to, as of the last look."""

    def __init__(self, directory: Path) -> None:
        self.entries = directory / "entries"
        self.checkpoints = directory / "checkpoints"
        self.state = TableState()
        self._lock = threading.RLock()

    def refresh(self) -> TableState:
        """Read the entries that came since the last look, and return the state."""
        with self._lock:
            if self.state.version < 0:
                self._load_checkpoint()
            while (text := _read(self._entry(self.state.version + 1))) is not None:
                if not text:
                    self._load_checkpoint()
                    continue
                self.state.apply(Entry.from_json(text, str(self._entry(self.state.version + 1))))
            return self.state

    def make(self) -> None:
        """Make the directories of the log, if they are not there."""
        self.entries.mkdir(parents=True, exist_ok=True)
        self.checkpoints.mkdir(parents=True, exist_ok=True)

    def append(self, decide: Callable[[TableState], Entry | None]) -> Entry | None:
        """Append the entry that `decide` makes of the newest state, or nothing if it makes none.

        `decide` is asked again, with the newer state, each time that another writer came first; what it raises is
        raised, and nothing was appended.
        """
        with self._lock:
            self.make()
            while True:
                entry = decide(self.refresh())
                if entry is None:
                    return None
                if self._take(self.state.version + 1, entry):
                    self.state.apply(entry)
                    if self.state.version % ENTRIES_PER_CHECKPOINT == ENTRIES_PER_CHECKPOINT - 1:
                        self.write_checkpoint()
                    return entry

    def write_checkpoint(self) -> None:
        """Write the state down under its version; nothing changes where that is there already."""
        place(self.checkpoints / f"{self.state.version:020d}.json", self.state.to_json())

    def forget(self, before_ms: int) -> None:
        """Remove what is not needed to read the table: older checkpoints, and entries before them.

        Unfinished files of dead writers go too; only what was last written before `before_ms` is touched.
        """
        with self._lock:
            *old, newest = self._checkpoint_versions() or [-1]
            for version in old:
                self._checkpoint(version).unlink(missing_ok=True)
            for path in self._entries_upto(newest):
                if path.stat().st_size and path.stat().st_mtime * 1000 < before_ms:
                    os.truncate(path, 0)
            for path in (*self.entries.glob(".*"), *self.checkpoints.glob(".*")):
                with suppress(FileNotFoundError):  # its writer is done with it meanwhile
                    if path.stat().st_mtime * 1000 < before_ms:
                        path.unlink()

    def _take(self, version: int, entry: Entry) -> bool:
        return place(self._entry(version), entry.to_json())

    def _entry(self, version: int) -> Path:
        return self.entries / f"{version:020d}.json"

    def _checkpoint(self, version: int) -> Path:
        return self.checkpoints / f"{version:020d}.json"

    def _entries_upto(self, version: int) -> Iterator[Path]:
        for path in self.entries.glob("[0-9]*.json"):
            if int(path.stem) <= version:
                yield path

    def _checkpoint_versions(self) -> list[int]:
        return sorted(int(path.stem) for path in self.checkpoints.glob("[0-9]*.json"))

    def _load_checkpoint(self) -> None:
        """Go on from the newest checkpoint, if that is newer than the state."""
        before = self.state.version
        while versions := self._checkpoint_versions():
            text = _read(self._checkpoint(versions[-1]))
            if text is not None:  # else a newer one was written, and this one removed, since the look
                self.state = TableState.from_json(text, str(self._checkpoint(versions[-1])))
                break
        if before >= 0 and self.state.version <= before:
            raise TableBroken(f"{self._entry(before + 1)} is empty, and no checkpoint has its content")


def new_entry_id() -> str:
    """Return an id that no other entry has."""
    return uuid.uuid4().hex


def now_ms() -> int:
    """Return the time for people who read the log; nothing is decided by it."""
    return time.time_ns() // 1_000_000


def place(path: Path, content: bytes) -> bool:
    """Write a file whole under a name that is not taken; return whether it was free. Durable when it returns."""
    unfinished = path.parent / f".{uuid.uuid4().hex}"
    with unfinished.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(unfinished, path)
    except FileExistsError:
        # A link over NFS may have been made although its answer was lost and the repetition says that it exists.
        if not os.path.samefile(unfinished, path):
            return False
    except FileNotFoundError:
        return False  # a vacuum took this writer for dead
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise TableBroken(
            f"{path.parent} has no hard links ({error.strerror}), which a manifest table needs to number its entries:"
            " keep it on a local file system or NFS"
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)
    sync_directory(path.parent)
    return True


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
