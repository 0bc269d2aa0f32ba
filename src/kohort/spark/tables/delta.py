"""`DeltaLakeTable`: a Delta Lake table that takes a round's rows and its offsets in one commit, without a JVM.

Tasks write Parquet files into the table's storage; one commit adds them, with an application transaction for each topic
partition, whose version is the next offset. The library refuses a commit that raced another one of the same partition;
that the offsets follow each other is compared here, on the snapshot that is committed against.
"""

from __future__ import annotations

import logging
import random
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kohort.model.ids import TopicPartition
from kohort.spark.tables.arrow_columns import missing_columns, require_no_new, schema_of
from kohort.spark.tables.delta_files import DeltaFile, FilePlan
from kohort.spark.tables.delta_log import Commit, app_id, require_rows
from kohort.spark.tables.delta_storage import (
    CommitFailedError,
    DeltaError,
    DeltaStorage,
    TableNotFoundError,
    commit_files,
    delta_schema,
    reason_of,
)
from kohort.spark.tables.table import Fenced, Offsets, SchemaMismatch, Step, TableBroken, check_steps, most_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)

TARGET_BYTES = 128 << 20
"""The size of a file from which another one is begun."""

ROWS_ON_DRIVER = 20_000
"""Rounds of up to this many offsets are written by the application: below it, that is faster than a job's tasks."""

MOST_HISTORY = 10_000
"""How many commits are looked through for a RESTORE when a job begins."""

CONFLICT_SECONDS = 60.0
"""How long commits are tried again that race those of others."""

LONG_ROUND_SECONDS = 300.0
"""After a round that took so long it is looked whether its files are still there."""

_UNDERSTOOD = {
    *("appendOnly", "invariants", "changeDataFeed", "deletionVectors", "timestampNtz", "v2Checkpoint"),
    *("vacuumProtocolCheck", "domainMetadata", "clustering", "checkConstraints", "generatedColumns", "identityColumns"),
}
"""Features of a table beside which files may be added; of the last three only where no column uses them."""

_RULES = ("delta.invariants", "delta.generationExpression", "delta.identity.start")
"""What a column's metadata say of rules that its values have to keep."""


class DeltaLakeTable:
    """The Delta table at `uri`: a directory, or a URL such as `s3://bucket/path`. The first round makes it.

    A new table is partitioned by `partition_by`, and has `configuration` (such as `delta.logRetentionDuration`).
    `storage_options` are those of delta-rs, such as `AWS_ENDPOINT_URL`; executors get them too. With `merge_schema`,
    columns that rows have and the table has not are added to it. Files have about `target_bytes` at most; rounds of
    more than `rows_on_driver` offsets are written by Spark's tasks. Raises DeltalakeMissing without deltalake.
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
        self.uri = str(uri)
        self._storage = DeltaStorage(self.uri, dict(storage_options or {}))
        self._partition_by = tuple(partition_by)
        self._configuration = dict(configuration or {})
        self._is_merging = merge_schema
        self._target_bytes = target_bytes
        self._rows_on_driver = rows_on_driver
        self._table: Any = None
        self._id = ""
        self._seen: Commit | None = None
        """The newest commit at the last look."""
        self._checked = -1
        """Up to which version the history has no RESTORE that took rows of ours away."""
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"DeltaLakeTable({self.uri!r})"

    def offsets(self, group: str, partitions: Iterable[TopicPartition]) -> Offsets:
        """Return the offsets of these partitions, as they are now, without those that have none. Raises TableBroken."""
        with self._lock:
            if not self._refresh():
                return {}
            asked = sorted(partitions)
            found = self._found(group, asked)
            require_rows(repr(self), group, found, asked, self._history())
            self._checked = self._table.version()
            return found

    def append(self, frame: DataFrame, group: str, steps: Mapping[TopicPartition, Step]) -> None:
        """Add a frame's rows and take the steps, all or nothing. Raises Fenced, SchemaMismatch, TableBroken."""
        with self._lock:
            rows = schema_of(frame)
            self._make_ready(rows)
            self._check(group, steps)  # before rows are written
            began = time.monotonic()
            files = self._write(frame, steps)
            try:
                self._require_there(files, time.monotonic() - began)
                self._commit(rows, files, group, steps)
            except Fenced:
                self._remove(files)
                raise

    def set_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Move partitions to these offsets without adding rows; jobs of the group read on there. Raises TableBroken."""
        with self._lock:
            if not self._refresh():
                raise TableBroken(f"{self!r} does not exist: nothing was written to it")
            self._commit_once([], group, offsets)
            self._checked = -1

    # Upkeep

    def compact(self, *, target_bytes: int | None = None) -> dict[str, Any]:
        """Put small files together, beside running jobs, and return what delta-rs counts."""
        with self._lock:
            self._require()
            done: dict[str, Any] = self._table.optimize.compact(target_size=target_bytes or self._target_bytes)
            return done

    def vacuum(self, *, older_than_hours: int | None = None) -> list[str]:
        """Remove files that are in no version that is kept, those of killed writers too, and return their paths.

        The table's `delta.deletedFileRetentionDuration` (a week) decides; `older_than_hours` may be less. A round takes
        less than that, or its files are removed before its commit.
        """
        with self._lock:
            self._require()
            given = {} if older_than_hours is None else {"retention_hours": older_than_hours}
            removed: list[str] = self._table.vacuum(**given, dry_run=False, enforce_retention_duration=False, full=True)
            return removed

    # The table as it is

    def _require(self) -> None:
        if not self._refresh():
            raise TableBroken(f"{self!r} does not exist: nothing was written to it")

    def _refresh(self) -> bool:
        """See the newest version, and return whether there is a table. Raises TableBroken."""
        try:
            if self._table is None or not self._is_as_seen():
                self._table = self._storage.open()
            else:
                self._table.update_incremental()
        except TableNotFoundError:
            if self._id:
                raise TableBroken(f"{self!r} was dropped while it was written: stop its jobs first") from None
            return False
        identity = self._table.metadata().id
        if self._id and identity != self._id:
            raise TableBroken(
                f"{self!r} was dropped and made anew while it was written: start its jobs again, as another group if"
                " the topic is to be read from its beginning"
            )
        self._id = identity
        if self._seen is None or self._seen.version != self._table.version():
            self._seen = next(self._history(self._table.version() - 1), None)
        return True

    def _is_as_seen(self) -> bool:
        """Whether the log still has the commit that was its newest: the library does not notice another table."""
        return (
            self._seen is not None
            and next(self._storage.commits(self._seen.version, self._seen.version), None) == self._seen
        )

    def _make_ready(self, rows: pa.Schema) -> None:
        """See the newest version, which has room for rows. Raises SchemaMismatch, TableBroken."""
        if not self._refresh():
            self._create(rows)
        self._require_understood()
        new = missing_columns(self._schema(), rows, repr(self))
        if not new:
            return
        if not self._is_merging:
            require_no_new(new, repr(self))
        for left in reversed(range(3)):
            try:
                self._table.alter.add_columns(list(delta_schema(pa.schema(new), repr(self)).fields))
                break
            except CommitFailedError:  # another job adds columns too
                if not left:
                    raise
                self._refresh()
                new = missing_columns(self._schema(), rows, repr(self))
                if not new:
                    return
        log.info("%r has columns %s from now on", self, ", ".join(each.name for each in new))
        self._refresh()

    def _create(self, rows: pa.Schema) -> None:
        if unknown := [name for name in self._partition_by if name not in rows.names]:
            raise SchemaMismatch(f"{self!r} is partitioned by {unknown[0]}, which the rows do not have")
        self._storage.create(delta_schema(rows, repr(self)), self._partition_by, self._configuration)
        self._table = None
        self._require()

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
                f"{self!r} uses {', '.join(sorted(unknown))}, which this writer does not keep: write to a table without"
            )

    def _schema(self) -> pa.Schema:
        return pa.schema(self._table.schema())

    def _found(self, group: str, partitions: Iterable[TopicPartition]) -> Offsets:
        versions = {each: self._table.transaction_version(app_id(group, each)) for each in partitions}
        return {each: version for each, version in versions.items() if version is not None}

    def _check(self, group: str, steps: Mapping[TopicPartition, Step]) -> None:
        """Compare offsets, and look whether rows were taken away since the last look. Raises Fenced, TableBroken."""
        found = self._found(group, steps)
        version = self._table.version()
        if version > self._checked:
            if any(each.is_restore for each in self._history(self._checked)):
                require_rows(repr(self), group, found, steps, self._history())
            self._checked = version
        check_steps(repr(self), group, found, steps)

    def _history(self, after: int | None = None) -> Iterator[Commit]:
        """Return the commits after a version up to the one that is seen, the newest first."""
        version = self._table.version()
        return self._storage.commits(version, max(0, version - MOST_HISTORY) if after is None else after + 1)

    # Writing

    def _write(self, frame: DataFrame, steps: Mapping[TopicPartition, Step]) -> list[DeltaFile]:
        """Write rows into files that are in no version yet."""
        partitions = tuple(self._table.metadata().partition_columns)
        plan = FilePlan(self._schema(), partitions, self._target_bytes)
        if most_rows(steps) <= self._rows_on_driver:
            return self._storage.write(plan, frame.toArrow().to_batches())
        return self._storage.write_frame(plan, frame)

    def _require_there(self, files: Sequence[DeltaFile], seconds: float) -> None:
        """Look whether a vacuum took the files of a long round for those of a dead writer. Raises TableBroken."""
        if seconds < LONG_ROUND_SECONDS or not files:
            return
        for found in self._storage.file_system().get_file_info([each.path for each in files]):
            if not found.is_file:
                raise TableBroken(
                    f"{self!r}: {found.path} was removed before its round was done, which took {seconds:.0f} s: let"
                    " vacuum keep files for longer than a round takes"
                )

    def _commit(
        self, rows: pa.Schema, files: Sequence[DeltaFile], group: str, steps: Mapping[TopicPartition, Step]
    ) -> None:
        """Commit files and offsets on the snapshot on which the offsets are compared."""
        offsets = {partition: step.stop for partition, step in steps.items()}
        deadline = time.monotonic() + CONFLICT_SECONDS
        while True:
            self._check(group, steps)
            before, mark = self._table.version(), uuid.uuid4().hex
            try:
                self._commit_once(files, group, offsets, mark)
                return
            except CommitFailedError as error:
                self._refresh()
                if self._has(mark, before):  # an answer was lost, and the second try met the first
                    return
                if time.monotonic() > deadline:
                    raise TableBroken(
                        f"{self!r}: others committed first for {CONFLICT_SECONDS:g} s, and no row of the round of group"
                        f" {group} is in the table: {reason_of(error)}"
                    ) from error
                missing_columns(self._schema(), rows, repr(self))
                time.sleep(random.uniform(0, 0.1))
            except (DeltaError, OSError) as error:
                self._refresh()
                if self._has(mark, before):
                    log.warning("%r has taken a commit of group %s that it reported as failed: %s", self, group, error)
                    return
                raise TableBroken(f"{self!r} took no rows of group {group}: {reason_of(error)}") from error

    def _has(self, mark: str, version: int) -> bool:
        """Whether a commit after a version has this mark."""
        return any(each.mark == mark for each in self._history(version))

    def _commit_once(
        self, files: Sequence[DeltaFile], group: str, offsets: Mapping[TopicPartition, int], mark: str = ""
    ) -> None:
        commit_files(self._table, files, {app_id(group, each): at for each, at in offsets.items()}, mark)

    def _remove(self, files: Iterable[DeltaFile]) -> None:
        """Remove files that are in no version; what cannot be removed now is left to `vacuum`."""
        places = self._storage.file_system()
        for each in files:
            try:
                places.delete_file(each.path)
            except OSError as error:
                log.warning("%r: %s is left to vacuum: %s", self, each.path, error)
