"""`LogCheck` on files: the segments of partitions of `__consumer_offsets`, read batch by batch.

Input is a broker's data directory, the directory of one partition, or segment files. Damage is reported with its
position, and the partition is read no further: a coordinator that loads it stops there too.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct

from kohort.fleet.load_check import NEWEST_TYPE, WITH_MEMBER, CheckedRecord, LogCheck, Violation
from kohort.group.events import MemberAssignmentStored
from kohort.log.consumer_records import MEMBER_ASSIGNMENT, READERS
from kohort.log.group_records import read_text
from kohort.model.ids import TopicPartition, topic_id_text
from kohort.wire.compression import CompressionUnavailable
from kohort.wire.primitives import MalformedMessage
from kohort.wire.record_batches import CorruptBatch, Record, checked_records, iter_batches, read_header

TOPIC = "__consumer_offsets"
_PARTITION = re.compile(rf"{TOPIC}-(\d+)")
_SEGMENT = re.compile(r"\d{20}\.log")
_SHORT = Struct(">h")
_OFFSETS = frozenset({b"\0\0", b"\0\1"})
_OF_GROUPS = frozenset({b"\0\2", b"\0\3", b"\0\x0b", b"\0\x11"})
"""The keys of records whose tombstones delete a group."""

Advanced = Callable[[int], object]
"""Called with the number of records read since the last call."""


class NothingToCheck(Exception):
    """There is no log at a path; the text names it."""


@dataclass(slots=True)
class DamagedTail:
    """The position from which on a partition cannot be read."""

    file: Path
    position: int
    offset: int
    reason: str


@dataclass(slots=True)
class Checked:
    """Result of checking one partition."""

    partition: int
    records: int = 0
    violations: list[Violation] = field(default_factory=list)
    damage: DamagedTail | None = None

    @property
    def name(self) -> str:
        """The partition as Kafka writes it."""
        return str(TopicPartition(TOPIC, self.partition))


def segments_of(paths: Iterable[Path]) -> dict[tuple[int, Path], list[Path]]:
    """Return the segment files at some paths in the order of their offsets, by partition and its directory.

    Directories of several brokers have the same partitions, each in a log of its own. Raises NothingToCheck, OSError.
    """
    found: dict[tuple[int, Path], list[Path]] = {}
    for path in paths:
        files = _files_at(path)
        if not files:
            raise NothingToCheck(f"{path} is no data directory, no directory of a partition of {TOPIC} and no segment")
        for file in files:
            folder = file.absolute().parent
            named = _PARTITION.fullmatch(folder.name)
            if named is None and (folder / "partition.metadata").exists():
                why = f"only logs of groups ({TOPIC}) are checked, and `kohort log verify` reads any log"
                raise NothingToCheck(f"{folder.name} is a partition of another topic: {why}")
            found.setdefault((int(named[1]) if named else 0, folder), []).append(file)
    return {place: sorted(set(files), key=lambda file: file.name) for place, files in sorted(found.items())}


def _files_at(path: Path) -> list[Path]:
    """Return the segments of a data directory or of a partition's, or the one file, whatever its name. Raises OSError.

    Raises NothingToCheck for a file that does not begin as a segment does.
    """
    if path.is_dir():
        # Not by `glob`, which passes over what may not be read.
        inside = [each for each in path.iterdir() if _PARTITION.fullmatch(each.name) and each.is_dir()]
        return [file for folder in (path, *inside) for file in folder.iterdir() if _SEGMENT.fullmatch(file.name)]
    if not path.exists():
        return []
    if not _SEGMENT.fullmatch(path.name):
        try:
            read_header(memoryview(_content(path)))
        except CorruptBatch as error:
            raise NothingToCheck(f"{path} is no segment of a log: its first bytes are no record batch") from error
    return [path]


def check_partition(partition: int, files: Sequence[Path], advanced: Advanced) -> Checked:
    """Replay the segments of one partition. Raises OSError."""
    checked, check = Checked(partition), LogCheck()
    seen: set[bytes] = set()
    for file in files:
        position, offset = 0, -1
        try:
            # A batch half written by a crash at the end of the last segment is truncated by the broker at start.
            for header, batch in iter_batches(memoryview(_content(file)), strict=file != files[-1]):
                offset = header.base_offset
                for record in () if header.is_control else checked_records(header, batch):
                    checked.records += 1
                    _replay(record, check, checked, seen)
                position += header.size
                advanced(header.record_count)
        except (CorruptBatch, MalformedMessage, CompressionUnavailable) as error:
            checked.damage = DamagedTail(file, position, offset, str(error))
            break
    return checked


def _content(file: Path) -> bytes | mmap.mmap:
    with file.open("rb") as opened:
        if not file.stat().st_size:
            return b""  # an empty file cannot be mapped
        return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)


def _replay(record: Record, check: LogCheck, checked: Checked, seen: set[bytes]) -> None:
    key = record.key or b""
    if key[:2] in _OFFSETS and len(key) > 4:
        # Only the first offset of a group matters; offsets are most of the log.
        end = 4 + _SHORT.unpack_from(key, 2)[0]
        head = key[:end]
        if record.value is None or head in seen:
            return
        seen.add(head)
    elif key[:2] in _OF_GROUPS:
        seen.difference_update((b"\0\0" + key[2:], b"\0\1" + key[2:]))
    step = step_of(record.offset, record.timestamp_ms, key, record.value)
    checked.violations.extend(check.take(step))


def step_of(offset: int, at_ms: int, key: bytes, value: bytes | None) -> CheckedRecord:
    """Return a record as a step. Raises MalformedMessage."""
    if len(key) < 2:
        raise MalformedMessage("the record's key has no record type")
    (record_type,) = _SHORT.unpack_from(key)
    if not 0 <= record_type <= NEWEST_TYPE:
        return CheckedRecord(offset, at_ms, record_type, "", is_tombstone=value is None)
    group, position = read_text(key, 2)
    member = read_text(key, position)[0] if record_type in WITH_MEMBER else ""
    if record_type != MEMBER_ASSIGNMENT or value is None:
        return CheckedRecord(offset, at_ms, record_type, group, member, value is None)
    event = READERS[MEMBER_ASSIGNMENT](key, value)
    assert isinstance(event, MemberAssignmentStored), "a value is no tombstone"
    owned_partitions = [
        (topic_id_text(topic.topic_id), partition)
        for topic in (*event.assigned, *event.pending)
        for partition in topic.partitions
    ]
    return CheckedRecord(offset, at_ms, record_type, group, member, False, event.epoch, owned_partitions)
