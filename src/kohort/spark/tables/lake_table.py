"""`LakeTable`: what Delta Lake and Iceberg tables have in common, for which a library knows the format.

Rows are written into files that are in no version of the table yet, by the application or by Spark's tasks. One
optimistic commit adds them, with the offsets, to the version on which the offsets were compared; after a lost race they
are compared again. A commit that is reported as failed may be in the table all the same: each step has a mark, which is
looked for before anything else. Where the format allows, one commit is of several tables: then the offsets of
all are compared, and it is in all of them or in none.
"""

from __future__ import annotations

import logging
import random
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from kohort.model.ids import TopicPartition
from kohort.spark.direct_rows import batches_of, in_tasks
from kohort.spark.tables.arrow_columns import changed_columns, fitted, schema_of
from kohort.spark.tables.changes.row_change import DELETED, BadChange, Change, Write, matched, refused
from kohort.spark.tables.changes.versions import changed_versions, following, not_ended
from kohort.spark.tables.table import (
    DELETIONS,
    PAUSES_S,
    Fenced,
    OffsetStep,
    Position,
    Positions,
    TableBroken,
    broken_in_tasks,
    check_steps,
    in_a_sentence,
    most_rows,
    positions_at,
    reason_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

np: Any = numpy
log = logging.getLogger(__name__)

T = TypeVar("T")

Steps = Mapping[TopicPartition, OffsetStep]

ROWS_ON_DRIVER = 20_000
"""Rounds of up to this many offsets are written by the application: below it, that is faster than a job's tasks."""

CONFLICT_SECONDS = 60.0
"""How long commits are tried again that race those of others, and `TRIES` times at least."""

TRIES = 1 + len(PAUSES_S)
"""How often a storage is tried that fails, and a change of columns that others change at the same time."""


class RoundPlan(Protocol):
    """How the files of a round are written, by whichever process."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[Any]:
        """Write rows into new files, and return them. If that fails, they are removed as far as possible."""


class LakeStep(NamedTuple):
    """A step of one table, whose files are in no version yet."""

    table: LakeTable
    check: Callable[[], object]
    """Raises where the version that is seen must not take the step."""
    stage: Callable[[str], Any]
    """Returns the commit to that version, with a mark, as `_send` takes it."""
    files: Sequence[Any] = ()
    """What was written before the first attempt."""


class LakeTable(ABC):
    """A table whose commits are optimistic: one of two that race is refused, and compared and tried again."""

    _can_widen = False
    """Whether the library makes columns of a table wider."""

    def __init__(self, conflict: type[Exception], *, merge_schema: bool, rows_on_driver: int) -> None:
        self._conflict = conflict
        """What the library raises where another commit was first."""
        self._is_merging = merge_schema
        self.rows_in_arrow = rows_on_driver
        """Up to how many offsets the application writes a round, which then may be a `pyarrow.Table`."""
        self._table: Any = None
        self._identity = ""
        self._lock = threading.RLock()
        self._deletions: LakeTable | None = None
        """Where the deletions of a merge with an order are."""

    def offsets(self, group: str, partitions: Iterable[TopicPartition]) -> Positions:
        """Return the positions of these partitions, as they are now, without those that have none.

        Raises TableBroken.
        """
        with self._lock, _in_a_sentence([self], f"cannot be read for group {group}"):
            return self._looked_up(lambda: self._trusted(group, sorted(partitions)) if self._refresh() else {})

    def append(self, frame: DataFrame | pa.Table, group: str, steps: Steps) -> None:
        """Add a frame's rows and take the steps, all or nothing. Raises Fenced, SchemaMismatch, TableBroken."""
        take_together([Write(self, frame)], group, steps)

    def merge(self, frame: DataFrame | pa.Table, group: str, steps: Steps, change: Change) -> None:
        """Change rows by key and take the steps, all or nothing.

        Raises Fenced, SchemaMismatch, TableBroken, BadChange, ValueError.
        """
        take_together([Write(self, frame, change)], group, steps)

    def set_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Move partitions to these offsets without adding rows; jobs of the group read on there, whatever topic it is.

        Raises TableBroken.
        """
        with self._lock, _in_a_sentence([self], f"did not confirm the offsets of group {group}"):
            self._require()
            self._commit([], group, positions_at(offsets))

    # What a format does

    @abstractmethod
    def _load(self) -> Any:
        """Return the newest version of the table, None where there is none."""

    @abstractmethod
    def _identity_of(self, table: Any) -> str:
        """Return what a table has that no other has, even one that takes its place."""

    @abstractmethod
    def _version(self) -> Any:
        """Return which version is seen."""

    @abstractmethod
    def _schema(self) -> pa.Schema:
        """Return the columns of the version that is seen."""

    @abstractmethod
    def _layout(self) -> object:
        """Return how the table is partitioned."""

    @abstractmethod
    def _create(self, rows: pa.Schema) -> None:
        """Make the table; another job may be first. Raises SchemaMismatch."""

    @abstractmethod
    def _change_columns(self, changed: Sequence[pa.Field]) -> None:
        """Add columns, or change them."""

    @abstractmethod
    def _found(self, group: str, partitions: Iterable[TopicPartition]) -> Positions:
        """Return the positions in the version that is seen."""

    @abstractmethod
    def _plan(self) -> RoundPlan:
        """Return how files are written. Raises TableBroken where files may not be added as they are."""

    @abstractmethod
    def _stage(self, files: Sequence[Any], group: str, positions: Mapping[TopicPartition, Position], mark: str) -> Any:
        """Return the commit that adds files and positions to the version that is seen, with a mark."""

    @abstractmethod
    def _stage_merge(
        self, changes: pa.Table, change: Change, group: str, positions: Mapping[TopicPartition, Position], mark: str
    ) -> Any:
        """Return the commit that changes rows of the version that is seen, and its offsets, with a mark."""

    @abstractmethod
    def _send(self, commits: Sequence[Any]) -> None:
        """Commit what this table and others of its kind have staged, all or nothing; no offset is compared here."""

    @abstractmethod
    def _rows_of(self, changes: pa.Table, keys: Sequence[str]) -> pa.Table:
        """Return the rows of the version that is seen that have a key of `changes`, and perhaps others."""

    @abstractmethod
    def _beside(self, suffix: str) -> LakeTable:
        """Return the table whose name or address has a suffix."""

    @abstractmethod
    def _has(self, mark: str, since: Any) -> bool:
        """Whether a commit after a version has a mark."""

    @abstractmethod
    def _delete(self, file: Any) -> None:
        """Remove a file. Raises what the storage raises."""

    def _after_commit(self) -> None:
        """Do upkeep that a round may wait for; it raises nothing."""
        return

    def _trusted(self, group: str, partitions: Sequence[TopicPartition]) -> Positions:
        """Return positions whose rows are there. Raises TableBroken."""
        return self._found(group, partitions)

    def _check(self, group: str, steps: Steps) -> None:
        """Compare the offsets of the version that is seen. Raises Fenced, TableBroken."""
        check_steps(repr(self), group, self._found(group, steps), steps)

    # The table as it is

    def _looked_up(self, look: Callable[[], T]) -> T:
        """Return what a look at the table returns; after a fault of the storage or the catalog it is tried again."""
        for pause_s in PAUSES_S:
            try:
                return look()
            except (Fenced, TableBroken, self._conflict):
                raise
            except Exception as error:
                log.warning("%r is looked up again: %s", self, reason_of(error))
                time.sleep(pause_s)
        return look()

    def _require(self) -> None:
        if not self._refresh():
            raise TableBroken(f"{self!r} does not exist: nothing was written to it")

    def _refresh(self) -> bool:
        """See the newest version, and return whether there is a table. Raises TableBroken."""
        table = self._load()
        if table is None:
            if self._identity:
                raise TableBroken(f"{self!r} was dropped while it was written: stop its jobs first")
            return False
        identity = self._identity_of(table)
        if self._identity and identity != self._identity:
            raise TableBroken(
                f"{self!r} was dropped and made anew while it was written: start its jobs again, as another group if"
                " the topic is to be read from its beginning"
            )
        self._table, self._identity = table, identity
        return True

    def _has_since(self, mark: str, before: Any) -> bool:
        """See the newest version, and return whether a commit after a version has a mark."""
        return self._refresh() and self._has(mark, before)

    def _make_ready(self, rows: pa.Schema) -> None:
        """See the newest version of a table with room for rows. Raises SchemaMismatch, TableBroken."""
        if not self._refresh():
            self._create(rows)
            self._require()
        for left in reversed(range(TRIES)):
            widening = self._is_merging and self._can_widen
            changed = changed_columns(
                self._schema(), rows, repr(self), is_merging=self._is_merging, is_widening=widening
            )
            if not changed:
                return
            try:
                self._change_columns(changed)
                log.info("%r has columns %s from now on", self, ", ".join(each.name for each in changed))
            except self._conflict:  # another job changes columns too
                if not left:
                    raise
            self._refresh()

    # Steps

    def _step_of(self, write: Write, group: str, steps: Steps) -> LakeStep:
        """Return a step that may be committed: the table has room for its rows, and the steps follow its offsets."""
        stops = {each: step.stop for each, step in steps.items()}
        if write.change is None:
            return self._step_of_rows(write, group, steps, stops)
        change, columns = write.change, write.change.columns_in(schema_of(write.frame))
        changes = change.collect(write.frame)
        with _in_a_sentence([self], refused([write], group, steps)):
            self._be_ready(columns, group, steps)
            kinds = _kinds_of(changes, self._schema())
            fitted(changes.filter(pc.invert(changes[DELETED])), kinds)  # a deletion needs no more than its key
            changes = fitted(changes, pa.schema([each.with_nullable(True) for each in kinds]))

        def stage(mark: str) -> Any:
            return self._stage_merge(self._wanted(changes, change), change, group, stops, mark)

        return LakeStep(self, lambda: self._check(group, steps), stage)

    def _step_of_rows(self, write: Write, group: str, steps: Steps, stops: Positions) -> LakeStep:
        """Return a step whose rows are in files."""
        rows = schema_of(write.frame)
        with _in_a_sentence([self], refused([write], group, steps)):
            self._be_ready(rows, group, steps)
            plan, layout = self._plan(), self._layout()
        files = self._write(plan, write.frame, steps)

        def check() -> None:
            changed_columns(self._schema(), plan.schema, repr(self))
            if self._layout() != layout:
                raise TableBroken(f"{self!r} was partitioned otherwise while a round was written: start again")
            self._check(group, steps)

        return LakeStep(self, check, lambda mark: self._stage(files, group, stops, mark), files)

    def _be_ready(self, columns: pa.Schema, group: str, steps: Steps) -> None:
        """See a version with room for columns, and compare the offsets before rows are written."""
        self._looked_up(lambda: self._make_ready(columns))
        self._looked_up(lambda: self._check(group, steps))

    def _wanted(self, changes: pa.Table, change: Change) -> pa.Table:
        """Return changes without those that a later deletion, or what a history has, ends."""
        if not change.order:
            return changes
        self._deletions = self._deletions or self._beside(DELETIONS)
        names = [*change.keys, *change.order]
        gone = changes.schema.empty_table().select(names)
        with self._deletions._lock:
            if self._deletions._refresh():
                gone = fitted(self._deletions._rows_of(changes, change.keys), gone.schema)
            is_unknown = changes[change.order[0]].null_count
            if change.is_history or is_unknown:
                rows = fitted(self._rows_of(changes, change.keys), self._schema())
            if is_unknown:
                changes = following(changes, [fitted(rows, gone.schema), gone], change)
            self._deletions._store_deletions(changes, gone)
        return changed_versions(changes, rows, gone, change) if change.is_history else not_ended(changes, gone, change)

    def _store_deletions(self, changes: pa.Table, gone: pa.Table) -> None:
        """Add deletions, before they are done: a change that is older, and comes later, ends there.

        They are facts of the topic: to store one whose round is refused changes nothing.
        """
        found = changes.filter(changes[DELETED]).select(gone.column_names).drop_null()
        is_new = np.ones(found.num_rows, bool)
        is_new[matched(gone, found, gone.column_names)[1]] = False
        if is_new.any():
            self._make_ready(found.schema)
            self._commit(self._plan().write(found.filter(pa.array(is_new)).to_batches()), "", {})

    # Writing

    def _write(self, plan: RoundPlan, frame: DataFrame | pa.Table, steps: Steps) -> list[Any]:
        """Write rows into files that are in no version yet. What the frame's own computation raises is raised as is."""
        if isinstance(frame, pa.Table) or most_rows(steps) <= self.rows_in_arrow:
            batches = batches_of(frame)
            for pause_s in PAUSES_S:
                try:
                    return _written(plan, repr(self), batches)
                except TableBroken as error:
                    log.warning("%s; they are written again", error)
                    time.sleep(pause_s)
            return _written(plan, repr(self), batches)
        with broken_in_tasks():
            written = in_tasks(frame, partial(_written, plan, repr(self)))
        return list(chain.from_iterable(written))

    def _commit(self, files: Sequence[Any], group: str, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit files and positions to the version that is seen, or a newer one."""
        _commit([LakeStep(self, bool, lambda mark: self._stage(files, group, positions, mark))], group)

    def _remove(self, files: Iterable[Any]) -> None:
        """Remove files that are in no version; what cannot be removed now is left to the format's own cleaning."""
        for each in files:
            try:
                self._delete(each)
            except Exception as error:  # each storage has errors of its own
                log.warning("%r: a file that is in no version could not be removed: %s", self, error)


def take_together(writes: Sequence[Write], group: str, steps: Steps) -> None:
    """Take steps in tables of one kind, all or nothing. Raises what `append` and `merge` of one table raise."""
    tables: list[LakeTable] = [each.table for each in writes]
    taken: list[LakeStep] = []
    with ExitStack() as locks:
        for table in sorted(tables, key=repr):  # in one order: two threads would else wait for each other
            locks.enter_context(table._lock)
        try:
            for table, write in zip(tables, writes, strict=True):
                taken.append(table._step_of(write, group, steps))
            with _in_a_sentence(tables, refused(writes, group, steps)):
                if len({table._identity for table in tables}) < len(tables):
                    raise TableBroken(f"{tables} has a table twice, by two names: give each table one part of a step")
                _commit(taken, group)
        except Exception as error:
            if isinstance(error, Fenced) or len(taken) < len(tables):  # nothing can be in a version
                for table, _, _, files in taken:
                    table._remove(files)
            raise
        for table in tables:
            table._after_commit()


def _commit(steps: Sequence[LakeStep], group: str) -> None:
    """Commit steps of tables, all or nothing, to versions that no `check` refuses."""
    tables = [each.table for each in steps]
    deadline, conflicts, failures = time.monotonic() + CONFLICT_SECONDS, 0, 0
    # One mark for all attempts: one that was not there when it was looked for may come before the next.
    before, mark = [each._version() for each in tables], uuid.uuid4().hex
    while True:
        for each in steps:
            each.check()
        try:
            tables[0]._send([each.stage(mark) for each in steps])
            return
        except Exception as error:
            if _is_taken(tables, mark, before, error):
                log.warning("%s has taken a commit of group %s reported as failed: %s", _names(tables), group, error)
                return
            if not isinstance(error, tables[0]._conflict):
                # It may still be on its way. Storage and catalogs take one commit on a version, so one of two.
                failures += 1
                if failures == TRIES:
                    raise
                time.sleep(PAUSES_S[failures - 1])
            else:
                conflicts += 1  # one attempt of a large merge may take longer than all are to take
                if conflicts >= TRIES and time.monotonic() > deadline:
                    raise TimeoutError(f"others committed first for {CONFLICT_SECONDS:g} s: {error}") from error
                time.sleep(random.uniform(0, 0.1))


def _is_taken(tables: Sequence[LakeTable], mark: str, before: Sequence[Any], failure: Exception) -> bool:
    """Whether a commit that was reported as failed is in the tables, whose newest versions are seen afterwards.

    Raises `failure` where that is not known, and TableBroken where only some of them have it.
    """
    found: set[bool] = set()
    try:
        for _ in range(2):  # it may come between two look-ups: the second time all have it
            looks = [(each, partial(each._has_since, mark, at)) for each, at in zip(tables, before, strict=True)]
            found = {table._looked_up(look) for table, look in looks}
            if len(found) == 1:
                return found.pop()
    except TableBroken:
        raise
    except Exception as error:
        log.warning("%s: it is not known whether a commit that failed is there: %s", _names(tables), error)
        raise failure from None
    raise TableBroken(
        f"only some of {_names(tables)} have a commit of all of them: the catalog does not carry it out as a whole. Use"
        " another catalog, and let exactly_once(table) alone store what one of them is behind"
    )


def _names(tables: Iterable[LakeTable]) -> str:
    return " and ".join(map(repr, tables))


def _in_a_sentence(tables: Iterable[LakeTable], what: str) -> AbstractContextManager[None]:
    """Raise what libraries and storage raise as a TableBroken that names the tables, and advises what to do."""
    advice = "Rows and offsets come together or not at all: see to storage and catalog, and start the job again"
    return in_a_sentence(_names(tables), what, advice, (Exception,), unless=(BadChange,))


def _written(plan: RoundPlan, table: str, batches: Iterable[pa.RecordBatch]) -> list[Any]:
    """Write rows into files. Raises TableBroken for an error of the storage, and what reading the rows raises as is."""
    unread: list[Exception] = []

    def given() -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except Exception as error:
            unread.append(error)
            raise

    try:
        return plan.write(given())
    except OSError as error:
        if unread:
            raise
        raise TableBroken(
            f"{table}: the files of a round could not be written: {reason_of(error)}. No offset has moved: see to its"
            " storage, and start the job again"
        ) from error


def _kinds_of(changes: pa.Table, table: pa.Schema) -> pa.Schema:
    """Return the columns of changes in the types of a table."""
    kinds = {each.name: each for each in table} | {DELETED: pa.field(DELETED, pa.bool_())}
    return pa.schema([kinds[each] for each in changes.column_names])
