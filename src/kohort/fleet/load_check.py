"""Checks whether Apache Kafka can load a log of groups: finds records at which some version's coordinator would fail.

`LogCheck` replays one partition of `__consumer_offsets` in offset order, with the conditions of Kafka's versions
(`DEMANDS`). It stores of each group only what these need, and continues after a violation as the other versions would.
Transactional offsets count as offsets, as for Kafka.

`check_files` reads a broker's data directory, the directory of one partition, or segment files, batch by batch. Damage
is reported with its position, and the partition is read no further: a coordinator that loads it stops there too.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from struct import Struct
from typing import Any, NamedTuple

from kohort.group.events import MemberAssignmentStored
from kohort.log.consumer_records import MEMBER_ASSIGNMENT, READERS
from kohort.log.group_records import read_text
from kohort.model.ids import TopicPartition, topic_id_text
from kohort.wire.compression import CompressionUnavailable
from kohort.wire.primitives import MalformedMessage
from kohort.wire.record_batches import CorruptBatch, Record, checked_records, iter_batches, read_header

NEWEST_TYPE = 23
"""The largest record type of `__consumer_offsets`."""

WITH_MEMBER = frozenset({5, 7, 8, 10, 13, 14, 16, 19, 21, 22})
"""Record types whose key has a second text after the group: a member, or the expression of type 16."""


class Type(StrEnum):
    """The type of a group according to its records. A simple one only has offsets."""

    SIMPLE = "simple"
    CLASSIC = "classic"
    CONSUMER = "consumer"
    STREAMS = "streams"
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class Demand:
    """A condition that some versions of Kafka require of a log; `versions` is text, `first` and `fixed` are bounds."""

    ticket: str
    versions: str
    first: tuple[int, int, int]
    fixed: tuple[tuple[int, int, int], ...]
    """The releases without the condition, one per minor version; later minor versions are without it too.
    Empty: all releases from `first` on have it."""
    what: str

    def concerns(self, version: tuple[int, int, int]) -> bool:
        """Whether a version has this condition."""
        if version < self.first:
            return False
        for fixed in self.fixed:
            if fixed[:2] == version[:2]:
                return version < fixed
        return not self.fixed or version < max(self.fixed)


KAFKA_17306 = Demand(
    "KAFKA-17306",
    "3.7 to 3.9, where consumer groups were a preview",
    (3, 7, 0),
    ((4, 0, 0),),
    "a record of a consumer group needs a record that was compacted away",
)
KAFKA_19862 = Demand(
    "KAFKA-19862",
    "4.0.0 to 4.0.1 and 4.1.0 to 4.1.1",
    (3, 7, 0),
    ((4, 0, 2), (4, 1, 2), (4, 2, 0)),
    "a partition is revoked or assigned in another epoch than the one in which it is owned",
)
KAFKA_20254 = Demand(
    "KAFKA-20254",
    "4.1 and 4.2.0",
    (4, 1, 0),
    ((4, 2, 1), (4, 3, 0)),
    "offsets come before the first record of a streams group",
)
KAFKA_21117 = Demand(
    "KAFKA-21117",
    "every release with consumer groups so far (up to 4.4)",
    (3, 7, 0),
    (),
    "a record of one type of group meets a group of another type",
)
KAFKA_21102 = Demand(
    "KAFKA-21102",
    "every release with consumer groups so far (up to 4.4)",
    (3, 7, 0),
    (),
    "a group or member is deleted before records that belong to it",
)
OWNED_TWICE = Demand(
    "KAFKA-16147",
    "every release with consumer groups so far (up to 4.4)",
    (3, 7, 0),
    (),
    "a partition is assigned to a member while another one owns it in the same or a later epoch",
)
DEMANDS = (KAFKA_17306, KAFKA_19862, KAFKA_20254, KAFKA_21117, KAFKA_21102, OWNED_TWICE)


class CheckedRecord(NamedTuple):
    """The relevant part of one record. `owned` are the partitions of a record of type 8."""

    offset: int
    at_ms: int
    record_type: int
    group: str
    member: str = ""
    is_tombstone: bool = False
    epoch: int = -1
    owned_partitions: Sequence[tuple[str, int]] = ()


class Violation(NamedTuple):
    """One record that stops a coordinator."""

    demand: Demand
    step: CheckedRecord
    sentence: str


_Owned = tuple[int, frozenset[tuple[str, int]]]
"""The epoch of a member and its partitions."""


@dataclass(slots=True)
class _CheckedGroup:
    type: Type
    members: dict[str, _Owned] = field(default_factory=dict)
    """By member its epoch and partitions; (-1, none) once its assignment is deleted."""
    targets: set[str] = field(default_factory=set)
    has_target: bool = False
    epochs: dict[tuple[str, int], int] = field(default_factory=dict)
    """By partition the epoch in which it is owned."""


GONE = -1


class LogCheck:
    """Replay of one partition of the log."""

    def __init__(self) -> None:
        self._groups: dict[str, _CheckedGroup] = {}

    def to_json(self) -> list[Any]:
        """Return its state as what `json.dumps` takes."""
        return [
            [
                name,
                group.type,
                [[member, epoch, sorted(owned)] for member, (epoch, owned) in sorted(group.members.items())],
                sorted(group.targets),
                group.has_target,
                sorted([*partition, epoch] for partition, epoch in group.epochs.items()),
            ]
            for name, group in sorted(self._groups.items())
        ]

    @classmethod
    def from_json(cls, state: list[Any]) -> LogCheck:
        """Return a check that continues where another one ended."""
        check = cls()
        for name, kind, members, targets, has_target, epochs in state:
            owned = {member: (epoch, frozenset(map(tuple, partitions))) for member, epoch, partitions in members}
            by_partition = {(topic, number): epoch for topic, number, epoch in epochs}
            check._groups[name] = _CheckedGroup(Type(kind), owned, set(targets), has_target, by_partition)
        return check

    def take(self, step: CheckedRecord) -> Iterator[Violation]:
        """Replay a record, and yield the conditions that it violates."""
        kind = step.record_type
        if kind in (0, 1):
            if not step.is_tombstone and step.group not in self._groups:
                self._groups[step.group] = _CheckedGroup(Type.SIMPLE)
        elif kind == 2:
            if step.is_tombstone:
                self._groups.pop(step.group, None)
            else:
                self._groups[step.group] = _CheckedGroup(Type.CLASSIC)
        elif kind in _REPLAYS:
            yield from self._modern(step, *_REPLAYS[kind])

    def _modern(self, step: CheckedRecord, wanted: Type, replay: _Replay | None) -> Iterator[Violation]:
        group = self._groups.get(step.group)
        if group is None and step.is_tombstone:
            if wanted is Type.CONSUMER:
                yield Violation(KAFKA_17306, step, f"a tombstone of consumer group {step.group}, which does not exist")
            return
        if group is not None and group.type is not wanted:
            yield from self._of_another_type(step, group, wanted)
            if step.is_tombstone:
                return
            group = None
        if group is None:
            group = self._groups[step.group] = _CheckedGroup(wanted)
        if replay is not None:
            yield from replay(self, group, step)

    def _of_another_type(self, step: CheckedRecord, group: _CheckedGroup, wanted: Type) -> Iterator[Violation]:
        if group.type is Type.SIMPLE:
            if step.is_tombstone and wanted is Type.CONSUMER:
                return  # created and deleted at once: accepted from 4.0 on, older versions fail at the next record
            if wanted is Type.CONSUMER:
                yield Violation(KAFKA_17306, step, f"group {step.group} has offsets before it is a consumer group")
            elif wanted is Type.STREAMS and not step.is_tombstone:
                yield Violation(KAFKA_20254, step, f"group {step.group} has offsets before it is a streams group")
            elif wanted is Type.SHARE and not step.is_tombstone:
                yield Violation(KAFKA_21117, step, f"group {step.group} has offsets and is not a share group")
            return
        yield Violation(KAFKA_21117, step, f"group {step.group} is a {group.type} group, not a {wanted} group")

    # -- the conditions of each record type

    def _replay_group(self, group: _CheckedGroup, step: CheckedRecord) -> Iterator[Violation]:
        if not step.is_tombstone:
            return
        if group.members:
            yield Violation(
                KAFKA_21102, step, f"group {step.group} is deleted and still has {_members(len(group.members))}"
            )
        elif group.targets or group.has_target:
            yield Violation(KAFKA_21102, step, f"group {step.group} is deleted and still has a target assignment")
        del self._groups[step.group]

    def _replay_member(self, group: _CheckedGroup, step: CheckedRecord) -> Iterator[Violation]:
        if not step.is_tombstone:
            group.members.setdefault(step.member, (0, frozenset()))
            return
        found = group.members.pop(step.member, None)
        if found is None:
            if group.type is Type.CONSUMER:
                yield Violation(KAFKA_17306, step, f"a tombstone of member {step.member}, which does not exist")
            return
        if found[0] != GONE:
            yield Violation(KAFKA_21102, step, f"member {step.member} is deleted while it has an assignment")
            self._revoke(group, found)
        elif step.member in group.targets:
            yield Violation(KAFKA_21102, step, f"member {step.member} is deleted while it has a target")
            group.targets.discard(step.member)

    def _replay_target(self, group: _CheckedGroup, step: CheckedRecord) -> Iterator[Violation]:
        if step.is_tombstone and group.targets:
            text = f"the target of group {step.group} is deleted while {_members(len(group.targets))} have one"
            yield Violation(KAFKA_21102, step, text)
            group.targets.clear()
        group.has_target = not step.is_tombstone

    def _replay_member_target(self, group: _CheckedGroup, step: CheckedRecord) -> Iterator[Violation]:
        (group.targets.discard if step.is_tombstone else group.targets.add)(step.member)
        yield from ()

    def _replay_assignment(self, group: _CheckedGroup, step: CheckedRecord) -> Iterator[Violation]:
        found = group.members.get(step.member)
        if step.is_tombstone:
            if found is None:
                if group.type is Type.CONSUMER:
                    yield Violation(KAFKA_17306, step, f"a tombstone of member {step.member}, which does not exist")
                return
            yield from self._released(group, step, found)
            group.members[step.member] = GONE, frozenset()
            return
        if found is not None:
            yield from self._released(group, step, found)
        for partition in sorted(step.owned_partitions):
            owned = group.epochs.get(partition)
            if owned is not None and owned >= step.epoch:
                text = f"{_name(partition)} goes to {step.member} in epoch {step.epoch} and is owned in epoch {owned}"
                yield Violation(OWNED_TWICE, step, text)
            group.epochs[partition] = max(step.epoch, owned if owned is not None else step.epoch)
        group.members[step.member] = step.epoch, frozenset(step.owned_partitions)

    def _released(self, group: _CheckedGroup, step: CheckedRecord, found: _Owned) -> Iterator[Violation]:
        epoch, owned_partitions = found
        for partition in sorted(owned_partitions):
            owned = group.epochs.get(partition)
            if owned != epoch:
                text = f"{step.member} gives up {_name(partition)} of epoch {epoch}, "
                text += "which has no owner" if owned is None else f"which is owned in epoch {owned}"
                yield Violation(KAFKA_19862, step, text)
        self._revoke(group, found)

    def _revoke(self, group: _CheckedGroup, found: _Owned) -> None:
        epoch, owned_partitions = found
        for partition in owned_partitions:
            if group.epochs.get(partition) == epoch:
                del group.epochs[partition]


_Replay = Callable[[LogCheck, _CheckedGroup, CheckedRecord], Iterator[Violation]]
_OF_TYPES: tuple[tuple[_Replay | None, tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...] = (
    (LogCheck._replay_group, (3,), (11,), (17,)),
    (LogCheck._replay_member, (5,), (10,), (19,)),
    (LogCheck._replay_target, (6,), (12,), (20,)),
    (LogCheck._replay_member_target, (7,), (13,), (21,)),
    (LogCheck._replay_assignment, (8,), (14,), (22,)),
    (None, (4, 16), (15,), (23,)),
)
"""Conditions of record types: those of consumer groups, share groups, streams groups."""

_REPLAYS = {
    record_type: (kind, replay)
    for replay, *columns in _OF_TYPES
    for kind, column in zip((Type.CONSUMER, Type.SHARE, Type.STREAMS), columns, strict=True)
    for record_type in column
}
"""By record type the type of the group, and the conditions, None where there are none."""


def _members(count: int) -> str:
    return "1 member" if count == 1 else f"{count} members"


def _name(partition: tuple[str, int]) -> str:
    return f"{partition[0]}-{partition[1]}"


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
