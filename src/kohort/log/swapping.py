"""One new segment in the place of several, so that a crash at any point leaves a log that loads.

Kafka's dance. The new bytes are written as `.log.cleaned` and flushed; the rename to `.log.swap` is the decision. Then
the old segments go, and the last rename makes it a segment. What a crash leaves is finished when the log is opened: a
`.cleaned` never was, a `.swap` already is. Old segments that then stay hold only what is cleaned again later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kohort.log.disk import Buffer, Disk
from kohort.log.segment import Segment, base_offsets, segment_name
from kohort.wire.record_batches import HEADER_SIZE, CorruptBatch, read_header

CLEANED, SWAP = ".log.cleaned", ".log.swap"
_INDEXES = (".index", ".timeindex")


def decide(disk: Disk, directory: str, base_offset: int) -> None:
    """Take cleaned bytes, which are on the medium, for a segment's own. Raises StorageError: nothing is decided."""
    path = f"{directory}/{segment_name(base_offset, '')}"
    disk.rename(path + CLEANED, path + SWAP)


def finish(disk: Disk, directory: str, base_offset: int, superseded: Iterable[int]) -> None:
    """Let what was decided be so, however often; `superseded` are the other segments that go. Raises StorageError."""
    disk.flush_directory(directory)
    for base in superseded:
        for suffix in (".log", *_INDEXES, ".snapshot"):
            disk.remove(f"{directory}/{segment_name(base, suffix)}")
    path = f"{directory}/{segment_name(base_offset, '')}"
    for suffix in _INDEXES:
        disk.remove(path + suffix)
    disk.rename(path + SWAP, path + ".log")
    disk.flush_directory(directory)


def recover_swaps(disk: Disk, directory: str, names: Sequence[str]) -> list[str]:
    """Bring a directory in order in which a cleaning was under way; return its names then. Raises StorageError."""
    if not any(name.endswith((CLEANED, SWAP)) for name in names):
        return list(names)
    for base in base_offsets(list(names), CLEANED):
        disk.remove(f"{directory}/{segment_name(base, CLEANED)}")
    for base in base_offsets(list(names), SWAP):
        end = _end_offset(disk, f"{directory}/{segment_name(base, SWAP)}", base)
        finish(disk, directory, base, [other for other in base_offsets(list(names), ".log") if base < other < end])
    return list(disk.list(directory))


def _end_offset(disk: Disk, path: str, base_offset: int) -> int:
    """Return the offset after the last batch of a file."""
    file = disk.open(path)
    try:
        position, end = 0, base_offset
        while position < file.size:
            header = read_header(file.read(position, HEADER_SIZE))
            position, end = position + header.size, header.last_offset + 1
    except CorruptBatch:
        pass  # whoever reads the segment will hear of it
    finally:
        file.close()
    return end


class Draft:
    """The segment that a cleaning writes, until it takes the place of others."""

    def __init__(self, disk: Disk, directory: str, segment: Segment) -> None:
        self._disk = disk
        self._path = f"{directory}/{segment_name(segment.base_offset, CLEANED)}"
        disk.remove(self._path)
        self._file = disk.open(self._path, create=True)
        self._unflushed = 0
        self.segment = segment
        """What it will be; its indexes are made on the way."""
        segment.begin_indexes()

    def append(self, batches: Sequence[Buffer], flush_bytes: int) -> None:
        """Write whole batches, and bring the file to the medium every `flush_bytes`. Raises StorageError."""
        position = self._file.append(batches)
        for batch in batches:
            self.segment.note(read_header(batch), position)
            position += len(batch)
            self._unflushed += len(batch)
        if self._unflushed >= flush_bytes:
            self.flush()

    def flush(self) -> None:
        """Return when every byte is on the medium."""
        self._file.flush()
        self._unflushed = 0

    def close(self) -> None:
        """Let go of the file; it stays."""
        self._file.close()

    def discard(self) -> None:
        """Remove the file."""
        self._file.close()
        self._disk.remove(self._path)
