"""`DeltaLakeTable`: a Delta Lake table that takes a round's rows and its offsets in one commit, without a JVM.

Tasks write Parquet files into the table's storage; one commit adds them, with an application transaction for each topic
partition, whose version is the next offset, and another one where the id of its topic changed. The library refuses a
commit that raced another one of the same partition; that the offsets follow each other is compared here, on the
snapshot that is committed against.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kohort.model.ids import TopicPartition
from kohort.spark.tables.changes.row_change import Change
from kohort.spark.tables.delta_files import DeltaFile, FilePlan, require_partitionable
from kohort.spark.tables.delta_log import Commit, app_id, id_app, id_number, id_text, require_rows
from kohort.spark.tables.delta_storage import (
    CommitFailedError,
    DeltaPlan,
    DeltaStorage,
    TableNotFoundError,
    commit_files,
    delta_schema,
    merge_rows,
    rows_of_keys,
)
from kohort.spark.tables.lake_table import ROWS_ON_DRIVER, LakeTable, RoundPlan
from kohort.spark.tables.table import OffsetStep, Position, Positions, SchemaMismatch, TableBroken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TARGET_BYTES = 128 << 20
"""The size of a file from which another one is begun."""

MOST_HISTORY = 10_000
"""How many commits are looked through for a RESTORE when a job begins."""

LONG_ROUND_SECONDS = 300.0
"""After a round that took so long it is looked whether its files are still there."""

_UNDERSTOOD = {
    *("appendOnly", "invariants", "changeDataFeed", "deletionVectors", "timestampNtz", "v2Checkpoint"),
    *("vacuumProtocolCheck", "domainMetadata", "clustering", "checkConstraints", "generatedColumns", "identityColumns"),
}
"""Features of a table beside which files may be added; of the last three only where no column uses them."""

_RULES = ("delta.invariants", "delta.generationExpression", "delta.identity.start")
"""Keys of a column's metadata that are rules for its values."""

_UNMERGED = (pa.types.is_decimal, pa.types.is_binary, pa.types.is_floating)
"""Types of partition columns whose values delta-rs does not read back as they were."""


class DeltaLakeTable(LakeTable):
    """The Delta table at `uri`: a directory, or a URL such as `s3://bucket/path`. The first round makes it.

    A new table is partitioned by `partition_by`, and has `configuration` (such as `delta.logRetentionDuration`).
    `storage_options` are those of delta-rs, such as `AWS_ENDPOINT_URL`; executors get them too. With `merge_schema`,
    columns that rows have and the table has not are added to it, fields of structs too. Files have about `target_bytes`
    at most; rounds of more than `rows_on_driver` offsets are written by Spark's tasks. Raises DeltalakeMissing without
    deltalake.
    """

    def __init__(
        self,
        uri: str,
        *,
        partition_by: Sequence[str] = (),
        storage_options: Mapping[str, str] | None = None,
        configuration: Mapping[str, str] | None = None,
        merge_schema: bool = False,
        target_bytes: int = TARGET_BYTES,
        rows_on_driver: int = ROWS_ON_DRIVER,
    ) -> None:
        super().__init__(CommitFailedError, merge_schema=merge_schema, rows_on_driver=rows_on_driver)
        self.uri = str(uri)
        self._partition_by = tuple(partition_by)
        self._storage = DeltaStorage(self.uri, dict(storage_options or {}))
        self._configuration = dict(configuration or {})
        self._target_bytes = target_bytes
        self._first = -1
        """The version at which the table was opened."""
        self._first_stamp: tuple[int, int] | None = None
        self._known = -1
        """Up to which version `_versions` are known."""
        self._versions: dict[str, int | None] = {}
        """Versions of application transactions, None for one that does not exist."""
        self._has_all = False
        """Whether `_versions` are all; else the library is asked, which reads the log for each."""
        self._is_doubtful = False
        """Whether rows may be gone: a RESTORE was seen, or the last comparison with the history failed."""

    def __repr__(self) -> str:
        return f"DeltaLakeTable({self.uri!r})"

    # Upkeep

    def compact(self, *, target_bytes: int | None = None) -> dict[str, Any]:
        """Put small files together, beside running jobs, and return what delta-rs counts. Raises TableBroken."""
        with self._lock:
            self._require()
            why = "whose negative values delta-rs writes as texts that no reader takes: compact it by Spark's OPTIMIZE"
            self._require_layout([pa.types.is_decimal], why)
            done: dict[str, Any] = self._table.optimize.compact(target_size=target_bytes or self._target_bytes)
            return done

    def vacuum(self, *, older_than_hours: int | None = None) -> list[str]:
        """Remove files that are in no retained version, those of killed writers too, and return their paths.

        The table's `delta.deletedFileRetentionDuration` (a week) decides; `older_than_hours` may be less. A round takes
        less than that, or its files are removed before its commit.
        """
        with self._lock:
            self._require()
            given = {} if older_than_hours is None else {"retention_hours": older_than_hours}
            removed: list[str] = self._table.vacuum(**given, dry_run=False, enforce_retention_duration=False, full=True)
            return removed

    # The table as it is

    def _load(self) -> Any:
        # The library does not notice another table in the place of this one, whose log has another beginning.
        try:
            if self._table is not None and self._is_the_same():
                self._table.update_incremental()
                return self._table
            table = self._storage.open()
        except TableNotFoundError:
            return None
        self._first, self._known = table.version(), -1
        self._first_stamp = self._storage.stamp(self._first)
        return table

    def _is_the_same(self) -> bool:
        """Whether the log still has the commit with which the table was opened."""
        return self._storage.stamp(self._first) == self._first_stamp is not None

    def _identity_of(self, table: Any) -> str:
        return str(table.metadata().id)

    def _version(self) -> int:
        return int(self._table.version())

    def _schema(self) -> pa.Schema:
        return pa.schema(self._table.schema())

    def _layout(self) -> tuple[str, ...]:
        return tuple(self._table.metadata().partition_columns)

    def _create(self, rows: pa.Schema) -> None:
        if unknown := [name for name in self._partition_by if name not in rows.names]:
            raise SchemaMismatch(f"{self!r} is partitioned by {unknown[0]}, which the rows do not have")
        require_partitionable(map(rows.field, self._partition_by), repr(self))
        self._storage.create(delta_schema(rows, repr(self)), self._partition_by, self._configuration)

    def _change_columns(self, changed: Sequence[pa.Field]) -> None:
        self._require_understood()
        self._table.alter.add_columns(list(delta_schema(pa.schema(changed), repr(self)).fields))

    def _require_understood(self) -> None:
        """Raise TableBroken where files may not be added as they are."""
        protocol = self._table.protocol()
        unknown = set(protocol.writer_features or ()) - _UNDERSTOOD
        configuration = self._table.metadata().configuration
        if configuration.get("delta.columnMapping.mode", "none") != "none":
            unknown.add("columnMapping")
        unknown |= {name for name in configuration if name.startswith("delta.constraints.")}
        unknown |= {name for field in self._table.schema().fields for name in _RULES if name in field.metadata}
        if unknown:
            raise TableBroken(
                f"{self!r} uses {', '.join(sorted(unknown))}, which this writer does not support: use another table"
            )

    # Offsets, and whether their rows are there

    def _found(self, group: str, partitions: Iterable[TopicPartition]) -> Positions:
        self._read_commits()
        version = self._transaction_version
        return {
            each: Position(offset, id_text(version(id_app(group, each))))
            for each in partitions
            if (offset := version(app_id(group, each))) is not None
        }

    def _transaction_version(self, application: str) -> int | None:
        if application not in self._versions and not self._has_all:
            self._versions[application] = self._table.transaction_version(application)
        return self._versions.get(application)

    def _read_commits(self) -> None:
        """Read what was committed since the last time: the cost does not follow the length of the log."""
        version = self._version()
        if version == self._known:
            return
        commits = list(self._history(self._known)) if self._known >= 0 else []
        self._is_doubtful |= any(each.is_restore for each in commits)
        if self._known < 0 or len(commits) < version - self._known:
            # Which transactions have expired is known to the library alone.
            can_expire = "delta.setTransactionRetentionDuration" in self._table.metadata().configuration
            found = None if can_expire else self._storage.transactions(version)
            self._versions, self._has_all = dict(found or {}), found is not None
        else:
            for commit in reversed(commits):
                self._versions.update(commit.transactions)
        self._known = version

    def _trusted(self, group: str, partitions: Sequence[TopicPartition]) -> Positions:
        self._known, self._is_doubtful = -1, True
        found = self._found(group, partitions)
        require_rows(repr(self), group, found, partitions, self._history())
        self._is_doubtful = False
        return found

    def _check(self, group: str, steps: Mapping[TopicPartition, OffsetStep]) -> None:
        if not self._is_the_same():  # the library would begin a new log where a table was dropped
            self._refresh()
        self._read_commits()
        if self._is_doubtful:
            self._trusted(group, sorted(steps))
        super()._check(group, steps)

    def _history(self, after: int | None = None) -> Iterator[Commit]:
        """Return the commits after a version up to the one that is seen, the newest first."""
        version = self._version()
        return self._storage.commits(version, max(0, version - MOST_HISTORY) if after is None else after + 1)

    # Writing

    def _plan(self) -> DeltaPlan:
        self._require_understood()
        schema, layout = self._schema(), self._layout()
        require_partitionable(map(schema.field, layout), repr(self))
        return DeltaPlan(self._storage, FilePlan(schema, layout, self._target_bytes))

    def _write(
        self, plan: RoundPlan, frame: DataFrame | pa.Table, steps: Mapping[TopicPartition, OffsetStep]
    ) -> list[DeltaFile]:
        """Write rows, and look whether a vacuum took the files of a long round for those of a dead writer."""
        began = time.monotonic()
        files = super()._write(plan, frame, steps)
        if files and (seconds := time.monotonic() - began) >= LONG_ROUND_SECONDS:
            for found in self._storage.file_system().get_file_info([each.path for each in files]):
                if not found.is_file:
                    raise TableBroken(
                        f"{self!r}: {found.path} was removed before its round was done, which took {seconds:.0f} s: let"
                        " vacuum retain files for longer than a round takes"
                    )
        return files

    def _stage(
        self, files: Sequence[DeltaFile], group: str, positions: Mapping[TopicPartition, Position], mark: str
    ) -> Callable[[], None]:
        return partial(commit_files, self._table, files, self._transactions(group, positions), mark)

    def _send(self, commits: Sequence[Callable[[], None]]) -> None:
        (commit,) = commits
        commit()

    def _transactions(self, group: str, positions: Mapping[TopicPartition, Position]) -> dict[str, int]:
        """Return the application transactions that move to positions."""
        before = self._found(group, positions)
        transactions = {app_id(group, each): at.offset for each, at in positions.items()}
        for each, at in positions.items():
            number, known = id_number(at.topic_id), before.get(each)
            if number != id_number(None if known is None else known.topic_id):
                transactions[id_app(group, each)] = number
        return transactions

    def _stage_merge(
        self, changes: pa.Table, change: Change, group: str, positions: Mapping[TopicPartition, Position], mark: str
    ) -> Callable[[], None]:
        self._require_understood()
        why = "by which delta-rs does not find the rows to change: partition it by a column of another type"
        self._require_layout(_UNMERGED, why)
        transactions = self._transactions(group, positions)
        return partial(merge_rows, self._table, changes, change.matches, change.condition, transactions, mark)

    def _require_layout(self, refused: Iterable[Callable[[pa.DataType], bool]], why: str) -> None:
        """Raise TableBroken for the first partition column of a type that delta-rs does not store as it is."""
        for each in self._layout():
            kind = self._schema().field(each).type
            if any(is_kind(kind) for is_kind in refused):
                raise TableBroken(f"{self!r} is partitioned by {each}, {kind}, {why}")

    def _rows_of(self, changes: pa.Table, keys: Sequence[str]) -> pa.Table:
        return rows_of_keys(self._table, changes, keys)

    def _beside(self, suffix: str) -> DeltaLakeTable:
        return DeltaLakeTable(
            self.uri.rstrip("/") + suffix, storage_options=self._storage.options, merge_schema=self._is_merging
        )

    def _has(self, mark: str, since: int) -> bool:
        return any(each.mark == mark for each in self._history(since))

    def _delete(self, file: DeltaFile) -> None:
        self._storage.file_system().delete_file(file.path)
