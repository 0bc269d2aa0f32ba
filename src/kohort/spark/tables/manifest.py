"""`ManifestTable`: Parquet files in a directory, and a log that says which of them are the table.

Spark's tasks write a round's rows into a new directory; one entry of the log then makes them rows of the table and
moves the offsets. A writer that dies before the entry leaves files that are no rows; `vacuum` removes them.
Driver and executors share the file system. Layout: `rows/<id>/*.parquet`, `manifest/entries`, `manifest/checkpoints`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq

from kohort.model.ids import TopicPartition
from kohort.spark.tables import table
from kohort.spark.tables.manifest_log import ManifestLog, new_entry_id, now_ms, sync_directory
from kohort.spark.tables.manifest_state import Entry, RowsFile, TableState
from kohort.spark.tables.table import Change, Claim, Held, Holdings, SchemaMismatch, Step, TableBroken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SMALL_FILE_BYTES = 64 << 20
"""Files below this size are put together by `compact`."""

VACUUM_AFTER_S = 3600.0
"""Age from which files that are not, or no longer, in the table are removed: readers and writers have so long."""


_TRIES = 3

_Decide = Callable[[TableState, tuple[RowsFile, ...]], Entry | None]


class _Condemned(Exception):
    """A vacuum took a writer for dead."""


class Vacuumed(NamedTuple):
    """What a vacuum removed: directories of rows files, and their bytes."""

    directories: int
    size: int


class ManifestTable:
    """A table below `path`; it is made by the first write. `schema` (Spark's) makes it at once, with these columns.

    `most_files` bounds the files that one round adds: its rows are put together into so many.
    """

    def __init__(self, path: str | Path, *, most_files: int | None = None) -> None:
        self.path = Path(path).absolute()
        self.most_files = most_files
        self._log = ManifestLog(self.path / "manifest")
        if self.path.is_dir() and any(self.path.iterdir()) and not (self.path / "manifest").is_dir():
            raise TableBroken(f"{self.path} holds other files and no manifest: give a manifest table its own directory")

    def __repr__(self) -> str:
        return f"ManifestTable({str(self.path)!r})"

    # What `exactly_once` needs

    def held(self, group: str) -> Holdings:
        """Return what the table holds of a group's partitions, as it is now."""
        return dict(self._log.refresh().groups.get(group, {}))

    def claim(
        self, group: str, wanted: Claim, partitions: Iterable[TopicPartition], *, is_renewed: bool = False
    ) -> Holdings:
        """Take partitions over, all or none, and return them as they are from now on. Raises Superseded."""
        asked = tuple(partitions)
        change = partial(table.claim, wanted=wanted, is_renewed=is_renewed)
        self._change("claim", group, dict.fromkeys(asked, change))
        now = self._log.state.groups.get(group, {})
        return {partition: now[partition] for partition in asked}

    def place(self, group: str, owner: Claim, offsets: Mapping[TopicPartition, int]) -> None:
        """Move claimed partitions to offsets without adding rows, all or none. Raises Fenced."""
        changes = {each: partial(table.place, owner=owner, offset=offset) for each, offset in offsets.items()}
        self._change("place", group, changes)

    def append(self, frame: DataFrame, group: str, steps: Mapping[TopicPartition, Step]) -> None:
        """Add a frame's rows and take the steps, all or nothing. Raises Fenced, SchemaMismatch, TableBroken."""
        state = self._log.refresh()
        table.advanced(
            state.groups.get(group, {}), steps
        )  # refused at once where that is clear before any row is written
        _require_same_columns(state.schema, frame.schema, str(self))
        schema = _schema_to_json(frame.schema)

        def decide(state: TableState, added: tuple[RowsFile, ...]) -> Entry:
            _require_same_columns(state.schema, frame.schema, str(self))
            first = schema if state.schema is None else None
            held = table.advanced(state.groups.get(group, {}), steps)
            return Entry(new_entry_id(), "append", now_ms(), first, added, group=group, held=held)

        self._write(frame if self.most_files is None else frame.coalesce(self.most_files), decide)

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the rows that are in the table now; rows that come later are not among them."""
        state = self._log.refresh()
        if state.schema is None:
            raise TableBroken(f"{self!r} has no columns yet: nothing was written to it")
        schema = _schema_from_json(state.schema)
        if not state.files:
            return spark.createDataFrame([], schema)
        return spark.read.schema(schema).parquet(*(self._pattern(path) for path in state.files))

    # Upkeep

    @property
    def files(self) -> tuple[RowsFile, ...]:
        """The files whose rows are the table's now."""
        return tuple(self._log.refresh().files.values())

    def compact(self, spark: SparkSession, *, small: int = SMALL_FILE_BYTES) -> int:
        """Put files below `small` bytes together, and return how many were; rounds may go on meanwhile."""
        state = self._log.refresh()
        chosen = [each for each in state.files.values() if each.size < small]
        if len(chosen) < 2:
            return 0
        schema = _schema_from_json(state.schema)
        frame = spark.read.schema(schema).parquet(*(self._pattern(each.path) for each in chosen))

        def decide(state: TableState, added: tuple[RowsFile, ...]) -> Entry | None:
            if any(each.path not in state.files for each in chosen):
                return None  # another compaction was faster
            removed = tuple(each.path for each in chosen)
            return Entry(new_entry_id(), "compact", now_ms(), added=added, removed=removed)

        is_done = self._write(frame.coalesce(max(1, sum(each.size for each in chosen) // small)), decide)
        return len(chosen) if is_done else 0

    def vacuum(self, *, older_than_s: float = VACUUM_AFTER_S) -> Vacuumed:
        """Remove files that are not in the table: rows of dead writers, and files that were compacted away.

        They are condemned in the log first, after which no entry may add them: a writer that is only slow is refused,
        and its rows are written again. Readers of an older state need what is younger than `older_than_s`.
        """
        before_ms = int(now_ms() - older_than_s * 1000)
        found = dict(_ages_ms(self.path / "rows"))

        def decide(state: TableState) -> Entry | None:
            used = {each.staged for each in state.files.values()}
            idle = [
                name
                for name, at_ms in sorted(found.items())
                if name not in used | state.condemned and state.retired.get(name, at_ms) <= before_ms
            ]
            return Entry(new_entry_id(), "vacuum", now_ms(), condemned=tuple(idle)) if idle else None

        self._log.append(decide)
        gone = [self.path / name for name in found if name in self._log.state.condemned]
        size = sum(_size(path) for path in gone)
        for path in gone:
            shutil.rmtree(path, ignore_errors=True)
        self._log.forget(before_ms)
        return Vacuumed(len(gone), size)

    # The inside

    def _pattern(self, path: str) -> str:
        """Return the pattern that finds a file below the table, and no other: Spark reads patterns."""
        return _in_spark(Path(re.sub(r"([][{}*?\\])", r"\\\1", str(self.path / path))))

    def _change(self, kind: str, group: str, changes: Mapping[TopicPartition, Change]) -> None:
        """Append an entry that only changes holdings, unless it changes none."""

        def decide(state: TableState) -> Entry | None:
            held = state.groups.get(group, {})
            changed = {each: change(each, held.get(each, Held())) for each, change in changes.items()}
            if all(held.get(each) == after for each, after in changed.items()):
                return None
            return Entry(new_entry_id(), kind, now_ms(), group=group, held=changed)

        self._log.append(decide)

    def _write(self, frame: DataFrame, decide: _Decide) -> bool:
        """Write a frame's rows and append the entry that `decide` makes of their files; return whether it made one.

        Files that are in no entry are removed again.
        """
        # First: after a kill, rows without a manifest would be taken for files of another program.
        self._log.make()
        for _ in range(_TRIES):
            name = f"rows/{new_entry_id()}"
            try:
                return self._write_as(name, frame, decide)
            except _Condemned:
                continue
        raise TableBroken(
            f"{self!r}: vacuums removed the files of a round before it was done, {_TRIES} times: let them wait longer"
            " than the longest round (older_than_s)"
        )

    def _write_as(self, name: str, frame: DataFrame, decide: _Decide) -> bool:
        is_added = False
        try:
            added = self._stage(frame, name)

            def decide_on_them(state: TableState) -> Entry | None:
                # By the directory and not by its files: those that a vacuum removed are not among `added`.
                if name in state.condemned:
                    raise _Condemned
                if added is None:
                    raise TableBroken(
                        f"{self!r}: the files of a round are not in {self.path / name}: driver and executors have to"
                        " share the directory, and only vacuum may remove files from it"
                    )
                return decide(state, added)

            is_added = self._log.append(decide_on_them) is not None
        finally:
            # An error from the disk leaves open whether the entry is there: the files stay if it is.
            if not is_added and not any(each.staged == name for each in self.files):
                shutil.rmtree(self.path / name, ignore_errors=True)
        return is_added

    def _stage(self, frame: DataFrame, name: str) -> tuple[RowsFile, ...] | None:
        """Write a frame's rows into a directory of their own, durably; they are no rows of the table yet.

        Returns None where they are not found there.
        """
        staged = self.path / name
        frame.write.parquet(_in_spark(staged))
        files = []
        try:
            if not (written := sorted(staged.glob("*.parquet"))):
                return None  # for an empty frame Spark writes a file, too
            for path in written:
                _sync(path)
                # As the footer counts: a file may be empty.
                if count := pq.read_metadata(path).num_rows:
                    files.append(RowsFile(str(path.relative_to(self.path)), count, path.stat().st_size))
            sync_directory(staged)
            sync_directory(staged.parent)
        except FileNotFoundError:
            return None  # a vacuum removes it, and has recorded that in the log
        return tuple(files)


def _in_spark(path: Path) -> str:
    """Return a path of this machine as Spark takes it: a space is a space, and `%20` three characters."""
    return f"file://{path}"


def _ages_ms(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the directories of rows, with when they were written; others may remove some meanwhile."""
    for path in folder.iterdir() if folder.is_dir() else ():
        with suppress(FileNotFoundError):
            yield f"{folder.name}/{path.name}", path.stat().st_mtime_ns // 1_000_000


def _size(path: Path) -> int:
    size = 0
    for file in path.rglob("*"):
        with suppress(FileNotFoundError):
            size += file.stat().st_size
    return size


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


# The columns


def _schema_to_json(schema: StructType) -> Any:
    """Return a schema as plain values; every column may be null, as Parquet reads it."""
    from pyspark.sql.types import StructType

    plain: Any = json.loads(StructType(schema.fields).json())
    return _nullable(plain)


def _schema_from_json(plain: Any) -> StructType:
    """Return the schema of `_schema_to_json`."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(plain)


def _require_same_columns(columns: Any, schema: StructType, name: str) -> None:
    """Raise SchemaMismatch, naming what differs, unless a frame has the table's columns in their order.

    A table without columns takes any.
    """
    if columns is None:
        return
    here, there = _schema_from_json(columns), _schema_from_json(_schema_to_json(schema))
    if here == there:
        return
    ours = {field.name: field.dataType.simpleString() for field in here.fields}
    theirs = {field.name: field.dataType.simpleString() for field in there.fields}
    faults = [f"it has no column {name} {kind}" for name, kind in theirs.items() if name not in ours]
    faults += [f"the rows have no column {name} {kind}" for name, kind in ours.items() if name not in theirs]
    faults += [
        f"its column {name} is {kind}, the rows' is {theirs[name]}"
        for name, kind in ours.items()
        if theirs.get(name, kind) != kind
    ]
    if not faults:
        faults = [f"its columns are in the order {', '.join(ours)}, the rows' in the order {', '.join(theirs)}"]
    raise SchemaMismatch(f"{name} does not take these rows: {'; '.join(faults)}")


def _nullable(plain: Any) -> Any:
    """Return the schema's plain values with everything nullable, and without metadata."""
    if isinstance(plain, list):
        return [_nullable(each) for each in plain]
    if not isinstance(plain, dict):
        return plain
    changed = {name: _nullable(value) for name, value in plain.items()}
    for name in ("nullable", "containsNull", "valueContainsNull"):
        if name in changed:
            changed[name] = True
    if "metadata" in changed:
        changed["metadata"] = {}
    return changed
