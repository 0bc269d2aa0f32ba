"""The log and the files of a Delta table, by delta-rs: where it is, how it is opened, made and committed to.

The one module that knows deltalake; it knows no group and no offset. Its objects travel to executors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs
from pyarrow.dataset import FileSystemDataset

from kohort.model.extras import install_command
from kohort.spark.tables.changes.row_change import DELETED, not_older
from kohort.spark.tables.delta_files import DeltaFile, FilePlan, FileWriter, partition_texts
from kohort.spark.tables.delta_log import MARK, Commit, checkpoint_path, commit_path, read_commits
from kohort.spark.tables.table import SchemaMismatch, TableBroken, reason_of

try:
    import deltalake
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
    from deltalake.fs import DeltaStorageHandler
    from deltalake.transaction import AddAction
except ImportError:
    deltalake = None
    CommitFailedError = DeltaError = TableNotFoundError = OSError

__all__ = [
    "CommitFailedError",
    "DeltaError",
    "DeltaPlan",
    "DeltaStorage",
    "DeltalakeMissing",
    "TableNotFoundError",
    "commit_files",
    "delta_schema",
    "files_of",
    "keep_up",
    "merge_rows",
    "rows_of_keys",
]

Handle = Any
"""A `deltalake.DeltaTable`."""


_WITHOUT_BOUND = re.compile(r"null\[|\bnan\b")
"""What a file's expression has in pyarrow's words where delta-rs has no bound of a column, or one that is no number."""

_ADDED = ["path", "size_bytes", "modification_time", "num_records"]


class DeltalakeMissing(ImportError):
    """deltalake is not installed; the text has the command that installs it."""


@dataclass(frozen=True, slots=True)
class DeltaStorage:
    """Where a Delta table is, and how its storage lets one in: `options` are those of delta-rs.

    Raises DeltalakeMissing without deltalake.
    """

    uri: str
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if deltalake is None:
            raise DeltalakeMissing(f"deltalake is not installed: {install_command('delta')}")

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Turn what the storage raises into TableBroken, which names the table and the cause."""
        try:
            yield
        except (DeltaError, OSError) as error:
            raise TableBroken(f"{self.uri}: {reason_of(error)}") from error

    # The log

    def open(self, version: int | None = None) -> Handle:
        """Return the table at a version, the newest by default. Raises TableNotFoundError."""
        return deltalake.DeltaTable(self.uri, version=version, storage_options=dict(self.options))

    def create(self, schema: Any, partition_by: Sequence[str], configuration: Mapping[str, str]) -> None:
        """Make an empty table, unless there is one."""
        # Tried again, the second of two that race would make the table anew, as the version after the first one's.
        with suppress(CommitFailedError):
            deltalake.DeltaTable.create(
                self.uri,
                schema=schema,
                mode="ignore",
                partition_by=list(partition_by) or None,
                configuration=dict(configuration) or None,
                storage_options=dict(self.options),
                commit_properties=deltalake.CommitProperties(max_commit_retries=0),
            )

    def commits(self, newest: int, oldest: int) -> Iterator[Commit]:
        """Return the commits of the log from a version back to another."""
        return read_commits(self._read, newest, oldest)

    def transactions(self, version: int) -> dict[str, int] | None:
        """Return all application transactions of a version: those of the last checkpoint, and of the commits since.

        None where the checkpoint is of a kind that is not read here, or a commit after it is gone.
        """
        try:
            last = json.loads(self._read("_delta_log/_last_checkpoint"))
        except FileNotFoundError:
            last, found = {"version": -1}, {}
        else:
            if last.get("parts") or last["version"] > version:
                return None
            try:
                file = self.file_system().open_input_file(checkpoint_path(last["version"]))
            except FileNotFoundError:  # one of version 2 has another name
                return None
            with file:
                rows = pq.read_table(file, columns=["txn"])["txn"].drop_null()
            found = {each["appId"]: each["version"] for each in rows.to_pylist()}
        commits = list(self.commits(version, last["version"] + 1))
        for commit in reversed(commits):
            found.update(commit.transactions)
        return found if len(commits) == version - last["version"] else None

    def _read(self, path: str) -> bytes:
        with self.file_system().open_input_stream(path) as file:
            content: bytes = file.read()
            return content

    # Files

    def file_system(self) -> Any:
        """Return the file system whose root is the table."""
        return fs.PyFileSystem(DeltaStorageHandler(self.uri, dict(self.options)))

    def stamp(self, version: int) -> tuple[int, int] | None:
        """Return the time (ns) and the size of a commit of the log, in which it differs from that of another table.

        None where there is none.
        """
        try:
            (found,) = self.file_system().get_file_info([commit_path(version)])
        except TableNotFoundError:
            return None
        return (found.mtime_ns, found.size) if found.is_file else None


@dataclass(frozen=True, slots=True)
class DeltaPlan:
    """How files of a table are written, by whichever process. They are in no version yet."""

    storage: DeltaStorage
    files: FilePlan

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self.files.schema

    def writer(self) -> FileWriter:
        """Return what one task writes with."""
        if "://" not in self.storage.uri:
            # The library opens no directory that is not there.
            Path(self.storage.uri).mkdir(parents=True, exist_ok=True)
        return FileWriter(self.files, self.storage.file_system())

    def write(self, batches: Iterable[pa.RecordBatch]) -> list[DeltaFile]:
        """Write rows into new files. If that fails, they are removed as far as possible."""
        return self.writer().write(batches)


def commit_files(
    table: Handle,
    files: Iterable[DeltaFile],
    transactions: Mapping[str, int],
    mark: str,
    *,
    replaces: bool = False,
    only: tuple[str, Sequence[str]] | None = None,
    **properties: Any,
) -> None:
    """Add files on the snapshot that a table shows, in one commit with application transactions and a mark.

    With `replaces` they take the place of all others, or of those whose partition column `only[0]` has a value in
    `only[1]`. `properties` are further ones of the commit. Raises CommitFailedError where another commit is in the way,
    and else what the storage raises.
    """
    table.create_write_transaction(
        [AddAction(**asdict(each), data_change=True) for each in files],
        "overwrite" if replaces else "append",
        table.schema(),
        list(table.metadata().partition_columns),
        partition_filters=None if only is None else [(only[0], "in", list(only[1]))],
        commit_properties=_commit_properties(transactions, mark, **properties),
    )


def merge_rows(
    table: Handle,
    changes: pa.Table,
    matches: Sequence[str],
    order: Sequence[str],
    transactions: Mapping[str, int],
    mark: str,
) -> None:
    """Change the rows that match, on the snapshot that a table shows, in one commit with transactions and a mark.

    `DELETED` is in `changes`; of a row and a change the one with the higher `order` counts, of equal ones the change.
    Raises CommitFailedError where another commit is in the way, and else what the storage raises.
    """
    before = table.version()
    deleted, newer = f"s.{_quoted(DELETED)}", not_older(order, _quoted)
    columns = {f"t.{_quoted(each)}": f"s.{_quoted(each)}" for each in changes.column_names if each != DELETED}
    merger = table.merge(
        source=changes,
        predicate=" AND ".join(f"s.{_quoted(each)} = t.{_quoted(each)}" for each in matches),
        source_alias="s",
        target_alias="t",
        commit_properties=_commit_properties(transactions, mark, max_commit_retries=0),
    )
    merger.when_matched_delete(f"{deleted} AND {newer}").when_matched_update(columns, f"NOT {deleted} AND {newer}")
    merger.when_not_matched_insert(columns, f"NOT {deleted}").execute()
    if table.version() == before:  # the library commits nothing where no row changes
        commit_files(table, [], transactions, mark, max_commit_retries=0)


def rows_of_keys(table: Handle, changes: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return rows of the version that a table shows, at least all those that have a key of `changes`."""
    kinds = pa.schema(table.schema())
    wanted = reduce(and_, (pc.field(each).isin(pc.unique(changes[each].cast(kinds.field(each).type))) for each in keys))
    rows = table.to_pyarrow_dataset()

    # Where a file has no bound of a column, the library takes null for one, by which no row would be found.
    unbound = {each.path for each in rows.get_fragments() if _WITHOUT_BOUND.search(str(each.partition_expression))}
    found = [each for each in rows.get_fragments(wanted) if each.path not in unbound]
    found += [each for each in rows.get_fragments() if each.path in unbound]
    # Filtered here: a scan compares texts with bounds of another type (string_view), for which Arrow has no function.
    return FileSystemDataset(found, rows.schema, rows.format, rows.filesystem).to_table().filter(wanted)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def _commit_properties(transactions: Mapping[str, int], mark: str, **more: Any) -> Any:
    known = [deltalake.Transaction(*each) for each in sorted(transactions.items())]
    return deltalake.CommitProperties(custom_metadata={MARK: mark}, app_transactions=known, **more)


def keep_up(table: Handle) -> None:
    """Join small files, and remove those that are in no retained version, and those of killed writers."""
    table.optimize.compact(writer_properties=deltalake.WriterProperties(compression="ZSTD"))
    table.vacuum(dry_run=False, enforce_retention_duration=False, full=True)
    table.update_incremental()


def files_of(table: Handle) -> list[DeltaFile]:
    """Return the files of the version that a table shows; of their statistics, the number of rows."""
    columns = table.metadata().partition_columns
    actions = pa.table(table.get_add_actions(flatten=True))
    texts = [partition_texts(actions[f"partition.{name}"]) for name in columns]
    return [
        DeltaFile(
            each["path"],
            each["size_bytes"],
            {name: values[at] for name, values in zip(columns, texts, strict=True)},
            each["modification_time"],
            json.dumps({"numRecords": each["num_records"]}),
        )
        for at, each in enumerate(actions.select(_ADDED).to_pylist())
    ]


def delta_schema(rows: pa.Schema, name: str) -> Any:
    """Return columns as Delta has them. Raises SchemaMismatch for a type that it has not."""
    for column in rows:
        try:
            deltalake.Schema.from_arrow(pa.schema([column]))
        except Exception as error:  # the library has no class for it
            raise SchemaMismatch(
                f"{name} has no type for the column {column.name}, {column.type}: {reason_of(error)}"
            ) from error
    return deltalake.Schema.from_arrow(rows)
