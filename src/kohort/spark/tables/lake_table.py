"""`LakeTable`: what Delta Lake and Iceberg tables have in common, for which a library knows the format.

Rows are written into files that are in no version of the table yet, by the application or by Spark's tasks. One
optimistic commit adds them, with the offsets, to the version on which the offsets were compared; after a lost race they
are compared again. A commit that is reported as failed may be in the table all the same: each has a mark of its own,
which is looked for before anything else.
"""

from __future__ import annotations

import logging
import random
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy
import pyarrow as pa
import pyarrow.compute as pc

from kohort.model.ids import TopicPartition
from kohort.spark.direct_rows import batches_of, in_tasks
from kohort.spark.tables.arrow_columns import changed_columns, fitted, schema_of
from kohort.spark.tables.changes.key_match import DELETED, matched
from kohort.spark.tables.changes.row_change import BadChange, Change
from kohort.spark.tables.changes.versions import changed_versions, following, not_ended
from kohort.spark.tables.table import (
    DELETIONS,
    PAUSES_S,
    Fenced,
    Position,
    Positions,
    Step,
    TableBroken,
    broken_in_tasks,
    check_steps,
    in_a_sentence,
    most_rows,
    positions_at,
    reason_of,
    spans_in,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

np: Any = numpy
log = logging.getLogger(__name__)

T = TypeVar("T")

ROWS_ON_DRIVER = 20_000
"""Rounds of up to this many offsets are written by the application: below it, that is faster than a job's tasks."""

CONFLICT_SECONDS = 60.0
"""How long commits are tried again that race those of others, and `TRIES` times at least."""

TRIES = 1 + len(PAUSES_S)
"""How often a storage is tried that fails, and a change of columns that others change at the same time."""


class Plan(Protocol):
    """How the files of a round are written, by whichever process."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        ...

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[Any]:
        """Write rows into new files, and return them. If that fails, they are removed as far as possible."""
        ...


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
        with self._lock, self._in_a_sentence(f"cannot be read for group {group}"):
            return self._looked_up(lambda: self._trusted(group, sorted(partitions)) if self._refresh() else {})

    def append(self, frame: DataFrame | pa.Table, group: str, steps: Mapping[TopicPartition, Step]) -> None:
        """Add a frame's rows and take the steps, all or nothing. Raises Fenced, SchemaMismatch, TableBroken."""
        refused = f"did not confirm the rows of group {group}, {spans_in(steps)}"
        with self._lock:
            rows = schema_of(frame)
            with self._in_a_sentence(refused):
                self._looked_up(lambda: self._make_ready(rows))
                self._looked_up(lambda: self._check(group, steps))  # before rows are written
                plan, layout = self._plan(), self._layout()
            files = self._write(plan, frame, steps)

            def check() -> None:
                changed_columns(self._schema(), plan.schema, repr(self))
                if self._layout() != layout:
                    raise TableBroken(f"{self!r} was partitioned otherwise while a round was written: start again")
                self._check(group, steps)

            try:
                with self._in_a_sentence(refused):
                    self._commit(files, group, {each: step.stop for each, step in steps.items()}, check)
            except Fenced:
                self._remove(files)
                raise
            self._after_commit()

    def set_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Move partitions to these offsets without adding rows; jobs of the group read on there, whatever topic it is.

        Raises TableBroken.
        """
        with self._lock, self._in_a_sentence(f"did not confirm the offsets of group {group}"):
            self._require()
            self._commit([], group, positions_at(offsets))

    def merge(
        self, frame: DataFrame | pa.Table, group: str, steps: Mapping[TopicPartition, Step], change: Change
    ) -> None:
        """Change rows by key and take the steps, all or nothing.

        Raises Fenced, SchemaMismatch, TableBroken, BadChange, ValueError.
        """
        columns = change.columns_in(schema_of(frame))
        changes = change.collect(frame)
        with self._lock, self._in_a_sentence(f"did not confirm the changes of group {group}, {spans_in(steps)}"):
            self._looked_up(lambda: self._make_ready(columns))
            self._looked_up(lambda: self._check(group, steps))
            kinds = _kinds_of(changes, self._schema())
            fitted(changes.filter(pc.invert(changes[DELETED])), kinds)  # a deletion needs no more than its key
            changes = fitted(changes, pa.schema([each.with_nullable(True) for each in kinds]))

            def once(mark: str) -> None:
                wanted = self._wanted(changes, change)
                self._merge_once(wanted, change, group, {each: step.stop for each, step in steps.items()}, mark)

            self._commit_by(once, group, lambda: self._check(group, steps))
            self._after_commit()

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
    def _plan(self) -> Plan:
        """Return how files are written. Raises TableBroken where files may not be added as they are."""

    @abstractmethod
    def _commit_once(
        self, files: Sequence[Any], group: str, positions: Mapping[TopicPartition, Position], mark: str
    ) -> None:
        """Add files and positions to the version that is seen, with a mark; the library compares nothing."""

    @abstractmethod
    def _merge_once(
        self, changes: pa.Table, change: Change, group: str, positions: Mapping[TopicPartition, Position], mark: str
    ) -> None:
        """Change rows of the version that is seen, and its offsets, in one commit with a mark."""

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

    def _check(self, group: str, steps: Mapping[TopicPartition, Step]) -> None:
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

    # Changes

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

    def _write(self, plan: Plan, frame: DataFrame | pa.Table, steps: Mapping[TopicPartition, Step]) -> list[Any]:
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

    def _commit(
        self,
        files: Sequence[Any],
        group: str,
        positions: Mapping[TopicPartition, Position],
        check: Callable[[], object] = bool,
    ) -> None:
        """Commit files and positions to a version that `check` does not refuse."""
        self._commit_by(lambda mark: self._commit_once(files, group, positions, mark), group, check)

    def _commit_by(self, once: Callable[[str], None], group: str, check: Callable[[], object]) -> None:
        """Commit by a function of the commit's mark to a version that `check` does not refuse."""
        deadline, conflicts, failures = time.monotonic() + CONFLICT_SECONDS, 0, 0
        while True:
            check()
            before, mark = self._version(), uuid.uuid4().hex
            try:
                once(mark)
                return
            except Exception as error:
                if self._is_taken(mark, before, error):
                    log.warning("%r has taken a commit of group %s that it reported as failed: %s", self, group, error)
                    return
                if not isinstance(error, self._conflict):
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

    def _is_taken(self, mark: str, before: Any, failure: Exception) -> bool:
        """Whether a commit that was reported as failed is in the table. Raises `failure` where that is not known."""
        try:
            return self._looked_up(lambda: self._refresh() and self._has(mark, before))
        except TableBroken:
            raise
        except Exception as error:
            log.warning("%r: it is not known whether it has a commit that failed: %s", self, error)
            raise failure from None

    def _remove(self, files: Iterable[Any]) -> None:
        """Remove files that are in no version; what cannot be removed now is left to the format's own cleaning."""
        for each in files:
            try:
                self._delete(each)
            except Exception as error:  # each storage has errors of its own
                log.warning("%r: a file that is in no version could not be removed: %s", self, error)

    def _in_a_sentence(self, what: str) -> AbstractContextManager[None]:
        """Raise what libraries and storage raise as a TableBroken that names the table, and advises what to do."""
        advice = "Rows and offsets come together or not at all: see to storage and catalog, and start the job again"
        return in_a_sentence(repr(self), what, advice, (Exception,), unless=(BadChange,))


def _written(plan: Plan, table: str, batches: Iterable[pa.RecordBatch]) -> list[Any]:
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
