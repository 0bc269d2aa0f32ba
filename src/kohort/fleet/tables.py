"""The tables of a fleet: Delta tables in a directory or an object store, which change by whole runs.

A run writes Parquet files that no table has yet. To publish it, they are committed to each table, and then one row to
`state/runs`, which names the version of every table and the offsets up to which each input was read. Readers take the
versions of that row: rows, folded state and positions change together or not at all. Of two runs at once one commits
that row, and the other one counts nowhere, as a run that was killed; what either left in a table is undone by the next.
See docs/decisions/0092.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from kohort.fleet.schema import OWNERSHIP, RUNS, STATE_OPEN, STATE_TABLES, TABLES, Table
from kohort.fleet.table_files import StoredRows, frame_of, plan_of
from kohort.spark.tables.delta_files import DeltaFile
from kohort.spark.tables.delta_storage import (
    CommitFailedError,
    DeltaError,
    DeltaPlan,
    DeltaStorage,
    TableNotFoundError,
    commit_files,
    delta_schema,
    files_of,
    keep_up,
)
from kohort.spark.tables.table import TableBroken

if TYPE_CHECKING:
    import os

    from pyspark.sql import DataFrame, SparkSession

APPLICATION = "kohort/fleet"
"""The application transaction of our commits, whose version is the number of the run."""

LAYOUT = 2
"""Which columns tables have, and what the folded states of groups contain."""

LISTED_RUNS = 1_000
"""How many runs `state/runs` lists."""

UPKEEP_EVERY = 10
"""After so many runs small files are joined, and files are removed that were replaced long ago."""

DELETED_FILES = {"delta.deletedFileRetentionDuration": "interval 1 days"}
"""How long replaced files stay of tables that only the next run reads; of the others it is Delta's own, a week."""

EVERY_TABLE = (*TABLES, *STATE_TABLES)

_UPKEEP = ("OPTIMIZE", "VACUUM START", "VACUUM END")
"""Commits of any program that leave a table's rows as they are."""


class TablesBusy(TableBroken):
    """Another run was published while this one worked, so that this one counts nowhere."""


class _Change(NamedTuple):
    """What a run changes in a table: the files that it has afterwards, and how they get there."""

    files: list[DeltaFile]
    added: list[DeltaFile]
    replaces: bool = False
    days: tuple[str, ...] = ()
    """Of a replacement, the days that are replaced; all where there are none."""


class Tables:
    """The published tables in one directory, or below one URL of an object store."""

    def __init__(
        self,
        location: str | os.PathLike[str],
        storage_options: Mapping[str, str] | None = None,
        *,
        run: int | None = None,
    ) -> None:
        """Open what is published at a location, which need not exist yet: the last run, or an earlier one.

        `storage_options` are those of delta-rs, such as `AWS_ENDPOINT_URL`; executors get them too. Raises
        TableBroken, and DeltalakeMissing without deltalake.
        """
        text = str(location).removeprefix("file://")
        self.location = text.rstrip("/") if "://" in text else str(Path(text).absolute())
        self._options = dict(storage_options or {})
        self._wanted = run
        self.refresh()

    def __str__(self) -> str:
        return self.location

    def refresh(self) -> None:
        """Read again which run is published. Raises TableBroken."""
        self._files: dict[str, list[DeltaFile]] = {}
        with self._storage(RUNS).failures():
            self._log = _opened(self._storage(RUNS))
            self.runs = [] if self._log is None else _rows(self._of(RUNS, files_of(self._log)))
        self.runs.sort(key=lambda row: row["run"])
        shown = [row for row in self.runs if self._wanted in (None, row["run"])]
        if self._wanted is not None and not shown:
            listed = f"{self.runs[0]['run']} to {self.runs[-1]['run']} are listed" if self.runs else "there is none yet"
            raise TableBroken(f"{self.location} has no run {self._wanted}: {listed}")
        newest: dict[str, Any] = shown[-1] if shown else {"run": 0, "layout": LAYOUT, "versions": [], "positions": []}
        if newest["layout"] != LAYOUT:
            raise TableBroken(
                f"{self.location} has tables of another version of kohort (layout {newest['layout']}, and this one"
                f" reads {LAYOUT}): read the log into another directory, or remove this one and read it again"
            )
        self.run: int = newest["run"]
        """The number of the run that is shown, 0 when none was published."""
        self.versions: dict[str, int] = {each["table"]: each["version"] for each in newest["versions"]}
        """By the path of a table, the version of its Delta log."""
        self.positions: dict[str, dict[int, int]] = {}
        """By source and partition, the offset at which the next run begins."""
        for each in newest["positions"]:
            self.positions.setdefault(each["source"], {})[each["partition"]] = each["offset"]

    def frame(self, spark: SparkSession, table: Table) -> DataFrame:
        """Return a table as a DataFrame with exactly its columns."""
        return frame_of(spark, self.rows(table))

    def rows(self, table: Table) -> StoredRows:
        """Return the published rows of a table; those of `ownership` include the open intervals. Raises TableBroken."""
        open_ones = self._of(STATE_OPEN, self.files(STATE_OPEN)).files if table is OWNERSHIP else ()
        return StoredRows(table, self._of(table, self.files(table)).files + open_ones)

    def files(self, table: Table) -> list[DeltaFile]:
        """Return the published files of a table. Raises TableBroken."""
        if table.path not in self._files:
            version = self.versions.get(table.path)
            with self._storage(table).failures():
                found = [] if version is None else files_of(self._storage(table).open(version))
            self._files[table.path] = found
        return self._files[table.path]

    def small_rows(self, table: Table, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Return the rows of a small table. Raises TableBroken."""
        with self._storage(table).failures():
            return _rows(self._of(table, self.files(table)), columns)

    @contextmanager
    def begin(self) -> Iterator[Run]:
        """Begin a run; its files are in no table until it publishes, and are removed unless it does."""
        assert self._wanted is None, "a run follows the last one"
        self.refresh()
        run = Run(self)
        try:
            yield run
        finally:
            run.remove_unpublished()

    def upkeep(self) -> None:
        """Join small files, and remove files that were replaced long ago or are of killed runs. Raises TableBroken."""
        versions = dict(self.versions)
        for table in EVERY_TABLE:
            with self._storage(table).failures():
                head = self._storage(table).open()
                named = versions[table.path]
                if head.version() == named:
                    keep_up(head)
                if not self._others(table, head, named):
                    versions[table.path] = head.version()
        with suppress(TablesBusy):  # that run does it in its turn
            self._list(self.run, versions, self.positions, uuid.uuid4().hex)

    def _list(
        self, run: int, versions: Mapping[str, int], positions: Mapping[str, Mapping[int, int]], mark: str
    ) -> None:
        """Publish a run: make it the last one of the list. Raises TablesBusy, TableBroken."""
        row = {
            "run": run,
            "layout": LAYOUT,
            "published_at_ms": round(time.time() * 1000),
            "versions": [{"table": path, "version": version} for path, version in sorted(versions.items())],
            "positions": [
                {"source": source, "partition": partition, "offset": offset}
                for source, offsets in sorted(positions.items())
                for partition, offset in sorted(offsets.items())
            ],
        }
        rows = [*(each for each in self.runs if each["run"] != run), row][-LISTED_RUNS:]
        plan = plan_of(self._storage(RUNS), RUNS)
        with self._storage(RUNS).failures():
            if self._log is None:
                plan.storage.create(delta_schema(RUNS.arrow(), RUNS.path), (), DELETED_FILES)
                self._log = plan.storage.open()
                if self._log.version():
                    raise self._busy(run)
            files = plan.write(pa.Table.from_pylist(rows, schema=RUNS.arrow()).to_batches())
            self._committed(RUNS, self._log, run, mark, _Change(files, files, replaces=True))
        self.refresh()

    def _committed(self, table: Table, head: Any, run: int, mark: str, change: _Change) -> int:
        """Commit a change on the version that `head` shows, and return the new one. Raises TablesBusy."""
        before = head.version()
        failure: Exception | None = None
        try:
            only = ("day", change.days) if change.days else None
            commit_files(head, change.added, {APPLICATION: run}, mark, replaces=change.replaces, only=only)
        except (DeltaError, OSError) as error:
            failure = error
        # A commit that was reported as failed may be in the table: its answer was lost.
        storage = self._storage(table)
        for each in storage.commits(storage.open().version(), before + 1):
            if each.mark == mark:
                return each.version
        if failure is None or isinstance(failure, CommitFailedError):
            raise self._busy(run) from failure
        raise failure

    def _others(self, table: Table, head: Any, named: int) -> bool:
        """Whether a table has commits after a published version that change rows: those of a run that is not listed."""
        return any(each.operation not in _UPKEEP for each in self._storage(table).commits(head.version(), named + 1))

    def _busy(self, run: int) -> TablesBusy:
        return TablesBusy(
            f"{self.location}: another run was published while run {run} worked, of which nothing is in the tables: run"
            " it again"
        )

    def _of(self, table: Table, files: Sequence[DeltaFile]) -> StoredRows:
        return StoredRows(table, ((self._storage(table), tuple(files)),))

    def _storage(self, table: Table) -> DeltaStorage:
        return DeltaStorage(f"{self.location}/{table.path}", self._options)


def _rows(rows: StoredRows, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
    return [row for batch in rows.batches(columns) for row in batch.to_pylist()]


class Run:
    """The files that one run writes, invisible to readers until `publish`."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.number = tables.run + 1
        self._written: dict[Table, list[DeltaFile]] = {}
        self._changes: dict[Table, _Change] = {}
        self._mark = uuid.uuid4().hex
        """Which commits are of this run, even of those that were reported as failed."""

    # Writing

    def plan(self, table: Table) -> DeltaPlan:
        """Return how tasks write the rows of a table."""
        return plan_of(self.tables._storage(table), table)

    def store(self, table: Table, rows: Iterable[pa.RecordBatch]) -> None:
        """Write rows for a table, without adding them to it."""
        plan = self.plan(table)
        with plan.storage.failures():
            self.take(table, plan.write(rows))

    def store_small(self, table: Table, rows: list[dict[str, Any]]) -> None:
        """Write a few rows like `store`; a column that a row does not have is null."""
        self.store(table, pa.Table.from_pylist(rows, schema=table.arrow()).to_batches())

    def take(self, table: Table, files: Sequence[DeltaFile]) -> None:
        """Count files as written, which tasks have written for a table."""
        self._written.setdefault(table, []).extend(files)

    def rows_written(self, table: Table) -> int:
        """Return how many rows this run wrote for a table."""
        return sum(file.rows for file in self._written.get(table, []))

    def remove_unpublished(self) -> None:
        """Remove the files that were written and are in no table; what cannot be removed is left to `upkeep`."""
        for table, files in self._written.items():
            places = self.tables._storage(table).file_system()
            for file in files:
                with suppress(OSError):
                    places.delete_file(file.path)
        self._written.clear()

    # Reading

    def rows(self, table: Table) -> StoredRows:
        """Return the rows of a table as they will be once this run is published."""
        return self.tables._of(table, self._files(table))

    def written(self, table: Table) -> StoredRows:
        """Return the rows that this run wrote for a table."""
        return self.tables._of(table, self._written.get(table, []))

    def small_rows(self, table: Table) -> list[dict[str, Any]]:
        """Return a small table as it will be once this run is published."""
        with self.tables._storage(table).failures():
            return _rows(self.rows(table))

    def is_empty(self, table: Table) -> bool:
        """Whether a table will have no rows once this run is published."""
        return not any(file.rows for file in self._files(table))

    def _files(self, table: Table) -> list[DeltaFile]:
        change = self._changes.get(table)
        return self.tables.files(table) if change is None else change.files

    # Changing

    def adopt(self, table: Table) -> None:
        """Add what this run wrote for a table to it."""
        added = self._written.get(table, [])
        self._changes[table] = _Change([*self.tables.files(table), *added], added)

    def put(self, table: Table) -> None:
        """Replace all rows of a table by what this run wrote for it."""
        added = self._written.get(table, [])
        self._changes[table] = _Change(added, added, replaces=True)

    def put_days(self, table: Table) -> None:
        """Replace the days of which this run wrote rows for a table; other days stay."""
        added = self._written.get(table, [])
        days = {file.partition_values["day"] or "" for file in added}
        stay = [file for file in self.tables.files(table) if file.partition_values["day"] not in days]
        if added:
            self._changes[table] = _Change([*stay, *added], added, replaces=True, days=tuple(sorted(days)))

    def publish(self, positions: Mapping[str, Mapping[int, int]]) -> None:
        """Publish the rows of this run, and the offsets up to which it read each source.

        Raises TablesBusy where another run was published meanwhile, TableBroken where the storage does not take it.
        """
        if Tables(self.tables.location, self.tables._options).run != self.tables.run:
            raise self.tables._busy(self.number)
        merged = {source: dict(offsets) for source, offsets in self.tables.positions.items()}
        for source, offsets in positions.items():
            merged.setdefault(source, {}).update(offsets)
        versions = {}
        for table in EVERY_TABLE:
            if change := self._changes.get(table):
                del self._written[table]  # they may be in the table from here on, whatever is raised
            versions[table.path] = self._commit(table, change)
        self.tables._list(self.number, versions, merged, self._mark)

    def _commit(self, table: Table, change: _Change | None) -> int:
        """Commit a change on the version that is published, and return the new version."""
        named = self.tables.versions.get(table.path)
        storage = self.tables._storage(table)
        with storage.failures():
            if named is None:
                made_by = {} if table in TABLES else DELETED_FILES
                storage.create(delta_schema(table.arrow(), table.path), table.partitioned_by, made_by)
                change = (change or _Change([], []))._replace(replaces=True, days=())
            head = storage.open()
            if named is not None and self.tables._others(table, head, named):
                head.restore(named)
            if change is None:
                version: int = head.version()
                return version
            return self.tables._committed(table, head, self.number, self._mark, change)


def _opened(storage: DeltaStorage) -> Any:
    """Return a Delta table, None where there is none."""
    try:
        return storage.open()
    except TableNotFoundError:
        return None
