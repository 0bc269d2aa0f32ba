"""Segment files of `__consumer_offsets`: of a broker's data directory, of one partition, or copied files."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from kohort.fleet.decode.batch_scanner import BATCH_FIELDS, is_zero, walk
from kohort.fleet.decode.decoded_rows import Place, RowReader
from kohort.fleet.decode.quarantine import Fault
from kohort.fleet.inputs.input_splits import NO_END, OFFSETS_TOPIC, Input, Since, Split

if TYPE_CHECKING:
    import pyarrow as pa

np: Any = numpy

_PARTITION = re.compile(r".+-(\d+)$")
_SEGMENT = re.compile(r"\d{20}\.log$")


def partition_of(folder: Path) -> int | None:
    """Return the partition whose log a directory is by its name, None when it is no partition's."""
    found = _PARTITION.match(folder.name)
    return int(found[1]) if found else None


def partition_folders(folder: Path) -> list[Path]:
    """Return the directories of `__consumer_offsets` in a data directory, in the order of their partitions.

    For the directory of one partition, return that directory.
    """
    if _is_of_groups(folder):
        return [folder]
    # Not by `glob`, which passes over a directory that this user may not read.
    found = [each for each in folder.iterdir() if _is_of_groups(each) and each.is_dir()]
    return sorted(found, key=lambda each: partition_of(each) or 0)


def _is_of_groups(folder: Path) -> bool:
    return folder.name.startswith(f"{OFFSETS_TOPIC}-") and partition_of(folder) is not None


def segment_files(folder: Path) -> list[Path]:
    """Return the segments of a partition's directory in the order of their offsets, without deleted ones."""
    return sorted(each for each in folder.iterdir() if each.suffix == ".log" and each.is_file())


def cluster_id(folder: Path) -> str | None:
    """Return the id of the cluster whose data directory this is, or is inside."""
    for each in (folder, folder.parent):
        try:
            text = (each / "meta.properties").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for line in text.splitlines():
            if line.startswith("cluster.id="):
                return line.partition("=")[2].strip()
    return None


def plan(given: Input, since: Since) -> list[Split]:
    """Return a piece for each file that may have wanted records."""
    by_partition: dict[int, list[Path]] = {}
    for where in map(Path, given.where):
        folders = partition_folders(where) if where.is_dir() else []
        for path in [file for folder in folders for file in segment_files(folder)] if folders else [where]:
            by_partition.setdefault(partition_of(path.resolve().parent) or 0, []).append(path)
    splits: list[Split] = []
    for partition, files in sorted(by_partition.items()):
        start = since.get(given.source, {}).get(partition, 0)
        files.sort()
        for file, following in zip(files, [*files[1:], None], strict=True):
            # A segment's name is its first offset, so that it ends where the next one begins.
            if following is not None and _first_offset(following) <= start:
                continue
            if (size := _size(file)) and has_unread(file, start):
                splits.append(Split("segment", given.source, str(file), partition, start, NO_END, size))
    return splits


def has_unread(file: Path, start: int) -> bool:
    """Whether a segment may have what is not read yet: records from an offset on, or bytes that are no batches."""
    if not start:
        return True
    try:
        source = np.memmap(file, np.uint8, "r")
    except (OSError, ValueError):  # its reader reports the error
        return True
    at, end = source.ctypes.data, len(source)
    count, at, why = walk(at, 0, end, (start, NO_END), np.empty((1, BATCH_FIELDS), np.int64), end, False)
    return bool(count or (why and not is_zero(source.ctypes.data, at, end)))


def without_replicas(splits: Sequence[Split]) -> list[Split]:
    """Return pieces of which each partition of a source comes from one directory, the one whose log reaches farthest.

    Directories of several brokers of a cluster have the same records, and each record counts once, as in a file that
    was named twice. Files outside of a partition's directory have no known partition and stay.
    """
    splits = list({(split.source, split.where, split.partition, split.start): split for split in splits}.values())
    reach: dict[tuple[str, int], dict[Path, tuple[int, int]]] = {}
    for split in splits:
        file = Path(split.where)
        if split.kind == "segment" and _is_of_groups(file.parent):
            folders = reach.setdefault((split.source, split.partition), {})
            folders[file.parent] = max(folders.get(file.parent, (-1, -1)), (_first_offset(file), split.size))

    def is_wanted(split: Split) -> bool:
        folder, folders = Path(split.where).parent, reach.get((split.source, split.partition), {})
        return folder not in folders or folder == max(folders, key=folders.__getitem__)

    return [split for split in splits if is_wanted(split)]


def read(split: Split) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a segment file."""
    reader = RowReader(Place(split.source, split.partition, split.where), (split.start, split.stop))
    try:
        with open(split.where, "rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # a file that has become empty cannot be mapped
        reader.refuse(Fault(f"the file cannot be read: {error}"))
    else:
        yield from reader.read(content)
    yield from reader.finish()


def _first_offset(file: Path) -> int:
    return int(file.stem) if _SEGMENT.match(file.name) else NO_END


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:  # it is planned all the same, and its reader reports the error
        return 1
